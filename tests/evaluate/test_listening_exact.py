"""Binomial statistics of choices against closed forms and counting."""

from __future__ import annotations

from math import comb

import pytest

from legato.evaluate.listening import exact
from legato.evaluate.statistics import mcnemar


def chance(n: int, wins: range, p: float) -> float:
    return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in wins)


def test_p_is_the_two_tails_counted():
    assert exact.two_sided(9, 10) == pytest.approx(22 / 1024)
    assert exact.two_sided(0, 6) == pytest.approx(2 / 64)
    assert exact.two_sided(5, 10) == 1 and exact.two_sided(0, 0) == 1
    assert all(exact.two_sided(k, 23) == pytest.approx(mcnemar(k, 23 - k).two_sided) for k in range(24))


def test_interval_has_its_closed_forms():
    all_won = exact.clopper_pearson(12, 12)
    assert all_won.low == pytest.approx(0.025 ** (1 / 12)) and all_won.high == 1
    none_won = exact.clopper_pearson(0, 12)
    assert none_won.low == 0 and none_won.high == pytest.approx(1 - 0.025 ** (1 / 12))
    middle = exact.clopper_pearson(7, 20)  # the bounds are where 7 becomes a 2.5 % tail
    assert chance(20, range(7, 21), middle.low) == pytest.approx(0.025, abs=1e-9)
    assert chance(20, range(8), middle.high) == pytest.approx(0.025, abs=1e-9)
    assert exact.clopper_pearson(0, 0).value is None


@pytest.mark.parametrize("n", [0, 5, 6, 17, 40])
@pytest.mark.parametrize("p", [0.5, 0.7, 0.9])
def test_power_is_the_chance_of_a_significant_count(n, p):
    significant = [k for k in range(n + 1) if exact.two_sided(k, n) <= 0.05]
    counted = sum(chance(n, range(k, k + 1), p) for k in significant)
    assert exact.power(n, p) == pytest.approx(counted, abs=1e-12)
    assert (n >= 6) == bool(significant)


def test_choices_needed_is_the_first_that_reaches_the_power():
    for p in (0.7, 0.8, 0.9):
        n = exact.choices_needed(p)
        assert exact.power(n, p) >= 0.8 and all(exact.power(m, p) < 0.8 for m in range(n))
    assert exact.choices_needed(1.0) == 6
    assert exact.choices_needed(0.5) is None
    assert exact.choices_needed(0.2) == exact.choices_needed(0.8)
