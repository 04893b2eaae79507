// The listening sheet's page. Both recordings of a trial run through their own gain from one start, so switching moves
// two gains and never the play position. What was heard is counted on the audio clock. The server holds all state.
"use strict";

const SIDES = ["left", "right"];
const FADE = 0.005; // seconds: short enough to seem at once, long enough not to click
const TAG_KEYS = { warble: "w", hiss: "h", pause: "p", word: "d", tone: "t" };
const PLAY = "M8 5v14l11-7z", PAUSE = "M7 5h4v14H7zM13 5h4v14h-4z";

const $ = (id) => document.getElementById(id);
let context = null; // AudioContext, made at the first gesture: browsers allow no sound before
let trial = null; // what the server says of it
let buffers = null; // side -> AudioBuffer
let run = null; // while playing: sources and gains by side, started (context time of position 0)
let position = 0; // seconds, while not playing
let side = "left";
let choice = null;
let tags = new Set();
let sending = false;
let count; // what the vote will say of the listening
let counted = 0; // context time up to which it was counted

function duration() { return buffers ? buffers.left.duration : trial ? trial.seconds : 0; }
function now() { return run ? Math.min(duration(), Math.max(0, context.currentTime - run.started)) : position; }

async function ask(path, options) {
  const reply = await fetch(path, options);
  const body = await reply.json();
  if (!reply.ok) throw new Error(body.error);
  return body;
}

function trouble(error) {
  const lost = error instanceof TypeError; // fetch's word for: nobody answered
  $("trouble").textContent = lost ? "The server does not answer; start it again, then go on here." : error.message;
  $("trouble").hidden = false;
}

async function show(state) {
  stop();
  $("trouble").hidden = true;
  trial = state.trial;
  buffers = null;
  position = 0;
  side = "left";
  choice = null;
  tags = new Set();
  count = { plays: { left: 0, right: 0 }, heard_s: { left: 0, right: 0 }, switches: 0, since: performance.now() };
  $("key").textContent = state.key_sha256;
  $("report").textContent = state.report;
  $("progress").setAttribute("aria-valuemax", state.trials);
  $("progress").setAttribute("aria-valuenow", state.voted);
  $("progress").firstElementChild.style.width = `${100 * state.voted / state.trials}%`;
  $("trial").hidden = !trial;
  $("done").hidden = !!trial;
  $("keys").hidden = !trial;
  $("where").textContent = trial ? `Trial ${trial.number} of ${state.trials}` : `${state.trials} of ${state.trials} answered`;
  if (!$("tags").childElementCount) for (const tag of state.tags) $("tags").append(tagButton(tag));
  paint();
  if (!trial) return;
  const mine = trial;
  const loaded = await Promise.all(SIDES.map(async (name) => {
    const reply = await fetch(mine.audio[name]);
    if (!reply.ok) throw new Error((await reply.json()).error);
    // Decoded at one rate for both, without a sound being allowed yet.
    return new OfflineAudioContext(1, 1, 48000).decodeAudioData(await reply.arrayBuffer());
  }));
  if (trial !== mine) return;
  buffers = { left: loaded[0], right: loaded[1] };
  paint();
}

function tagButton(tag) {
  const button = document.createElement("button");
  button.dataset.tag = tag;
  const key = document.createElement("kbd");
  key.textContent = TAG_KEYS[tag].toUpperCase();
  button.append(key, ` ${tag}`);
  return button;
}

function play(from) {
  if (!buffers) return;
  context ??= new AudioContext({ latencyHint: "interactive" });
  context.resume();
  stop();
  const at = context.currentTime + 0.02; // one moment ahead, the same for both
  run = { sources: {}, gains: {}, started: at - from };
  for (const name of SIDES) {
    const source = new AudioBufferSourceNode(context, { buffer: buffers[name] });
    const gain = new GainNode(context, { gain: name === side ? 1 : 0 });
    source.connect(gain).connect(context.destination);
    source.start(at, from);
    run.sources[name] = source;
    run.gains[name] = gain;
  }
  const mine = run;
  run.sources.left.onended = () => { if (run === mine) { tick(); stop(); position = 0; paint(); } };
  counted = at;
  count.plays[side] += 1;
  requestAnimationFrame(frame);
  paint();
}

function stop() {
  if (!run) return;
  tick();
  position = now();
  const old = run;
  run = null;
  const end = context.currentTime + FADE;
  for (const name of SIDES) {
    ramp(old.gains[name], 0, end);
    old.sources[name].stop(end);
  }
}

function ramp(gain, value, end) {
  gain.gain.cancelScheduledValues(context.currentTime);
  gain.gain.setValueAtTime(gain.gain.value, context.currentTime);
  gain.gain.linearRampToValueAtTime(value, end);
}

function tick() { // add what was heard since the last time, on the audio clock
  const until = Math.min(context.currentTime, run.started + duration());
  if (until > counted) {
    count.heard_s[side] += until - counted;
    counted = until;
  }
}

function switchTo(name) {
  if (name === side || !trial) return;
  if (run) {
    tick();
    const end = context.currentTime + FADE;
    ramp(run.gains[side], 0, end);
    ramp(run.gains[name], 1, end);
    count.plays[name] += 1;
    count.switches += 1;
  }
  side = name;
  paint();
}

function toggle() {
  if (run) stop(); else play(position);
  paint();
}

function seek(seconds) {
  position = Math.min(seconds, Math.max(0, duration() - 0.05));
  if (run) { tick(); const to = position; stop(); play(to); }
  paint();
}

function left(name) { return trial.least_s - count.heard_s[name]; }
function ready() { return choice !== null && SIDES.every((name) => left(name) <= 0) && !sending; }

function choose(value) {
  choice = choice === value ? null : value;
  paint();
}

function tag(name) {
  if (!tags.delete(name)) tags.add(name);
  paint();
}

async function next() {
  if (!trial || sending) return;
  if (!ready()) return paint(true);
  stop();
  sending = true;
  paint();
  const round = (n) => Math.round(n * 1000) / 1000;
  const vote = {
    trial: trial.id,
    choice,
    tags: [...tags].sort(),
    plays: count.plays,
    heard_s: { left: round(count.heard_s.left), right: round(count.heard_s.right) },
    switches: count.switches,
    took_s: round((performance.now() - count.since) / 1000),
  };
  try {
    const state = await ask("/api/votes", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(vote),
    });
    sending = false;
    await show(state);
  } catch (error) {
    sending = false;
    trouble(error);
    paint();
  }
}

function hint() {
  if (!buffers) return "Loading …";
  const letter = { left: "A", right: "B" };
  const short = SIDES.filter((name) => left(name) > 0).map((name) => `${Math.ceil(10 * left(name)) / 10} s of ${letter[name]}`);
  if (short.length) return `Still to hear: ${short.join(" and ")}.`;
  return choice === null ? "Choose A, B or neither." : "";
}

function paint() {
  if (!trial) return;
  document.body.classList.toggle("playing", !!run);
  for (const name of SIDES) {
    const button = $(name);
    button.setAttribute("aria-pressed", name === side);
    button.setAttribute("aria-label", `Listen to ${name === "left" ? "A" : "B"}`);
    button.querySelector(".heard span").style.width = `${Math.min(100, 100 * count.heard_s[name] / trial.least_s)}%`;
    button.querySelector("small").textContent =
      name === side && run ? "playing" : left(name) > 0 ? (count.heard_s[name] ? "hear more" : "not heard yet") : "heard";
  }
  for (const button of document.querySelectorAll("[data-choice]")) button.setAttribute("aria-pressed", button.dataset.choice === choice);
  for (const button of document.querySelectorAll("[data-tag]")) button.setAttribute("aria-pressed", tags.has(button.dataset.tag));
  $("play").disabled = !buffers;
  $("play").setAttribute("aria-label", run ? "Pause" : "Play");
  $("icon").setAttribute("d", run ? PAUSE : PLAY);
  $("seek").value = duration() ? 1000 * now() / duration() : 0;
  $("time").textContent = `${now().toFixed(1)} / ${duration().toFixed(1)} s`;
  $("next").disabled = !ready();
  if ($("hint").textContent !== hint()) $("hint").textContent = hint();
}

function frame() {
  if (!run) return;
  tick();
  paint();
  requestAnimationFrame(frame);
}

const KEYS = {
  " ": toggle,
  "1": () => switchTo("left"), "2": () => switchTo("right"),
  arrowleft: () => switchTo("left"), arrowright: () => switchTo("right"),
  home: () => seek(0),
  a: () => choose("left"), b: () => choose("right"), n: () => choose("none"),
  enter: next,
};
for (const [name, key] of Object.entries(TAG_KEYS)) KEYS[key] = () => tag(name);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !trial) return;
  const key = event.key.toLowerCase();
  // A control that was reached with Tab keeps its own keys.
  if (event.target.matches("button") && (key === " " || key === "enter")) return;
  if (event.target.matches("input") && (key.startsWith("arrow") || key === "home")) return;
  if (!(key in KEYS)) return;
  event.preventDefault();
  if (!event.repeat) KEYS[key]();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button || !trial) return;
  if (event.detail > 0) button.blur(); // clicked with the pointer: the keyboard stays the page's
  if (SIDES.includes(button.id)) switchTo(button.id);
  else if (button.id === "play") toggle();
  else if (button.id === "next") next();
  else if (button.dataset.choice) choose(button.dataset.choice);
  else if (button.dataset.tag) tag(button.dataset.tag);
});

$("seek").addEventListener("input", () => seek(duration() * $("seek").value / 1000));
$("seek").addEventListener("change", () => $("seek").blur());

ask("/api/sheet").then(show).catch(trouble);
