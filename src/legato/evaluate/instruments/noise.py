"""Noise in the voice: how many dB of harmonics-to-noise ratio the test lacks where both have a voice.

A ratio taken over all frames rewards a rendering that drops its difficult ones, so only frames that are voiced in both
are compared, and the share that lost its voice is told beside. What the codec itself costs is measured by handing in
its own round trip as the test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legato.audio import Audio
from legato.evaluate.instruments import grid, praat


@dataclass(frozen=True)
class Noise:
    """deficit: dB, mean of reference minus test (positive: the test is noisier), over `frames` steps of 10 ms.
    reference, test: dB, mean ratio of each on these frames. lost: share (0 to 1) of the reference's voiced frames that
    have no voice in the test."""

    deficit: float
    reference: float
    test: float
    frames: int
    lost: float


@dataclass(frozen=True)
class Ratios:
    """times: (N,) s. reference, test: (N,) dB, NaN where that one has no voice."""

    times: NDArray[np.float64]
    reference: NDArray[np.float64]
    test: NDArray[np.float64]


def ratios(reference: Audio, test: Audio) -> Ratios:
    """Raises BadInput as `grid.pair` does, and MissingExtra without parselmouth."""
    found = []
    for samples in grid.pair(reference, test):
        times, db = praat.harmonicity(samples)
        found.append(np.where(praat.voiced_at(times, samples), db, np.nan))
    return Ratios(times, *found)


def noise(reference: Audio, test: Audio) -> Noise | None:
    """None where no frame is voiced in both. Raises as `ratios` does."""
    r = ratios(reference, test)
    own = np.isfinite(r.reference)
    both = own & np.isfinite(r.test)
    if not both.any():
        return None
    a, b = r.reference[both].mean(), r.test[both].mean()
    return Noise(float(a - b), float(a), float(b), int(both.sum()), float(1 - both.sum() / own.sum()))


def ratio(audio: Audio) -> float | None:
    """dB, mean harmonics-to-noise ratio of one recording's own voiced frames; None without any.

    Between recordings of the same sentence in the same voice it can be compared; frame by frame it cannot. Raises
    BadInput as `grid.speech` does, and MissingExtra without parselmouth.
    """
    samples = grid.speech(audio)
    times, db = praat.harmonicity(samples)
    voiced = db[praat.voiced_at(times, samples) & np.isfinite(db)]
    return float(voiced.mean()) if len(voiced) else None
