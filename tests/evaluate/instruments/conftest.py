"""Sounds with a known answer: a harmonic voice with a vibrato, noise, level steps and silences put in on purpose."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from legato.audio import Audio

RATE = 24_000


def voice(seconds: float = 2.0, cents: float = 0.0, hertz: float = 6.0, f0: float = 140.0) -> np.ndarray:
    """(S,) a voiced sound whose pitch swings by `cents` to either side, `hertz` times a second."""
    t = np.arange(round(seconds * RATE)) / RATE
    pitch = f0 * 2 ** (cents / 1200 * np.sin(2 * np.pi * hertz * t))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    sound = sum(np.sin(k * phase) / k for k in range(1, 15))
    return 0.3 * sound / np.abs(sound).max()


def hiss(n: int, rms: float) -> np.ndarray:
    """(n,) white noise of this RMS."""
    return rms * np.random.default_rng(0).standard_normal(n)


def quiet(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * RATE))


def audio(*parts: np.ndarray, rate: int = RATE) -> Audio:
    return Audio(np.concatenate(parts).astype(np.float32)[None], rate)


@pytest.fixture
def sounds() -> SimpleNamespace:
    return SimpleNamespace(voice=voice, hiss=hiss, quiet=quiet, audio=audio)
