"""One picture for each instrument, reference and test together. They draw what the instruments return."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from legato.errors import MissingExtra
from legato.evaluate.instruments import grid
from legato.evaluate.instruments.pauses import pauses as find_pauses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from legato.audio import Audio
    from legato.evaluate.instruments.intelligibility import Heard
    from legato.evaluate.instruments.levels import LevelTrace
    from legato.evaluate.instruments.noise import Ratios
    from legato.evaluate.instruments.rate import Rate
    from legato.evaluate.instruments.warble import Contours

_REFERENCE, _TEST, _MARK = "tab:blue", "tab:orange", "tab:red"


def intelligibility(reference: Sequence[Heard], test: Sequence[Heard], path: Path) -> None:
    """Words wrong by kind, and the score of every sentence, worst first. Raises MissingExtra without matplotlib."""
    figure = _figure(8, 4)
    kinds, scores = figure.subplots(1, 2)
    names = ("substitutions", "deletions", "insertions")
    for shift, heard, label, colour in ((-0.2, reference, "reference", _REFERENCE), (0.2, test, "test", _TEST)):
        said = sum(h.words for h in heard)
        shares = [100 * sum(getattr(h, name) for h in heard) / said for name in names]
        kinds.bar(np.arange(3) + shift, shares, 0.4, label=label, color=colour)
        scores.plot(np.arange(1, len(heard) + 1), sorted(h.score for h in heard), marker=".", label=label, color=colour)
    kinds.set(xticks=range(3), xticklabels=names, ylabel="errors, % of the words to be said")
    scores.set(xlabel="sentences, worst first", ylabel="score, 1 - word error", ylim=(-0.02, 1.02))
    kinds.legend()
    scores.legend(loc="lower right")
    figure.savefig(path, dpi=120)


def warble(found: Contours, path: Path) -> None:
    """Both pitches, and the 3-10 Hz part of their difference. Raises MissingExtra without matplotlib."""
    figure = _figure(8, 5)
    pitch, band = figure.subplots(2, 1, sharex=True)
    pitch.plot(found.times, found.reference, label="reference", color=_REFERENCE)
    pitch.plot(found.times, found.test, label="test", color=_TEST)
    pitch.set_ylabel("pitch, Hz")
    pitch.legend()
    band.plot(found.times, found.band, color=_MARK)
    band.set(xlabel="s", ylabel="3-10 Hz of the\ndifference, cents")
    figure.savefig(path, dpi=120)


def noise(found: Ratios, path: Path) -> None:
    """Harmonics-to-noise ratio of both over time. Raises MissingExtra without matplotlib."""
    figure = _figure(8, 4)
    axes = figure.subplots()
    axes.plot(found.times, found.reference, label="reference", color=_REFERENCE)
    axes.plot(found.times, found.test, label="test", color=_TEST)
    axes.set(xlabel="s", ylabel="harmonics-to-noise ratio, dB")
    axes.legend()
    figure.savefig(path, dpi=120)


def levels(found: LevelTrace, path: Path) -> None:
    """Both levels and their difference, with the worst frame. Raises MissingExtra without matplotlib."""
    figure = _figure(8, 5)
    level, difference = figure.subplots(2, 1, sharex=True)
    times = np.arange(len(found.reference)) * found.step
    level.step(times, found.reference, where="post", label="reference", color=_REFERENCE)
    level.step(times, found.test, where="post", label="test", color=_TEST)
    level.set_ylabel("dBFS")
    level.legend()
    difference.step(times, found.test - found.reference, where="post", color="grey")
    difference.axhline(found.offset, color="black", linewidth=0.8, label=f"offset {found.offset:+.1f} dB")
    at, off = found.worst
    difference.plot(at, found.offset + off, "o", color=_MARK, label=f"worst {off:+.1f} dB at {at:.2f} s")
    difference.set(xlabel="s", ylabel="test - reference, dB")
    difference.legend()
    figure.savefig(path, dpi=120)


def pauses(reference: Audio, test: Audio, path: Path) -> None:
    """Level in steps of 10 ms of each, its threshold, and its pauses shaded.

    Raises MissingExtra without matplotlib, and BadInput as `pauses.pauses` does.
    """
    figure = _figure(8, 5)
    for axes, audio, name, colour in zip(
        figure.subplots(2, 1, sharex=True, sharey=True),
        (reference, test),
        ("reference", "test"),
        (_REFERENCE, _TEST),
        strict=True,
    ):
        found = find_pauses(audio)
        level = grid.levels(grid.wave(audio), grid.FINE)
        axes.plot(np.arange(len(level)) * grid.FINE / grid.RATE, level, color=colour, linewidth=0.8)
        axes.axhline(found.threshold, color="black", linestyle=":", linewidth=0.8)
        for start, end in found.spans:
            axes.axvspan(start, end, color=_MARK, alpha=0.25, linewidth=0)
        axes.set(ylabel="dBFS", title=f"{name}: pauses {len(found.spans)}, {found.total:.2f} s in all")
    axes.set_xlabel("s")
    figure.savefig(path, dpi=120)


def rate(reference: Sequence[Rate], test: Sequence[Rate], path: Path) -> None:
    """Words a second of each sentence, one against the other. Raises MissingExtra without matplotlib."""
    figure = _figure(4.5, 4.5)
    axes = figure.subplots()
    a, b = [r.words_per_second for r in reference], [r.words_per_second for r in test]
    most = 1.1 * max(*a, *b)
    axes.plot((0, most), (0, most), color="grey", linewidth=0.8)
    axes.plot(a, b, ".", color=_TEST)
    axes.set(xlabel="reference, words a second", ylabel="test, words a second", xlim=(0, most), ylim=(0, most))
    axes.set_aspect("equal")
    figure.savefig(path, dpi=120)


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure  # no pyplot: no display is wanted
    except ModuleNotFoundError as error:
        raise MissingExtra("matplotlib", "plots", "drawing an instrument") from error
    return Figure(figsize=(width, height), layout="constrained")
