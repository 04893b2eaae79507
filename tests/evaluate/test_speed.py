import numpy as np
import pytest

from legato.errors import BadInput
from legato.evaluate.speed import ratio, spread


def test_warm_up_is_dropped_and_quartiles_are_given():
    s = spread([900.0, 1, 2, 3, 4, 5], warm_up=1)
    assert (s.n, s.median, s.q1, s.q3, s.iqr) == (5, 3, 2, 4, 2)


def test_a_common_drift_cancels_in_the_ratio():
    drift = np.random.default_rng(0).uniform(1, 3, 41)  # a machine that others use as well
    r = ratio([99.0, *(2 * drift)], [1.0, *drift], warm_up=1)
    assert r.value == pytest.approx(2)
    assert (r.low, r.high) == pytest.approx((2, 2))


def test_what_cannot_be_summarised_is_refused():
    with pytest.raises(BadInput, match="no positive"):
        spread([1.0], warm_up=1)
    with pytest.raises(BadInput, match="cannot be paired"):
        ratio([1.0], [1.0, 2.0], warm_up=0)
