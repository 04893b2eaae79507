"""Turn keys by their position and turn them back: the door into and out of content space.

A rotary decoder stores keys already turned by the position they stand at. Undoing the turn gives *content* keys,
which say what was said and not where; only those can be mapped linearly from one model to another, and they can be
placed anywhere again. Tables are always float32: a bfloat16 table costs a factor in the round trip's error.

Layout is rotate-half, as in `transformers`' Llama: dimension i pairs with i + D/2 (Su et al. 2021, arXiv 2104.09864;
llama3 scaling: `transformers.modeling_rope_utils._compute_llama3_parameters`).

Shapes: T tokens, D head width; keys are (..., T, D).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Llama3Scaling:
    """The frequency bands of Llama 3.1 and 3.2: long wavelengths are stretched by `factor`."""

    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 8192


@dataclass(frozen=True)
class Rotary:
    """How one model turns its keys.

    Args:
        head_dim: D, even.
        theta: base of the frequencies.
        scaling: llama3 bands, or None for plain rotary.
    """

    head_dim: int
    theta: float = 10000.0
    scaling: Llama3Scaling | None = None

    def inverse_frequencies(self, device: torch.device | str = "cpu") -> Tensor:
        """-> (D/2,) float32 radians per position."""
        exponents = torch.arange(0, self.head_dim, 2, dtype=torch.float32, device=device) / self.head_dim
        base = 1.0 / self.theta**exponents
        if self.scaling is None:
            return base
        s = self.scaling
        wavelength = 2 * math.pi / base
        long_wave, short_wave = s.original_positions / s.low_freq_factor, s.original_positions / s.high_freq_factor
        blend = (s.original_positions / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)
        mixed = (1 - blend) * base / s.factor + blend * base
        return torch.where(wavelength > long_wave, base / s.factor, torch.where(wavelength < short_wave, base, mixed))

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """positions (T,) or (B, T) -> cos, sin, each (..., T, D) float32."""
        angles = positions.to(torch.float32)[..., None] * self.inverse_frequencies(positions.device)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    def place(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Content keys (..., T, D) -> the same keys standing at `positions` (T,), in the keys' dtype."""
        cos, sin = self.tables(positions)
        return turn(keys.float(), cos, sin).to(keys.dtype)

    def lift(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Placed keys (..., T, D) at `positions` (T,) -> content keys, in the keys' dtype. Inverse of `place`."""
        cos, sin = self.tables(positions)
        return turn(keys.float(), cos, -sin).to(keys.dtype)


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the pairs (i, i + D/2) of x (..., T, D) by the angles behind cos and sin."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
