"""Train the pocket voice: its backbone and depth transformer, on codes of the frozen codec and words with exact times.

    python recipes/pocket_voice.py codes   --texts TEXTS.jsonl --codec RUNS/spectral/state.pt --data DATA/NAME
    python recipes/pocket_voice.py prepare --codec RUNS/spectral/state.pt --data DATA
    python recipes/pocket_voice.py train   --data DATA --runs RUNS [--steps N]
    python recipes/pocket_voice.py save    --data DATA --runs RUNS --codec CODEC_ARTIFACT --out FOLDER

`codes` says every text with the training voice (recipes/speak_voice.py) and hears it with the codec's encoder: codes,
the continuous latent before any discretisation, and words with the frame at which they begin. No sound is kept, which
would be 170 MB an hour. Several may run side by side into parts of one DATA. Silence before the first word is cut to
100 ms, so that the voice begins at once. `train` strings clips together to sequences of 10 or 20 s, so that a sentence
may follow another; it checkpoints and resumes. A part of the sequences reads only the first books of its past, so that
the voice may be fed back by fewer depth stages; stretches of it are hidden altogether.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn
from tqdm import tqdm

from legato import artifacts
from legato.artifacts import Source
from legato.listen.capture import whole_lines
from legato.optim import Journal, checkpoint, cosine
from legato.organs import Layout
from legato.pocket.codec import FRAME, Codec
from legato.pocket.script import learn, pieces
from legato.pocket.voice import BLANK, NONE, PAD, TEXTS, WORD, Voice, VoiceConfig
from legato.pocket.voice_shelf import codebooks, save_voice
from legato.speak.tap import script, shifted

UNIT = 600  # samples of one unit of duration
LEADING = 4  # units of silence that stay before the first word
STEPS_LONG = 256  # of one sequence
BATCH = 8
SHORTER = 0.5  # of the batches: sequences half as long and twice as many, so that more of them begin an utterance
STEPS, RATE, WARMUP = 8000, 8e-4, 300
DEPTH_SHARE = 0.125  # of the steps whose codes behind the first are asked for
BLANKED = 0.15  # of the sequences: for guidance
SHOWN = ((3, 0.4), (8, 0.2), (16, 0.4))  # books that a sequence reads of its past, and how often so many
FIRST, OTHERS, ACTION = 1.0, 1.0, 0.3  # weights of the losses
EVERY = 250


def words(spoken: list[Any]) -> list[tuple[str, int]]:
    """Words with the unit at which they begin, over all sentences of a clip."""
    found: list[tuple[str, int]] = []
    at = 0
    for phonemes, units in spoken:
        at += units[0]
        word, begins = "", at
        for sign, unit in zip(phonemes, units[1:-1], strict=True):
            if sign == " ":
                if word:
                    found.append((word, begins))
                word = ""
            else:
                if not word:
                    begins = at
                word += sign
            at += unit
        if word:
            found.append((word, begins))
        at += units[-1]
    return found


@torch.inference_mode()
def codes(texts: Path, state: Path, part: Path) -> None:
    """Say every text and keep what the codec hears of it: codes.u16 (N, K), latents.f16 (N, 2P), index.jsonl."""
    from speak_voice import Voice as Training

    part.mkdir(parents=True, exist_ok=True)
    codec, training = load_codec(state), Training()
    lines = whole_lines(part / "index.jsonl")
    last = json.loads(lines[-1]) if lines else {"start": 0, "frames": 0, "n": -1}
    frames, widths = last["start"] + last["frames"], {"codes.u16": codec.books, "latents.f16": codec.projected}
    with ExitStack() as stack:
        files = {}
        for name, width in widths.items():  # what a killed run wrote behind its last line is written again
            file = files[name] = stack.enter_context((part / name).open("r+b" if lines else "wb"))
            file.truncate(2 * width * frames)
            file.seek(0, 2)
        index = stack.enter_context((part / "index.jsonl").open("w", encoding="utf-8"))
        index.writelines(f"{line}\n" for line in lines)
        for n, text in enumerate(tqdm(whole_lines(texts), unit="text")):
            if n <= last["n"]:
                continue
            entry = json.loads(text)
            wave, spoken = training.say(entry["text"], n)
            said = words(spoken)
            if not said:
                continue
            cut = max(0, said[0][1] - LEADING)
            with torch.autocast("cpu", torch.bfloat16):
                e = codec.latent(torch.from_numpy(wave[cut * UNIT :])[None])
            u, found = codec.project(e.float())[0].T, codec.quantiser.encode(e.float())[0].T
            files["codes.u16"].write(found.numpy().astype("<u2").tobytes())
            files["latents.f16"].write(u.half().numpy().tobytes())
            line = {"n": n, "start": frames, "frames": len(found)}
            line |= {key: entry[key] for key in ("text", "held", "source")}
            line["words"] = [[word, round((at - cut) * UNIT / FRAME, 3)] for word, at in said]  # begins at this frame
            for file in files.values():
                file.flush()
            index.write(json.dumps(line, ensure_ascii=False) + "\n")
            index.flush()
            frames += len(found)


def load_codec(state: Path) -> Codec:
    codec = Codec().eval()
    codec.load_state_dict(torch.load(state, weights_only=True)["codec"])
    return codec


def prepare(data: Path, state: Path) -> None:
    """Behind all parts: the pieces of the words that were said, and the codec's codebooks."""
    lines = [json.loads(line) for part in parts(data) for line in whole_lines(part / "index.jsonl")]
    heard = [word for line in lines for word, _ in line["words"]]
    learn(heard, TEXTS).save(str(data / "script.json"))
    tokenizer = Tokenizer.from_file(str(data / "script.json"))
    each = np.mean([len(pieces(tokenizer, w)) for w in heard[:20000]])
    print(f"{len(heard)} words, {each:.2f} pieces a word")
    torch.save(codebooks(load_codec(state)), data / "codebooks.pt")


def parts(data: Path) -> list[Path]:
    return sorted(path.parent for path in data.glob("*/index.jsonl"))


class Spoken:
    """What `codes` left, as sequences for training."""

    def __init__(self, data: Path, config: VoiceConfig, held: bool = False) -> None:
        self.config, self.layout = config, Layout(config.delays, PAD, WORD)
        self.tokenizer = Tokenizer.from_file(str(data / "script.json"))
        self.entries: list[dict[str, Any]] = []
        self.codes: list[np.memmap] = []
        for n, part in enumerate(parts(data)):
            every = [json.loads(line) for line in whole_lines(part / "index.jsonl")]
            total = every[-1]["start"] + every[-1]["frames"]
            self.codes.append(np.memmap(part / "codes.u16", "<u2", "r", shape=(total, config.books)))
            self.entries += [entry | {"part": n} for entry in every if entry["held"] == held]
        for entry in self.entries:
            entry["pieces"] = [(at, pieces(self.tokenizer, word)) for word, at in entry["words"]]

    def frames(self, entry: dict[str, Any]) -> np.ndarray:
        """Codes (F, K) of one clip."""
        return self.codes[entry["part"]][entry["start"] : entry["start"] + entry["frames"]]

    def sequence(self, rng: np.random.Generator, steps: int = STEPS_LONG) -> tuple[Tensor, Tensor]:
        """Clips in a random order until the T steps are full: text (T,), codes (T, K)."""
        said: list[tuple[int, list[int]]] = []
        found: list[np.ndarray] = []
        frames = 0
        while frames < steps:
            entry = self.entries[rng.integers(len(self.entries))]
            said += [(math.floor(frames + at), ids) for at, ids in entry["pieces"] if ids]
            found.append(self.frames(entry))
            frames += entry["frames"]
        whole = torch.from_numpy(np.concatenate(found).astype(np.int64)).T  # (K, F)
        return script(said, steps, self.layout), shifted(whole, steps, self.layout)

    def batches(self, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        rng = np.random.default_rng(seed)
        while True:
            parts = 2 if rng.random() < SHORTER else 1
            rows = (self.sequence(rng, STEPS_LONG // parts) for _ in range(BATCH * parts))
            texts, found = zip(*rows, strict=True)
            yield torch.stack(texts), torch.stack(found)


def losses(voice: Voice, text: Tensor, found: Tensor) -> dict[str, Tensor]:
    """text (B, T), codes (B, T, K) -> mean losses of the action, the first code and the others; first codes right."""
    heard = torch.where(torch.rand(len(text), 1) < BLANKED, BLANK, text)
    counts, shares = zip(*SHOWN, strict=True)
    shown = torch.tensor(counts)[torch.multinomial(torch.tensor(shares), len(text), replacement=True)]
    past = torch.where(torch.arange(found.shape[2]) < shown[:, None, None], found, NONE)
    past = torch.where(spans(*text.shape)[..., None], NONE, past)
    with torch.autocast("cpu", torch.bfloat16):
        h = voice.states(heard[:, :-1], past[:, :-1])  # of steps 1 .. T - 1
        wanted, now = found[:, 1:], heard[:, 1:]
        acts = voice.action(h)
        there = (wanted[..., 0] != NONE) & (torch.rand(wanted.shape[:2]) < DEPTH_SHARE)
        full = there & (wanted[..., 1] != NONE)
        logits = voice.depth_logits(h[full], now[full], wanted[full])
        answers = wanted[full]
        # The first code needs no depth: it is asked for at every step.
        single = first_logits(voice, h, now)
    choice = (text[:, 1:] == WORD).long()
    # What the machine forces (pieces of a word that has begun) is no choice.
    free = (text[:, 1:] <= WORD) & (heard[:, 1:] != BLANK)
    asked = wanted[..., 0] != NONE
    first = F.cross_entropy(single.float()[asked], wanted[..., 0][asked])
    other = F.cross_entropy(logits.float()[:, 1:].flatten(0, 1), answers[:, 1:].flatten())
    right = (single[asked].argmax(-1) == wanted[..., 0][asked]).float().mean()
    action = F.cross_entropy(acts.float()[free], choice[free])
    return {"first": first, "others": other, "action": action, "right": right}


def spans(rows: int, steps: int) -> Tensor:
    """Stretches of 4 to 24 steps, a sixth of all, whose past codes are hidden: what is said there only the text knows.

    With every code of the past to go on, a voice learns to continue sounds long before it learns to read.
    """
    hidden = torch.zeros(rows, steps, dtype=torch.bool)
    for row in hidden:
        while row.float().mean() < 1 / 6:
            start, long = int(torch.randint(steps, ())), int(torch.randint(4, 25, ()))
            row[start : start + long] = True
    return hidden


def first_logits(voice: Voice, h: Tensor, text: Tensor) -> Tensor:
    """The depth transformer's first stage alone, (B, T, V): it sees nothing but h and the text."""
    B, T, _ = h.shape
    x = (voice.hand_down(h) + voice.depth.embed(text) + voice.stage[0].to(h.dtype)).flatten(0, 1)[:, None]
    return (voice.depth(x)[:, 0] @ voice.heads[0].to(h.dtype)).unflatten(0, (B, T))


def train(data: Path, runs: Path, steps: int, config: VoiceConfig) -> None:
    spoken = Spoken(data, config)
    torch.manual_seed(0)
    voice = Voice(config, torch.load(data / "codebooks.pt", weights_only=True))
    for model in (voice.backbone, voice.depth):
        nn.init.normal_(model.embedding.weight, std=0.3)
        for block in model.blocks:  # residual branches begin small, as in GPT-2
            nn.init.normal_(block.out.weight, std=0.02 / math.sqrt(2 * model.config.layers))
            nn.init.normal_(block.down.weight, std=0.02 / math.sqrt(2 * model.config.layers))
    runs.mkdir(parents=True, exist_ok=True)
    optimiser = torch.optim.AdamW(voice.parameters(), RATE, (0.9, 0.95), weight_decay=0.05, fused=True)
    mean = {name: value.detach().clone() for name, value in voice.named_parameters()}
    step = 0
    if (runs / "state.pt").exists():
        state = torch.load(runs / "state.pt", weights_only=True)
        step = state["step"]
        voice.load_state_dict(state["voice"], strict=False)
        optimiser.load_state_dict(state["optimiser"])
        mean = state["mean"]
    journal = Journal(runs / "log.jsonl", step)
    batches = spoken.batches(step)
    while step < steps:
        for group in optimiser.param_groups:
            group["lr"] = RATE * cosine(step, steps, WARMUP)
        lost = losses(voice, *next(batches))
        loss = FIRST * lost["first"] + OTHERS * lost["others"] + ACTION * lost["action"]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(voice.parameters(), 1.0)
        optimiser.step()
        step += 1
        with torch.no_grad():
            for name, value in voice.named_parameters():
                mean[name].lerp_(value, 1 - min(0.999, step / (step + 10)))
        journal.note(BATCH, norm=float(norm), **{name: float(value.detach()) for name, value in lost.items()})
        if step % 25 == 0:
            line = journal.line(step)
            journal.write(line)
            print(json.dumps(line), flush=True)
        if step % EVERY == 0 or step == steps:
            state = {"step": step, "optimiser": optimiser.state_dict(), "voice": voice.state_dict(), "mean": mean}
            checkpoint(runs / "state.pt", state)


def save(data: Path, runs: Path, codec: Path, out: Path) -> None:
    """The averaged voice, on the codebooks of the codec's artifact."""
    from pocket_codec import training_voice

    _, heard_with = artifacts.load(codec)
    weights = heard_with.path("weights.safetensors").name
    state = torch.load(runs / "state.pt", weights_only=True)
    voice = Voice(VoiceConfig(), torch.load(data / "codebooks.pt", weights_only=True))
    voice.load_state_dict(state["mean"], strict=False)
    every = [json.loads(line) for part in parts(data) for line in whole_lines(part / "index.jsonl")]
    hours = sum(line["frames"] for line in every) * FRAME / 24_000 / 3600
    texts = hashlib.sha256("\n".join(sorted(line["text"] for line in every)).encode()).hexdigest()
    sources = (
        Source("training voice", "hibari-tts 0.2.1, voice heart", "Apache-2.0", training_voice()),
        Source("texts", f"{len(every):,} of recipes/voice_texts.py, {hours:.0f} h", "Apache-2.0; WordNet 3.0", texts),
        Source("pocket codec", "shipped beside it", "Apache-2.0", heard_with.files[weights]),
    )
    tokenizer = Tokenizer.from_file(str(data / "script.json"))
    recipe = f"recipes/pocket_voice.py, {state['step']} steps"
    print(save_voice(out, voice, tokenizer, codec=heard_with.files[weights], recipe=recipe, sources=sources).sha256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("codes", "prepare", "train", "save"))
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--codec", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.stage == "codes":
        codes(args.texts, args.codec, args.data)
    elif args.stage == "prepare":
        prepare(args.data, args.codec)
    elif args.stage == "save":
        save(args.data, args.runs, args.codec, args.out)
    else:
        train(args.data, args.runs, args.steps, VoiceConfig())


if __name__ == "__main__":
    main()
