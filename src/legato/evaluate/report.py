"""Every headline figure, re-derived from raw records alone: as JSON, as a table, as a plot.

Scoring, pairing and intervals are computed here anew each time, with fixed seeds, so two calls on the same records give
the same bytes. The ledger is believed only where its chain holds, and a run only where it is the one that was closed:
its file, its seal and its candidate are held against the ledger before anything is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legato.errors import BadInput, MissingExtra, SealError
from legato.evaluate import answers, layout, ledger, promote, record, seal, statistics
from legato.evaluate.answers import Score
from legato.evaluate.ledger import Entry
from legato.evaluate.record import RawRecord, Timings
from legato.evaluate.statistics import Estimate

ARMS = ("small", "mapped", "control", "transfer", "large")  # the order in which they are shown; others follow


def report(records: Path) -> dict[str, Any]:
    """`{"finals": [...], "unfinished": [...]}` over every run on a sealed final under `records/runs`.

    A run that lacks answers or was not closed is listed as unfinished, without a figure: nobody looks at half a final.

    Raises:
        BadInput: a record file is damaged.
        SealError: the ledger is broken; the file of a closed run is missing or was changed; the seal or candidate of a
            run was changed; a run was never opened or holds rows that its seal does not.
    """
    entries = ledger.verify(records).entries
    for entry in entries:
        if entry.event == "closed":
            ledger.check_run(records, entries, entry.data["run"])
    finals, unfinished = [], []
    for path in sorted((records / "runs").glob("*.jsonl")):
        found = record.scan(path)
        if not any(r.seal for r in found.records):
            continue
        missing, closed = _missing(records, entries, path.stem, found.records)
        if missing or not closed:
            unfinished.append({"run": path.stem, "seal": found.records[0].seal, "missing": missing})
        else:
            finals.append(summarise(found.records))
    return {"finals": finals, "unfinished": unfinished}


def final(records: Path, run: str) -> dict[str, Any]:
    """The entry of one finished run.

    Raises:
        BadInput: there is no such run, or it is damaged.
        SealError: it is not finished or belongs to no seal, or one of those of `report`.
    """
    entries = ledger.verify(records).entries
    ledger.check_run(records, entries, run)
    found = record.read(layout.run(records, run))
    if not found or found[0].seal is None:
        raise SealError(f"run {run!r} holds no answers to a sealed final.")
    missing, closed = _missing(records, entries, run, found)
    if missing or not closed:
        raise SealError(f"run {run!r} is not finished ({missing} answers are missing); resume it.")
    return summarise(found)


def _missing(records: Path, entries: list[Entry], run: str, found: Sequence[RawRecord]) -> tuple[int, bool]:
    """How many answers a run lacks (each opened arm owes one for every sealed row), and whether it was closed."""
    name = found[0].seal
    if {(r.seal, r.run) for r in found} != {(name, run)} or name is None:
        raise SealError(f"run {run!r} mixes records of several seals or runs; restore its file.")
    opened = ledger.last(entries, "opened", seal=name, run=run)
    if opened is None:
        raise SealError(f"run {run!r} answers final {name!r}, which it never opened; restore the ledger.")
    held, frozen = seal.read(records, name), promote.read(records, opened.data["candidate"])
    for what, sha, recorded in (
        (f"seal {held.name!r}", held.sha256, opened.data["seal_sha256"]),
        (f"candidate {frozen.name!r}", frozen.sha256, opened.data["candidate_sha256"]),
    ):
        if sha != recorded:
            raise SealError(
                f"run {run!r} was opened with another {what}: the ledger holds sha256 {recorded}, found {sha}; "
                "restore the file."
            )
    owed = {(row.id, arm) for row in held.rows for arm in opened.data["arms"]}
    have = {(r.row, r.arm) for r in found}
    if strange := have - owed:
        row, arm = min(strange)
        raise SealError(f"run {run!r} answers row {row} by {arm!r}, which was not opened; restore its file.")
    return len(owed - have), ledger.last(entries, "closed", run=run) is not None


def summarise(found: Sequence[RawRecord]) -> dict[str, Any]:
    """All figures of one run's records, in which every arm answers the same rows."""
    table = _Table(found)
    whole = table.figures(np.ones(len(table.rows), dtype=bool))
    return {
        "seal": found[0].seal,
        "run": found[0].run,
        "artifacts": {name: sha for r in found for name, sha in sorted(r.artifacts.items())},
        **whole,
        "outside_every_fit": table.figures(table.where(lambda r: r.fact_held)),
        "unseen_wordings": table.figures(table.where(lambda r: r.wording_held)),
        "by_domain": table.split(lambda r: r.domain),
        "by_kind": table.split(lambda r: r.kind),
        "speed": {arm: _speed(table.records[arm]) for arm in table.arms},
    }


class _Table:
    """Records as one column an arm, rows in one order, each scored once."""

    def __init__(self, found: Sequence[RawRecord]) -> None:
        by_arm: dict[str, dict[str, RawRecord]] = defaultdict(dict)
        for r in found:
            by_arm[r.arm][r.row] = r
        self.arms = [*(a for a in ARMS if a in by_arm), *sorted(set(by_arm) - set(ARMS))]
        self.rows = sorted(by_arm[self.arms[0]])
        for arm in self.arms:
            if sorted(by_arm[arm]) != self.rows:
                raise BadInput(f"arms {self.arms[0]!r} and {arm!r} answer different rows; finish the run first.")
        self.records = {arm: [by_arm[arm][row] for row in self.rows] for arm in self.arms}
        self.scores = {arm: [answers.score(r) for r in self.records[arm]] for arm in self.arms}

    def where(self, test: Callable[[RawRecord], bool]) -> NDArray[np.bool_]:
        """Mask (n,) of the rows that pass."""
        return np.array([test(r) for r in self.records[self.arms[0]]], dtype=bool)

    def split(self, key: Callable[[RawRecord], str]) -> dict[str, Any]:
        values = sorted({key(r) for r in self.records[self.arms[0]]})
        return {value: self.figures(self.where(lambda r, value=value: key(r) == value)) for value in values}

    def figures(self, mask: NDArray[np.bool_]) -> dict[str, Any] | None:
        """The figures of the rows under `mask`, or None where there are no such rows."""
        n = int(mask.sum())
        if n == 0:
            return None
        scores = {arm: [s for s, keep in zip(self.scores[arm], mask, strict=True) if keep] for arm in self.arms}
        right = {arm: np.array([s.right for s in column]) for arm, column in scores.items()}
        gap = None
        if {"small", "transfer", "large"} <= set(right):
            gap = _estimate(statistics.gap_recovered(right["small"], right["transfer"], right["large"]))
        return {
            "n": n,
            "arms": {arm: _arm(column) for arm, column in scores.items()},
            "transfer_vs_small": _versus(right, "transfer", "small"),
            "transfer_vs_control": _versus(right, "transfer", "control"),
            "gap_recovered": gap,
        }


def _arm(scores: Sequence[Score]) -> dict[str, Any]:
    n = len(scores)
    figures: dict[str, Any] = {
        **_accuracy(s.right for s in scores),
        "n": n,
        "malformed": sum(s.malformed for s in scores),
        "mentioned": sum(s.mentioned for s in scores) / n,
    }
    lettered = [s for s in scores if s.voicebench is not None]
    if lettered:
        logits = [s.logit for s in lettered if s.logit is not None]
        figures["letters"] = {
            "n": len(lettered),
            "strict": _accuracy(s.right for s in lettered),
            "voicebench": {
                **_accuracy(bool(s.voicebench) for s in lettered),
                "guessed": sum(not s.voicebench_read for s in lettered),
            },
            "letter_logit": _accuracy(logits) if len(logits) == len(lettered) else None,
        }
    return figures


def _accuracy(right: Iterable[bool]) -> dict[str, Any]:
    marks = list(right)
    estimate = statistics.wilson(sum(marks), len(marks))
    return {"accuracy": estimate.value, "ci95": [estimate.low, estimate.high]}


def _versus(right: Mapping[str, NDArray[np.bool_]], first: str, second: str) -> dict[str, Any] | None:
    if first not in right or second not in right:
        return None
    test = statistics.compare(right[first], right[second])
    return {
        "fixed": test.fixed,
        "regressed": test.regressed,
        "mcnemar_one_sided": test.one_sided,
        "mcnemar_two_sided": test.two_sided,
        "difference": _estimate(statistics.difference(right[first], right[second])),
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "ci95": [estimate.low, estimate.high]}


def _speed(found: Sequence[RawRecord]) -> dict[str, float | None]:
    """Medians over a run's own answers: no warm-up is dropped and lengths differ, so `speed` is for claims."""
    columns = {f.name: [v for r in found if (v := getattr(r.timings, f.name)) is not None] for f in fields(Timings)}
    return {name: median(values) if values else None for name, values in columns.items()}


def table(result: Mapping[str, Any]) -> str:
    """A report as plain text for people."""
    out: list[str] = []
    for f in result["finals"]:
        out.append(f"final {f['seal']} (run {f['run']}), {f['n']} questions")
        for title, part in (("all", f), ("facts outside every fit", f["outside_every_fit"])):
            if part is not None:
                out += _lines(title, part)
        out.append("")
    out += [
        f"run {u['run']} on {u['seal']} is unfinished: {u['missing']} answers are missing" for u in result["unfinished"]
    ]
    return "\n".join(out).rstrip() or "no final has been run yet"


def _lines(title: str, part: Mapping[str, Any]) -> list[str]:
    out = [
        f"  {title} (n = {part['n']})",
        f"    {'arm':<10} {'right':>7}  {'95 % interval':<17} {'malformed':>9} {'mentioned':>9}",
    ]
    for arm, a in part["arms"].items():
        low, high = a["ci95"]
        out.append(
            f"    {arm:<10} {a['accuracy']:>7.1%}  {f'{low:.1%} to {high:.1%}':<17} "
            f"{a['malformed']:>9} {a['mentioned']:>9.1%}"
        )
        if letters := a.get("letters"):
            logit = "-" if letters["letter_logit"] is None else f"{letters['letter_logit']['accuracy']:.1%}"
            out.append(
                f"      letters (n = {letters['n']}): strict {letters['strict']['accuracy']:.1%}, "
                f"VoiceBench rule {letters['voicebench']['accuracy']:.1%} "
                f"({letters['voicebench']['guessed']} guessed), letter logit {logit}"
            )
    for other in ("small", "control"):
        if v := part[f"transfer_vs_{other}"]:
            out.append(
                f"    transfer against {other}: {v['fixed']} fixed, {v['regressed']} regressed, McNemar exact "
                f"p = {v['mcnemar_one_sided']:.3g} one-sided, {v['mcnemar_two_sided']:.3g} two-sided"
            )
    if gap := part["gap_recovered"]:
        low, high = ("unbounded" if bound is None else f"{bound:.1%}" for bound in gap["ci95"])
        value = "no gap" if gap["value"] is None else f"{gap['value']:.1%} (95 % interval {low} to {high})"
        out.append(f"    gap recovered: {value}")
    return out


def plot(result: Mapping[str, Any], path: Path) -> None:
    """Draw accuracies with their intervals, a panel a final, all rows beside facts outside every fit.

    Raises:
        MissingExtra: matplotlib is not installed.
        BadInput: there is no final to draw.
    """
    try:
        from matplotlib.figure import Figure  # no pyplot: no display is wanted
    except ModuleNotFoundError as error:
        raise MissingExtra("matplotlib", "plots", "drawing a report") from error
    finals = result["finals"]
    if not finals:
        raise BadInput("no final has been run yet, so there is nothing to draw; run one first.")
    figure = Figure(figsize=(1.5 + 5 * len(finals), 4.2), layout="constrained")
    for i, f in enumerate(finals):
        axes = figure.add_subplot(1, len(finals), i + 1)
        parts = [("all", f), ("outside every fit", f["outside_every_fit"])]
        for shift, (label, part) in zip((-0.2, 0.2), parts, strict=True):
            if part is None:
                continue
            arms = list(part["arms"])
            value = np.array([part["arms"][a]["accuracy"] for a in arms])
            ci = np.array([part["arms"][a]["ci95"] for a in arms])  # (arms, 2)
            spread = np.abs(ci.T - value)  # (2, arms)
            axes.bar(
                np.arange(len(arms)) + shift, value, 0.38, yerr=spread, capsize=3, label=f"{label} (n = {part['n']})"
            )
        axes.set_xticks(range(len(f["arms"])), list(f["arms"]))
        axes.set_ylim(0, 1)
        axes.set_ylabel("answers right, with 95 % interval")
        axes.set_title(f["seal"])
        axes.legend()
    figure.savefig(path, dpi=120)
