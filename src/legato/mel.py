"""Mel filters: from bins of a spectrum to bands as wide as the ear tells apart."""

from __future__ import annotations

import numpy as np


def mel_filters(mels: int, bins: int, rate: int) -> np.ndarray:
    """Triangular mel filters of equal area on Slaney's scale, (mels, bins) float32, 0 Hz to half the rate.

    The scale is linear to 1 kHz (200/3 Hz a mel) and logarithmic above (27 mels for a factor of 6.4), after the
    Auditory Toolbox (Slaney, 1998).
    """
    knee, step = 1000.0, np.log(6.4) / 27
    linear = 200 / 3
    top = knee / linear + np.log(rate / 2 / knee) / step
    mel = np.linspace(0.0, top, mels + 2)
    edges = np.where(mel < knee / linear, mel * linear, knee * np.exp(step * (mel - knee / linear)))  # (mels + 2,) Hz
    bin_hz = np.linspace(0.0, rate / 2, bins)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rise = (bin_hz - low) / (centre - low)
    fall = (high - bin_hz) / (high - centre)
    return (np.maximum(0.0, np.minimum(rise, fall)) * 2 / (high - low)).astype(np.float32)
