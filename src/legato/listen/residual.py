"""`CacheResidual`: a small correction of a mapped cache, trained through the frozen small decoder.

Per target layer an MLP of `rank` hidden units reads what the source model held at that token (not what the map made of
it: the map has already dropped what the small model itself would not have known) and adds to keys and values:

    y[p] += W2 silu(W1 (x[p] - mean[p]) / deviation + b1[p])          W2 = 0 at the start

`rank` None is the upper end of the dial: a full trained linear map, no bottleneck and no nonlinearity. Every tail
position has a first bias of its own. The header is never corrected: it is the small model's own.

The control arm is the same class whose source is the small model's own cache, on top of that same cache.

Shapes: B batch, T tokens, L target layers, F numbers per token and source layer, G per token and target layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.cache import Cache, Space
from legato.errors import OrganMismatch
from legato.listen.mapper import PARTS, MapConfig, flatten, unflatten


@dataclass(frozen=True)
class ResidualConfig:
    """Where a correction reads and how wide it is."""

    map: MapConfig  # where each target layer reads, and the prompt's shape
    rank: int | None


class CacheResidual(nn.Module):
    """The trained correction; its parameters are the only ones that move.

    A fresh one corrects nothing. Its first matrices are drawn from torch's global generator.
    """

    def __init__(self, config: ResidualConfig) -> None:
        super().__init__()
        self.config = config
        c = config.map
        inputs, outputs = 2 * c.source.features, 2 * c.target.features
        self.register_buffer("mean", torch.zeros(1 + c.tail, len(c.used), inputs))
        self.register_buffer("deviation", torch.ones(len(PARTS), len(c.used), inputs))
        for part, biases in zip(PARTS, (1, c.tail), strict=True):
            for layer, reads in enumerate(c.reads):
                name, width = f"{part}_{layer}", len(reads) * inputs
                if config.rank is None:
                    self.register_parameter(f"{name}_full", nn.Parameter(torch.zeros(width, outputs)))
                else:
                    first = torch.randn(width, config.rank) * width**-0.5
                    self.register_parameter(f"{name}_first", nn.Parameter(first))
                    self.register_parameter(f"{name}_second", nn.Parameter(torch.zeros(config.rank, outputs)))
                    self.register_parameter(f"{name}_bias", nn.Parameter(torch.zeros(biases, config.rank)))

    def forward(self, source: Cache, mapped: Cache) -> Cache:
        """Content cache `mapped` plus the correction read from the content cache `source`; in a new cache.

        Raises: OrganMismatch for other geometries or lengths, SpaceError for placed keys.
        """
        c = self.config.map
        source.require_geometry(c.source, "this residual")
        mapped.require(Space.CONTENT, "correcting")
        mapped.require_geometry(c.target, "this residual")
        question = mapped.length - c.header - c.tail
        if mapped.length != source.length or question < 0:
            raise OrganMismatch(
                f"a mapped cache of {mapped.length} tokens cannot be corrected from one of {source.length} by a "
                f"residual for prompts of {c.header} header and {c.tail} tail tokens."
            )
        change = self.correction(flatten(source, c.used), question)
        keys, values = unflatten(flatten(mapped) + change, c.target)
        return Cache(keys, values, mapped.length, Space.CONTENT)

    def correction(self, x: Tensor, question: int) -> Tensor:
        """x (B, T, used layers, F), whole prefixes with `question` question tokens -> (B, T, L, G); 0 on the header."""
        c = self.config.map
        assert x.shape[1] == c.header + question + c.tail, (x.shape, question)
        parts, deviation = c.parts(question), self.deviation.to(x.dtype)
        x = x[:, c.header :] - self.mean.to(x.dtype)[c.rows(question)]
        scaled = [x[:, where] / deviation[p] for p, (_, where) in enumerate(parts)]
        layers = []
        for layer, columns in enumerate(c.columns):
            read = [part[:, :, columns].flatten(2) for part in scaled]
            change = [self._layer(f"{part}_{layer}", r) for (part, _), r in zip(parts, read, strict=True)]
            layers.append(torch.cat(change, dim=1))
        return F.pad(torch.stack(layers, dim=2), (0, 0, 0, 0, c.header, 0))

    def _layer(self, name: str, x: Tensor) -> Tensor:
        def weight(suffix: str) -> Tensor:
            return getattr(self, f"{name}_{suffix}").to(x.dtype)

        if self.config.rank is None:
            return x @ weight("full")
        return F.silu(x @ weight("first") + weight("bias")) @ weight("second")
