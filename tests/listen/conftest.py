"""Stand-ins for what a fit would make: maps and corrections of known effect between tiny models.

And memories to fit on: of no model but planted, so that the right map is known, and of two tiny models.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from legato.cache import Cache, Geometry, Space
from legato.listen.batch import answers
from legato.listen.capture import Capture, Pair, capture
from legato.listen.capture import pair as complete
from legato.listen.mapper import unflatten
from legato.organs import Heard, Prompt
from legato.pocket.prompt import END, START
from legato.pocket.tiny import EAR, tiny_listener


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


@dataclass
class Planted:
    """Paired memories in which the small one follows linearly from the large one, layer i from layer i + 1.

    The tail's positions have means of their own, far from zero. The told tail follows by another matrix.
    """

    source: Geometry = Geometry(4, 2, 4)  # F = 16
    target: Geometry = Geometry(3, 1, 6)  # G = 12
    header: int = 2
    tail: int = 3
    noise: float = 0.0
    weights: dict[str, Tensor] = field(default_factory=dict)  # part -> (L, F, G)

    def __post_init__(self) -> None:
        draw = torch.Generator().manual_seed(3)
        F, G, L = 2 * self.source.features, 2 * self.target.features, self.target.layers
        for part in ("question", "own", "told"):
            self.weights[part] = torch.randn(L, F, G, generator=draw) * F**-0.5
        self.start = torch.randn(self.header, L, G, generator=draw)
        self.large_mean = 4 * torch.randn(1 + self.tail, self.source.layers, F, generator=draw)
        self.small_mean = 4 * torch.randn(1 + self.tail, L, G, generator=draw)

    @property
    def reads(self) -> tuple[tuple[int, ...], ...]:
        return tuple((i + 1,) for i in range(self.target.layers))

    def pair(self, i: int, question: int = 4, heard: bool = True, **changes) -> Pair:
        """The i-th question, the same at every call; `changes` are fields of the Pair."""
        draw = torch.Generator().manual_seed(1000 + i)
        T = self.header + question + self.tail
        rows = torch.cat((torch.zeros(question, dtype=torch.int64), torch.arange(1, 1 + self.tail)))
        varying = torch.randn(T, *self.large_mean.shape[1:], generator=draw)
        large = torch.cat((varying[: self.header], varying[self.header :] + self.large_mean[rows]))
        tails = {}
        for name in ("own", "told"):
            w = torch.cat((self.weights["question"].expand(question, -1, -1, -1),
                           self.weights[name].expand(self.tail, -1, -1, -1)))
            y = (varying[self.header :, 1 : 1 + len(self.reads), None] @ w)[:, :, 0] + self.small_mean[rows]
            tails[name] = torch.cat((self.start, y + self.noise * torch.randn(y.shape, generator=draw)))
        memory = {"large": self.remembered(large, self.source, question, heard),
                  "small": self.remembered(tails["own"], self.target, question, heard),
                  "told": self.remembered(tails["told"], self.target, question, False)}
        return Pair(**{"id": f"{i:04x}", **memory, "answer": (20 + i % 5, 2), "own": (20 + i % 3, 2), **changes})

    def remembered(self, flat: Tensor, geometry: Geometry, question: int, heard: bool) -> Heard:
        """(T, L, F) as a listener would leave it."""
        ids = (5,) * self.header + ((Prompt.AUDIO if heard else 9),) * question + (7,) * self.tail + (8,)
        keys, values = unflatten(flat[None], geometry)
        prompt = Prompt(ids, slice(self.header, self.header + question))
        return Heard(prompt, Cache(keys, values, len(flat), Space.CONTENT))

    def capture(self, folder, n: int, **pair) -> Capture:
        """n questions of 3 to 5 tokens in a folder."""
        all_layers = tuple(range(self.source.layers))
        capture((self.pair(i, 3 + i % 3, **pair) for i in range(n)), folder, all_layers, {"between": "planted"})
        return Capture(folder)


@pytest.fixture(scope="session")
def planted():
    """The class of planted memories."""
    return Planted


LIMIT = 4  # answer tokens of the tiny pair


@pytest.fixture(scope="session")
def paired(pair):
    """(n) -> Pairs of the tiny models: heard questions of 3 to 5 tokens, with what each model says by itself."""

    def make(n: int) -> list[Pair]:
        large, small = pair
        draw = torch.Generator().manual_seed(7)
        clips = [torch.randn(3 + i % 3, EAR.features, generator=draw) for i in range(n)]
        heard, own = large.hear(clips), small.hear(clips)
        spoken = [[[*ids, END] if len(ids) < LIMIT else ids for ids in
                   answers(model.model, [h.memory for h in memories], START, LIMIT, model.end_ids)]
                  for model, memories in ((large, heard), (small, own))]
        return [complete(large, small, f"{i:04x}", *rest)
                for i, rest in enumerate(zip(heard, own, *spoken, strict=True))]

    return make


@pytest.fixture(scope="session")
def captured(paired, tmp_path_factory):
    """Every layer of 24 questions of the tiny pair."""
    folder = tmp_path_factory.mktemp("captured")
    capture(paired(24), folder, tuple(range(5)), {"between": "tiny"})
    return Capture(folder)
