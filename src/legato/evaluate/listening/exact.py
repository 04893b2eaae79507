"""Exact binomial statistics of a two-way choice: interval, power, and how many choices a question needs.

Nothing is approximated by a normal curve: a listening sheet has tens of votes. Votes without a preference take no part
here; who calls has set them aside. Sources: Clopper and Pearson 1934; the sign test.
"""

from __future__ import annotations

from scipy import stats

from legato.evaluate.statistics import Estimate

ALPHA = 0.05  # two-sided
POWER = 0.8
MOST = 2000  # choices; a preference that needs more is nothing that one listener can show


def two_sided(wins: int, n: int) -> float:
    """P(a split at least as uneven as `wins` of `n`), were both sides equally likely; 1 for n = 0."""
    assert 0 <= wins <= n
    return min(1.0, 2 * float(stats.binom.cdf(min(wins, n - wins), n, 0.5)))


def clopper_pearson(wins: int, n: int) -> Estimate:
    """The share `wins` / `n` with its exact 95 % interval; n = 0 gives no value."""
    assert 0 <= wins <= n
    if n == 0:
        return Estimate(None, None, None)
    interval = stats.binomtest(wins, n).proportion_ci(confidence_level=1 - ALPHA, method="exact")
    return Estimate(wins / n, float(interval.low), float(interval.high))


def power(n: int, preference: float) -> float:
    """Chance that `n` choices end in a two-sided p of at most 0.05, where one side is truly chosen that often (0 to 1).

    Either side may come out ahead. Below 6 choices no split is uneven enough, and the power is 0.
    """
    assert n >= 0 and 0 <= preference <= 1
    edge = int(stats.binom.ppf(ALPHA / 2, n, 0.5)) if n else 0
    while edge >= 0 and two_sided(edge, n) > ALPHA:  # largest number of losses that is still significant
        edge -= 1
    if edge < 0:
        return 0.0
    return float(stats.binom.cdf(edge, n, preference) + stats.binom.sf(n - edge - 1, n, preference))


def choices_needed(preference: float) -> int | None:
    """The fewest choices with which a true `preference` (0 to 1) is shown with a power of 0.8; None if over 2000.

    Exact power is a saw: a few choices more than the fewest can have slightly less of it.
    """
    return next((n for n in range(1, MOST + 1) if power(n, preference) >= POWER), None)
