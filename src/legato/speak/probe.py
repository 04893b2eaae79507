"""Measure first: does this codec's decoder accept what it has only seen quantised?

The same recordings through the decoder in several ways: with fewer and more codebooks, unquantised, unquantised with
noise (a head that is off by as much is off by no more), and in the wrong space, the encoder's own latent without the
projections, which must fail for the probe to be worth anything. How each sounds is asked of instruments that are handed
in.

Shapes: B batch, S samples, F frames, U projected width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from legato.errors import BadInput
from legato.speak.entrance import Entrance

NOISES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8)  # deviation of the noise, that of the latent being 1
CONTINUOUS, WRONG = "continuous", "wrong space"
Score = Callable[[np.ndarray, np.ndarray, int], float]  # made, real, Hz -> a figure


def books(total: int) -> list[int]:
    """1, 2, 4, ... and all."""
    return [n for n in (1 << k for k in range(total.bit_length())) if n < total] + [total]


@torch.inference_mode()
def ways(entrance: Entrance, audio: Tensor, seed: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Audio (1, S) -> name and audio (1, S) of every way through the codec."""
    codec = entrance.codec
    e, codes = codec.latent(audio), codec.encode(audio)
    for n in books(codec.books):
        yield f"{n} book{'s' * (n > 1)}", codec.decode(codec.lookup(codes[:, :n]))
    x = entrance.statistics.normalise(codec.project(e))
    yield CONTINUOUS, entrance.decode(x)
    draw = torch.Generator().manual_seed(seed)
    for share in NOISES:
        yield f"{share:.0%} noise", entrance.decode(x + share * torch.randn(x.shape, generator=draw))
    if e.shape[1] == codec.width:
        yield WRONG, codec.decode(e)


@dataclass(frozen=True)
class Probed:
    """scores[way][instrument]: means over recordings."""

    scores: Mapping[str, Mapping[str, float]]
    recordings: int

    def verdict(self, instrument: str, lower_is_better: bool = True) -> str:
        """One sentence: is the continuous latent as good as the codes, how much noise it takes, did the check fail?"""
        sign = 1 if lower_is_better else -1
        figures = {way: sign * found[instrument] for way, found in self.scores.items()}
        full = max((way for way in figures if "book" in way), key=lambda way: int(way.split()[0]))
        if WRONG in figures and figures[WRONG] <= figures[CONTINUOUS]:
            return f"{instrument}: worthless, the wrong space scores no worse than the right one"
        borne = [way for way in figures if way.endswith("noise") and figures[way] <= figures[full]]
        noise = f"bears {borne[-1]} before it is worse than {full}" if borne else f"bears no noise beside {full}"
        better = "better" if figures[CONTINUOUS] < figures[full] else "no better"
        return f"{instrument}: unquantised is {better} than {full}, and {noise}"


def probe(entrance: Entrance, recordings: Sequence[np.ndarray], instruments: Mapping[str, Score]) -> Probed:
    """Score every way on every recording (float32 (S,) at the codec's rate)."""
    if not recordings or not instruments:
        raise BadInput("a probe needs at least one recording and one instrument; give both.")
    rate = entrance.codec.rate
    found: dict[str, dict[str, list[float]]] = {}
    for n, wave in enumerate(recordings):
        for way, made in ways(entrance, torch.from_numpy(wave)[None], seed=n):
            for name, score in instruments.items():
                heard = made[0, : len(wave)].numpy()
                found.setdefault(way, {}).setdefault(name, []).append(score(heard, wave, rate))
    means = {way: {name: fmean(values) for name, values in scores.items()} for way, scores in found.items()}
    return Probed(means, len(recordings))
