"""What a campaign asks of every rendering that needs no text: one figure an instrument, lower is better.

The reference is what the rendering ought to sound like, moment by moment. An instrument that needs an extra which is
not installed is left out, and a sentence says so. Intelligibility needs a transcript and a recogniser that is handed
in; it is one minus the word error, and higher is better.

Shapes: S samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from legato.audio import Audio
from legato.errors import BadInput, MissingExtra
from legato.evaluate.instruments import grid, intelligibility, levels, noise, praat, warble
from legato.speak.objectives import log_mel_distance
from legato.speak.probe import Score

LOG_MEL, SPECTRAL, LEVEL, HNR, WARBLE = "log-mel distance", "spectral distance", "level spread", "HNR deficit", "warble"
INTELLIGIBILITY = "intelligibility"
UNITS = {LOG_MEL: "nepers", SPECTRAL: "dB", LEVEL: "dB", HNR: "dB", WARBLE: "cents", INTELLIGIBILITY: "1 - word error"}
WINDOW, HOP = 1024, 256  # samples of a spectrum at 24 kHz: 43 and 11 ms
QUIET = 60.0  # dB under the loudest bin of the reference: below it nothing is compared
Recogniser = Callable[[Audio], str]


@dataclass(frozen=True)
class Instruments:
    """scores: by name, from (made, reference, Hz); None where that rendering cannot be measured. missing: sentences."""

    scores: Mapping[str, Score]
    missing: tuple[str, ...]


def instruments() -> Instruments:
    """All whose extras are installed."""
    found: dict[str, Score] = {LOG_MEL: _on(_log_mel), SPECTRAL: _on(_spectral), LEVEL: _on(_level)}
    try:
        praat.pitch(np.zeros(grid.RATE))
    except MissingExtra as error:
        return Instruments(found, (f"{HNR} and {WARBLE} were not measured: {error}",))
    return Instruments(found | {HNR: _on(_hnr), WARBLE: _on(_warble)}, ())


def intelligible(said: str, recogniser: Recogniser) -> Score:
    """For one recording, what was said in it being known."""
    return _on(lambda _, test: intelligibility.listen(test, said, recogniser).score)


def lower_is_better(name: str) -> bool:
    return name != INTELLIGIBILITY


def heard(wave: np.ndarray, rate: int) -> Audio:
    """Samples (S,) as a loudspeaker would have them, clipped, at the instruments' rate."""
    return Audio(np.clip(wave, -1, 1).astype(np.float32)[None], rate).resample(grid.RATE)


def _on(measure: Callable[[Audio, Audio], float | None]) -> Score:
    def score(made: np.ndarray, reference: np.ndarray, rate: int) -> float | None:
        try:
            return measure(heard(reference, rate), heard(made, rate))
        except BadInput:  # silent, not finite, or too short: there is nothing to measure in it
            return None

    return score


def _log_mel(reference: Audio, test: Audio) -> float:
    a, b = (torch.from_numpy(x.samples) for x in (reference, test))
    n = min(a.shape[1], b.shape[1])
    return float(log_mel_distance(b[:, :n], a[:, :n]))


def _spectral(reference: Audio, test: Audio) -> float:
    """RMS difference of power spectra in dB, over the bins in which the reference has anything to say."""
    a, b = (_decibels(x) for x in grid.pair(reference, test))
    told = a > a.max() - QUIET
    return grid.rms((np.maximum(b, a.max() - QUIET) - a)[told])


def _decibels(samples: np.ndarray) -> np.ndarray:
    spectrum = torch.stft(
        torch.from_numpy(samples), WINDOW, HOP, window=torch.hann_window(WINDOW, dtype=torch.float64),
        return_complex=True,
    )
    return 10 * torch.log10(spectrum.abs().square() + 1e-12).numpy()


def _level(reference: Audio, test: Audio) -> float:
    return levels.trace(reference, test).spread


def _hnr(reference: Audio, test: Audio) -> float | None:
    found = noise.noise(reference, test)
    return None if found is None else found.deficit


def _warble(reference: Audio, test: Audio) -> float | None:
    found = warble.warble(reference, test)
    return None if found is None else found.cents
