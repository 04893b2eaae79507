"""LoRA on a frozen transformer's fused projections (Hu et al. 2021, arXiv 2106.09685), and folding it back in.

The large pocket model is its base plus these matrices; they are what we ship. After `fold` the model is a plain
`Transformer` again and costs nothing extra.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.transformer import Transformer

PROJECTIONS = ("qkv", "out", "gate_up", "down")


class LowRank(nn.Module):
    """y = W x + 2 B A x, with W frozen, A (r, in) random and B (out, r) zero at the start.

    A is drawn from torch's global generator, as `nn.Linear` draws its weights.
    """

    SCALE = 2.0

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.empty(rank, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + F.linear(F.linear(x, self.SCALE * self.a.to(x.dtype)), self.b.to(x.dtype))


def attach(model: Transformer, rank: int) -> list[nn.Parameter]:
    """Freeze the model, put a LowRank on every projection, return the new parameters."""
    model.requires_grad_(False)
    added: list[nn.Parameter] = []
    for block in model.blocks:
        for name in PROJECTIONS:
            wrapped = LowRank(getattr(block, name), rank)
            setattr(block, name, wrapped)
            added += [wrapped.a, wrapped.b]
    return added


def deltas(model: Transformer) -> dict[str, Tensor]:
    """The matrices of every LowRank, by name: what an artefact stores."""
    return {f"blocks.{i}.{name}.{part}": getattr(getattr(block, name), part).detach().clone()
            for i, block in enumerate(model.blocks) for name in PROJECTIONS for part in ("a", "b")}


@torch.no_grad()
def fold(model: Transformer, stored: dict[str, Tensor]) -> None:
    """Add stored matrices (`deltas`, in any dtype) to the plain model's weights, in float32."""
    for i, block in enumerate(model.blocks):
        for name in PROJECTIONS:
            weight = getattr(block, name).weight
            a, b = (stored[f"blocks.{i}.{name}.{part}"].float() for part in ("a", "b"))
            weight.copy_((weight.float() + LowRank.SCALE * b @ a).to(weight.dtype))
