"""Stand-ins for what a fit would make: maps and corrections of known effect between tiny models."""

from types import SimpleNamespace

import pytest

from legato.cache import Cache, Geometry
from legato.organs import Heard
from legato.pocket.tiny import tiny_listener


class Mapper:
    """Takes the last layers of a deeper memory, or all of an equal one, and calls `change` on the result."""

    def __init__(self, source: Geometry, target: Geometry, change=None):
        self.config, self.change = SimpleNamespace(source=source, target=target), change

    def __call__(self, heard: Heard) -> Cache:
        memory = heard.memory
        keys, values = (part[-self.config.target.layers :].clone() for part in memory.filled())
        mapped = Cache(keys, values, memory.length, memory.space)
        return mapped if self.change is None else self.change(mapped)


@pytest.fixture(scope="session")
def mapper():
    """(large, small, change) -> a mapper between them."""
    return lambda large, small, change=None: Mapper(large.geometry, small.geometry, change)


@pytest.fixture(scope="session")
def residual():
    """(size) -> a residual that adds `size` times the source's last layers to the base, and notes what it was given."""

    def make(size: float):
        def correct(source: Cache, base: Cache) -> Cache:
            correct.calls.append((source, base))
            layers = base.geometry.layers
            keys, values = (b + size * s[-layers:] for s, b in zip(source.filled(), base.filled(), strict=True))
            return Cache(keys, values, base.length, base.space)

        correct.calls = []
        return correct

    return make


@pytest.fixture(scope="session")
def pair():
    """large (5 layers) and small (3), one width of heads, so that the stand-in mapper fits."""
    return tiny_listener("large", seed=21, layers=5), tiny_listener("small", seed=22, layers=3)
