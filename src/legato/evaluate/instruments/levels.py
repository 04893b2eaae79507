"""Level frame by frame against the reference, clicks where chunks were joined, and what is wrong at the very end.

A click is a step in the wave that its surroundings do not have. The fourth difference shows it: a step of height h
gives at most 3 h there, while smooth sound nearly vanishes. Loud hiss can hide a click from this, as from the ear.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legato.audio import Audio
from legato.errors import BadInput
from legato.evaluate.instruments import grid

SOFTEST = 1e-3  # full scale: a step 60 dB below it; softer ones are rounding and nobody hears them
SHARPER = 3.0  # times the largest fourth difference around it
AROUND = 360  # samples on either side (15 ms): a deep voice's previous pulse is among them
SPEAKING = 30.0  # dB under the speaking level: above it a frame counts as speech
STATIC_LONGEST = 0.3  # s: a final s or sh is shorter
STATIC_WITHIN = 15.0  # dB under the speaking level
FLAT = 0.3  # geometric over arithmetic mean of a power spectrum: 0.56 for white noise, near 0 for a voice
CUT_WITHIN = 20.0  # dB under the speaking level, in the last 10 ms
_BLOCK = 480  # samples: spectra of 20 ms


@dataclass(frozen=True)
class LevelTrace:
    """Levels in dBFS on one grid. reference, test: (N,). step: s. offset: dB, mean of test minus reference over frames
    in which the reference speaks; spread: dB, RMS around it; worst: (s, dB) of the frame that is furthest off it."""

    reference: NDArray[np.float64]
    test: NDArray[np.float64]
    step: float
    offset: float
    spread: float
    worst: tuple[float, float]


@dataclass(frozen=True)
class Click:
    """sample: of the join. height: of the step, full scale 1. ratio: how much sharper than anything 15 ms around."""

    sample: int
    height: float
    ratio: float


@dataclass(frozen=True)
class Ending:
    """level: dB, the last 10 ms against the speaking level. static: s of loud noise at the very end.
    is_static: longer than any final consonant. is_cut: the sound stops in full voice."""

    level: float
    static: float
    is_static: bool
    is_cut: bool


def trace(reference: Audio, test: Audio, step: int = grid.CODEC) -> LevelTrace:
    """Both levels on the codec's grid, or with `grid.FINE` on that of 10 ms. Raises BadInput as `grid.pair` does."""
    a, b = grid.pair(reference, test)
    first, second = grid.levels(a, step), grid.levels(b, step)
    speaks = first > np.percentile(first, 95) - SPEAKING
    difference = second - first
    offset = float(difference[speaks].mean())
    off = np.where(speaks, np.abs(difference - offset), -1.0)
    at = int(off.argmax())
    return LevelTrace(
        first,
        second,
        step / grid.RATE,
        offset,
        grid.rms(difference[speaks] - offset),
        (at * step / grid.RATE, float(difference[at] - offset)),
    )


def clicks(audio: Audio, joins: Iterable[int] | None = None) -> tuple[Click, ...]:
    """The joins at which there is a click.

    joins: the samples at which a chunk begins, 0 to S (0 and S: against the silence before and after); every codec
    frame, beginning and end if not given. Raises BadInput as `grid.wave` does, and for a join outside the audio.
    """
    samples = grid.wave(audio)
    n = len(samples)
    places = [*range(0, n, grid.CODEC), n] if joins is None else list(joins)
    if wrong := [j for j in places if not 0 <= j <= n]:
        raise BadInput(f"join {wrong[0]:,} lies outside the {n:,} samples; give places from 0 to {n:,}.")
    pad = AROUND + 4
    sharp = np.abs(np.diff(np.pad(samples, pad), 4))  # sharp[i] sees padded samples i..i+4
    found = []
    for join in places:
        # a step before padded sample p shows in the differences that span it: i from p-4 to p-1
        p = join + pad
        here = sharp[p - 4 : p]
        around = np.concatenate((sharp[p - AROUND - 4 : p - 4], sharp[p : p + AROUND]))
        height = float(here.max()) / 3
        ratio = float(here.max()) / max(float(around.max()), 3e-6)
        if height > SOFTEST and ratio > SHARPER:
            found.append(Click(join, height, ratio))
    return tuple(found)


def ending(audio: Audio) -> Ending:
    """How the audio stops. Raises BadInput as `grid.speech` does."""
    samples = grid.speech(audio)
    speaking = grid.speaking_level(samples)
    blocks = samples[len(samples) % _BLOCK :].reshape(-1, _BLOCK)  # (N, 480), ending with the audio
    spectrum = np.square(np.abs(np.fft.rfft(blocks * np.hanning(_BLOCK), axis=1)))[:, 1:-1] + 1e-20
    flatness = np.exp(np.log(spectrum).mean(axis=1)) / spectrum.mean(axis=1)
    loud = grid.levels(blocks.reshape(-1), _BLOCK) > speaking - STATIC_WITHIN
    noisy = loud & (flatness > FLAT)
    blocks_of_noise = int(np.argmin(noisy[::-1])) if not noisy.all() else len(noisy)
    static = blocks_of_noise * _BLOCK / grid.RATE
    level = float(grid.levels(samples[-grid.FINE :], grid.FINE)[0]) - speaking
    is_static = static > STATIC_LONGEST
    return Ending(level, static, is_static, level > -CUT_WITHIN and not is_static)
