"""The five arms on tiny models: the laws that tie them together, and what an answer says of its cost."""

import inspect

import pytest

from legato.errors import BadInput, OrganMismatch
from legato.listen.arms import NAMES, HandoffArm, five, warm
from legato.listen.handoff import Handoff
from legato.organs import Arm
from legato.pocket.tiny import sound, tiny_listener

STEPS = {
    "small": {"prefill_ms", "place_ms"},
    "mapped": {"prefill_ms", "map_ms", "place_ms"},
    "control": {"prefill_ms", "correct_ms", "place_ms"},
    "transfer": {"prefill_ms", "map_ms", "correct_ms", "place_ms"},
    "large": {"prefill_ms", "place_ms"},
}


@pytest.fixture(scope="module")
def arms(pair, mapper, residual):
    large, small = pair
    return five(small, large, mapper(large, small), residual(0.3), residual(0.3))


def test_five_names_one_interface(arms):
    assert tuple(arms) == NAMES == tuple(arm.name for arm in arms.values())
    assert all(isinstance(arm, Arm) for arm in arms.values())


def test_the_arms_differ_and_each_says_the_same_twice(arms):
    audio = sound(1.8, seed=4)
    first, again = ({name: arm.answer(audio, max_tokens=6).tokens for name, arm in arms.items()} for _ in range(2))
    assert first == again
    assert len(set(first.values())) == 5


def test_an_identity_map_between_equal_models_is_the_native_answer(mapper, residual):
    one, twin = tiny_listener("one", seed=5), tiny_listener("twin", seed=5)
    arms = five(twin, one, mapper(one, twin), residual(0.0), residual(0.0))
    for seed in range(3):
        said = {arm.answer(sound(1.0 + seed, seed=seed), force_tokens=24).tokens for arm in arms.values()}
        assert len(said) == 1


def test_a_residual_of_zero_is_the_mapped_answer_and_the_native_one(pair, mapper, residual):
    large, small = pair
    arms = five(small, large, mapper(large, small), residual(0.0), residual(0.0))
    said = {name: arm.answer(sound(), force_tokens=24).tokens for name, arm in arms.items()}
    assert said["transfer"] == said["mapped"] != said["small"] == said["control"]


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_names_the_steps_that_its_arm_has(arms, name):
    answer = arms[name].answer(sound(), max_tokens=5)
    steps = {step: getattr(answer, step) for step in ("prefill_ms", "map_ms", "correct_ms", "place_ms")}
    assert {step for step, ms in steps.items() if ms is not None} == STEPS[name]
    spent = [ms for ms in steps.values() if ms is not None]
    assert min(spent) > 0 and sum(spent) < answer.first_token_ms < answer.total_ms
    assert answer.decode_tokens_per_s > 0
    assert answer.text == " ".join(str(token) for token in answer.tokens)


@pytest.mark.parametrize("name", NAMES)
def test_forced_lengths_are_exact_and_begin_like_free_answers(arms, name):
    forced = arms[name].answer(sound(), force_tokens=31)
    assert len(forced.tokens) == 31 and forced.finish == "limit"
    free = arms[name].answer(sound(), max_tokens=7)
    assert free.finish == "end" or len(free.tokens) == 7
    assert forced.tokens[: len(free.tokens)] == free.tokens
    assert arms[name].answer(sound(), force_tokens=1).decode_tokens_per_s is None


def test_an_end_mark_ends_every_arm(pair, mapper, residual, monkeypatch):
    large, small = pair
    arms = five(small, large, mapper(large, small), residual(0.3), residual(0.3))
    for name, arm in arms.items():
        said = arm.answer(sound(), max_tokens=8).tokens
        stop = said.index(said[-1])
        monkeypatch.setattr(large if name == "large" else small, "end_ids", frozenset({said[-1]}))
        answer = arm.answer(sound(), max_tokens=8)
        assert (answer.tokens, answer.finish) == (said[:stop], "end")


def test_parts_of_another_pair_are_refused(pair, mapper, residual):
    large, small = pair
    stranger = tiny_listener("stranger", seed=9, layers=4)
    with pytest.raises(OrganMismatch, match="4 layers"):
        five(stranger, large, mapper(large, small), residual(0.0), residual(0.0))


def test_no_arm_is_handed_an_answer():
    assert list(inspect.signature(HandoffArm.answer).parameters) == ["self", "audio", "max_tokens", "force_tokens"]
    assert list(inspect.signature(Handoff.hear).parameters) == ["self", "audio", "watch"]
    assert list(inspect.signature(Handoff.begin).parameters) == ["self", "heard", "room", "watch"]


def test_no_tokens_is_a_mistake(arms):
    with pytest.raises(BadInput, match="0 answer tokens"):
        arms["transfer"].answer(sound(), max_tokens=0)


def test_warming_runs_every_arm_on_one_sound():
    class Noted:
        def __init__(self):
            self.heard = []

        def answer(self, audio, *, max_tokens=48, force_tokens=None):
            self.heard.append((audio.sha256, force_tokens))

    arms = [Noted(), Noted()]
    warm(arms)
    warm(arms)
    assert len(arms[0].heard) == 2 and len({*arms[0].heard, *arms[1].heard}) == 1
