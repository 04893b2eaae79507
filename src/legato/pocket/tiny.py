"""Pocket listeners with random weights, a few layers deep, and sounds for them: for tests, ours and yours.

Everything but the sizes and the weights is the real thing. What they say means nothing, but it is varied, it follows
from the sound, and it is the same every time.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from legato.audio import Audio
from legato.pocket.ear import Ear, EarConfig, Projector
from legato.pocket.listener import PocketListener
from legato.transformer import Transformer, TransformerConfig

EAR = EarConfig(mels=80, width=32, layers=1, heads=2, stack=8)
VOCAB = 9600  # the prompt's ids reach 9531
POSITIONS = 512


class Numbers:
    """A tokenizer that says its ids: "17 4" is (17, 4); a word that is no number gets one from its letters."""

    def encode(self, text: str) -> SimpleNamespace:
        ids = [int(word) % VOCAB if word.isdecimal() else 20 + sum(map(ord, word)) % 4000 for word in text.split()]
        return SimpleNamespace(ids=ids)

    def decode(self, ids: list[int]) -> str:
        return "".join(f" {i}" for i in ids)


def tiny_listener(
    name: str = "tiny", *, seed: int = 1, layers: int = 3, width: int = 48, dtype: torch.dtype = torch.float32
) -> PocketListener:
    """A listener of `layers` layers and 4 heads over 2 key/value heads; equal arguments give equal weights.

    The ear has the same weights in all of them, the projector and the decoder follow from `seed`.
    """
    config = TransformerConfig(layers, width, heads=4, kv_heads=2, head_dim=width // 4, ffn=2 * width, vocab=VOCAB,
                               tied=False, max_positions=POSITIONS)
    model = _lively(Transformer(config), seed).to(dtype)
    projector = _lively(Projector(width, hidden=32, features=EAR.features), seed + 1000).to(dtype)
    return PocketListener(_lively(Ear(EAR), 0).to(dtype), projector, model, Numbers(), name)


def sound(seconds: float = 1.3, seed: int = 0, rate: int = 16_000, channels: int = 1) -> Audio:
    """A gliding tone in faint noise, another for every seed."""
    t = np.arange(round(seconds * rate)) / rate
    noise = np.random.default_rng(seed).standard_normal((channels, len(t)))
    wave = 0.3 * np.sin(2 * np.pi * (110 + 40 * seed) * t + 9 * np.sin(4 * t)) + 0.02 * noise
    return Audio.fitted(wave.astype(np.float32), rate)


@torch.no_grad()
def _lively(module: nn.Module, seed: int) -> nn.Module:
    """Weights that keep signals at their size: fresh ones are so small that a model says one thing to everything."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in module.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        if name.endswith("bias"):
            p.copy_(0.1 * noise)
        elif p.dim() == 1:  # a norm's weight, constant from the start
            p.add_(0.1 * noise)
        else:
            p.copy_(noise if name == "embedding.weight" else 1.5 * noise * p[0].numel() ** -0.5)
    return module.requires_grad_(False).eval()
