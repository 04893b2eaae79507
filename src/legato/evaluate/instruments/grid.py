"""What all instruments share: which audio they take, and its level in steps of 80 ms (the codec's) or of 10 ms."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from legato.audio import SILENCE_DBFS, Audio, loudness_dbfs
from legato.errors import BadInput

RATE = 24_000  # Hz: the codecs' own; a harmonics-to-noise ratio at another bandwidth is another figure
CODEC, FINE = 1920, 240  # samples a step: one codec frame (80 ms), and 10 ms
SHORTEST = 0.1  # s: less than three periods of a deep voice and one step of the codec
FLOOR = -100.0  # dBFS: where levels stop, so that one frame of digital silence does not rule a mean


def wave(audio: Audio, name: str = "the audio") -> NDArray[np.float64]:
    """The samples (S,) of one voice.

    Raises:
        BadInput: not 24 kHz, not one channel, or shorter than 0.1 s; `name` begins the sentence.
    """
    if audio.rate != RATE:
        raise BadInput(f"{name} has {audio.rate:,} samples a second, not {RATE:,}; resample it with Audio.resample.")
    if audio.samples.shape[0] != 1:
        raise BadInput(f"{name} has {audio.samples.shape[0]} channels; mix it down with Audio.mono.")
    if audio.seconds < SHORTEST:
        raise BadInput(f"{name} is {audio.seconds:.3f} s long; an instrument needs at least {SHORTEST:g} s.")
    return audio.samples[0].astype(np.float64)


def speech(audio: Audio, name: str = "the audio") -> NDArray[np.float64]:
    """As `wave`, of audio in which there is something to hear. Raises BadInput for silence too."""
    samples = wave(audio, name)
    if loudness_dbfs(audio) < SILENCE_DBFS:
        raise BadInput(f"{name} is silent, so there is nothing to measure; render it again.")
    return samples


def pair(reference: Audio, test: Audio) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both waves, cut to the shorter: two renderings of the same frames.

    Raises:
        BadInput: one cannot be measured, or their lengths differ by more than one codec frame (then they are not of
            one run, and comparing them moment by moment says nothing).
    """
    a, b = speech(reference, "the reference"), speech(test, "the test")
    if abs(len(a) - len(b)) > CODEC:
        raise BadInput(
            f"the reference lasts {reference.seconds:.2f} s and the test {test.seconds:.2f} s; "
            "give two renderings of the same frames."
        )
    n = min(len(a), len(b))
    return a[:n], b[:n]


def levels(samples: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """RMS of each whole step of `step` samples (N,), in dB below a full-scale square wave; -100 at the lowest."""
    n = len(samples) // step
    power = np.square(samples[: n * step]).reshape(n, step).mean(axis=1)
    return np.maximum(10 * np.log10(np.maximum(power, 1e-30)), FLOOR)


def speaking_level(samples: NDArray[np.float64]) -> float:
    """How loud this voice speaks, dBFS: the level that only 5 % of the 10 ms steps pass."""
    return float(np.percentile(levels(samples, FINE), 95))


def runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(first, end) of every stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def rms(values: NDArray[np.float64]) -> float:
    return math.sqrt(float(np.mean(np.square(values))))
