"""The last frames that the head rendered, corrupted and announced.

At training the head is handed true frames, at speaking its own. So they are corrupted, x -> sqrt(1 - s^2) x + s noise,
and how much is told as an input (Ho et al. 2021; GameNGen, arXiv 2408.14837): a head that cannot tell corrupted from
clean hedges on both and blurs. Levels come in ten buckets, and one more says that there is no history at all.

Shapes: N rows, J frames of history, U latent width.
"""

from __future__ import annotations

import torch
from torch import Tensor

WORST = 0.7  # the largest level
BUCKETS = 10
DROPPED = BUCKETS  # the bucket of no history
LEVELS = BUCKETS + 1


def bucket(level: Tensor) -> Tensor:
    """Levels (N,) in [0, WORST] -> (N,) int64."""
    return (level / WORST * BUCKETS).long().clamp_max(BUCKETS - 1)


def corrupt(past: Tensor, level: Tensor, draw: torch.Generator | None = None) -> Tensor:
    """past (N, J, U) of unit variance, level (N,) -> the same variance, less of it the past's."""
    s = level[:, None, None]
    return (1 - s.square()).sqrt() * past + s * torch.randn(past.shape, generator=draw)


def draw_history(
    past: Tensor, dropped: float = 0.15, draw: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """For training: past (N, J, U) -> corrupted at levels drawn evenly, and their buckets (N,)."""
    n = len(past)
    level = WORST * torch.rand(n, generator=draw)
    gone = torch.rand(n, generator=draw) < dropped
    return corrupt(past, level, draw) * ~gone[:, None, None], torch.where(gone, DROPPED, bucket(level))


def windows(latents: Tensor, frames: int) -> Tensor:
    """latents (F, U) -> the `frames` before each, oldest first, zeros before the beginning: (F, J, U)."""
    padded = torch.cat((latents.new_zeros(frames, latents.shape[1]), latents))
    return padded[:-1].unfold(0, frames, 1).transpose(1, 2)


class History:
    """The last J latents of one utterance, as they are rendered."""

    def __init__(self, frames: int, width: int) -> None:
        self.past = torch.zeros(1, frames, width)

    def push(self, x: Tensor) -> None:
        """x (1, U), the newest."""
        self.past[:, :-1] = self.past[:, 1:].clone()
        self.past[:, -1] = x
