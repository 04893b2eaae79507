"""Pictures of a fit and of a training. They draw what they are given and compute nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
