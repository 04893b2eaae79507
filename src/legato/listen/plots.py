"""Pictures of a fit, of a training and of a sweep. They draw what they are given and compute nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from legato.listen.fit import FitReport


def _figure(columns: int, purpose: str) -> Figure:
    try:
        from matplotlib.figure import Figure  # no pyplot: no display is wanted
    except ModuleNotFoundError as error:
        raise MissingExtra("matplotlib", "plots", purpose) from error
    return Figure(figsize=(5 * columns, 4), layout="constrained")


def r2(report: FitReport, path: Path) -> None:
    """What a map explains on held questions: keys and values of each target layer, a panel for each part of the prompt.

    Raises: MissingExtra without matplotlib.
    """
    figure = _figure(len(report.r2), "drawing a fit")
    for i, (part, layers) in enumerate(report.r2.items()):
        axes = figure.add_subplot(1, len(report.r2), i + 1)
        for name, values in zip(("keys", "values"), zip(*layers, strict=True), strict=True):
            axes.plot(range(len(values)), values, marker="o", label=name)
        axes.set_title(f"{part}, target {report.target}, lambda {report.lam:g}")
        axes.set_xlabel("layer of the small model")
        axes.set_ylabel("R2 on held questions")
        axes.set_ylim(top=1.0)
        axes.legend()
    figure.savefig(path, dpi=120)


def training(log: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Loss of a training, and how often it says what the large model says.

    Raises: MissingExtra without matplotlib.
    """
    figure = _figure(2, "drawing a training")
    loss, agreed = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    loss.plot([e["step"] for e in log], [e["loss"] for e in log])
    loss.set_xlabel("step")
    loss.set_ylabel("answer loss")
    checks = [e for e in log if "evaluation" in e]
    agreed.plot([e["step"] for e in checks], [e["evaluation"]["agreement"] for e in checks], marker="o")
    agreed.set_xlabel("step")
    agreed.set_ylabel("says what the large model says, held questions")
    agreed.set_ylim(0, 1)
    figure.savefig(path, dpi=120)


@dataclass(frozen=True)
class Swept:
    """One trained residual of a sweep: hidden units a layer (None: a full linear map), questions, share right."""

    rank: int | None
    questions: int
    accuracy: float


def sweep(points: Sequence[Swept], beside: Mapping[str, float], path: Path) -> None:
    """Accuracy against how many questions a residual was trained on, and against its rank on the most questions.

    Args:
        beside: what is drawn as level lines: accuracy of the arms that have neither.

    Raises: MissingExtra without matplotlib.
    """
    figure = _figure(2, "drawing a sweep")
    data, ranks = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    order = sorted({p.rank for p in points}, key=lambda rank: rank or 10**9)
    for rank in order:
        line = sorted((p.questions, p.accuracy) for p in points if p.rank == rank)
        data.plot(*zip(*line, strict=True), marker="o", label="full map" if rank is None else f"rank {rank}")
    data.set_xscale("log")
    data.set_xlabel("questions trained on")
    most = max(p.questions for p in points)
    reached = {p.rank: p.accuracy for p in points if p.questions == most}
    shown = [rank for rank in order if rank in reached]
    ranks.plot(range(len(shown)), [reached[rank] for rank in shown], marker="o")
    ranks.set_xticks(range(len(shown)), ["full" if rank is None else str(rank) for rank in shown])
    ranks.set_xlabel(f"rank, trained on {most:,} questions")
    for axes in (data, ranks):
        for n, (name, level) in enumerate(beside.items()):
            axes.axhline(level, color=f"C{n + 4}", linestyle="--", label=name)
        axes.set_ylabel("right, selection questions")
        axes.set_ylim(0, 1)
    data.legend(fontsize="small")
    figure.savefig(path, dpi=120)
