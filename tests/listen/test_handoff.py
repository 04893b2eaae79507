"""The handoff: order and names of its steps, and everything it must refuse."""

import pytest
import torch

from legato.cache import Cache
from legato.clock import Stopwatch
from legato.errors import OrganMismatch, SpaceError
from legato.listen.handoff import Handoff, require_same_prompt
from legato.organs import Prompt
from legato.pocket.tiny import sound


def begin(handoff, audio, room=4):
    watch = Stopwatch()
    return handoff.begin(handoff.hear(audio, watch), room, watch), watch


def test_the_steps_are_timed_one_by_one_in_their_order(pair, mapper, residual):
    large, small = pair
    _, watch = begin(Handoff(large, small, mapper(large, small), residual(0.1)), sound())
    assert list(watch.ms) == ["prefill", "map", "correct", "place", "install"]
    assert all(ms > 0 for ms in watch.ms.values())
    assert sum(watch.ms.values()) <= watch.elapsed_ms
    assert list(begin(Handoff(small, small), sound())[1].ms) == ["prefill", "place", "install"]


def test_the_decoder_reads_the_mapped_memory_and_not_its_own(pair, mapper):
    large, small = pair
    audio = sound()
    heard = large.listen(audio)
    mapped = mapper(large, small)(heard)
    wanted = small.start(mapped.place(small.rotary), heard.prompt.ids[-1], mapped.length + 4).logits
    handed, _ = begin(Handoff(large, small, mapper(large, small)), audio)
    native, _ = begin(Handoff(small, small), audio)
    assert torch.equal(handed.logits, wanted)
    assert (handed.logits - native.logits).abs().max() > 0.1


def test_a_residual_gets_the_listeners_memory_and_the_mapped_one(pair, mapper, residual):
    large, small = pair
    audio, correct = sound(), residual(0.0)
    begin(Handoff(large, small, mapper(large, small), correct), audio)
    (source, base), heard = correct.calls[0], large.listen(audio)
    assert torch.equal(source.keys, heard.memory.keys)
    assert torch.equal(base.keys, mapper(large, small)(heard).keys)


def test_without_a_mapper_a_residual_sees_the_small_model_alone(pair, residual):
    _, small = pair
    audio, correct = sound(), residual(0.0)
    begin(Handoff(small, small, residual=correct), audio)
    (source, base), own = correct.calls[0], small.listen(audio).memory
    assert torch.equal(source.keys, own.keys) and torch.equal(base.keys, own.keys)


def test_geometries_must_meet_before_anything_is_heard(pair, mapper):
    large, small = pair
    with pytest.raises(OrganMismatch, match="small takes a memory of 3 layers.*large remembers 5 layers"):
        Handoff(large, small)
    with pytest.raises(OrganMismatch, match="mapper takes a memory of 5 layers.*small remembers 3 layers"):
        Handoff(small, small, mapper(large, small))
    with pytest.raises(OrganMismatch, match="mapper gives a memory of 3 layers.*large needs 5 layers"):
        Handoff(large, large, mapper(large, small))


def test_different_prompts_are_refused(pair, mapper, monkeypatch):
    large, small = pair
    handoff, audio = Handoff(large, small, mapper(large, small)), sound()
    n = len(small.prompt(audio).ids)
    for change, message in (
        (lambda p: Prompt(p.ids + (9,), p.audio), f"large reads {n} tokens and small {n + 1}"),
        (lambda p: Prompt(p.ids[:1] + (9,) + p.ids[2:], p.audio), "at position 1 large reads 4093 and small 9;"),
    ):
        monkeypatch.setattr(small, "prompt", lambda audio, change=change: change(type(small).prompt(small, audio)))
        with pytest.raises(OrganMismatch, match=message):
            begin(handoff, audio)


def test_equal_ids_with_the_audio_elsewhere_are_no_equal_prompts():
    require_same_prompt("a", Prompt((1, -1, 2), slice(1, 2)), "b", Prompt((1, -1, 2), slice(1, 2)))
    with pytest.raises(OrganMismatch, match="a and b find the audio in other places"):
        require_same_prompt("a", Prompt((1, -1, 2), slice(1, 2)), "b", Prompt((1, -1, 2), slice(0, 2)))


def longer(memory: Cache) -> Cache:
    keys, values = (torch.cat((part, part[..., -1:, :]), dim=3) for part in memory.filled())
    return Cache(keys, values, memory.length + 1, memory.space)


def poisoned(memory: Cache) -> Cache:
    memory.values[2, 0, 0, 0, 0] = float("nan")
    return memory


def fewer_layers(memory: Cache) -> Cache:
    return Cache(memory.keys[1:], memory.values[1:], memory.length, memory.space)


@pytest.mark.parametrize(("change", "message"), (
    (longer, "the mapped memory holds .* needs"),
    (lambda memory: memory.prefix(memory.length - 1), "the mapped memory holds .* needs"),
    (poisoned, "the mapped memory holds NaN"),
    (fewer_layers, "needs a cache of 3 layers .* has 2 layers"),
))  # fmt: skip
def test_a_map_that_gives_something_else_is_refused(pair, mapper, change, message):
    large, small = pair
    with pytest.raises(OrganMismatch, match=message):
        begin(Handoff(large, small, mapper(large, small, change)), sound())


def test_a_map_that_places_keys_is_refused(pair, mapper):
    large, small = pair
    with pytest.raises(SpaceError, match="mapped memory needs content keys"):
        begin(Handoff(large, small, mapper(large, small, lambda memory: memory.place(small.rotary))), sound())


def test_a_residual_that_overflows_is_refused(pair, mapper, residual):
    large, small = pair
    with pytest.raises(OrganMismatch, match="the corrected memory holds NaN or infinite"):
        begin(Handoff(large, small, mapper(large, small), residual(float("inf"))), sound())
