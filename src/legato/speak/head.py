"""The flow head: from a frame's state and some noise to the codec's continuous latent.

A residual perceptron in which the condition scales, shifts and gates every layer (as diffusion transformers do, Peebles
& Xie 2023; MAR's head, Li et al. 2024): handed in as one more input it is ignored (`experiments/`). The condition is
the backbone's state, the time, and the frames before with the announced level of their corruption.

Two times are taken, where the latent stands and where it is to go (see `flow`); a plain flow has both alike.

Shapes: N rows, U latent width, C state width, J frames of history, W width of the head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.speak.history import LEVELS

FREQUENCIES = 32  # pairs of sine and cosine by which a time is told
EPS = 1e-6  # of the norms


@dataclass(frozen=True)
class HeadConfig:
    """Sizes; `width` is the dial."""

    latent: int  # U
    state: int  # C
    width: int = 144
    layers: int = 4
    history: int = 4  # J
    modulated: bool = True  # False, for an experiment: the condition is added to the input and nowhere else
    announced: bool = True  # False, for an experiment: the level of corruption is not told


class Head(nn.Module):
    """Velocity of a noisy latent."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        c = self.config = config
        self.enter = nn.Linear(c.latent, c.width)
        self.state = nn.Sequential(nn.LayerNorm(c.state), nn.Linear(c.state, c.width))
        self.past = nn.Linear(c.history * c.latent, c.width)
        self.level = nn.Embedding(LEVELS, c.width)
        self.times = nn.ModuleList(nn.Linear(2 * FREQUENCIES, c.width) for _ in range(2))
        self.layers = nn.ModuleList(Layer(c.width, c.modulated) for _ in range(c.layers))
        self.last = nn.Linear(c.width, 2 * c.width) if c.modulated else None
        self.leave = nn.Linear(c.width, c.latent)
        nn.init.normal_(self.level.weight, std=0.02)
        for module in (self.last, self.leave):
            if module is not None:
                nn.init.zeros_(module.weight)
                nn.init.zeros_(module.bias)

    def condition(self, h: Tensor, past: Tensor, level: Tensor) -> Tensor:
        """What does not change from step to step: h (N, C), past (N, J, U), level (N,) int64 -> (N, W)."""
        y = self.state(h) + self.past(past.flatten(1))
        return y + self.level(level) if self.config.announced else y

    def forward(self, x: Tensor, s: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """x (N, U) at s (N,), going to t (N,) -> velocity (N, U)."""
        y = condition + sum(read(waves(time)) for read, time in zip(self.times, (s, t), strict=True))
        z = self.enter(x)
        if self.last is None:
            z = z + y
        y = F.silu(y)
        for layer in self.layers:
            z = layer(z, y)
        z = _normed(z)
        if self.last is not None:
            scale, shift = self.last(y).chunk(2, dim=-1)
            z = z * (1 + scale) + shift
        return self.leave(z)

    @property
    def size(self) -> int:
        """Parameters."""
        return sum(p.numel() for p in self.parameters())


class Layer(nn.Module):
    """Norm, modulation, perceptron, gate; (N, W) and condition (N, W) -> (N, W)."""

    def __init__(self, width: int, modulated: bool) -> None:
        super().__init__()
        self.modulate = nn.Linear(width, 3 * width) if modulated else None
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)
        if self.modulate is not None:
            nn.init.zeros_(self.modulate.weight)
            nn.init.zeros_(self.modulate.bias)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = _normed(x)
        if self.modulate is None:
            return x + self.down(F.silu(self.up(z)))
        scale, shift, gate = self.modulate(y).chunk(3, dim=-1)
        return x + gate * self.down(F.silu(self.up(z * (1 + scale) + shift)))


def _normed(x: Tensor) -> Tensor:
    """Layer norm without weights, written out: torch's own has no forward-mode derivative, which flow maps need."""
    x = x - x.mean(-1, keepdim=True)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)


def waves(t: Tensor) -> Tensor:
    """(N,) in [0, 1] -> (N, 2 FREQUENCIES), from one radian to a hundred over the whole.

    Faster ones would drown the derivative in time that flow maps are trained by. Angles are never bfloat16, which steps
    by half a radian there.
    """
    rates = torch.exp(torch.linspace(0, math.log(100.0), FREQUENCIES, device=t.device))
    angles = (t if t.dtype == torch.float64 else t.float())[:, None] * rates
    return torch.cat((angles.cos(), angles.sin()), dim=-1).to(t.dtype)
