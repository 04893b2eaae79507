"""`CacheMapper`: a large model's content cache in, a small model's content cache out. One linear pass.

A prompt has three parts: a header that is the same for every question, the question (audio), and a tail that has the
same tokens for every question but holds what was decided about this one. The header's cache is a constant of the
small model and is copied, not mapped (its first tokens are attention sinks whose norms would spoil any regression).
Question and tail are mapped by a matrix each; every tail position has a mean of its own.

    y[p] = (x[p] - source_mean[p]) @ weight[part(p), layer] + target_mean[p]

Each target layer reads the source layers listed for it: the nearest in relative depth, or several.

Shapes: B batch, L layers, H key/value heads, T tokens, D head width; F = 2 * H * D numbers per token and source layer
(keys, values), G the same of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from legato.cache import Cache, Geometry, Space
from legato.errors import OrganMismatch

if TYPE_CHECKING:
    from legato.organs import Heard

PARTS = ("question", "tail")


@dataclass(frozen=True)
class MapConfig:
    """Which model's cache becomes which, and where each target layer reads."""

    source: Geometry
    target: Geometry
    reads: tuple[tuple[int, ...], ...]  # for each target layer, the source layers it reads
    header: int  # constant tokens before the question
    tail: int  # tokens after it that are in the memory (the prompt's last token is not)

    def __post_init__(self) -> None:
        known = range(self.source.layers)
        if len(self.reads) != self.target.layers or not all(r and all(s in known for s in r) for r in self.reads):
            raise OrganMismatch(
                f"reads must name source layers 0..{self.source.layers - 1} for each of {self.target.layers} target "
                f"layers, but it is {self.reads}."
            )

    @property
    def used(self) -> tuple[int, ...]:
        """Every source layer that any target layer reads, in order."""
        return tuple(sorted({s for r in self.reads for s in r}))

    @property
    def columns(self) -> list[list[int]]:
        """For each target layer, where the layers it reads stand in `used`."""
        at = {layer: i for i, layer in enumerate(self.used)}
        return [[at[s] for s in r] for r in self.reads]

    def rows(self, question: int) -> Tensor:
        """Which mean each token behind the header has: 0 for the `question` tokens, then 1.. for the tail's. (T,)"""
        return torch.cat((torch.zeros(question, dtype=torch.int64), torch.arange(1, 1 + self.tail)))

    def parts(self, question: int) -> tuple[tuple[str, slice], ...]:
        """The two mapped parts by name, and where each stands behind the header."""
        return (PARTS[0], slice(0, question)), (PARTS[1], slice(question, question + self.tail))


def nearest(source: Geometry, target: Geometry, width: int = 1) -> tuple[tuple[int, ...], ...]:
    """For each target layer, the `width` source layers nearest in relative depth."""
    reads = []
    for layer in range(target.layers):
        depth = layer / max(1, target.layers - 1) * (source.layers - 1)
        reads.append(tuple(sorted(sorted(range(source.layers), key=lambda s: (abs(s - depth), s))[:width])))
    return tuple(reads)


def flatten(cache: Cache, layers: tuple[int, ...] | None = None) -> Tensor:
    """Content cache -> (B, T, L, F): per token and chosen layer, keys then values of all heads."""
    cache.require(Space.CONTENT, "mapping")
    keys, values = cache.filled()
    if layers is not None:
        keys, values = keys[list(layers)], values[list(layers)]
    both = torch.stack((keys, values))  # (2, L, B, H, T, D)
    return both.permute(2, 4, 1, 0, 3, 5).flatten(3)


def unflatten(flat: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor]:
    """(B, T, L, F) -> keys, values, each (L, B, H, T, D)."""
    B, T, L, _ = flat.shape
    both = flat.view(B, T, L, 2, geometry.kv_heads, geometry.head_dim).permute(3, 2, 0, 4, 1, 5)
    return both[0], both[1]


class CacheMapper(nn.Module):
    """The fitted map. Buffers only: nothing in it is trained by gradients here.

    It computes in the dtype of what it reads; keep it in that dtype (`.to`), or every call converts its weights.
    """

    def __init__(self, config: MapConfig) -> None:
        super().__init__()
        self.config = config
        G = 2 * config.target.features
        F = 2 * config.source.features
        L = config.target.layers
        self.register_buffer("header", torch.zeros(config.header, L, G))
        self.register_buffer("source_mean", torch.zeros(1 + config.tail, len(config.used), F))
        self.register_buffer("target_mean", torch.zeros(1 + config.tail, L, G))
        for part in PARTS:
            for layer, reads in enumerate(config.reads):
                self.register_buffer(f"{part}_{layer}", torch.zeros(len(reads) * F, G))

    def forward(self, heard: Heard) -> Cache:
        """The small model's content cache for what the large one heard, in the source's dtype.

        Raises: OrganMismatch for another geometry or a prompt of another shape, SpaceError for placed keys.
        """
        memory = heard.memory
        memory.require_geometry(self.config.source, "this mapper")
        flat = self.map(flatten(memory, self.config.used), self.question_tokens(heard))
        keys, values = unflatten(flat, self.config.target)
        return Cache(keys, values, memory.length, Space.CONTENT)

    def question_tokens(self, heard: Heard) -> int:
        """How many tokens the question has; refuses prompts of another shape than the fitted one."""
        c, audio = self.config, heard.prompt.audio
        header, tail = audio.start, heard.memory.length - audio.stop
        if (header, tail) != (c.header, c.tail):
            raise OrganMismatch(
                f"this mapper was fitted on prompts with {c.header} header and {c.tail} tail tokens in the memory, "
                f"but this one has {header} and {tail}."
            )
        return audio.stop - audio.start

    def map(self, x: Tensor, question: int) -> Tensor:
        """x (B, T, used layers, F), whole prefixes with `question` question tokens -> (B, T, L, G)."""
        c = self.config
        assert x.shape[1] == c.header + question + c.tail, (x.shape, question)
        rows, parts = c.rows(question), c.parts(question)
        x = x[:, c.header :] - self.source_mean.to(x.dtype)[rows]
        layers = []
        for layer, columns in enumerate(c.columns):
            read = x[:, :, columns].flatten(2)
            weights = {part: getattr(self, f"{part}_{layer}").to(x.dtype) for part, _ in parts}
            layers.append(torch.cat([read[:, where] @ weights[part] for part, where in parts], dim=1))
        mapped = torch.stack(layers, dim=2) + self.target_mean.to(x.dtype)[rows]
        header = self.header.to(x.dtype).expand(len(x), *self.header.shape)
        return torch.cat((header, mapped), dim=1)
