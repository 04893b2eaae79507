"""Summaries of repeated timings: medians with their spread, and ratios of two things measured in turn.

It measures nothing itself. Timings of one machine at one hour are compared as ratios of pairs taken back to back; an
absolute figure says as much about the neighbours as about the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legato.errors import BadInput
from legato.evaluate.statistics import Estimate, bootstrap


@dataclass(frozen=True)
class Spread:
    """Repeated timings in the unit they were given in."""

    n: int  # without the warm-up
    median: float
    q1: float
    q3: float

    @property
    def iqr(self) -> float:
        return self.q3 - self.q1


def spread(times: Sequence[float], *, warm_up: int) -> Spread:
    """Median and quartiles of `times` without the first `warm_up`.

    Raises:
        BadInput: nothing remains.
    """
    kept = _kept(times, warm_up)
    q1, middle, q3 = np.quantile(kept, [0.25, 0.5, 0.75])
    return Spread(len(kept), float(middle), float(q1), float(q3))


def ratio(first: Sequence[float], second: Sequence[float], *, warm_up: int) -> Estimate:
    """median(first) / median(second) of measurements taken in turn, with a paired bootstrap interval.

    Raises:
        BadInput: the two have different lengths, nothing remains, or a time is not positive.
    """
    if len(first) != len(second):
        raise BadInput(f"{len(first)} and {len(second)} timings cannot be paired; measure both in turn.")
    a, b = _kept(first, warm_up), _kept(second, warm_up)
    return bootstrap(lambda x, y, axis: np.median(x, axis=axis) / np.median(y, axis=axis), [a, b])


def _kept(times: Sequence[float], warm_up: int) -> np.ndarray:
    kept = np.asarray(times[warm_up:], dtype=np.float64)
    if len(kept) == 0 or not (kept > 0).all():
        raise BadInput(
            f"{len(times)} timings with a warm-up of {warm_up} leave no positive measurements; repeat more often."
        )
    return kept
