"""Pauses of at least 200 ms: how many, how long, whose they are; and whether quiet passages are rendered too quiet.

A pause is where the level stays 40 dB below the voice's speaking level. Silence before the first and after the last
sound is not a pause. Hiss above that level hides every pause: then `split` shows planned silence that was filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legato.audio import Audio
from legato.errors import BadInput
from legato.evaluate.instruments import grid

BELOW = 40.0  # dB under the speaking level
SHORTEST = 0.2  # s: a stop's closure is shorter
QUIET = (35.0, 15.0)  # dB under the speaking level: where words fade in and out
_STEP = grid.FINE / grid.RATE


@dataclass(frozen=True)
class Pauses:
    """spans: (start, end) in s of each pause. before, after: s of silence around the speech. threshold: dBFS."""

    spans: tuple[tuple[float, float], ...]
    before: float
    after: float
    threshold: float

    @property
    def lengths(self) -> tuple[float, ...]:
        return tuple(end - start for start, end in self.spans)

    @property
    def total(self) -> float:
        """s"""
        return float(sum(self.lengths))


@dataclass(frozen=True)
class PauseDifference:
    """Test against reference. count, total (s): test minus reference. distance: s, how far lengths have to be moved to
    turn one distribution into the other (first Wasserstein), None where one has no pause. transition: dB, mean of test
    minus reference where the reference is quiet but not silent (negative: fades are swallowed), None where it never
    is."""

    count: int
    total: float
    distance: float | None
    transition: float | None


@dataclass(frozen=True)
class Split:
    """Whose the silence is, in s. pacing: silent as the text stream planned, or in both renderings. rendering: pauses
    in frames that were to carry a word. filled: planned silence between words in which there is sound."""

    pacing: float
    rendering: float
    filled: float


def pauses(audio: Audio) -> Pauses:
    """Raises BadInput for audio that `grid.speech` refuses."""
    samples = grid.speech(audio)
    threshold = grid.speaking_level(samples) - BELOW
    silent = grid.runs(grid.levels(samples, grid.FINE) < threshold)
    steps = len(samples) // grid.FINE
    before = silent[0][1] if silent and silent[0][0] == 0 else 0
    after = silent[-1][1] - silent[-1][0] if silent and silent[-1][1] == steps else 0
    inner = [(a, b) for a, b in silent if a > 0 and b < steps and b - a >= round(SHORTEST / _STEP)]
    return Pauses(tuple((a * _STEP, b * _STEP) for a, b in inner), before * _STEP, after * _STEP, threshold)


def compare(reference: Audio, test: Audio) -> PauseDifference:
    """Two renderings of the same frames. Raises BadInput as `grid.pair` does."""
    from scipy.stats import wasserstein_distance

    a, b = grid.pair(reference, test)
    first, second = pauses(reference), pauses(test)
    known = first.spans and second.spans
    level, other = grid.levels(a, grid.FINE), grid.levels(b, grid.FINE)
    speaking = grid.speaking_level(a)
    quiet = (level >= speaking - QUIET[0]) & (level <= speaking - QUIET[1])
    return PauseDifference(
        len(second.spans) - len(first.spans),
        second.total - first.total,
        float(wasserstein_distance(first.lengths, second.lengths)) if known else None,
        float((other - level)[quiet].mean()) if quiet.any() else None,
    )


def shared(reference: Audio, test: Audio) -> Split:
    """Divide the test's pauses by another rendering of the same frames: what is silent in both is the pacing.

    rendering: silent in the test alone; filled: silent in the reference alone. Raises BadInput as `grid.pair` does.
    """
    a, _ = grid.pair(reference, test)
    masks = [np.zeros(len(a) // grid.FINE, dtype=bool) for _ in range(2)]
    for mask, audio in zip(masks, (reference, test), strict=True):
        for start, end in pauses(audio).spans:
            mask[round(start / _STEP) : round(end / _STEP)] = True
    first, second = masks
    return Split(*(float(part.sum()) * _STEP for part in (first & second, ~first & second, first & ~second)))


def planned(words: Sequence[tuple[int, int]], frames: int, lead: int) -> NDArray[np.bool_]:
    """Codec frames (F,) in which no word is to sound.

    Args:
        words: (step, steps) of each word in the text stream: when it began, and how many frames it takes.
        frames: F. lead: steps by which text precedes its sound.
    """
    silent = np.ones(frames, dtype=bool)
    for step, steps in words:
        silent[max(0, step + lead) : max(0, step + lead + steps)] = False
    return silent


def split(audio: Audio, plan: NDArray[np.bool_]) -> Split:
    """Divide the pauses between the backbone, which paces, and the renderer.

    plan: (F,) True where the text stream planned silence, one a codec frame of 80 ms; the silence it plans before the
    first and after the last word counts for nothing.

    Raises:
        BadInput: audio that `grid.speech` refuses, or a plan whose length is not the audio's.
    """
    samples = grid.speech(audio)
    frames = len(samples) / grid.CODEC
    if abs(len(plan) - frames) > 1:
        raise BadInput(
            f"the plan has {len(plan)} frames and the audio {frames:.1f}; give one entry for each codec frame."
        )
    steps = len(samples) // grid.FINE
    quiet = np.repeat(np.asarray(plan, dtype=bool), grid.CODEC // grid.FINE)
    quiet = np.pad(quiet, (0, max(0, steps - len(quiet))), constant_values=True)[:steps]  # (N,) 10 ms steps
    spoken = np.flatnonzero(~quiet)
    within = np.zeros(steps, dtype=bool)
    if len(spoken):
        within[spoken[0] : spoken[-1]] = True
    heard = pauses(audio)
    silent = np.zeros(steps, dtype=bool)
    for start, end in heard.spans:
        silent[round(start / _STEP) : round(end / _STEP)] = True
    sound = grid.levels(samples, grid.FINE) >= heard.threshold
    return Split(
        float((silent & quiet).sum()) * _STEP,
        float((silent & ~quiet).sum()) * _STEP,
        float((sound & quiet & within).sum()) * _STEP,
    )
