"""Batched answers against the loop that answers one question at a time."""

import pytest

from legato.clock import Stopwatch
from legato.errors import OrganMismatch, SpaceError
from legato.listen.batch import answers
from legato.listen.decode import decode
from legato.pocket.tiny import sound

LIMIT = 12


@pytest.fixture(scope="module")
def small(pair):
    return pair[1]


@pytest.fixture(scope="module")
def heard(small):
    return [small.listen(sound(seconds, seed=i)) for i, seconds in enumerate((0.3, 4.0, 1.1, 2.2, 0.9, 3.0, 1.9))]


@pytest.fixture(scope="module")
def alone(small, heard):
    """(end_ids) -> what the plain loop says to each."""

    def say(end_ids):
        replies = []
        for h in heard:
            state = small.start(h.memory.place(small.rotary), h.prompt.ids[-1], h.memory.length + LIMIT)
            replies.append(list(decode(state, end_ids, Stopwatch(), max_tokens=LIMIT).tokens))
        return replies

    return say


def test_many_at_once_say_what_each_says_alone(small, heard, alone):
    memories, last = [h.memory for h in heard], heard[0].prompt.ids[-1]
    assert len({m.length for m in memories}) == len(memories)
    free = alone(frozenset())
    assert len({tuple(reply) for reply in free}) == len(free)
    assert answers(small.model, memories, last, LIMIT, frozenset()) == free


def test_rows_end_one_by_one_and_the_rest_go_on(small, heard, alone):
    """Ends are chosen from what is said, so that answers stop early, late, at once and never."""
    free = alone(frozenset())
    ends = {free[0][0], free[1][1], free[2][3], free[3][3], free[4][5]} - set(free[6])
    wanted = alone(ends)
    assert [] in wanted and max(map(len, wanted)) == LIMIT and len({len(reply) for reply in wanted}) >= 4
    assert answers(small.model, [h.memory for h in heard], heard[0].prompt.ids[-1], LIMIT, ends) == wanted


def test_the_order_and_the_company_do_not_matter(small, heard):
    last = heard[0].prompt.ids[-1]
    together = answers(small.model, [h.memory for h in heard], last, LIMIT, frozenset())
    assert answers(small.model, [h.memory for h in heard][::-1], last, LIMIT, frozenset()) == together[::-1]
    assert answers(small.model, [heard[2].memory], last, LIMIT, frozenset()) == together[2:3]


def test_memories_are_not_written_to(small, heard):
    before = [h.memory.keys.clone() for h in heard]
    answers(small.model, [h.memory for h in heard], heard[0].prompt.ids[-1], LIMIT, frozenset())
    assert all((h.memory.keys == keys).all() for h, keys in zip(heard, before, strict=True))


def test_placed_and_foreign_memories_are_refused(small, pair, heard):
    with pytest.raises(SpaceError, match="content"):
        answers(small.model, [heard[0].memory.place(small.rotary)], 11, LIMIT, frozenset())
    with pytest.raises(OrganMismatch, match="5 layers"):
        answers(small.model, [pair[0].listen(sound()).memory], 11, LIMIT, frozenset())
