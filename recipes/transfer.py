"""The transfer on the pocket pair from features that were heard once: capture thousands, sweep, score on the selection.

    python recipes/transfer.py capture --clips CLIPS ... --features FEATURES ... --out CAPTURE [--words N] [--limit N]
    python recipes/transfer.py sweep   --capture CAPTURE --select SELECT --rows ROWS --out FOLDER PLAN.json
    python recipes/transfer.py draw    RESULTS.jsonl PICTURE

A plan is a list of settings; each leaves a folder and one line in FOLDER/results.jsonl, and is skipped when its line
is there. Fitting and training themselves are those of `legato listen fit` and `legato listen train`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from legato import artifacts
from legato.assemble.transfer import BATCH, LIMIT, Sums, Training, _said, fit_mapper, load_pair, train
from legato.corpora.rows import Row, read_rows
from legato.corpora.world import draw
from legato.evaluate.answers import is_right
from legato.listen import plots, replay, shelf
from legato.listen.capture import TELL, Capture, Pair, capture, pair, read_entry, whole_lines
from legato.listen.train import ResidualTraining
from legato.pocket.features import Features
from legato.pocket.listener import PocketListener
from legato.pocket.pair import READ
from legato.pocket.prompt import END, START


def pairs(large: PocketListener, small: PocketListener, names: Sequence[str], hear) -> Iterator[Pair]:
    """Every question through both models, `BATCH` at a time. hear: (model, names) -> what the model remembers."""
    started = time.time()
    for at in range(0, len(names), BATCH):
        part = names[at : at + BATCH]
        heard, own = hear(large, part), hear(small, part)
        for name, a, b, said, mine in zip(part, heard, own, _said(large, heard), _said(small, own), strict=True):
            yield pair(large, small, name, a, b, said, mine)
        if at // BATCH % 10 == 0:
            print(
                f"{at + len(part):,} of {len(names):,} questions, {(at + len(part)) / (time.time() - started):.1f}/s",
                flush=True,
            )


def run_capture(args: argparse.Namespace) -> None:
    large, small, hashes = load_pair()
    torch.set_num_threads(args.threads)
    about = {f"{name}_model": sha for name, sha in hashes.items()} | {"tell": TELL}
    done = {read_entry(line).id for line in whole_lines(args.out / "index.jsonl")}
    layers = tuple(range(large.geometry.layers)) if args.every_layer else READ
    if args.words:
        questions = {row.id: row.question for row in draw(args.words, seed=args.seed, split="train")}
        names = [n for n in questions if n not in done]
        capture(
            pairs(large, small, names, lambda model, part: [model.read(questions[n]) for n in part]),
            args.out,
            layers,
            about,
        )
        return
    features = {clip: folder for folder in map(Features, args.features) for clip in folder}
    clips = [json.loads(line)["id"] for folder in args.clips for line in whole_lines(folder / "clips.jsonl")]
    names = [c for c in clips if c in features and c not in done][: args.limit]
    hear = lambda model, part: model.hear([features[n][n].to(model.model.dtype) for n in part])  # noqa: E731
    capture(pairs(large, small, names, hear), args.out, layers, about)


def tally(found: Sequence[tuple[Row, bool]]) -> dict[str, str]:
    """Right answers of n, in all, by domain, and by whether the fact was ever trained."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row, right in found:
        held = "held" if row.fact_held else "seen"
        for name in ("all", held, row.domain, f"{row.domain}/{held}"):
            counts[name][0] += right
            counts[name][1] += 1
    return {name: f"{right}/{n}" for name, (right, n) in sorted(counts.items())}


def score(
    select: Capture, rows: dict[str, Row], small: PocketListener, mapper, residual, control: bool
) -> dict[str, str]:
    """One arm over a captured selection set, answering freely."""
    replies = replay.said(
        small.model, select, select.entries, residual, mapper, last_id=START, end_ids=small.end_ids, max_tokens=LIMIT,
        control=control,
    )
    found = ((rows[name.split(".")[0]], small.text(said)) for name, said in replies.items())
    return tally([(row, is_right(text, row.accepted)) for row, text in found])


def natives(select: Capture, rows: dict[str, Row], small: PocketListener) -> dict[str, dict[str, str]]:
    """Both models by themselves, from the answers in the capture."""
    said = {"small": lambda e: e.own, "large": lambda e: e.answer}
    return {
        name: tally(
            [
                (row, is_right(small.text([t for t in read(e) if t != END]), row.accepted))
                for e in select.entries
                for row in [rows[e.id.split(".")[0]]]
            ]
        )
        for name, read in said.items()
    }


def run_sweep(args: argparse.Namespace) -> None:
    """Fit and train every setting of the plan; see the keys of `setting` below."""
    _, small, _ = load_pair()
    torch.set_num_threads(args.threads)
    select, rows = Capture(args.select), {r.id: r for r in read_rows(args.rows)}
    args.out.mkdir(parents=True, exist_ok=True)
    results = args.out / "results.jsonl"
    done = {json.loads(line)["name"] for line in whole_lines(results)}
    train_rows = [r for path in args.gold or () for r in read_rows(path)]

    def note(name: str, setting: dict, found: dict) -> None:
        line = {"name": name, "setting": setting, **found}
        with open(results, "a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)

    if "natives" not in done:
        note("natives", {}, natives(select, rows, small))
    sums: Sums | None = None  # gathered once, for all mappers of the plan
    plan = json.loads(args.plan.read_text())
    read = sorted({which for setting in plan if setting["kind"] == "mapper" for which in setting["reads"]})
    for setting in plan:
        name = setting["name"]
        if name in done:
            continue
        started, folder = time.time(), args.out / name
        if setting["kind"] == "mapper":
            sums = sums or Sums.gather(args.capture, read)
            _, report, trials = fit_mapper(
                sums, folder, target=setting["target"], which=setting["reads"], lams=setting["lams"]
            )
            mapper = shelf.load_mapper(artifacts.load(folder))
            note(
                name,
                setting,
                {
                    "r2": report.r2,
                    "trials": [asdict(trial) for trial in trials],
                    "seconds": round(time.time() - started),
                    "score": score(select, rows, small, mapper, None, False),
                },
            )
            continue
        control = setting["kind"] == "control"
        where = None if control else args.out / setting["mapper"]
        how = ResidualTraining(
            steps=setting["steps"], learning_rate=setting.get("rate", 1e-3), guard=setting.get("guard", 0.5)
        )
        domain = setting.get("domain")
        among = None if domain is None else frozenset(r.id for r in train_rows if r.domain == domain)
        training = Training(setting["rank"], setting.get("questions"), control, setting.get("reads", "nearest"), among)
        train(args.capture, folder, where, training, how, train_rows if setting.get("gold") else None)
        asked = len(training.chosen(Capture(args.capture)))
        mapper = None if control else shelf.load_mapper(artifacts.load(where))
        residual = shelf.load_residual(artifacts.load(folder))
        note(
            name,
            setting,
            {
                "questions": asked,
                "seconds": round(time.time() - started),
                "score": score(select, rows, small, mapper, residual, control),
            },
        )


def draw_sweep(args: argparse.Namespace) -> None:
    """The residuals that the plan marks with "curve": they differ in rank and questions only."""
    found = [json.loads(line) for line in whole_lines(args.results)]

    def share(score: dict[str, str]) -> float:
        right, n = map(int, score["all"].split("/"))
        return right / n

    natives_ = next(line for line in found if line["name"] == "natives")
    beside = {f"native {name}": share(natives_[name]) for name in ("large", "small")}
    beside |= {line["name"]: share(line["score"]) for line in found if line["name"] in args.beside}
    swept = [
        plots.Swept(line["setting"]["rank"], line["questions"], share(line["score"]))
        for line in found
        if line["setting"].get("curve")
    ]
    plots.sweep(swept, beside, args.picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    commands = parser.add_subparsers(dest="command", required=True)
    c = commands.add_parser("capture")
    c.add_argument("--clips", type=Path, nargs="*", default=[])
    c.add_argument("--features", type=Path, nargs="*", default=[])
    c.add_argument("--out", type=Path, required=True)
    c.add_argument(
        "--words", type=int, default=0, help="capture so many drawn questions, read as words instead of heard"
    )
    c.add_argument("--seed", type=int, default=5000)
    c.add_argument("--limit", type=int)
    c.add_argument("--every-layer", action="store_true")
    s = commands.add_parser("sweep")
    s.add_argument("plan", type=Path)
    s.add_argument("--capture", type=Path, required=True)
    s.add_argument("--select", type=Path, required=True)
    s.add_argument("--rows", type=Path, required=True)
    s.add_argument("--gold", type=Path, nargs="*", help="the rows captured, for settings with \"gold\" or a \"domain\"")
    s.add_argument("--out", type=Path, required=True)
    d = commands.add_parser("draw")
    d.add_argument("results", type=Path)
    d.add_argument("picture", type=Path)
    d.add_argument("--beside", nargs="*", default=[], help="names of settings that are drawn as level lines")
    args = parser.parse_args()
    {"capture": run_capture, "sweep": run_sweep, "draw": draw_sweep}[args.command](args)


if __name__ == "__main__":
    main()
