"""The stopwatch against a clock whose hands we move."""

from __future__ import annotations

import time

import pytest

from legato.clock import Stopwatch


class Hands:
    def __init__(self) -> None:
        self.ns = 5_000_000

    def __call__(self) -> int:
        return self.ns


def test_spans_are_measured_in_milliseconds_in_order_and_gaps_belong_to_none():
    hands = Hands()
    watch = Stopwatch(hands)
    with watch.span("prefill"):
        hands.ns += 2_500_000
    hands.ns += 1_000_000
    with watch.span("map"):
        hands.ns += 250_000
    assert list(watch.ms.items()) == [("prefill", 2.5), ("map", 0.25)]
    assert watch.elapsed_ms == 3.75


def test_the_real_clock_sees_a_real_sleep():
    watch = Stopwatch()
    with watch.span("nap"):
        time.sleep(0.01)
    assert 10 <= watch.ms["nap"] <= watch.elapsed_ms


def test_nested_and_repeated_names_are_our_mistakes():
    watch = Stopwatch(Hands())
    with (
        pytest.raises(AssertionError, match="'inner' opened inside span 'outer'"),
        watch.span("outer"),
        watch.span("inner"),
    ):
        pass
    with watch.span("once"):
        pass
    with pytest.raises(AssertionError, match="'once' was already measured"), watch.span("once"):
        pass


def test_a_failed_span_leaves_no_figure_and_frees_the_watch():
    watch = Stopwatch(Hands())
    with pytest.raises(ZeroDivisionError), watch.span("prefill"):
        _ = 1 / 0
    assert watch.ms == {}
    with watch.span("prefill"):
        pass
    assert watch.ms == {"prefill": 0.0}


def test_the_figures_handed_out_are_a_copy():
    watch = Stopwatch(Hands())
    watch.ms["made up"] = 1.0
    assert watch.ms == {}
