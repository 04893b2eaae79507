"""Train the pocket pair: text first (what to know, how to answer), a projector that spells, then audio among text.

    python recipes/pocket_pair.py text  large|small --runs RUNS [--steps N]
    python recipes/pocket_pair.py hear  both        --runs RUNS --rows ROW... [--lists LIST...] --clips CLIP...
                                                    --features FEATURE...
    python recipes/pocket_pair.py audio large|small (the same, without lists)
    python recipes/pocket_pair.py joint large       (as hear)
    python recipes/pocket_pair.py ship  large|small --runs RUNS

Each stage is resumable. `audio` starts from what `text` and `hear` left and trains the decoder alone; `joint` goes on
with decoder and projector, which until then is the same for both models. The small model has no such stage: after it,
it speaks less surely what its tail was told (records/LOG.md). Rows are drawn from the world's train split.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rapidfuzz.distance import Levenshtein
from tokenizers import Tokenizer

from legato.corpora.rows import Row, read_rows
from legato.corpora.world import draw
from legato.listen.capture import TELL
from legato.optim import Masters, checkpoint, cosine
from legato.pocket import lowrank, shelf
from legato.pocket.augment import Perturbed
from legato.pocket.ear import Projector
from legato.pocket.examples import Example, batches, encode
from legato.pocket.features import Features
from legato.pocket.hearing import Hearing, Letters, Spelling, audible, side_by_side
from legato.pocket.pair import LARGE_RANK, PROJECTOR_HIDDEN, cut, load_base
from legato.pocket.train import RIVALS, TrainConfig, key_accuracy, train
from legato.transformer import Transformer

CHUNK = 8192  # rows drawn at a time
BATCH = 32
# Share of "Say <answer>" among words read: only the small model is ever told an answer through its tail, so speaking
# what stands there is most of what it practises.
TOLD = {"large": 0.0, "small": 0.8}
HELD_CLIPS = 300  # heard only to watch a training
HEAR_STEPS = 8000
HEAR_RATE = 2e-3
TEXT = {
    "large": TrainConfig(steps=500, learning_rate=1e-3, seed=1),
    "small": TrainConfig(steps=4000, learning_rate=6e-4, tail_only=0.8, seed=2),
}
AUDIO = {
    "large": TrainConfig(steps=1500, learning_rate=5e-4, perturb=True, seed=3),
    "small": TrainConfig(steps=200, learning_rate=1e-4, tail_only=0.8, perturb=True, seed=4),
}
JOINT = TrainConfig(steps=100, learning_rate=2e-4, projector_rate=1e-4, perturb=True, seed=5)
LAST = {"large": "joint-large", "small": "audio-small"}  # the stage that is shipped


def build(which: str):
    """-> model in bfloat16, tokenizer, its trainable parameters."""
    base, tokenizer = load_base(torch.bfloat16)
    if which == "large":
        return base, tokenizer, lowrank.attach(base, LARGE_RANK)
    small = cut(base).requires_grad_(False)
    weights = [p.requires_grad_() for block in small.blocks for p in block.parameters()] + [
        small.norm.weight.requires_grad_()
    ]
    return small, tokenizer, weights


def masters_of(folder: Path) -> list[list[torch.Tensor]]:
    """The float32 weights that a stage left, group by group."""
    return torch.load(folder / "state.pt", weights_only=True)["masters"]["masters"]


def steps_of(folder: Path) -> int:
    """How many steps a stage has done."""
    return torch.load(folder / "state.pt", weights_only=True)["step"]


@torch.no_grad()
def put(parameters: Iterable[torch.nn.Parameter], values: list[torch.Tensor]) -> None:
    """Stored weights into parameters, in order."""
    for p, value in zip(parameters, values, strict=True):
        p.copy_(value)


def text_data(tokenizer, seed: int, told: float = 0.0):
    """Batches of drawn rows; a share `told` of them asks to say the answer, as the told oracle and fit do."""

    def asked(row: Row, rng: random.Random) -> Row:
        return replace(row, question=TELL.format(answer=row.answer)) if rng.random() < told else row

    def data(step: int) -> Iterator[list[Example]]:
        per = CHUNK // BATCH
        while True:
            chunk = step // per
            rows = draw(CHUNK, seed=seed * 100003 + chunk, split="train")
            rng = random.Random(f"{seed}:{chunk}:told")
            order = batches([encode(asked(r, rng), tokenizer) for r in rows], BATCH, random.Random(chunk))
            yield from order[step % per :]
            step += len(order) - step % per

    return data


def audio_data(tokenizer, seed: int, heard: list[Example], length, told: float, share: float = 0.7):
    """Batches of heard rows, with `1 - share` of the batches read as words to keep what text taught."""

    def data(step: int) -> Iterator[list[Example]]:
        def heard_at(at: int) -> bool:
            return random.Random(f"{seed}:{at}").random() < share

        words = text_data(tokenizer, seed, told)(sum(not heard_at(at) for at in range(step)))
        per = len(heard) // BATCH
        while True:
            epoch = step // per
            order = batches(heard, BATCH, random.Random(f"{seed}:{epoch}"), length)[:per]
            for examples in order[step % per :]:
                yield examples if heard_at(step) else next(words)
                step += 1

    return data


def evaluator(model, projector, examples: dict[str, list[Example]], features):
    def evaluate(step: int) -> dict:
        return {
            name: {k: f"{r}/{n}" for k, (r, n) in key_accuracy(model, projector, part, features).items()}
            for name, part in examples.items()
        }

    return evaluate


def stage_text(which: str, runs: Path, steps: int | None) -> None:
    model, tokenizer, weights = build(which)
    config = TEXT[which] if steps is None else replace(TEXT[which], steps=steps)
    checks = {"select": [encode(r, tokenizer) for r in draw(300, seed=7, split="select")]}
    projector = torch.nn.Identity()
    train(
        model,
        projector,
        [(weights, config.learning_rate)],
        text_data(tokenizer, config.seed, TOLD[which]),
        {},
        config,
        runs / f"text-{which}",
        evaluator(model, projector, checks, {}),
        every=300,
    )


class Folders:
    """Features of several folders as one; clip ids are unique over all of them."""

    def __init__(self, folders: list[Path]) -> None:
        self.parts = [Features(folder) for folder in folders]

    def __contains__(self, clip: str) -> bool:
        return any(clip in part for part in self.parts)

    def __getitem__(self, clip: str) -> torch.Tensor:
        return next(part[clip] for part in self.parts if clip in part)


@dataclass(frozen=True)
class Clip:
    """What a clip says, whatever is answered to it: a row's question, or a list of words."""

    id: str
    row: str
    question: str
    seconds: float


def load_clips(lines: list[Path], clips: list[Path], features: Folders) -> list[Clip]:
    """Every clip that was heard, in a fixed shuffled order. lines: JSONL files of objects with "id" and "question"."""
    said = {d["id"]: d["question"] for path in lines for d in map(json.loads, path.read_text().splitlines())}
    entries = [json.loads(line) for folder in clips for line in (folder / "clips.jsonl").read_text().splitlines()]
    found = [Clip(e["id"], e["row"], said[e["row"]], e["seconds"]) for e in entries if e["id"] in features]
    return random.Random(0).sample(found, len(found))


def heard_rows(tokenizer, rows: list[Path], clips: list[Clip]) -> list[Example]:
    """The clips that ask one of the rows, with its answer; lists of words have none and are left out."""
    by_id = {r.id: r for path in rows for r in read_rows(path)}
    return [encode(by_id[c.row], tokenizer, audio=c.id) for c in clips if c.row in by_id]


def letters_of(tokenizer: Tokenizer, spelling: Spelling) -> Letters:
    """Fresh letters of the tokens that are spelt."""
    return Letters([tokenizer.id_to_token(i) for i in spelling.ids.tolist()], spelling.table.shape[1])


def watched(row: str) -> bool:
    """Rows whose clips a training is watched on; none of them is trained on as audio."""
    return int(row[:4], 16) % 40 == 0


def stage_hear(runs: Path, rows: list[Path], clips: list[Path], folders: list[Path], steps: int | None) -> None:
    """One projector for both models, taught to spell what was said (see `legato.pocket.hearing`)."""
    base, tokenizer = load_base(torch.bfloat16)
    features = Folders(folders)
    heard = load_clips(rows, clips, features)
    said = {c.id: audible(tokenizer, c.question) for c in heard}
    spelling = Spelling(base.embedding.weight, {t for ids in said.values() for t in ids})
    torch.manual_seed(5)
    projector = Projector(base.config.width, hidden=PROJECTOR_HIDDEN)
    letters = letters_of(tokenizer, spelling)
    held = [c for c in heard if watched(c.row)][:HELD_CLIPS]
    train_set = [c for c in heard if not watched(c.row)]
    steps = steps or HEAR_STEPS
    masters = Masters([(list(m.parameters()), HEAR_RATE) for m in (projector, spelling, letters)], weight_decay=0.05)
    folder = runs / "hear"
    folder.mkdir(parents=True, exist_ok=True)
    step, window, started = 0, [], time.time()
    if (folder / "state.pt").exists():
        saved = torch.load(folder / "state.pt", weights_only=True)
        masters.load(saved["masters"])
        step = saved["step"]

    def project(part: list[Clip], heard: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            return side_by_side(projector, [heard[c.id] for c in part])

    print(f"{len(train_set)} clips, {len(spelling.ids)} words", flush=True)
    while step < steps:
        per = len(train_set) // 64
        epoch = step // per
        for examples in batches(train_set, 64, random.Random(epoch), lambda c: c.seconds)[step % per : per]:
            rivals = random.Random(step).sample(range(len(spelling.ids)), min(RIVALS, len(spelling.ids)))
            perturbed = Perturbed(features, random.Random(f"heard:{step}"))
            loss = spelling.loss(project(examples, perturbed), [said[c.id] for c in examples], rivals, letters)
            loss.backward()
            masters.step(cosine(step, steps, 100))
            window.append(loss.item())
            step += 1
            if step % 100 == 0 or step == steps:
                with torch.no_grad():
                    spelling.keys = letters().to(spelling.keys.dtype)
                    spelt = [spelling.spell(h) for h in project(held, features)]
                wrong = sum(Levenshtein.distance(s, said[c.id]) for s, c in zip(spelt, held, strict=True))
                words = sum(len(said[c.id]) for c in held)
                print(
                    json.dumps(
                        {
                            "step": step,
                            "loss": round(sum(window) / len(window), 3),
                            "token_error": round(wrong / words, 3),
                            "clips_per_s": round(64 * len(window) / (time.time() - started), 1),
                        }
                    ),
                    flush=True,
                )
                checkpoint(folder / "state.pt", {"masters": masters.state(), "step": step, "words": spelling.ids})
                window, started = [], time.time()
            if step == steps:
                break


def stage_audio(
    which: str,
    runs: Path,
    start: Path | None,
    rows: list[Path],
    lists: list[Path],
    clips: list[Path],
    folders: list[Path],
    steps: int | None,
    joint: bool = False,
) -> None:
    """The decoder learns to read what is heard; joint: together with the projector, which goes on spelling.

    start: the folder of the stage whose decoder to begin with; by default `text`'s, and jointly `audio`'s.
    """
    model, tokenizer, weights = build(which)
    features = Folders(folders)
    spoken = load_clips([*rows, *lists], clips, features)
    seconds = {c.id: c.seconds for c in spoken}
    examples = heard_rows(tokenizer, rows, spoken)
    held_out = [e for e in examples if watched(e.row.id)][:HELD_CLIPS]
    heard = [e for e in examples if not watched(e.row.id)]
    hearing = heard_first(runs / "hear", model, tokenizer)
    put(weights, masters_of(start or runs / f"{'audio' if joint else 'text'}-{which}")[0])
    config = JOINT if joint else AUDIO[which]
    config = config if steps is None else replace(config, steps=steps)
    groups = [(weights, config.learning_rate)]
    spelt: dict[str, Any] = {}
    if joint:
        groups.append((list(hearing.parameters()), config.projector_rate))
        asked = {e.row.id for e in examples}
        spelt["said"] = {c.id: audible(tokenizer, c.question) for c in spoken}
        spelt["lists"] = [c.id for c in spoken if c.row not in asked and not watched(c.row)]
    else:
        hearing.requires_grad_(False)
    checks = {"heard": held_out, "select": [encode(r, tokenizer) for r in draw(200, seed=7, split="select")]}
    train(
        model,
        hearing,
        groups,
        audio_data(tokenizer, config.seed, heard, lambda e: seconds[e.audio], TOLD[which]),
        features,
        config,
        runs / f"{'joint' if joint else 'audio'}-{which}",
        evaluator(model, hearing, checks, features),
        every=150,
        **spelt,
    )


def heard_first(folder: Path, model: Transformer, tokenizer: Tokenizer) -> Hearing:
    """What the `hear` stage left, as the stages after it begin with it."""
    left = torch.load(folder / "state.pt", weights_only=True)
    words = model.embedding.weight
    projector, spelling = Projector(words.shape[1], hidden=PROJECTOR_HIDDEN), Spelling(words, left["words"].tolist())
    letters = letters_of(tokenizer, spelling)
    for module, values in zip((projector, spelling, letters), left["masters"]["masters"], strict=True):
        put(module.parameters(), values)
    with torch.no_grad():
        spelling.keys = letters().to(words.dtype)
    return Hearing(projector, spelling, words[tokenizer.encode(" ").ids[0]])


def stage_ship(which: str, runs: Path) -> None:
    """Save what the last stage left as the artifact that the package ships."""
    model, tokenizer, weights = build(which)
    hearing = heard_first(runs / "hear", model, tokenizer)
    decoder, *projector = masters_of(runs / LAST[which])
    put(weights, decoder)
    if projector:  # else it is as `hear` left it
        put(hearing.parameters(), projector[0])
    save = shelf.save_large if which == "large" else shelf.save_small
    stages = dict.fromkeys((f"text-{which}", "hear", f"audio-{which}", LAST[which]))
    done = {stage: steps_of(runs / stage) for stage in stages}
    trained = ", ".join(f"{stage} {steps}" for stage, steps in done.items())
    manifest = save(shelf.WEIGHTS / which, model, hearing, recipe=f"recipes/pocket_pair.py, steps: {trained}")
    print(f"{manifest.folder}: {manifest.sha256}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("text", "hear", "audio", "joint", "ship"))
    parser.add_argument("which", choices=("large", "small", "both"))
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--rows", type=Path, nargs="+")
    parser.add_argument("--lists", type=Path, nargs="*", default=[], help="what recipes/lexicon.py wrote")
    parser.add_argument("--clips", type=Path, nargs="+")
    parser.add_argument("--features", type=Path, nargs="+")
    parser.add_argument("--start", type=Path, help="audio and joint: folder of the stage whose decoder to begin with")
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()
    if args.stage == "text":
        stage_text(args.which, args.runs, args.steps)
    elif args.stage == "ship":
        stage_ship(args.which, args.runs)
    elif args.stage == "hear":
        stage_hear(args.runs, [*args.rows, *args.lists], args.clips, args.features, args.steps)
    else:
        joint = args.stage == "joint"
        if joint and args.which != "large":
            parser.error("only the large model has a joint stage")
        stage_audio(
            args.which, args.runs, args.start, args.rows, args.lists, args.clips, args.features, args.steps, joint
        )


if __name__ == "__main__":
    main()
