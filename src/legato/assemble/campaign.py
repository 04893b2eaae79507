"""The speech campaign on a preset's frozen codec and voice, one step a function: tap, train, polish. Each is resumed.

    tap(SPOKEN, TAP)  ->  train(TAP, HEAD)  ->  polish(TAP, HEAD, ROUND)  ->  another round, or a pin in the preset

`probe`, which comes first and needs no voice, is in `campaign_probe`; what a folder holds is in `campaign_shelf`. Every
figure here is teacher-forced (the voice reads a recording's true codes) and says so: none of them may gate.

Shapes: S samples, F frames, K books, C state width, U latent width.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm

from legato import artifacts, audio, runtime
from legato.artifacts import Manifest
from legato.assemble import campaign_scores as scores
from legato.assemble import parts
from legato.assemble.campaign_shelf import Entry, Tap, TapWriter, claim
from legato.assemble.campaign_spoken import read_spoken, read_words, sound
from legato.audio import Audio
from legato.errors import BadInput
from legato.evaluate import lines
from legato.organs import Codec, SpeechModel
from legato.pocket import voice_shelf
from legato.pocket.speaking import PocketVoice
from legato.speak import plots, shelf
from legato.speak import tap as taps
from legato.speak.entrance import Entrance
from legato.speak.harness import Frame
from legato.speak.head import Head, HeadConfig
from legato.speak.polish import Polish
from legato.speak.polish import polish as polish_head
from legato.speak.probe import Probed
from legato.speak.render import HeadRenderer
from legato.speak.train import HeadTraining, train_head

STEPS = 8  # of the flow, after a training; a polish says its own
HEARD = 20  # held recordings at most that a round is judged on
KEPT = 3  # whose sound is kept
FORCED = (
    "teacher-forced: the voice read the recordings' true codes, the head heard its own past; such figures never gate"
)
BEFORE, AFTER, CODES = "before", "after", "the codec's own codes"


@dataclass(frozen=True)
class Organs:
    """What is frozen. hashes: of each weight file."""

    codec: Codec
    voice: SpeechModel
    tokenizer: Tokenizer
    hashes: dict[str, str]


def load_codec(preset: str) -> tuple[Codec, str]:
    """A preset's codec and its SHA-256."""
    found = parts.spoken(preset, "codec")["codec"]
    runtime.choose("cpu", "float32").apply()
    return voice_shelf.load_codec(found), parts.weight_hash(found)


def load_organs(preset: str) -> Organs:
    """Raises as `parts.spoken` does, and OrganMismatch where voice and codec do not belong together."""
    found = parts.spoken(preset, "codec", "voice")
    runtime.choose("cpu", "float32").apply()
    hashes = {name: parts.weight_hash(part) for name, part in found.items()}
    codec = voice_shelf.load_codec(found["codec"])
    voice, tokenizer = voice_shelf.load_voice(found["voice"], codec, hashes["codec"])
    return Organs(codec, PocketVoice(voice), tokenizer, hashes)


def tap(
    spoken: Path, out: Path, *, limit: int | None = None, preset: str = "pocket", progress: bool = True
) -> tuple[int, Tap]:
    """Tap a preset's voice on timed recordings (see `campaign_spoken`); returns how many were new, and the tap.

    Raises: BadInput for recordings that cannot be used, named by their line; those before it are kept.
    """
    recordings = read_spoken(spoken)[:limit]
    organs = load_organs(preset)
    codec, model = organs.codec, organs.voice
    widths = {"states": model.width, "latents": codec.projected, "codes": codec.books}
    layout = {"rate": codec.rate, "frame": codec.frame, "delays": model.layout.delays}
    claim(out, "tap", {"voice": organs.hashes["voice"], "codec": organs.hashes["codec"], "widths": widths, **layout})
    with TapWriter(out, widths) as writer:
        due = [recording for recording in recordings if recording.id not in writer.done]
        bar = tqdm(due, total=len(recordings), initial=len(recordings) - len(due), disable=not progress, unit="clip")
        for recording in bar:
            wave = sound(recording, codec.rate)
            words = read_words(organs.tokenizer, recording, len(wave) / codec.rate)
            heard, codes = hear(codec, wave)
            frames = [(math.floor(at * codec.rate / codec.frame), pieces) for at, pieces in words]
            states = taps.tap(model, frames, codes)
            writer.add(recording.id, recording.audio.name, recording.text,
                       {"states": states, "latents": heard.T, "codes": codes.T})
    found = Tap(out)
    found.measure()
    return len(due), found


@torch.inference_mode()
def hear(codec: Codec, wave: np.ndarray) -> tuple[Tensor, Tensor]:
    """Samples (S,) -> the continuous latent (U, F), not normalised, and the codes (K, F)."""
    heard = torch.from_numpy(wave)[None]
    return codec.project(codec.latent(heard))[0], codec.encode(heard)[0]


def train(
    tapped: Path,
    out: Path,
    how: HeadTraining,
    *,
    width: int = HeadConfig.width,
    plain: bool = False,
    unannounced: bool = False,
    plot: Path | None = None,
    tell: Callable[[str], None] = print,
    progress: bool = True,
) -> Manifest:
    """Train a head on a tap and save it as an artifact beside its log.

    Args:
        width: of the head, its one dial. plain, unannounced: for experiments, see `HeadConfig`.
        tell: told how the held recordings stand.

    Raises: ConditionIgnored where the head does not listen to the voice.
    """
    source = Tap(tapped)
    statistics = source.statistics()
    learned, held = (source.tapped(source.chosen(held=side), statistics) for side in (False, True))
    sizes = source.about["widths"]
    config = HeadConfig(sizes["latents"], sizes["states"], width, modulated=not plain, announced=not unannounced)
    claim(out, "training", {"tap": source.sha256, "head": asdict(config), "how": asdict(how)})

    def told(line: dict[str, Any]) -> None:
        if "held" in line:
            with tqdm.external_write_mode():
                tell(f"step {line['step']}: loss {line['flow']:.3f}, on held frames {line['held']:.3f}, "
                     f"with another frame's state {line[plots.CHECKS[1]]:.3f}")

    with tqdm(total=how.steps, disable=not progress, unit="step") as bar:
        head = train_head(config, learned, held, how, out, told, _move(bar))
    if plot is not None:
        plots.training(curve(out), plot)
    frames = len(learned.states)
    recipe = f"legato speak train, {head.size:,} parameters on {frames:,} frames, {how.steps} steps"
    return shelf.save_head(out, head, statistics, steps=STEPS, recipe=recipe, made_from=source.made_from)


def polish(
    tapped: Path,
    head: Path,
    out: Path,
    how: Polish,
    *,
    preset: str = "pocket",
    tell: Callable[[str], None] = print,
    progress: bool = True,
) -> tuple[Manifest, dict[str, Any]]:
    """One round on a head's artifact: the polished head, saved in `out`, and the record of what it won and lost.

    Raises: BadInput where tap, head and preset are not of one voice and codec; OrganMismatch likewise for the head.
    """
    source, stored = Tap(tapped), artifacts.load(head)
    trained, statistics, steps = shelf.load_head(stored, source.made_from)
    if not trained.config.modulated:
        raise BadInput(f"{head} holds a plain head, an experiment that no renderer serves; polish a modulated one.")
    codec, sha = load_codec(preset)
    if sha != source.about["codec"]:
        raise BadInput(
            f"{tapped} was tapped with codec {source.about['codec']}, and preset {preset!r} has {sha}; tap anew."
        )
    settings = {"tap": source.sha256, "head": stored[1].sha256, "how": asdict(how)}
    entrance = Entrance(codec, statistics)
    learned, held = source.tapped(source.chosen(held=False), statistics), source.chosen(held=True)[:HEARD]
    claim(out, "polish", settings)
    with tqdm(total=how.steps, disable=not progress, unit="step") as bar:
        moving = copy.deepcopy(trained).train().requires_grad_(True)
        polished = polish_head(moving, entrance, learned, how, out, lambda line: None, _move(bar))
    recipe = f"legato speak polish, {how.objective}, {how.steps} steps on head {stored[1].sha256[:12]}"
    made = shelf.save_head(
        out, polished, statistics, steps=how.flow_steps, recipe=recipe, made_from=source.made_from
    )
    # Judged as it was saved, in half precision, and as it will be loaded.
    polished, _, _ = shelf.load_head(artifacts.load(out), source.made_from)
    ways = {f"{BEFORE}, {steps} steps": (trained, steps)}
    if steps != how.flow_steps:
        ways[f"{BEFORE}, {how.flow_steps} steps"] = (trained, how.flow_steps)
    ways[f"{AFTER}, {how.flow_steps} steps"] = (polished, how.flow_steps)
    tell(f"measuring {len(held)} held recordings")
    record = {"conditions": FORCED, **settings, "polished": made.sha256}
    record |= judged(source, held, entrance, ways, out, progress)
    lines.write_whole(out / "round.json", record)
    return made, record


def judged(
    source: Tap, held: Sequence[Entry], entrance: Entrance, ways: dict[str, tuple[Head, int]], out: Path, progress: bool
) -> dict[str, Any]:
    """Every way of rendering held recordings against the decode of their true latents; the first ones' sound is kept.

    The codec's own codes are a way beside them: what the depth model could reach at best.
    """
    codec, measured = entrance.codec, scores.instruments()
    each, sounds = {}, out / "audio"
    sounds.mkdir(exist_ok=True)
    for n, entry in enumerate(tqdm(held, disable=not progress, unit="clip")):
        states, latents, codes = (source.rows(entry, name) for name in ("states", "latents", "codes"))
        with torch.inference_mode():
            best = entrance.decode(entrance.statistics.normalise(latents.T)[None])[0].numpy()
            made = {CODES: codec.decode(codec.lookup(codes.T[None]))[0].numpy()}
        made |= {way: rendered(head, entrance, steps, states) for way, (head, steps) in ways.items()}
        each[entry.id] = {
            way: {name: score(wave, best, codec.rate) for name, score in measured.scores.items()}
            for way, wave in made.items()
        }
        if n < KEPT:
            for way, wave in {"true latents": best, **made}.items():
                name = f"{n + 1} {way}.flac".replace(" ", "-").replace("'", "").replace(",", "")
                audio.write(sounds / name, Audio(np.clip(wave, -1, 1)[None], codec.rate))
    means = Probed.of(list(each.values())).scores
    first, last = means[next(iter(ways))], means[list(ways)[-1]]
    changes = {}
    for name, now in last.items():
        if now is None or first[name] is None:
            changes[name] = {BEFORE: first[name], AFTER: now, "outcome": "not measured"}
        else:
            outcome = "won" if now < first[name] else "lost" if now > first[name] else "unchanged"
            changes[name] = {BEFORE: first[name], AFTER: now, "outcome": outcome}
    return {"recordings": len(each), "changes": changes, "means": means, "scores": each,
            "not measured": list(measured.missing)}


def rendered(head: Head, entrance: Entrance, steps: int, states: Tensor) -> np.ndarray:
    """States (F, C) as the speaking head renders them, on its own past: (S,)."""
    render = HeadRenderer(head, entrance, steps).start()
    none = torch.full((entrance.codec.books,), taps.NONE)
    return torch.cat([render(Frame(n, h, none)) for n, h in enumerate(states)], dim=1)[0].numpy()


def curve(folder: Path) -> list[dict[str, Any]]:
    """The log of a training or a round, a dict a line."""
    path = folder / "log.jsonl"
    return [lines.parse(line, f"{path}, line {n}") for n, line in enumerate(lines.read(path).whole, 1)]


def _move(bar: tqdm) -> Callable[[int], None]:
    """A resumed run begins where it stood, and its rate is of what this run does."""

    def at(step: int) -> None:
        if not bar.n and step > 1:
            bar.initial = bar.n = step - 1
        bar.update(step - bar.n)

    return at
