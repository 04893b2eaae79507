"""Train the pocket voice: its backbone and depth transformer, on codes of the frozen codec and words with exact times.

    python recipes/pocket_voice.py codes --clips CLIPS --codec RUNS/spectral/state.pt --data DATA [--follow]
    python recipes/pocket_voice.py train --data DATA --runs RUNS [--steps N]

`codes` hears every clip of recipes/speak_voice.py with the codec's encoder, once: codes, the continuous latent before
any discretisation, and words with the frame at which they begin. Silence before the first word is cut to 100 ms, so
that the voice begins at once. `train` strings clips together to sequences of 20 s, so that a sentence may follow
another; it checkpoints and resumes. A part of the sequences reads only the first books of its past, so that the voice
may be fed back by fewer depth stages.
"""

from __future__ import annotations

import argparse
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

from legato.listen.capture import whole_lines
from legato.optim import Journal, checkpoint, cosine
from legato.pocket.codec import FRAME, Codec
from legato.pocket.script import learn, pieces, track
from legato.pocket.voice import BLANK, NONE, TEXTS, WORD, Voice, VoiceConfig, delayed

UNIT = 600  # samples of one unit of duration
LEADING = 4  # units of silence that stay before the first word
STEPS_LONG = 256  # of one sequence
BATCH = 8
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
def codes(clips: Path, state: Path, data: Path) -> None:
    """Frames of all clips end to end: codes.u16 (N, K), latents.f16 (N, 2P), and one line a clip in index.jsonl."""
    data.mkdir(parents=True, exist_ok=True)
    codec = Codec().eval()
    codec.load_state_dict(torch.load(state, weights_only=True)["codec"])
    entries = [json.loads(line) for line in whole_lines(clips / "clips.jsonl")]
    frames = 0
    with ExitStack() as stack:
        out, whole = (stack.enter_context((data / name).open("wb")) for name in ("codes.u16", "latents.f16"))
        index = stack.enter_context((data / "index.jsonl").open("w", encoding="utf-8"))
        for n, entry in enumerate(entries):
            said = words(entry["spoken"])
            if not said:
                continue
            cut = max(0, said[0][1] - LEADING)
            wave = np.memmap(clips / entry["shard"], "<i2", "r", 2 * entry["offset"], (entry["samples"],))[cut * UNIT :]
            with torch.autocast("cpu", torch.bfloat16):
                e = codec.latent(torch.from_numpy(wave.astype(np.float32) / 2**15)[None])
            u = codec.quantiser.project(e.float())
            found = codec.quantiser.encode(e.float())[0].T
            out.write(found.numpy().astype("<u2").tobytes())
            whole.write(u[0].T.half().numpy().tobytes())
            line = {key: entry[key] for key in ("id", "text", "held", "source")}
            line |= {"start": frames, "frames": len(found)}
            line["words"] = [[word, round((at - cut) * UNIT / FRAME, 3)] for word, at in said]  # begins at this frame
            index.write(json.dumps(line, ensure_ascii=False) + "\n")
            frames += len(found)
            if n % 2000 == 0:
                print(n, len(entries), frames, flush=True)
    heard = [w for line in whole_lines(data / "index.jsonl") for w, _ in json.loads(line)["words"]]
    learn(heard, TEXTS).save(str(data / "script.json"))
    tokenizer = Tokenizer.from_file(str(data / "script.json"))
    print(f"{frames} frames, {frames / 12.5 / 3600:.1f} h, {len(heard)} words, "
          f"{np.mean([len(pieces(tokenizer, w)) for w in heard[:20000]]):.2f} pieces a word")
    books = (*codec.quantiser.first.books, *codec.quantiser.rest.books)
    torch.save(torch.stack([book.entries for book in books]), data / "codebooks.pt")


class Spoken:
    """What `codes` left, as sequences for training."""

    def __init__(self, data: Path, config: VoiceConfig, held: bool = False) -> None:
        self.config = config
        every = [json.loads(line) for line in whole_lines(data / "index.jsonl")]
        self.entries = [e for e in every if e["held"] == held]
        self.tokenizer = Tokenizer.from_file(str(data / "script.json"))
        total = every[-1]["start"] + every[-1]["frames"]
        self.codes = np.memmap(data / "codes.u16", "<u2", "r", shape=(total, config.books))
        for entry in self.entries:
            entry["pieces"] = [(at, pieces(self.tokenizer, word)) for word, at in entry["words"]]

    def sequence(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Clips in a random order until the steps are full: text (T,), codes (T, K)."""
        said: list[tuple[int, list[int]]] = []
        parts: list[np.ndarray] = []
        frames = 0
        while frames < STEPS_LONG:
            entry = self.entries[rng.integers(len(self.entries))]
            said += [(math.floor(frames + at), ids) for at, ids in entry["pieces"] if ids]
            parts.append(self.codes[entry["start"] : entry["start"] + entry["frames"]])
            frames += entry["frames"]
        whole = torch.from_numpy(np.concatenate(parts).astype(np.int64)).T  # (K, F)
        return track(said, STEPS_LONG), delayed(whole, self.config.delays, STEPS_LONG)

    def batches(self, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        rng = np.random.default_rng(seed)
        while True:
            texts, found = zip(*(self.sequence(rng) for _ in range(BATCH)), strict=True)
            yield torch.stack(texts), torch.stack(found)


def losses(voice: Voice, text: Tensor, found: Tensor) -> dict[str, Tensor]:
    """text (B, T), codes (B, T, K) -> mean losses of the action, the first code and the others; first codes right."""
    heard = torch.where(torch.rand(len(text), 1) < BLANKED, BLANK, text)
    counts, shares = zip(*SHOWN, strict=True)
    shown = torch.tensor(counts)[torch.multinomial(torch.tensor(shares), len(text), replacement=True)]
    past = torch.where(torch.arange(found.shape[2]) < shown[:, None, None], found, NONE)
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


def first_logits(voice: Voice, h: Tensor, text: Tensor) -> Tensor:
    """The depth transformer's first stage alone, (B, T, V): it sees nothing but h and the text."""
    B, T, _ = h.shape
    x = (voice.hand_down(h) + voice.depth.embed(text) + voice.stage[0].to(h.dtype)).flatten(0, 1)[:, None]
    return (voice.depth(x)[:, 0] @ voice.heads[0].to(h.dtype)).unflatten(0, (B, T))


def train(data: Path, runs: Path, steps: int) -> None:
    config = VoiceConfig()
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("codes", "train"))
    parser.add_argument("--clips", type=Path)
    parser.add_argument("--codec", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.stage == "codes":
        codes(args.clips, args.codec, args.data)
    else:
        train(args.data, args.runs, args.steps)


if __name__ == "__main__":
    main()
