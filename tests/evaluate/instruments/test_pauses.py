"""Pauses and rates with planted silences."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from legato.errors import BadInput
from legato.evaluate.instruments.pauses import compare, pauses, planned, shared, split
from legato.evaluate.instruments.rate import rate


def test_planted_pauses_are_found_and_the_outer_silence_is_none(sounds: SimpleNamespace) -> None:
    v, q = sounds.voice, sounds.quiet
    found = pauses(sounds.audio(q(0.5), v(0.6), q(0.3), v(0.5), q(0.15), v(0.4), q(0.7), v(0.5), q(0.4)))
    assert found.lengths == pytest.approx((0.3, 0.7), abs=0.02)
    assert found.spans[0][0] == pytest.approx(1.1, abs=0.02) and found.total == pytest.approx(1.0, abs=0.04)
    assert found.before == pytest.approx(0.5, abs=0.02) and found.after == pytest.approx(0.4, abs=0.02)


def test_speech_without_a_pause(sounds: SimpleNamespace) -> None:
    assert pauses(sounds.audio(sounds.voice())).spans == ()
    with pytest.raises(BadInput, match="silent"):
        pauses(sounds.audio(sounds.quiet(1)))


def test_the_difference_of_two_renderings(sounds: SimpleNamespace) -> None:
    v, q = sounds.voice, sounds.quiet
    a, b = sounds.audio(v(0.8), q(0.4), v(0.8)), sounds.audio(v(0.8), q(0.6), v(0.6))
    found = compare(a, b)
    assert found.count == 0 and found.total == pytest.approx(0.2, abs=0.02)
    assert found.distance == pytest.approx(0.2, abs=0.02)
    without = compare(a, sounds.audio(v(2.0)))
    assert without.count == -1 and without.distance is None


def test_swallowed_fades_are_a_negative_transition(sounds: SimpleNamespace) -> None:
    a = np.concatenate((sounds.voice(1.0), 10 ** (-25 / 20) * sounds.voice(1.0)))
    b = np.concatenate((sounds.voice(1.0), 10 ** (-33 / 20) * sounds.voice(1.0)))
    assert compare(sounds.audio(a), sounds.audio(b)).transition == pytest.approx(-8, abs=0.1)
    plain = sounds.audio(sounds.voice())
    assert compare(plain, plain).transition is None


def test_whose_pause_it_is(sounds: SimpleNamespace) -> None:
    v, q = sounds.voice, sounds.quiet
    # frames of 80 ms: 5 spoken, 5 planned silence, 15 spoken of which 5 are rendered silent
    plan = planned([(-2, 5), (8, 15)], frames=25, lead=2)
    assert plan.tolist() == [False] * 5 + [True] * 5 + [False] * 15
    found = split(sounds.audio(v(0.4), q(0.4), v(0.4), q(0.4), v(0.4)), plan)
    assert found.pacing == pytest.approx(0.4, abs=0.02) and found.rendering == pytest.approx(0.4, abs=0.02)
    assert found.filled == pytest.approx(0, abs=0.02)
    full = split(sounds.audio(v(2.0)), plan)
    assert full.filled == pytest.approx(0.4, abs=0.02) and full.pacing == full.rendering == 0
    with pytest.raises(BadInput, match="one entry for each codec frame"):
        split(sounds.audio(v(2.0)), plan[:20])


def test_rate_counts_speech_only(sounds: SimpleNamespace) -> None:
    v, q = sounds.voice, sounds.quiet
    found = rate(sounds.audio(q(0.3), v(1.0), q(0.5), v(1.0), q(0.2)), "It's a table, and nothing else.")
    assert found.words == 6 and found.speech == pytest.approx(2.0, abs=0.05) and found.total == pytest.approx(3.0)
    assert found.words_per_second == pytest.approx(3.0, abs=0.1)


def test_texts_that_cannot_be_counted(sounds: SimpleNamespace) -> None:
    with pytest.raises(BadInput, match="digits"):
        rate(sounds.audio(sounds.voice()), "In 1984.")
    with pytest.raises(BadInput, match="no word"):
        rate(sounds.audio(sounds.voice()), "?!")


def test_a_pause_in_both_renderings_is_the_pacing_and_one_in_the_test_alone_is_not(sounds: SimpleNamespace) -> None:
    v, quiet = sounds.voice, sounds.quiet
    reference = sounds.audio(v(0.8), quiet(0.4), v(0.8), quiet(0.3), v(0.8))
    test = sounds.audio(v(0.8), quiet(0.4), v(0.8), v(0.3), v(0.3), quiet(0.25), v(0.25))
    found = shared(reference, test)
    assert (found.pacing, found.rendering, found.filled) == pytest.approx((0.4, 0.25, 0.3), abs=0.03)
    assert shared(reference, reference).rendering == shared(reference, reference).filled == 0
