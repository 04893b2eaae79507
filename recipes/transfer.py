"""The transfer on the pocket pair, step by step: capture, fit, train, score. Each step resumes and leaves its log.

    python recipes/transfer.py capture --rows ROWS --features FEATURES --clips CLIPS --out CAPTURE [--words N] [--limit N]
    python recipes/transfer.py fit     --capture CAPTURE --out MAPPER [--target told|own] [--lam 1e-3] [--reads nearest|all]
    python recipes/transfer.py train   --capture CAPTURE --mapper MAPPER --out RESIDUAL [--rank 16] [--n 320] [--control] [--labels large|gold]
    python recipes/transfer.py score   --capture SELECT --rows ROWS [--mapper MAPPER] [--residual RESIDUAL]

`legato listen` does the same for one setting; this script is for sweeps, from features that were heard once.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from legato import artifacts
from legato.cache import Cache, Space
from legato.corpora.rows import Row, read_rows
from legato.corpora.world import draw
from legato.evaluate.answers import is_right
from legato.listen.batch import answers
from legato.listen.capture import TELL, Capture, Entry, Pair, capture, pair
from legato.listen.fit import PairSums, fit
from legato.listen.mapper import CacheMapper, MapConfig
from legato.listen.residual import CacheResidual, ResidualConfig
from legato.listen.train import ResidualTraining, memories, train_residual
from legato.pocket import shelf
from legato.pocket.ear import Ear
from legato.pocket.examples import encode
from legato.pocket.features import Features
from legato.pocket.listener import PocketListener
from legato.pocket.pair import KEPT
from legato.pocket.prompt import END, START

LIMIT = 24  # answer tokens; the longest reference has fewer
BATCH = 32


def load_pair(dtype: torch.dtype = torch.bfloat16) -> tuple[PocketListener, PocketListener]:
    return shelf.load_pair(Ear.load(dtype=dtype), artifacts.load(shelf.WEIGHTS / "large"), artifacts.load(shelf.WEIGHTS / "small"), dtype)


def replies(model: PocketListener, heard) -> list[list[int]]:
    """Greedy answers of `model` to many memories, end marks put back where it stopped by itself."""
    said = answers(model.model, [h.memory for h in heard], START, LIMIT, model.end_ids)
    return [[*ids, END] if len(ids) < LIMIT else ids for ids in said]


def pairs(large: PocketListener, small: PocketListener, names: list[str], hear) -> Iterator[Pair]:
    """Every question through both models, `BATCH` at a time. `hear(model, names)` -> what the model remembers of each."""
    started = time.time()
    for at in range(0, len(names), BATCH):
        part = names[at : at + BATCH]
        a, b = hear(large, part), hear(small, part)
        for name, heard, own, said, mine in zip(part, a, b, replies(large, a), replies(small, b), strict=True):
            yield pair(large, small, name, heard, own, said, mine)
        if at // BATCH % 10 == 0:
            print(f"{at + len(part):,} of {len(names):,} questions, {(at + len(part)) / (time.time() - started):.1f}/s", flush=True)


def run_capture(args) -> None:
    large, small = load_pair()
    about = {"large_model": artifacts.load(shelf.WEIGHTS / "large")[1].sha256, "small_model": artifacts.load(shelf.WEIGHTS / "small")[1].sha256, "tell": TELL}
    done = set(json.loads(line)["id"] for line in open(args.out / "index.jsonl")) if (args.out / "index.jsonl").exists() else set()
    if args.words:
        seen: dict[str, str] = {}
        for row in draw(args.words, seed=args.seed, split="train"):
            seen.setdefault(row.id, row.question)
        names = [n for n in seen if n not in done]
        capture(pairs(large, small, names, lambda model, part: [model.read(seen[n]) for n in part]), args.out, KEPT, about)
        return
    features = Features(args.features)
    clips = [json.loads(line) for line in open(args.clips / "clips.jsonl")][: args.limit]
    names = [c["id"] for c in clips if c["id"] in features and c["id"] not in done]
    capture(pairs(large, small, names, lambda model, part: model.hear([features[n].to(model.model.dtype) for n in part])), args.out, KEPT, about)


def split(capture: Capture) -> tuple[list[Entry], list[Entry]]:
    """Entries to fit on and one in twenty held out, by the hash that names the row."""
    held = [e for e in capture.entries if int(e.id[:4], 16) % 20 == 0]
    return [e for e in capture.entries if int(e.id[:4], 16) % 20], held


def reads(which: str) -> tuple[tuple[int, ...], ...]:
    """Which of the large model's layers each small layer reads: the one it was cut from, that and the late ones, or all."""
    late = KEPT[-4:]
    return {"nearest": tuple((k,) for k in KEPT), "late": tuple(tuple(sorted({k, *late})) for k in KEPT),
            "all": (KEPT,) * len(KEPT)}[which]


def save_module(folder: Path, module, config: dict, kind: str) -> None:
    tensors = {k: v.detach().half().contiguous() for k, v in module.state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"config": config, "kind": kind, "state": tensors}, folder / f"{kind}.pt")


def map_config(capture: Capture, small, large, which: str) -> MapConfig:
    return MapConfig(large, small, reads(which), capture.config["header"], capture.config["tail"])


def run_fit(args) -> None:
    held_capture = Capture(args.capture)
    train, held = split(held_capture)
    large, small = load_pair()
    cache = args.out.parent / f"sums-{len(train)}.pt"
    started = time.time()
    if cache.exists():
        a, b = torch.load(cache, weights_only=False)
    else:
        a, b = (PairSums.gather(held_capture, part, "summing") for part in (train, held))
        cache.parent.mkdir(parents=True, exist_ok=True)
        torch.save((a, b), cache)
    print(f"sums of {len(train)} + {len(held)} questions: {time.time() - started:.0f} s", flush=True)
    mapper, report = fit(held_capture, a, b, reads(args.reads), lam=args.lam, target=args.target,
                         source=large.geometry, small=small.geometry)
    save_module(args.out, mapper, {"reads": args.reads, "lam": args.lam, "target": args.target}, "mapper")
    for part, rows in report.r2.items():
        print(part, " ".join(f"{k:.2f}/{v:.2f}" for k, v in rows))


def load_mapper(folder: Path, capture: Capture, small, large) -> CacheMapper:
    saved = torch.load(folder / "mapper.pt", weights_only=True)
    mapper = CacheMapper(map_config(capture, small.geometry, large.geometry, saved["config"]["reads"]))
    mapper.load_state_dict({k: v.float() for k, v in saved["state"].items()})
    return mapper.requires_grad_(False)


def make_residual(capture: Capture, small, large, which: str, rank: int | None, control: bool) -> CacheResidual:
    if control:
        own = small.geometry
        layers = tuple((i,) for i in range(own.layers)) if which == "nearest" else (tuple(range(own.layers)),) * own.layers
        config = MapConfig(own, own, layers, capture.config["header"], capture.config["tail"])
    else:
        config = map_config(capture, small.geometry, large.geometry, which)
    torch.manual_seed(0)
    return CacheResidual(ResidualConfig(config, rank))


def load_residual(folder: Path, capture: Capture, small, large) -> tuple[CacheResidual, dict]:
    saved = torch.load(folder / "residual.pt", weights_only=True)
    c = saved["config"]
    residual = make_residual(capture, small, large, c["reads"], c["rank"], c["control"])
    residual.load_state_dict({k: v.float() for k, v in saved["state"].items()})
    return residual.requires_grad_(False), c


@torch.no_grad()
def scored(capture: Capture, entries: list[Entry], rows: dict[str, Row], small: PocketListener, mapper, residual, control: bool) -> dict:
    """Accuracy of one arm over captured questions, free-running, by domain and by whether the fact was ever trained."""
    tally: dict[str, list[int]] = {}
    by_length: dict[int, list[Entry]] = {}
    for e in entries:
        by_length.setdefault(e.length, []).append(e)
    for group in by_length.values():
        for at in range(0, len(group), 64):
            part = group[at : at + 64]
            keys, values = memories(residual, mapper, capture, part, control, small.model.dtype)
            caches = [Cache(keys[:, b : b + 1], values[:, b : b + 1], part[0].length, Space.CONTENT) for b in range(len(part))]
            for e, said in zip(part, answers(small.model, caches, START, LIMIT, small.end_ids), strict=True):
                count(tally, rows[e.id.split(".")[0]], small.text(said))
    return {k: f"{r}/{n}={r / n:.3f}" for k, (r, n) in sorted(tally.items())}


def count(tally: dict[str, list[int]], row: Row, text: str) -> None:
    right = is_right(text, row.accepted)
    for name in ("all", row.domain, f"{row.domain}/{'held' if row.fact_held else 'seen'}", "held" if row.fact_held else "seen"):
        tally.setdefault(name, [0, 0])[0] += right
        tally[name][1] += 1


def natives(capture: Capture, rows: dict[str, Row], small: PocketListener) -> dict[str, dict]:
    """Accuracy of both models by themselves, from the answers in the capture."""
    out = {}
    for name in ("own", "answer"):
        tally: dict[str, list[int]] = {}
        for e in capture.entries:
            count(tally, rows[e.id.split(".")[0]], small.text([t for t in getattr(e, name) if t != END]))
        out[name] = {k: f"{r}/{n}={r / n:.3f}" for k, (r, n) in sorted(tally.items())}
    return out


def run_train(args) -> None:
    cap = Capture(args.capture)
    train, _ = split(cap)
    train = train[: args.n] if args.n else train
    large, small = load_pair()
    mapper = load_mapper(args.mapper, cap, small, large) if args.mapper else None
    rank = None if args.rank == "full" else int(args.rank)
    residual = make_residual(cap, small, large, args.reads, rank, args.control)
    labels = {e.id: e.answer for e in train}
    if args.labels == "gold":
        by_id = {r.id: r for r in read_rows(args.train_rows)}
        labels = {e.id: encode(by_id[e.id.split(".")[0]], small.tokenizer).answer for e in train}
    select = Capture(args.select)
    rows = {r.id: r for r in read_rows(args.rows)}
    for name, figures in natives(select, rows, small).items():
        print(name, figures, flush=True)
    if mapper is not None and not args.control:
        print("mapped", scored(select, select.entries, rows, small, mapper, None, False), flush=True)

    def evaluate(r: CacheResidual) -> dict:
        found = scored(select, select.entries, rows, small, mapper, r, args.control)
        print(found, flush=True)
        return found

    config = ResidualTraining(steps=args.steps, learning_rate=args.lr, guard=args.guard)
    train_residual(residual, mapper, small.model, START, cap, train, labels, config, args.out, control=args.control,
                   every=args.every, evaluate=evaluate)
    save_module(args.out, residual, {"reads": args.reads, "rank": rank, "control": args.control}, "residual")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    c = commands.add_parser("capture")
    c.add_argument("--features", type=Path)
    c.add_argument("--clips", type=Path)
    c.add_argument("--out", type=Path, required=True)
    c.add_argument("--words", type=int, default=0, help="capture this many questions read as words instead of heard")
    c.add_argument("--seed", type=int, default=5000)
    c.add_argument("--limit", type=int)
    f = commands.add_parser("fit")
    f.add_argument("--capture", type=Path, required=True)
    f.add_argument("--out", type=Path, required=True)
    f.add_argument("--target", default="told", choices=("told", "own"))
    f.add_argument("--lam", type=float, default=1e-3)
    f.add_argument("--reads", default="nearest", choices=("nearest", "late", "all"))
    t = commands.add_parser("train")
    t.add_argument("--capture", type=Path, required=True)
    t.add_argument("--select", type=Path, required=True)
    t.add_argument("--rows", type=Path, required=True)
    t.add_argument("--train-rows", type=Path)
    t.add_argument("--mapper", type=Path)
    t.add_argument("--out", type=Path, required=True)
    t.add_argument("--rank", default="16")
    t.add_argument("--reads", default="nearest", choices=("nearest", "late", "all"))
    t.add_argument("--n", type=int, default=0)
    t.add_argument("--steps", type=int, default=600)
    t.add_argument("--every", type=int, default=200)
    t.add_argument("--lr", type=float, default=1e-3)
    t.add_argument("--guard", type=float, default=0.5)
    t.add_argument("--control", action="store_true")
    t.add_argument("--labels", default="large", choices=("large", "gold"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    {"capture": run_capture, "fit": run_fit, "train": run_train}[args.command](args)


if __name__ == "__main__":
    main()
