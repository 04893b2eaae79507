import numpy as np
import pytest

from legato.evaluate import statistics
from legato.evaluate.statistics import compare, difference, gap_recovered, mcnemar, paired_permutation, wilson


@pytest.mark.parametrize(("fixed", "regressed", "one", "two"), [(16, 7, 0.0466, 0.0931), (21, 8, 0.01206, 0.02412)])
def test_mcnemar_closed_forms(fixed, regressed, one, two):
    test = mcnemar(fixed, regressed)
    assert test.one_sided == pytest.approx(one, abs=5e-5)
    assert test.two_sided == pytest.approx(two, abs=5e-5)


def test_mcnemar_edges():
    assert mcnemar(0, 0).two_sided == 1.0
    assert mcnemar(5, 0).one_sided == pytest.approx(1 / 32)
    assert mcnemar(0, 5).one_sided == 1.0
    assert mcnemar(0, 5).two_sided == pytest.approx(1 / 16)


def test_compare_counts_discordant_pairs():
    first = [1, 1, 0, 1, 0, 0]
    second = [1, 0, 1, 0, 0, 1]
    test = compare(first, second)
    assert (test.fixed, test.regressed) == (2, 2)


def test_wilson_closed_form():
    z, p, n = 1.959964, 11 / 64, 64
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    got = wilson(11, 64)
    assert (got.value, got.low, got.high) == pytest.approx((p, middle - half, middle + half), abs=1e-6)
    assert wilson(0, 10).low == pytest.approx(0, abs=1e-12)
    assert wilson(0, 0).value is None


def test_gap_recovered_is_the_ratio_and_its_interval_agrees_with_row_resampling():
    rng = np.random.default_rng(1)
    level = rng.random(400)
    small, transfer, large = level < 0.35, level < 0.6, rng.random(400) < 0.8
    got = gap_recovered(small, transfer, large)
    assert got.value == pytest.approx((transfer.mean() - small.mean()) / (large.mean() - small.mean()))
    by_rows = statistics.bootstrap(
        lambda s, t, g, axis: (t.mean(axis) - s.mean(axis)) / (g.mean(axis) - s.mean(axis)), [small, transfer, large]
    )
    assert got.low == pytest.approx(by_rows.low, abs=0.01)
    assert got.high == pytest.approx(by_rows.high, abs=0.01)


def test_a_gap_that_is_not_there_has_no_value_and_a_doubtful_one_no_bounds():
    small = np.array([True, False] * 20)
    assert gap_recovered(small, small, small).value is None
    assert gap_recovered([], [], []).value is None
    large = small.copy()
    large[1] = True  # one question: many resamples lose it
    doubtful = gap_recovered(small, small, large)
    assert doubtful.value == 0
    assert (doubtful.low, doubtful.high) == (None, None)


def test_bootstrap_intervals_cover_what_they_should():
    """Draw many sets with known accuracies: about 95 of 100 intervals hold the true gap recovered and difference."""
    rng = np.random.default_rng(7)
    hits = np.zeros(2)
    trials = 300
    for _ in range(trials):
        level = rng.random(300)  # one difficulty for all arms, so that they are paired as arms are
        small, transfer, large = level < 0.3, level < 0.5, level < 0.8
        gap = gap_recovered(small, transfer, large, resamples=1000)
        lift = difference(transfer, small, resamples=1000)
        hits += [gap.low <= 0.4 <= gap.high, lift.low <= 0.2 <= lift.high]
    assert (hits / trials > 0.91).all()
    assert (hits / trials < 0.99).all()


def test_the_same_seed_gives_the_same_digits():
    a, b = np.arange(50) % 3 > 0, np.arange(50) % 2 > 0
    assert difference(a, b) == difference(a, b)
    assert difference(a, b) != difference(a, b, seed=1)


def test_permutation_test_agrees_with_its_exact_value():
    assert paired_permutation([1.0, 1.0, 1.0, 1.0, 1.0]) == pytest.approx(2 / 32)  # all 32 sign flips are tried
    assert paired_permutation([0.0, 0.0]) == 1.0
    assert paired_permutation([]) == 1.0
