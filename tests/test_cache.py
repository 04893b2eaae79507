"""A cache knows its space, its room and its shape, and says so when asked for another."""

import pytest
import torch

from legato.cache import Cache, Geometry, Space
from legato.errors import OrganMismatch, SpaceError
from legato.rotary import Rotary

GEOMETRY, ROTARY = Geometry(3, 2, 8), Rotary(8)


def filled(space: Space, length: int = 5, capacity: int = 9, start: int = 0) -> Cache:
    cache = Cache.allocate(GEOMETRY, capacity, batch=2, space=space, start=start)
    generator = torch.Generator().manual_seed(length)
    for store in (cache.keys, cache.values):
        store[..., :length, :] = torch.randn(3, 2, 2, length, 8, generator=generator)
    cache.length = length
    return cache


def test_shapes():
    cache = filled(Space.CONTENT)
    assert (cache.geometry, cache.batch, cache.capacity, cache.length) == (GEOMETRY, 2, 9, 5)
    assert GEOMETRY.features == 16
    keys, values = cache.filled()
    assert keys.shape == values.shape == (3, 2, 2, 5, 8)
    keys.fill_(1.0)  # views, not copies
    assert (cache.keys[..., :5, :] == 1).all() and (cache.keys[..., 5:, :] == 0).all()


def test_place_and_lift_are_inverse_and_leave_values_alone():
    content = filled(Space.CONTENT)
    placed = content.place(ROTARY, start=4, capacity=20)
    assert (placed.space, placed.start, placed.length, placed.capacity) == (Space.PLACED, 4, 5, 20)
    assert torch.equal(placed.filled()[1], content.filled()[1])
    assert not torch.allclose(placed.filled()[0], content.filled()[0], atol=0.1)
    lifted = placed.lift(ROTARY)
    assert (lifted.space, lifted.start) == (Space.CONTENT, None)
    assert torch.allclose(lifted.filled()[0], content.filled()[0], atol=1e-6)


def test_each_token_is_turned_by_its_own_position():
    content = filled(Space.CONTENT)
    placed = content.place(ROTARY, start=4)
    for i in range(5):
        expected = ROTARY.place(content.keys[..., i : i + 1, :], torch.tensor([4 + i]))
        assert torch.allclose(placed.keys[..., i : i + 1, :], expected, atol=1e-6)


def test_moving_a_placed_cache_equals_placing_it_there():
    content = filled(Space.CONTENT)
    moved = content.place(ROTARY, start=4).lift(ROTARY).place(ROTARY, start=100)
    assert torch.allclose(moved.filled()[0], content.place(ROTARY, start=100).filled()[0], atol=1e-5)


def test_placing_copies_so_that_a_memory_serves_many_turns():
    content = filled(Space.CONTENT)
    before = content.keys.clone()
    content.place(ROTARY).keys.zero_()
    assert torch.equal(content.keys, before)


def test_mixing_spaces_raises():
    content = filled(Space.CONTENT)
    placed = content.place(ROTARY)
    with pytest.raises(SpaceError, match="placing needs content keys, but this cache holds placed keys; lift"):
        placed.place(ROTARY)
    with pytest.raises(SpaceError, match="lifting needs placed keys, but this cache holds content keys; place"):
        content.lift(ROTARY)
    with pytest.raises(SpaceError, match="a decode step needs placed keys"):
        content.require(Space.PLACED, "a decode step")


def test_another_geometry_raises_with_both():
    with pytest.raises(OrganMismatch, match="needs a cache of 4 layers x 2 heads x 8, but this one has 3 layers"):
        filled(Space.CONTENT).require_geometry(Geometry(4, 2, 8), "the mapper")


def test_a_prefix_shares_storage_and_has_no_room_to_grow_into_its_neighbour():
    cache = filled(Space.PLACED, start=3)
    prefix = cache.prefix(2)
    assert (prefix.length, prefix.capacity, prefix.start) == (2, 2, 3)
    assert prefix.keys.data_ptr() == cache.keys.data_ptr()
    with pytest.raises(OrganMismatch, match="a prefix of 6 tokens was asked of a cache that holds 5"):
        cache.prefix(6)


def test_dtype_conversion_keeps_everything_else():
    half = filled(Space.PLACED, start=3).to(torch.bfloat16)
    assert (half.keys.dtype, half.values.dtype, half.length, half.space, half.start) == (
        torch.bfloat16, torch.bfloat16, 5, Space.PLACED, 3)
