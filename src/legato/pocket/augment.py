"""Other utterances of the same words, made from what the ear heard: shift, tempo, gaps, lost channels, noise.

A stack of eight frames starts wherever the clip does, so the same word is cut into stacks in eight ways; a projector
that saw a word thirteen times in one cut each remembers the clips, not the word (measured: records/LOG.md). Frames are
unstacked, changed and stacked again, which costs nothing beside speaking and hearing a new clip. Gaps are SpecAugment's
time masks (Park et al. 2019). Only for training.

Shapes: n stacked features of F = stack * C numbers; N = stack * n frames of C.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from legato.pocket.ear import EarConfig

STACK = EarConfig().stack
TEMPO = (0.87, 1.15)  # of the length
GAP = (2, 8)  # frames of 20 ms; at most one gap a second
LOST = 0.06  # share of channels that are lost
NOISE = 0.15  # deviation at most, relative to the clip's


def perturb(features: Tensor, rng: random.Random, stack: int = STACK) -> Tensor:
    """(n, F) of any float dtype -> (n', F) in the same dtype, n' within about 15 % of n."""
    frames = features.float().view(len(features) * stack, -1)
    N = len(frames)
    length = max(stack, int(N * rng.uniform(*TEMPO)))
    at = torch.arange(length) * ((N - 1) / (length - 1))
    before = at.long().clamp(max=N - 2)
    frames = torch.lerp(frames[before], frames[before + 1], (at - before)[:, None])
    torch_rng = torch.Generator().manual_seed(rng.getrandbits(32))
    noise = torch.randn(frames.shape, generator=torch_rng)
    frames += noise * (NOISE * rng.random() * frames.std())
    for _ in range(rng.randint(0, length // 50)):
        start = rng.randrange(length)
        frames[start : start + rng.randint(*GAP)] = 0
    frames *= torch.rand(frames.shape[1], generator=torch_rng) >= LOST
    frames = torch.cat((frames[:1].expand(rng.randrange(stack), -1), frames))
    frames = F.pad(frames, (0, 0, 0, -len(frames) % stack))
    return frames.view(-1, features.shape[1]).to(features.dtype)


class Perturbed:
    """Features by clip, another utterance each time they are asked for; `rng` makes the sequence repeatable."""

    def __init__(self, features: Mapping[str, Tensor], rng: random.Random) -> None:
        self.features, self.rng = features, rng

    def __contains__(self, clip: str) -> bool:
        return clip in self.features

    def __getitem__(self, clip: str) -> Tensor:
        return perturb(self.features[clip], self.rng)
