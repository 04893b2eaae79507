"""Pitch and harmonics-to-noise ratio over time, by Praat (through parselmouth; GPL-3, so it is an extra).

Boersma, "Accurate short-term analysis of the fundamental frequency and the harmonics-to-noise ratio of a sampled
sound" (1993). Nothing here compares.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from legato.errors import MissingExtra
from legato.evaluate.instruments.grid import RATE

PITCH_STEP, HARMONICITY_STEP = 0.005, 0.01  # s
LOWEST, HIGHEST = 75.0, 500.0  # Hz: Praat's usual range for grown-up voices
_SILENT = -200.0  # what Praat writes for a frame without a period


def _parselmouth() -> ModuleType:
    try:
        import parselmouth
    except ModuleNotFoundError as error:
        raise MissingExtra("praat-parselmouth", "instruments", "measuring pitch and voice noise") from error
    return parselmouth


def pitch(samples: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times (N,) in s, every 5 ms, and pitch (N,) in Hz; NaN where there is no voice.

    samples: (S,) at 24 kHz, at least 0.1 s. Raises MissingExtra without parselmouth.
    """
    sound = _parselmouth().Sound(samples, RATE)
    found = sound.to_pitch_ac(time_step=PITCH_STEP, pitch_floor=LOWEST, pitch_ceiling=HIGHEST)
    hertz = np.array(found.selected_array["frequency"], dtype=np.float64)
    return np.array(found.xs()), np.where(hertz > 0, hertz, np.nan)


def harmonicity(samples: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times (N,) in s, every 10 ms, and the energy of the periodic part over the rest (N,) in dB; NaN where quiet.

    samples: (S,) at 24 kHz, at least 0.1 s. Raises MissingExtra without parselmouth.
    """
    sound = _parselmouth().Sound(samples, RATE)
    found = sound.to_harmonicity_cc(
        time_step=HARMONICITY_STEP, minimum_pitch=LOWEST, silence_threshold=0.1, periods_per_window=1.0
    )
    db = np.array(found.values[0], dtype=np.float64)
    return np.array(found.xs()), np.where(db > _SILENT, db, np.nan)


def voiced_at(times: NDArray[np.float64], samples: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Is there a voice at these times (N,)? By the nearest pitch frame; outside the analysed part there is none."""
    at, hertz = pitch(samples)
    nearest = np.rint((times - at[0]) / PITCH_STEP).astype(int)
    inside = (nearest >= 0) & (nearest < len(hertz))
    return inside & ~np.isnan(hertz[nearest.clip(0, len(hertz) - 1)])
