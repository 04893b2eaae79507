"""Replaying an arm from a capture gives the memories and the words that the arm itself would have had."""

import pytest
import torch

from legato.cache import Cache, Space
from legato.listen.batch import answers
from legato.listen.mapper import CacheMapper, MapConfig, flatten, nearest
from legato.listen.replay import agreement, memories, said
from legato.listen.residual import CacheResidual, ResidualConfig
from legato.pocket.prompt import END, HEADER, START, TAIL


def maps(source, target) -> MapConfig:
    return MapConfig(source, target, nearest(source, target), len(HEADER), len(TAIL))


@pytest.fixture(scope="module")
def parts(pair):
    """(mapper, residual, control) of small random numbers."""
    large, small = pair
    torch.manual_seed(0)
    mapper = CacheMapper(maps(large.geometry, small.geometry))
    residual = CacheResidual(ResidualConfig(mapper.config, 4))
    control = CacheResidual(ResidualConfig(maps(small.geometry, small.geometry), 4))
    with torch.no_grad():
        for t in (*mapper.buffers(), *residual.parameters(), *control.parameters()):
            t.copy_(0.3 * torch.randn(t.shape))
    return mapper, residual, control


@pytest.fixture(scope="module")
def arms(parts):
    """name -> (residual, mapper, control?)"""
    mapper, residual, control = parts
    return {"mapped": (None, mapper, False), "transfer": (residual, mapper, False), "control": (control, None, True),
            "own base": (residual, None, False)}


@pytest.fixture(scope="module")
def by_id(paired):
    return {p.id: p for p in paired(24)}


def carried(p, name, parts):
    """What the arm makes of the memories in hand."""
    mapper, residual, control = parts
    if name == "control":
        return control(p.small.memory, p.small.memory)
    if name == "own base":
        return residual(p.large.memory, p.small.memory)
    mapped = mapper(p.large)
    return mapped if name == "mapped" else residual(p.large.memory, mapped)


@pytest.mark.parametrize("name", ("mapped", "transfer", "control", "own base"))
def test_memories_are_those_of_the_arm(by_id, captured, parts, arms, name):
    residual, mapper, control = arms[name]
    batch = [e for e in captured.entries if e.question == 4]
    keys, values = memories(residual, mapper, captured, batch, control, torch.float32)
    for b, e in enumerate(batch):
        wanted = flatten(carried(by_id[e.id], name, parts))
        got = flatten(Cache(keys[:, b : b + 1], values[:, b : b + 1], e.length, Space.CONTENT))
        torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)  # float16 lies between


def test_replies_are_those_to_each_memory_alone(pair, captured, arms):
    small = pair[1]
    residual, mapper, control = arms["transfer"]
    how = {"last_id": START, "end_ids": small.end_ids, "max_tokens": 5}
    replies = said(small.model, captured, captured.entries, residual, mapper, batch=3, **how)
    assert len({len(captured.large(e)) for e in captured.entries}) == 3 and len(replies) == 24
    for e in captured.entries[:6]:
        memory = Cache(*memories(residual, mapper, captured, [e], control, torch.float32), e.length, Space.CONTENT)
        assert replies[e.id] == answers(small.model, [memory], START, 5, small.end_ids)[0]
    assert len({tuple(reply) for reply in replies.values()}) > 5


def test_agreement_counts_whole_answers_without_end_marks(captured):
    entries = captured.entries[:4]
    exact = {e.id: [t for t in e.answer if t != END] for e in entries}
    assert agreement(exact, entries, {END}) == 1
    exact[entries[0].id] = exact[entries[0].id][:-1]
    exact[entries[1].id] = [*exact[entries[1].id], 9]
    assert agreement(exact, entries, {END}) == 0.5
