"""Warble: how much the pitch trembles 3 to 10 times a second beyond what the reference's does, in cents.

Melody is slower than 3 Hz and a pitch tracker's jitter is faster than 10 Hz, so what lies between is what an ear calls
a warble. Two renderings of one run have the same melody, and their difference is filtered; `wobble` measures one
recording alone, whose natural vibrato it cannot tell from a fault.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legato.audio import Audio
from legato.evaluate.instruments import grid, praat

LOW, HIGH = 3.0, 10.0  # Hz
SHORTEST_RUN = 0.35  # s: one period of the slowest wobble
OCTAVE_SLIP = 600.0  # cents: a larger difference is the tracker's octave error, not a tremble


@dataclass(frozen=True)
class Warble:
    """cents: RMS of the 3-10 Hz part of the pitch difference (a vibrato of amplitude a gives about 0.7 a).
    seconds: of voice it was measured on, in `runs` stretches of at least 0.35 s."""

    cents: float
    seconds: float
    runs: int


@dataclass(frozen=True)
class Contours:
    """Pitch of both over time, and what of their difference is warble.

    times: (N,) s. reference, test: (N,) Hz, NaN without voice. band: (N,) cents, NaN outside the measured stretches.
    """

    times: NDArray[np.float64]
    reference: NDArray[np.float64]
    test: NDArray[np.float64]
    band: NDArray[np.float64]


def contours(reference: Audio, test: Audio) -> Contours:
    """Raises BadInput as `grid.pair` does, and MissingExtra without parselmouth."""
    a, b = grid.pair(reference, test)
    times, hertz = praat.pitch(a)
    _, other = praat.pitch(b)
    return Contours(times, hertz, other, _band(_cents(other, hertz), OCTAVE_SLIP))


def warble(reference: Audio, test: Audio) -> Warble | None:
    """None where no stretch of 0.35 s is voiced in both. Raises as `contours` does."""
    return _summary(contours(reference, test).band)


def wobble(audio: Audio) -> Warble | None:
    """The same band of one recording's own pitch. Raises as `contours` does."""
    _, hertz = praat.pitch(grid.speech(audio))
    middle = np.nanmedian(hertz) if np.isfinite(hertz).any() else np.nan
    return _summary(_band(_cents(hertz, middle), np.inf))


def _cents(hertz: NDArray[np.float64], base: NDArray[np.float64] | float) -> NDArray[np.float64]:
    return 1200 * np.log2(hertz / base)


def _band(cents: NDArray[np.float64], most: float) -> NDArray[np.float64]:
    """The 3-10 Hz part of every long stretch of a contour (N,), with no shift in time; NaN elsewhere."""
    from scipy.signal import butter, sosfiltfilt

    filter_ = butter(2, (LOW, HIGH), "bandpass", fs=1 / praat.PITCH_STEP, output="sos")
    out = np.full_like(cents, np.nan)
    for first, end in grid.runs(np.isfinite(cents) & (np.abs(cents) < most)):
        if end - first >= round(SHORTEST_RUN / praat.PITCH_STEP):
            part = cents[first:end]
            out[first:end] = sosfiltfilt(filter_, part - part.mean())
    return out


def _summary(band: NDArray[np.float64]) -> Warble | None:
    measured = np.isfinite(band)
    if not measured.any():
        return None
    return Warble(grid.rms(band[measured]), float(measured.sum()) * praat.PITCH_STEP, len(grid.runs(measured)))
