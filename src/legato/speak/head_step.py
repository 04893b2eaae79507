"""The head as a function of one frame and its memory, for `port` to export.

The same numbers as `render.HeadRenderer` up to the codec's decoder (corruption of the past, `rendering.Rendering`, the
projection out of `entrance.Entrance`): times and modulations are tables here too, but nothing is written in place. It
is not what torch speaks with.

Shapes: U latent width, C state width, J frames of history, W width of the head, D width of the decoder's latent.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.speak.entrance import Entrance
from legato.speak.head import EPS, Head, waves


class HeadStep(nn.Module):
    """`memory` is what it remembers at the beginning: the last J latents (J, U)."""

    @torch.no_grad()
    def __init__(self, head: Head, entrance: Entrance, steps: int) -> None:
        super().__init__()
        c = head.config
        assert c.modulated and head.last is not None, "only a modulated head serves"
        self.head, self.entrance, self.steps = head, entrance, steps
        self.memory = [torch.zeros(c.history, c.latent)]
        marks = torch.arange(steps + 1) / steps
        told = [read(waves(at)) for read, at in zip(head.times, (marks[:-1], marks[1:]), strict=True)]
        self.register_buffer("told", told[0] + told[1], persistent=False)  # (steps, W)
        modulations = [layer.modulate for layer in head.layers] + [head.last]
        bias = torch.cat([m.bias for m in modulations])
        for part in bias.split(c.width)[::3]:  # scales are used as 1 + scale: the one goes into the bias
            part += 1
        self.register_buffer("modulate", torch.cat([m.weight for m in modulations]), persistent=False)
        self.register_buffer("modulate_bias", bias, persistent=False)

    def forward(
        self, state: Tensor, level: Tensor, told: Tensor, spoil: Tensor, noise: Tensor, past: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One frame.

        Args:
            state: (1, C). level: (1,), how much of the past is replaced by `spoil` (J, U), noise of unit variance.
            told: (1,) int64, the bucket that the head is told. noise: (1, U), from which the flow starts.
            past: (J, U), uncorrupted.

        Returns:
            What the codec's decoder reads (1, D), and the past of the next frame.
        """
        head, W = self.head, self.head.config.width
        corrupted = (1 - level.square()).sqrt() * past + level * spoil
        condition = head.condition(state, corrupted[None], told)
        x = noise
        for step in range(self.steps):
            y = F.silu(condition + self.told[step : step + 1])
            parts = F.linear(y, self.modulate, self.modulate_bias).split(W, dim=1)
            z = head.enter(x)
            for i, layer in enumerate(head.layers):
                scale, shift, gate = parts[3 * i : 3 * i + 3]
                z = z + gate * layer.down(F.silu(layer.up(_normed(z) * scale + shift)))
            scale, shift = parts[-2:]
            x = x + head.leave(_normed(z) * scale + shift) / self.steps
        return self.entrance.latent(x[:, :, None])[:, :, 0], torch.cat((past[1:], x))


def _normed(z: Tensor) -> Tensor:
    return F.layer_norm(z, z.shape[1:], eps=EPS)
