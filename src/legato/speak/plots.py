"""Pictures of a training and of a round. They draw what they are given and compute nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHECKS = ("held", "another's state")  # what only some lines of a log have


def figure(columns: int, purpose: str, width: float = 5, height: float = 4) -> Figure:
    """Raises: MissingExtra without matplotlib."""
    try:
        from matplotlib.figure import Figure  # no pyplot: no display is wanted
    except ModuleNotFoundError as error:
        raise MissingExtra("matplotlib", "plots", purpose) from error
    return Figure(figsize=(width * columns, height), layout="constrained")


def training(log: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Losses of a training; the held one beside what another frame's state gives, which must lie clearly above.

    Raises: MissingExtra without matplotlib.
    """
    drawn = figure(2, "drawing a training")
    loss, held = drawn.add_subplot(1, 2, 1), drawn.add_subplot(1, 2, 2)
    for name in ("flow", "distilled"):
        loss.plot([e["step"] for e in log], [e[name] for e in log], label=name)
    checks = [e for e in log if CHECKS[0] in e]
    for name, label in zip(CHECKS, ("own state", "another frame's state"), strict=True):
        held.plot([e["step"] for e in checks], [e[name] for e in checks], marker="o", label=label)
    loss.set_ylabel("loss, training frames")
    held.set_ylabel("flow loss, held frames, no past")
    for axes in (loss, held):
        axes.set_xlabel("step")
        axes.legend()
    drawn.savefig(path, dpi=120)


def round_(log: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Every figure of a round's log in a panel of its own. Raises: MissingExtra without matplotlib."""
    names = [name for name in log[-1] if name not in ("step", "examples_per_s")]
    drawn = figure(len(names), "drawing a round", width=3.2, height=3)
    for n, name in enumerate(names, 1):
        axes = drawn.add_subplot(1, len(names), n)
        shown = [e for e in log if name in e]
        axes.plot([e["step"] for e in shown], [e[name] for e in shown])
        axes.set_title(name)
        axes.set_xlabel("step")
    drawn.savefig(path, dpi=120)
