"""Two recordings of one sentence made comparable: equally long, equally loud by ITU-R BS.1770, no click at the ends.

The louder of two equal recordings is liked better, so a comparison without this says nothing. Measuring is
pyloudnorm's; nothing else of the sound is touched.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from legato.audio import SILENCE_DBFS, Audio, loudness_dbfs
from legato.errors import BadInput, MissingExtra

TARGET_LUFS = -23.0  # EBU R 128; quiet enough that a normal voice's peaks stay below full scale
PEAK = 0.95  # full scale is 1; a pair that would pass it is made quieter, both members by the same step
BLOCK_S = 0.4  # BS.1770 measures in blocks of this length
FADE_S = 0.005  # where the longer one is cut


def lufs(audio: Audio) -> float:
    """Integrated loudness of the mono mix by BS.1770-4; a clip shorter than one block is measured as if it filled it.

    Raises:
        MissingExtra: pyloudnorm is not installed.
        BadInput: there is nothing to hear.
    """
    try:
        import pyloudnorm
    except ModuleNotFoundError as error:
        raise MissingExtra("pyloudnorm", "serve", "matching the loudness of a listening sheet") from error
    if loudness_dbfs(audio) < SILENCE_DBFS:
        raise BadInput("it is silent")
    wave = audio.mono().samples[0].astype(np.float64)  # (samples,)
    block = math.ceil(BLOCK_S * audio.rate)
    if len(wave) < block:
        wave = np.resize(wave, block)  # over and over: the level of the sound, not of the silence around it
    with np.errstate(divide="ignore"):  # blocks of digital silence are minus infinity, and gated out
        value = float(pyloudnorm.Meter(audio.rate, block_size=BLOCK_S).integrated_loudness(wave))
    if not math.isfinite(value):
        raise BadInput("it is silent")
    return value


def match(a: Audio, b: Audio) -> tuple[Audio, Audio]:
    """Both as mono, cut to the shorter one's length, each brought to the same loudness; two of the same rate.

    Raises:
        BadInput: one of them holds nothing to hear; the message says which ("the first", "the second").
    """
    assert a.rate == b.rate
    n = min(a.samples.shape[1], b.samples.shape[1])
    waves: list[NDArray[np.float64]] = []
    for name, audio in (("first", a), ("second", b)):
        wave = _cut(audio.mono().samples[0], n, audio.rate)
        try:
            gain = 10 ** ((TARGET_LUFS - lufs(Audio(wave[None], audio.rate))) / 20)
        except BadInput as error:
            raise BadInput(f"the {name} cannot be made as loud as the other: {error}.") from error
        waves.append(wave.astype(np.float64) * gain)
    room = min(1.0, PEAK / max(float(np.abs(wave).max()) for wave in waves))
    first, second = (Audio((wave * room).astype(np.float32)[None], a.rate) for wave in waves)
    return first, second


def _cut(wave: NDArray[np.float32], n: int, rate: int) -> NDArray[np.float32]:
    if len(wave) == n:
        return wave
    fade = min(n, round(FADE_S * rate))
    cut = wave[:n].copy()
    cut[n - fade :] *= np.linspace(1, 0, fade, dtype=np.float32)
    return cut
