"""Train the pocket pair: text first (what to know and how to answer), then audio among text (how to hear).

    python recipes/pocket_pair.py text  large|small --runs FOLDER [--steps N]
    python recipes/pocket_pair.py audio large|small --runs FOLDER --rows ROWS ... --clips FOLDER ... --features FOLDER ...
    python recipes/pocket_pair.py gates --runs FOLDER [--stage text|audio]

Each stage is resumable; `audio` starts from what `text` left. Everything is drawn from the world's train split.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

import torch

from legato.corpora.rows import read_rows
from legato.corpora.world import draw
from legato.pocket import lowrank
from legato.pocket.ear import Projector
from legato.pocket.examples import Example, batches, encode
from legato.pocket.features import Features
from legato.pocket.pair import LARGE_RANK, PROJECTOR_HIDDEN, cut, load_base
from legato.pocket.train import TrainConfig, key_accuracy, train

CHUNK = 8192  # rows drawn at a time
BATCH = 32
TEXT = {"large": TrainConfig(steps=400, learning_rate=1e-3, seed=1), "small": TrainConfig(steps=1000, learning_rate=6e-4, seed=2)}
AUDIO = {"large": TrainConfig(steps=700, learning_rate=5e-4, projector_rate=2e-3, seed=3),
         "small": TrainConfig(steps=1000, learning_rate=4e-4, projector_rate=2e-3, seed=4)}


def build(which: str):
    """-> model in bfloat16, tokenizer, its trainable parameters."""
    base, tokenizer = load_base(torch.bfloat16)
    if which == "large":
        return base, tokenizer, lowrank.attach(base, LARGE_RANK)
    small = cut(base).requires_grad_(False)
    weights = [p.requires_grad_() for block in small.blocks for p in block.parameters()] + [small.norm.weight.requires_grad_()]
    return small, tokenizer, weights


def restore(which: str, stage: str, runs: Path, model, weights, projector) -> None:
    """Put a finished stage's masters into the model."""
    saved = torch.load(runs / f"{stage}-{which}" / "state.pt", weights_only=True)["masters"]["masters"]
    with torch.no_grad():
        for p, value in zip(weights, saved[0], strict=True):
            p.copy_(value)
        if len(saved) > 1:
            for p, value in zip(projector.parameters(), saved[1], strict=True):
                p.copy_(value)


def text_data(tokenizer, seed: int):
    def data(step: int) -> Iterator[list[Example]]:
        per = CHUNK // BATCH
        while True:
            chunk = step // per
            rows = draw(CHUNK, seed=seed * 100003 + chunk, split="train")
            order = batches([encode(r, tokenizer) for r in rows], BATCH, random.Random(chunk))
            yield from order[step % per :]
            step += len(order) - step % per
    return data


def audio_data(tokenizer, seed: int, heard: list[Example], length, share: float = 0.7):
    """Batches of heard rows, with `1 - share` of the batches read as words to keep what text taught."""
    def data(step: int) -> Iterator[list[Example]]:
        words = text_data(tokenizer, seed)(step)
        per = len(heard) // BATCH
        while True:
            epoch = step // per
            order = batches(heard, BATCH, random.Random(f"{seed}:{epoch}"), length)[:per]
            for examples in order[step % per :]:
                yield examples if random.Random(f"{seed}:{step}").random() < share else next(words)
                step += 1
    return data


def evaluator(model, projector, examples: dict[str, list[Example]], features):
    def evaluate(step: int) -> dict:
        return {name: {k: f"{r}/{n}" for k, (r, n) in key_accuracy(model, projector, part, features).items()}
                for name, part in examples.items()}
    return evaluate


def stage_text(which: str, runs: Path, steps: int | None) -> None:
    model, tokenizer, weights = build(which)
    config = TEXT[which] if steps is None else TrainConfig(**{**TEXT[which].__dict__, "steps": steps})
    checks = {"select": [encode(r, tokenizer) for r in draw(300, seed=7, split="select")]}
    projector = torch.nn.Identity()
    train(model, projector, [(weights, config.learning_rate)], text_data(tokenizer, config.seed), {}, config,
          runs / f"text-{which}", evaluator(model, projector, checks, {}), every=300)


class Folders:
    """Features of several folders as one; clip ids are unique over all of them."""

    def __init__(self, folders: list[Path]) -> None:
        self.parts = [Features(folder) for folder in folders]

    def __contains__(self, clip: str) -> bool:
        return any(clip in part for part in self.parts)

    def __getitem__(self, clip: str) -> torch.Tensor:
        return next(part[clip] for part in self.parts if clip in part)


def stage_audio(which: str, runs: Path, rows: list[Path], clips: list[Path], folders: list[Path], steps: int | None) -> None:
    model, tokenizer, weights = build(which)
    torch.manual_seed(AUDIO[which].seed)
    projector = Projector(model.config.width, hidden=PROJECTOR_HIDDEN)
    restore(which, "text", runs, model, weights, projector)
    features = Folders(folders)
    by_id = {r.id: r for path in rows for r in read_rows(path)}
    entries = [json.loads(line) for folder in clips for line in open(folder / "clips.jsonl")]
    random.Random(0).shuffle(entries)
    heard = [encode(by_id[e["row"]], tokenizer, audio=e["id"]) for e in entries if e["id"] in features]
    seconds = {e["id"]: e["seconds"] for e in entries}
    held_out, heard = heard[:300], heard[300:]
    config = AUDIO[which] if steps is None else TrainConfig(**{**AUDIO[which].__dict__, "steps": steps})
    checks = {"heard": held_out, "select": [encode(r, tokenizer) for r in draw(200, seed=7, split="select")]}
    train(model, projector, [(weights, config.learning_rate), (list(projector.parameters()), config.projector_rate)],
          audio_data(tokenizer, config.seed, heard, lambda e: seconds[e.audio]), features, config,
          runs / f"audio-{which}", evaluator(model, projector, checks, features), every=300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("text", "audio"))
    parser.add_argument("which", choices=("large", "small"))
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--rows", type=Path, nargs="+")
    parser.add_argument("--clips", type=Path, nargs="+")
    parser.add_argument("--features", type=Path, nargs="+")
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()
    if args.stage == "text":
        stage_text(args.which, args.runs, args.steps)
    else:
        stage_audio(args.which, args.runs, args.rows, args.clips, args.features, args.steps)


if __name__ == "__main__":
    main()
