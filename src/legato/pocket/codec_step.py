"""The pocket codec's decoder as a function of one frame and its memory, for other runtimes.

The same numbers as `codec.DecoderStream`, one frame at a time, in operations that other runtimes have: nothing is moved
on in place, nothing is complex, and the inverse Fourier transform of one window, with the window and the division by
the cover in it, is one matrix. `speak.port` exports it; in torch it is no faster.

Shapes: C latent width, T = 8 spectral frames of one codec frame, D model width, W samples of a window.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.pocket.codec import HOP, LOUDEST, STEPS, WINDOW_OUT, Block, Codec

PARTS = WINDOW_OUT // HOP  # hops under one window


class DecoderStep(nn.Module):
    """One stream, one frame a call. `memory` is what it remembers at the beginning; a call gives the next."""

    def __init__(self, codec: Codec) -> None:
        super().__init__()
        self.decoder = codec.decoder
        self.memory = [past[0] for past in codec.decoder.pasts()] + [torch.zeros(PARTS - 1, HOP)]
        real, imaginary = inverse_transform(codec.decoder.overlap.window, codec.decoder.overlap.cover)
        self.register_buffer("real", real, persistent=False)  # (bins, W)
        self.register_buffer("imaginary", imaginary, persistent=False)

    def forward(self, z: Tensor, *memory: Tensor) -> tuple[Tensor, ...]:
        """z (1, C) and memory -> samples (1, 1920) and memory, all float32."""
        d, (*pasts, rest) = self.decoder, memory
        after = []
        x = d.first(z)
        for i, block in enumerate((*d.slow, *d.fast)):
            if i == len(d.slow):
                x = d.split(x).view(STEPS, -1)
            joined = torch.cat((pasts[i], x))  # (kernel - 1 + T, D)
            after.append(joined[len(x) :])
            x = x + block.scale * block.down(F.gelu(block.up(block.norm(_convolve(block, joined)))))
        size, angle = d.out(d.norm(x)).chunk(2, dim=1)  # (T, bins) each
        size = size.exp().clamp_max(LOUDEST)
        windows = (size * angle.cos()) @ self.real + (size * angle.sin()) @ self.imaginary  # (T, W)
        # Part n of a window belongs n hops later; behind the last frame's first hop is what the next frame adds to.
        sums = F.pad(rest, (0, 0, 0, STEPS))
        for n, part in enumerate(windows.split(HOP, dim=1)):
            sums = sums + F.pad(part, (0, 0, n, PARTS - 1 - n))
        return sums[:STEPS].reshape(1, -1), *after, sums[STEPS:]


def _convolve(block: Block, joined: Tensor) -> Tensor:
    """The depthwise convolution of (kernel - 1 + T, D) as a sum over windows, (T, D): here faster than a kernel for it.

    That one wants channels first, so it would be turned twice.
    """
    kernel = block.conv.kernel
    windows = torch.arange(len(joined) - kernel + 1)[:, None] + torch.arange(kernel)
    return (joined[windows] * block.conv.weight[:, 0].T).sum(1) + block.conv.bias


def inverse_transform(window: Tensor, cover: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices (bins, W) of the real inverse transform of W points, each column times window (W,) over cover (HOP,).

    x[n] = 1/W (Re X[0] + (-1)^n Re X[W/2] + 2 sum_k Re X[k] cos(2 pi k n / W) - Im X[k] sin(2 pi k n / W)). Made in
    float64, with k n taken modulo W, so that rounding does not grow with the index.
    """
    W = len(window)
    k, n = torch.arange(W // 2 + 1)[:, None], torch.arange(W)
    angle = 2 * torch.pi * (k * n % W).double() / W
    twice = torch.full((W // 2 + 1, 1), 2.0, dtype=torch.float64)
    twice[0] = twice[-1] = 1
    weight = twice / W * (window.double() / cover.double().repeat(W // len(cover)))
    return (weight * angle.cos()).float(), (-weight * angle.sin()).float()
