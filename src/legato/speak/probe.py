"""Measure first: does this codec's decoder accept what it has only seen quantised?

The same recordings through the decoder in several ways: with fewer and more codebooks, unquantised, unquantised with
noise (a head that is off by as much is off by no more), and in the wrong space, the encoder's own latent without the
projections, which must fail for the probe to be worth anything. How each sounds is asked of instruments that are handed
in.

Shapes: B batch, S samples, F frames, U projected width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from legato.errors import BadInput
from legato.speak.entrance import Entrance

NOISES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8)  # deviation of the noise, that of the latent being 1
CONTINUOUS, WRONG = "continuous", "wrong space"
Score = Callable[[np.ndarray, np.ndarray, int], float | None]  # made, real, Hz -> a figure, None where there is none
Scores = Mapping[str, Mapping[str, float | None]]  # of one recording: way -> instrument -> figure


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
    """scores[way][instrument]: means over the recordings that could be measured, None where none could."""

    scores: Mapping[str, Mapping[str, float | None]]
    recordings: int

    @classmethod
    def of(cls, each: Sequence[Scores]) -> Probed:
        """Means of the recordings' own figures. An instrument that only some were asked is theirs alone."""
        gathered: dict[str, dict[str, list[float]]] = {}
        for scores in each:
            for way, figures in scores.items():
                for name, figure in figures.items():
                    values = gathered.setdefault(way, {}).setdefault(name, [])
                    if figure is not None:
                        values.append(figure)
        means = {way: {name: fmean(v) if v else None for name, v in found.items()} for way, found in gathered.items()}
        return cls(means, len(each))

    @property
    def full(self) -> str:
        """The way with most books: what the codec does by itself."""
        return max((way for way in self.scores if "book" in way), key=lambda way: int(way.split()[0]))

    def failed(self, instrument: str, lower_is_better: bool = True) -> bool | None:
        """Did the wrong space score worse than the right one, or could it alone not be measured? None: cannot be said,
        since it was not tried or the right one could not be measured either."""
        right = self.scores[CONTINUOUS][instrument]
        if WRONG not in self.scores or right is None:
            return None
        wrong = self.scores[WRONG][instrument]
        return wrong is None or (wrong > right if lower_is_better else wrong < right)

    def verdict(self, instrument: str, lower_is_better: bool = True) -> str:
        """One sentence: is the continuous latent as good as the codes, how much noise it takes, did the check fail?"""
        sign, full = 1 if lower_is_better else -1, self.full
        figures = {way: sign * v for way, found in self.scores.items() if (v := found[instrument]) is not None}
        if CONTINUOUS not in figures or full not in figures:
            return f"{instrument}: could not be measured on these recordings"
        if self.failed(instrument, lower_is_better) is False:
            return f"{instrument}: worthless, the wrong space scores no worse than the right one"
        borne = [way for way in figures if way.endswith("noise") and figures[way] <= figures[full]]
        noise = f"bears {borne[-1]} before it is worse than {full}" if borne else f"bears no noise beside {full}"
        better = "better" if figures[CONTINUOUS] < figures[full] else "no better"
        return f"{instrument}: unquantised is {better} than {full}, and {noise}"


def score_ways(
    entrance: Entrance,
    wave: np.ndarray,
    instruments: Mapping[str, Score],
    seed: int = 0,
    keep: Callable[[str, np.ndarray], None] = lambda way, heard: None,
) -> Scores:
    """Every way's figures for one recording (float32 (S,) at the codec's rate). keep: gets what each sounds like."""
    rate, found = entrance.codec.rate, {}
    for way, made in ways(entrance, torch.from_numpy(wave)[None], seed):
        heard = made[0, : len(wave)].numpy()
        found[way] = {name: score(heard, wave, rate) for name, score in instruments.items()}
        keep(way, heard)
    return found


def in_order(found: Iterable[str], total: int) -> list[str]:
    """Names of ways as they should be shown: more and more books (of `total`), none at all, more and more noise."""
    known = [f"{n} book{'s' * (n > 1)}" for n in books(total)] + [CONTINUOUS]
    known += [f"{share:.0%} noise" for share in NOISES] + [WRONG]
    return sorted(found, key=known.index)


def probe(entrance: Entrance, recordings: Sequence[np.ndarray], instruments: Mapping[str, Score]) -> Probed:
    """Score every way on every recording (float32 (S,) at the codec's rate)."""
    if not recordings or not instruments:
        raise BadInput("a probe needs at least one recording and one instrument; give both.")
    return Probed.of([score_ways(entrance, wave, instruments, n) for n, wave in enumerate(recordings)])
