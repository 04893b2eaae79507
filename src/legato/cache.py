"""`Cache`: what a decoder remembers of a prefix, and whether its keys are placed or content.

Storage is allocated once, (L, B, H, capacity, D) for keys and for values, so a decode step writes in place. A cache
knows its space: *content* keys carry no position (only these may be mapped or corrected), *placed* keys are turned by
the positions start, start + 1, ... (only these may be attended to). Asking for the wrong one raises `SpaceError`.

Shapes: L layers, B batch, H key/value heads, T tokens, D head width.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from legato.errors import OrganMismatch, SpaceError
from legato.rotary import Rotary


class Space(StrEnum):
    CONTENT = "content"  # keys before rotation
    PLACED = "placed"  # keys turned by their positions


@dataclass(frozen=True)
class Geometry:
    """The shape of a model's memory."""

    layers: int
    kv_heads: int
    head_dim: int

    @property
    def features(self) -> int:
        """Numbers per token and layer, for keys or for values: H * D."""
        return self.kv_heads * self.head_dim

    def __str__(self) -> str:
        return f"{self.layers} layers x {self.kv_heads} heads x {self.head_dim}"


class Cache:
    """Keys and values of the first `length` tokens of a prefix.

    Attributes:
        keys, values: (L, B, H, capacity, D); only [..., :length, :] is meaningful.
        space: content or placed.
        start: position of the first token when placed; None in content space.
    """

    def __init__(self, keys: Tensor, values: Tensor, length: int, space: Space, start: int | None = None) -> None:
        assert keys.shape == values.shape and keys.dim() == 5, (keys.shape, values.shape)
        assert 0 <= length <= keys.shape[3], (length, keys.shape)
        assert (start is not None) == (space is Space.PLACED), (space, start)
        self.keys, self.values, self.length, self.space, self.start = keys, values, length, space, start

    @classmethod
    def allocate(
        cls, geometry: Geometry, capacity: int, *, batch: int = 1, space: Space, dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu", start: int = 0,
    ) -> Cache:
        """An empty cache with room for `capacity` tokens."""
        shape = (geometry.layers, batch, geometry.kv_heads, capacity, geometry.head_dim)
        keys, values = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
        return cls(keys, values, 0, space, start if space is Space.PLACED else None)

    @property
    def geometry(self) -> Geometry:
        layers, _, heads, _, width = self.keys.shape
        return Geometry(layers, heads, width)

    @property
    def batch(self) -> int:
        return self.keys.shape[1]

    @property
    def capacity(self) -> int:
        return self.keys.shape[3]

    def filled(self) -> tuple[Tensor, Tensor]:
        """Views of the meaningful part: keys, values, each (L, B, H, length, D)."""
        return self.keys[..., : self.length, :], self.values[..., : self.length, :]

    def require(self, space: Space, purpose: str) -> None:
        """Raise SpaceError unless the keys are in `space`."""
        if self.space is not space:
            raise SpaceError(f"{purpose} needs {space.value} keys, but this cache holds {self.space.value} keys; "
                             f"{'lift' if space is Space.CONTENT else 'place'} it first.")

    def require_geometry(self, geometry: Geometry, purpose: str) -> None:
        if self.geometry != geometry:
            raise OrganMismatch(f"{purpose} needs a cache of {geometry}, but this one has {self.geometry}.")

    def place(self, rotary: Rotary, *, start: int = 0, capacity: int | None = None) -> Cache:
        """Content -> placed at start, start + 1, ..., in a new cache with room for `capacity` tokens."""
        self.require(Space.CONTENT, "placing")
        return self._moved(rotary.place, Space.PLACED, start, capacity)

    def lift(self, rotary: Rotary) -> Cache:
        """Placed -> content, exact up to rounding."""
        self.require(Space.PLACED, "lifting")
        return self._moved(rotary.lift, Space.CONTENT, None, None)

    def _moved(self, turn, space: Space, start: int | None, capacity: int | None) -> Cache:
        keys, values = self.filled()
        capacity = max(self.length, capacity or self.length)
        moved = Cache.allocate(self.geometry, capacity, batch=self.batch, space=space, dtype=keys.dtype,
                               device=keys.device, start=start or 0)
        begin = self.start if start is None else start
        assert begin is not None
        positions = torch.arange(begin, begin + self.length, device=keys.device)
        moved.keys[..., : self.length, :] = turn(keys, positions)
        moved.values[..., : self.length, :] = values
        moved.length = self.length
        return moved

    def prefix(self, length: int) -> Cache:
        """The first `length` tokens, sharing storage."""
        if not 0 <= length <= self.length:
            raise OrganMismatch(f"a prefix of {length} tokens was asked of a cache that holds {self.length}.")
        return Cache(self.keys[..., :length, :], self.values[..., :length, :], length, self.space, self.start)

    def to(self, dtype: torch.dtype) -> Cache:
        return Cache(self.keys.to(dtype), self.values.to(dtype), self.length, self.space, self.start)
