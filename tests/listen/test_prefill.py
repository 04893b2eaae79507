"""Hearing once: what comes out is timed and checked, and a memory that breaks the n - 1 rule goes no further."""

import dataclasses

import pytest
import torch

from legato.cache import Cache, Geometry
from legato.clock import Stopwatch
from legato.errors import OrganMismatch, SpaceError
from legato.listen.prefill import hear, require_memory
from legato.pocket.tiny import sound, tiny_listener


@pytest.fixture(scope="module")
def listener():
    return tiny_listener("ears", seed=3)


@pytest.fixture(scope="module")
def heard(listener):
    return listener.listen(sound())


def test_hearing_is_one_span_and_nothing_is_changed(listener):
    audio, watch = sound(), Stopwatch()
    heard, plain = hear(listener, audio, watch), listener.listen(audio)
    assert list(watch.ms) == ["prefill"] and watch.ms["prefill"] > 0
    assert heard.prompt == plain.prompt and torch.equal(heard.memory.keys, plain.memory.keys)


def test_a_listener_that_remembers_the_last_token_too_is_refused(listener, monkeypatch):
    def all_n(audio, listen=listener.listen):
        heard = listen(audio)
        keys, values = (torch.cat((part, part[..., -1:, :]), dim=3) for part in heard.memory.filled())
        return dataclasses.replace(heard, memory=Cache(keys, values, heard.memory.length + 1, heard.memory.space))

    n = len(listener.prompt(sound()).ids)
    monkeypatch.setattr(listener, "listen", all_n)
    with pytest.raises(OrganMismatch, match=rf"ears holds {n} tokens .* prompt of {n} tokens needs {n - 1}:"):
        hear(listener, sound(), Stopwatch())


def test_a_memory_one_short_is_refused_with_both_numbers(heard):
    n = len(heard.prompt.ids)
    with pytest.raises(OrganMismatch, match=rf"holds {n - 2} tokens .* needs {n - 1}:"):
        require_memory(heard.memory.prefix(n - 2), heard.prompt, heard.memory.geometry, "it")


def test_placed_keys_and_strange_shapes_are_refused(listener, heard):
    require_memory(heard.memory, heard.prompt, listener.geometry, "it")
    with pytest.raises(SpaceError, match="content.*placed"):
        require_memory(heard.memory.place(listener.rotary), heard.prompt, listener.geometry, "it")
    with pytest.raises(OrganMismatch, match="9 layers"):
        require_memory(heard.memory, heard.prompt, Geometry(9, 2, 12), "it")


@pytest.mark.parametrize("bad", (float("nan"), float("inf"), float("-inf")))
@pytest.mark.parametrize("part", ("keys", "values"))
def test_one_number_that_is_not_finite_is_found_and_its_layer_named(heard, part, bad):
    keys, values = (tensor.clone() for tensor in heard.memory.filled())
    memory = Cache(keys, values, heard.memory.length, heard.memory.space)
    getattr(memory, part)[1, 0, 1, -1, 3] = bad
    with pytest.raises(OrganMismatch, match="mapped memory holds NaN or infinite numbers, first in layer 1 of 3"):
        require_memory(memory, heard.prompt, memory.geometry, "the mapped memory")


def test_rubbish_beyond_the_length_is_nobodys_business(heard):
    keys, values = (torch.nn.functional.pad(part, (0, 0, 0, 2), value=float("nan")) for part in heard.memory.filled())
    memory = Cache(keys, values, heard.memory.length, heard.memory.space)
    require_memory(memory, heard.prompt, memory.geometry, "it")
