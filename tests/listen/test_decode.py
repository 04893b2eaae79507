"""The decode loop on a scripted decoder: what it says, when it stops, and what it may know."""

import inspect

import pytest
import torch

from legato.clock import Stopwatch
from legato.errors import BadInput
from legato.listen.decode import decode

END = 2


class Script:
    """A decoder that wants to say one thing, and notes what it is fed."""

    def __init__(self, tokens):
        self.tokens, self.fed = list(tokens), []
        self._show()

    def _show(self):
        self.logits = torch.zeros(50)
        self.logits[self.tokens[len(self.fed)]] = 1.0

    def step(self, token):
        self.fed.append(token)
        self._show()


class Ticks:
    """A clock that counts a millisecond a look."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        self.now += 1_000_000
        return self.now


def run(tokens, **limits):
    state = Script(tokens)
    return decode(state, frozenset({END}), Stopwatch(), **limits), state.fed


def test_it_stops_at_an_end_mark_and_leaves_it_out():
    done, fed = run([7, 8, 9, END, 4], max_tokens=20)
    assert (done.tokens, done.finish) == ((7, 8, 9), "end")
    assert fed == [7, 8, 9]


def test_it_stops_at_the_limit_without_a_step_for_nothing():
    done, fed = run([7, 8, 9, END], max_tokens=2)
    assert (done.tokens, done.finish) == ((7, 8), "limit")
    assert fed == [7]
    assert run([7, 8, END], max_tokens=3)[0].finish == "end"


def test_forced_tokens_are_exactly_so_many_past_any_end_mark():
    done, fed = run([7, END, 8, END, 9, 10], max_tokens=2, force_tokens=5)
    assert (done.tokens, done.finish) == ((7, END, 8, END, 9), "limit")
    assert fed == [7, END, 8, END]


def test_an_empty_answer_is_an_answer():
    done, fed = run([END])
    assert (done.tokens, done.finish, done.tokens_per_s, fed) == ((), "end", None, [])


def test_any_of_several_ends_ends():
    done = decode(Script([7, 30]), frozenset({END, 30}), Stopwatch())
    assert (done.tokens, done.finish) == ((7,), "end")


def test_speed_is_steps_after_the_first_token_over_their_time():
    """A look at the clock costs 1 ms here: one when the first token is known, one at the end; each step takes 9 ms."""
    clock = Ticks()

    class Slow(Script):
        def step(self, token):
            clock.now += 9_000_000
            super().step(token)

    watch = Stopwatch(clock)
    done = decode(Slow([7, 8, 9, 10, END]), frozenset({END}), watch)
    assert done.first_token_ms == 1.0
    assert done.tokens_per_s == pytest.approx(1000 * 4 / (4 * 9 + 1))
    limited = decode(Slow([7, 8, 9, 10]), frozenset({END}), Stopwatch(clock), max_tokens=3)
    assert limited.tokens_per_s == pytest.approx(1000 * 2 / (2 * 9 + 1))  # three tokens, two steps after the first
    assert decode(Slow([7, 8]), frozenset({END}), Stopwatch(clock), max_tokens=1).tokens_per_s is None


@pytest.mark.parametrize("limits", ({"max_tokens": 0}, {"force_tokens": 0}, {"force_tokens": -3}))
def test_a_limit_below_one_is_refused(limits):
    with pytest.raises(BadInput, match=f"{next(iter(limits.values()))} answer tokens"):
        run([7], **limits)


def test_the_loop_is_never_handed_an_answer():
    assert list(inspect.signature(decode).parameters) == ["state", "end_ids", "watch", "max_tokens", "force_tokens"]
