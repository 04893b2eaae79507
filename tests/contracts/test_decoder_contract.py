"""What every `TextDecoder` keeps: placed memories only, and neither they nor other answers are disturbed."""

import pytest
import torch

from legato.cache import Cache, Geometry, Space
from legato.errors import OrganMismatch, SpaceError
from legato.pocket.tiny import sound

ROOM = 8


@pytest.fixture(scope="module")
def heard(organ):
    return organ.listen(sound(1.1, seed=5))


def begin(organ, heard, start=0, room=ROOM):
    return organ.start(heard.memory.place(organ.rotary, start=start), heard.prompt.ids[-1], heard.memory.length + room)


def follow(state, tokens):
    """The logits after the start and after each token, copied."""
    seen = [state.logits.clone()]
    for token in tokens:
        state.step(token)
        seen.append(state.logits.clone())
    return torch.stack(seen)  # (1 + tokens, vocab)


def apart(one, other):
    return ((one.float() - other.float()).abs().max() / one.float().abs().max()).item()


def test_logits_are_finite_and_move_on(organ, heard):
    seen = follow(begin(organ, heard), [5, 17, 5])
    assert seen.dim() == 2 and seen.isfinite().all()
    assert all(apart(a, b) > 0.01 for a, b in zip(seen, seen[1:], strict=False))


def test_decoding_twice_is_decoding_the_same(organ, heard):
    assert torch.equal(follow(begin(organ, heard), [5, 17, 5]), follow(begin(organ, heard), [5, 17, 5]))


def test_the_memory_is_used(organ, heard):
    other = organ.listen(sound(1.1, seed=6))
    assert apart(follow(begin(organ, heard), [5]), follow(begin(organ, other), [5])) > 0.01


def test_content_keys_are_refused(organ, heard):
    with pytest.raises(SpaceError, match="placed.*content"):
        organ.start(heard.memory, heard.prompt.ids[-1], heard.memory.length + ROOM)


def test_another_geometry_is_refused(organ, heard):
    g = organ.geometry
    strange = Cache.allocate(Geometry(g.layers + 1, g.kv_heads, g.head_dim), 40, space=Space.PLACED)
    strange.length = heard.memory.length
    with pytest.raises(OrganMismatch, match=f"{g.layers + 1} layers"):
        organ.start(strange, heard.prompt.ids[-1], 40)


def test_no_room_for_a_token_is_refused(organ, heard):
    with pytest.raises(OrganMismatch, match=f"{heard.memory.length}"):
        begin(organ, heard, room=0)


def test_the_last_token_fills_the_room_exactly(organ, heard):
    roomy, tight = follow(begin(organ, heard, room=ROOM), [3, 4]), follow(begin(organ, heard, room=3), [3, 4])
    assert apart(roomy, tight) < 1e-3


def test_decoding_leaves_the_memory_as_it_was(organ, heard):
    placed = heard.memory.place(organ.rotary, capacity=heard.memory.length + ROOM)
    keys, values = placed.keys.clone(), placed.values.clone()
    follow(organ.start(placed, heard.prompt.ids[-1], heard.memory.length + ROOM), [5, 17, 5])
    assert placed.length == heard.memory.length
    assert torch.equal(placed.keys, keys) and torch.equal(placed.values, values)


def test_two_answers_from_one_memory_do_not_disturb_each_other(organ, heard):
    placed = heard.memory.place(organ.rotary, capacity=heard.memory.length + ROOM)
    first, second = (organ.start(placed, heard.prompt.ids[-1], heard.memory.length + ROOM) for _ in range(2))
    one, other = [first.logits.clone()], [second.logits.clone()]
    for a, b in ((5, 90), (17, 91), (5, 92)):
        first.step(a)
        second.step(b)
        one.append(first.logits.clone())
        other.append(second.logits.clone())
    assert torch.equal(torch.stack(one), follow(begin(organ, heard), [5, 17, 5]))
    assert torch.equal(torch.stack(other), follow(begin(organ, heard), [90, 91, 92]))


def test_a_memory_placed_elsewhere_goes_on_the_same(organ, heard, rounding):
    here, there = follow(begin(organ, heard), [5, 17, 5]), follow(begin(organ, heard, start=37), [5, 17, 5])
    assert apart(here, there) < rounding


def test_ends_and_text(organ):
    assert organ.end_ids and all(isinstance(i, int) for i in organ.end_ids)
    assert organ.text([]) == ""
    assert isinstance(organ.text([260, 261]), str) and organ.text([260, 261]).strip() == organ.text([260, 261])
