"""From noise to a latent: the path, its velocity, and samplers of a few steps.

x_t = (1 - t) x_0 + t x_1, noise at t = 0 and data at t = 1; along it the velocity is x_1 - x_0 (rectified flow, Liu et
al. 2022). A flow map jumps from s to t at once: X(x, s, t) = x + (t - s) v(x, s, t), and v(x, t, t) is the velocity
(Boffi et al. 2025, arXiv 2505.18825); with that one function `sample` needs no second sampler: it asks for the jumps it
makes. A plain flow ignores where it is to land.

Shapes: N rows, U latent width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Velocity = Callable[[Tensor, Tensor, Tensor], Tensor]  # x (N, U), from s (N,), to t (N,) -> (N, U)
CENTRE, SPREAD = 0.4, 1.0  # of the normal behind the logistic: training sees the middle of the path most


def draw_times(n: int, draw: torch.Generator | None = None) -> Tensor:
    """(N,) in (0, 1), logit-normal."""
    return torch.sigmoid(CENTRE + SPREAD * torch.randn(n, generator=draw))


def between(noise: Tensor, data: Tensor, t: Tensor) -> Tensor:
    """x_t (N, U) of noise and data (N, U) at t (N,)."""
    t = t[:, None]
    return (1 - t) * noise + t * data


def sample(velocity: Velocity, noise: Tensor, steps: int) -> Tensor:
    """Walk `noise` (N, U) to data in equal steps, with gradients through all of them.

    Exact in one step where paths are straight. Temperature is the size of the noise that is handed in.
    """
    x = noise
    for i in range(steps):
        s, t = (torch.full((len(x),), k / steps, dtype=x.dtype, device=x.device) for k in (i, i + 1))
        x = x + velocity(x, s, t) / steps
    return x
