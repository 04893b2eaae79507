"""What happens to a voice on its way to the microphone: speaker bending, rooms, noises, bands, level, clipping.

All of it is numpy on 16 kHz mono float arrays, drawn from a `numpy.random.Generator`, so one seed gives one clip. The
held split draws from other rooms and other kinds of noise than training does; that is its point. What it is not: a
model of real rooms. The impulse responses are exponentially decaying noise with a few early reflections.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import soxr
from scipy.signal import butter, fftconvolve, sosfilt

RATE = 16_000

TRAIN_NOISES = ("white", "pink", "brown", "hum", "fan", "clicks", "babble")
HELD_NOISES = ("traffic", "rain", "music", "cafe")  # cafe is babble of held voices
BANDS = ("telephone", "narrow", "mulaw", "muffled")


@dataclass(frozen=True)
class Condition:
    """One drawn recording condition; None or 0 means that step is left out."""

    kind: str  # "clean" or the steps present, joined by "+": "room+noise+band+clip"
    room_ms: float | None  # RT60
    direct_db: float | None  # direct sound over reverberation
    noise: str | None
    snr_db: float | None
    band: str | None
    clip: float | None  # share of the peak that survives
    level_dbfs: float  # RMS of the active speech in the finished clip
    lead_ms: float
    tail_ms: float


def draw_condition(rng: np.random.Generator, split: str) -> Condition:
    """Draw a condition: 27 % clean; otherwise at least one of room, noise, band.

    The held split's rooms are longer than any in training and its noises of other kinds, at distances and levels at
    which Whisper base, whose encoder the ear is, still transcribes most of what is said: a clip that the whole
    recogniser cannot hear would test the synthesiser.
    """
    held = split == "held"
    room = noise = snr = direct = band = clip = None
    if rng.random() >= 0.27:
        has_room, has_noise, has_band = rng.random(3) < (0.45, 0.65, 0.35)
        if not (has_room or has_noise or has_band):
            has_noise = True
        if has_room:
            room = rng.uniform(600, 800) if held else rng.uniform(120, 600)
            direct = rng.uniform(6, 14) if held else rng.uniform(0, 14)
        if has_noise:
            noise = str(rng.choice(HELD_NOISES if held else TRAIN_NOISES))
            snr = rng.uniform(12, 30) if held else rng.uniform(7, 30)  # below 6 dB Whisper base loses most words
        if has_band:
            band = str(rng.choice(BANDS))
        if rng.random() < 0.06:
            clip = rng.uniform(0.35, 0.8)
    steps = [
        name for name, value in (("room", room), ("noise", noise), ("band", band), ("clip", clip)) if value is not None
    ]

    def short(value: float | None, digits: int = 1) -> float | None:
        return None if value is None else round(float(value), digits)

    return Condition(
        "+".join(steps) or "clean",
        short(room),
        short(direct),
        noise,
        short(snr),
        band,
        short(clip, 3),
        short(rng.uniform(-34, -16)),
        short(rng.uniform(0, 300)),
        short(rng.uniform(0, 300)),
    )  # type: ignore[arg-type]


def trim(x: np.ndarray, keep_ms: float = 40.0) -> np.ndarray:
    """Cut the silence an engine puts around its speech, leaving `keep_ms` on either side."""
    frame = RATE // 100
    energy = (x[: len(x) // frame * frame].reshape(-1, frame) ** 2).mean(1)
    loud = np.flatnonzero(energy > 1e-4 * energy.max()) if energy.size else energy
    if not loud.size:
        return x
    keep = int(keep_ms / 10)
    return x[max(0, loud[0] - keep) * frame : (loud[-1] + 1 + keep) * frame]


def warp(x: np.ndarray, rate: int, factor: float) -> np.ndarray:
    """Bring x to 16 kHz as if played `factor` times faster: pitch and formants move together, another speaker."""
    return soxr.resample(x, rate * factor, RATE, quality="MQ").astype(np.float32)


def stretch(x: np.ndarray, speed: float) -> np.ndarray:
    """Change the tempo and nothing else: overlap-add where each frame is shifted to match what came before (WSOLA)."""
    frame, hop, reach = 640, 320, 160
    if len(x) < 2 * frame or abs(speed - 1) < 0.02:
        return x
    window = np.hanning(frame + 1)[:frame].astype(np.float32)
    count = int((len(x) - frame) / speed / hop)
    padded = np.concatenate([np.zeros(reach, np.float32), x, np.zeros(frame + reach + hop, np.float32)])
    out = np.zeros(count * hop + frame, np.float32)
    at = reach
    for n in range(count):
        if n:
            wanted = padded[at + hop : at + hop + frame]  # the natural continuation of the last frame
            centre = int(n * hop * speed) + reach
            area = padded[centre - reach : centre + reach + frame]
            at = centre - reach + int(np.argmax(np.correlate(area, wanted, "valid")))
        out[n * hop : n * hop + frame] += window * padded[at : at + frame]
    return out


def room_response(rng: np.random.Generator, rt60_ms: float, direct_db: float) -> np.ndarray:
    """An impulse response: direct sound at 0, 6-12 early reflections, then a decaying noise tail of the given RT60."""
    n = int(rt60_ms * RATE / 1000)
    t = np.arange(n) / RATE
    tail = rng.standard_normal(n) * 10 ** (-3 * t / (rt60_ms / 1000))
    tail[: int(rng.uniform(5, 20) * RATE / 1000)] = 0
    tail = sosfilt(butter(1, rng.uniform(2000, 6000), fs=RATE, output="sos"), tail)
    for _ in range(rng.integers(6, 13)):
        when = rng.uniform(1.5, 40)
        tail[min(n - 1, int(when * RATE / 1000))] += rng.choice((-1, 1)) * rng.uniform(0.3, 1) * 3 / (1 + when / 8)
    tail *= 10 ** (-direct_db / 20) / (np.sqrt((tail**2).sum()) + 1e-9)
    tail[0] += 1
    return tail.astype(np.float32)


def _coloured(rng: np.random.Generator, n: int, power: float) -> np.ndarray:
    """Noise whose power falls as frequency ** -power (0 white, 1 pink, 2 brown)."""
    spectrum = np.fft.rfft(rng.standard_normal(n))
    frequency = np.maximum(np.fft.rfftfreq(n, 1 / RATE), 30)
    return np.fft.irfft(spectrum * frequency ** (-power / 2), n)


def _swell(rng: np.random.Generator, n: int, slowest: float, fastest: float, depth: float) -> np.ndarray:
    """A slow loudness curve in [1 - depth, 1]."""
    t = np.arange(n) / RATE
    wave = sum(np.sin(2 * np.pi * rng.uniform(slowest, fastest) * t + rng.uniform(0, 6.3)) for _ in range(3)) / 3
    return 1 - depth * (0.5 + 0.5 * wave)


def make_noise(rng: np.random.Generator, kind: str, n: int, crowd: list[np.ndarray]) -> np.ndarray:
    """n samples of one kind of noise at any level; `crowd` is the speech that babble and cafe are made of."""
    t = np.arange(n) / RATE
    if kind in ("white", "pink", "brown"):
        return _coloured(rng, n, {"white": 0.0, "pink": 1.0, "brown": 2.0}[kind])
    if kind == "hum":
        base = rng.choice((50.0, 60.0))
        tones = sum(
            rng.uniform(0.2, 1) / k * np.sin(2 * np.pi * base * k * t + rng.uniform(0, 6.3)) for k in range(1, 16)
        )
        return tones + 0.05 * rng.standard_normal(n)
    if kind == "fan":
        low, high = rng.uniform(80, 300), rng.uniform(600, 3000)
        return sosfilt(butter(2, (low, high), "band", fs=RATE, output="sos"), rng.standard_normal(n)) * _swell(
            rng, n, 0.5, 12, 0.4
        )
    if kind == "clicks":
        hits = np.zeros(n)
        at = rng.integers(0, n, max(1, int(rng.uniform(2, 15) * n / RATE)))
        hits[at] = rng.uniform(10, 30, len(at))
        ring = np.exp(-np.arange(400) / rng.uniform(10, 80)) * np.sin(np.arange(400) * rng.uniform(0.3, 2.0))
        return fftconvolve(hits, ring)[:n] + 0.1 * rng.standard_normal(n)
    if kind in ("babble", "cafe"):
        total = np.zeros(n)
        for _ in range(rng.integers(3, 7) if kind == "babble" else rng.integers(6, 10)):
            voice = np.roll(np.resize(crowd[rng.integers(len(crowd))], n), rng.integers(n))
            total += rng.uniform(0.3, 1) * voice
        if kind == "cafe":
            total = fftconvolve(total, room_response(rng, 700, -6))[:n]
        return total
    if kind == "traffic":
        passing = _coloured(rng, n, 1.6) * _swell(rng, n, 0.1, 0.7, 0.95) ** 2
        return passing + 0.1 * passing.std() * _coloured(rng, n, 0.5)
    if kind == "rain":
        drops = np.zeros(n)
        drops[rng.integers(0, n, int(rng.uniform(100, 600) * n / RATE) + 1)] = 8
        hiss = sosfilt(butter(2, rng.uniform(1500, 3000), "high", fs=RATE, output="sos"), rng.standard_normal(n))
        return hiss + fftconvolve(drops, np.exp(-np.arange(80) / 8.0) * np.sin(np.arange(80) * 1.1))[:n]
    assert kind == "music", kind
    total, start = np.zeros(n), 0
    root, beat = rng.uniform(110, 220), int(rng.uniform(0.15, 0.5) * RATE)
    scale = np.array([0, 2, 4, 7, 9, 12, 14, 16])
    while start < n:
        length = min(n - start, 3 * beat)
        s = np.arange(length) / RATE
        for note in rng.choice(scale, rng.integers(1, 4)):
            pitch = root * 2 ** (note / 12)
            total[start : start + length] += sum(
                np.sin(2 * np.pi * pitch * k * s) / k**1.5 for k in range(1, 7)
            ) * np.exp(-4 * s)
        start += beat
    return total


def mulaw(x: np.ndarray) -> np.ndarray:
    """Through 8-bit mu-law and back (mu = 255); x is first brought to a peak of 0.8."""
    peak = np.abs(x).max() + 1e-9
    y = 0.8 * x / peak
    coded = np.round(127 * np.sign(y) * np.log1p(255 * np.abs(y)) / np.log(256)) / 127
    return np.sign(coded) * np.expm1(np.abs(coded) * np.log(256)) / 255 * peak / 0.8


def limit_band(rng: np.random.Generator, x: np.ndarray, band: str) -> np.ndarray:
    """A telephone line, an 8 kHz round trip, mu-law at 16 kHz, or a muffled microphone."""
    if band == "mulaw":
        return mulaw(x)
    if band == "muffled":
        return sosfilt(butter(2, rng.uniform(1200, 2600), fs=RATE, output="sos"), x)
    narrow = soxr.resample(x, RATE, 8000, quality="MQ")
    if band == "telephone":
        narrow = mulaw(sosfilt(butter(4, (300, 3400), "band", fs=8000, output="sos"), narrow))
    return soxr.resample(narrow, 8000, RATE, quality="MQ")


def active_rms(x: np.ndarray) -> float:
    """RMS over the 10 ms frames that are within 30 dB of the loudest."""
    frame = RATE // 100
    energy = (x[: len(x) // frame * frame].reshape(-1, frame) ** 2).mean(1)
    return float(np.sqrt(energy[energy > 1e-3 * energy.max()].mean()) + 1e-9)


def apply_condition(
    speech: np.ndarray, condition: Condition, rng: np.random.Generator, crowd: list[np.ndarray]
) -> np.ndarray:
    """speech float (N,) at 16 kHz -> finished clip int16 (M,), with silence around it, in the drawn condition."""
    x = speech.astype(np.float64)
    if condition.room_ms is not None:
        assert condition.direct_db is not None
        x = fftconvolve(x, room_response(rng, condition.room_ms, condition.direct_db))[: len(x) + int(0.15 * RATE)]
    lead, tail = (int(ms * RATE / 1000) for ms in (condition.lead_ms, condition.tail_ms))
    x = np.concatenate([np.zeros(lead), x, np.zeros(tail)])
    level = active_rms(x)
    if condition.noise is not None:
        assert condition.snr_db is not None
        noise = make_noise(rng, condition.noise, len(x), crowd)
        x = x + noise * (level * 10 ** (-condition.snr_db / 20) / (np.sqrt((noise**2).mean()) + 1e-9))
    if condition.band is not None:
        x = limit_band(rng, x, condition.band)
    if condition.clip is not None:
        edge = condition.clip * np.abs(x).max()
        x = np.clip(x, -edge, edge)
    x = x * 10 ** (condition.level_dbfs / 20) / active_rms(x)
    x = x * min(1.0, 0.98 / (np.abs(x).max() + 1e-9))
    dither = rng.uniform(-0.5, 0.5, len(x)) if condition.kind != "clean" else 0.0
    return np.clip(np.round(x * 32767 + dither), -32768, 32767).astype("<i2")
