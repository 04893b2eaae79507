"""The head's few steps for one frame, fused and without allocation: what speaking runs twelve times a second.

The same numbers as `flow.sample` over `head.Head`. Times are known beforehand, so what they add to the condition is a
table; all layers' modulations come of one product; every result is written into a buffer that was made once.

Shapes: U latent width, C state width, J frames of history, W width of the head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from legato.speak.head import EPS, Head, waves

_layer_norm = torch.ops.aten.native_layer_norm.out


class Rendering:
    """A modulated head on one row, in `steps` steps. Float32. The result is a view that the next call overwrites."""

    @torch.no_grad()
    def __init__(self, head: Head, steps: int) -> None:
        c = head.config
        assert c.modulated and head.last is not None, "only a modulated head serves"
        self.head, self.steps = head, steps
        marks = torch.arange(steps + 1) / steps
        told = [read(waves(at)) for read, at in zip(head.times, (marks[:-1], marks[1:]), strict=True)]
        self._told = (told[0] + told[1]).unsqueeze(1)  # (steps, 1, W)
        modulations = [layer.modulate for layer in head.layers] + [head.last]
        self._modulate = torch.cat([m.weight for m in modulations]).T.contiguous()
        self._modulate_bias = torch.cat([m.bias for m in modulations])[None].clone()
        W, L = c.width, c.layers
        # Scales are used as 1 + scale: the one goes into the bias.
        for layer in range(L):
            self._modulate_bias[:, 3 * W * layer : 3 * W * layer + W] += 1
        self._modulate_bias[:, 3 * W * L : 3 * W * L + W] += 1
        self._ups = [(layer.up.weight.T.contiguous(), layer.up.bias[None]) for layer in head.layers]
        self._downs = [(layer.down.weight.T.contiguous(), layer.down.bias[None]) for layer in head.layers]
        self._enter, self._leave, self._past = (m.weight.T.contiguous() for m in (head.enter, head.leave, head.past))

        def row(width: int) -> Tensor:
            return torch.zeros(1, width)

        self._state, self._flat = row(c.state), row(c.history * c.latent)
        self._condition, self._y, self._z, self._normed, self._wide, self._hidden = (row(W) for _ in range(6))
        self._modulated = row((3 * L + 2) * W)
        self._x, self._velocity = row(c.latent), row(c.latent)
        self._mean, self._scale = row(1), row(1)
        parts = self._modulated.split(W, dim=1)
        self._layers = [parts[3 * i : 3 * i + 3] for i in range(L)]  # scale, shift, gate
        self._last = parts[3 * L :]

    @torch.inference_mode()
    def __call__(self, h: Tensor, past: Tensor, level: int, noise: Tensor) -> Tensor:
        """h (C,), past (1, J, U), its announced bucket, noise (1, U) -> latent (1, U)."""
        head, W = self.head, self.head.config.width
        norm, project = head.state
        _layer_norm(h[None], norm.normalized_shape, norm.weight, norm.bias, norm.eps, out0=self._state, out1=self._mean,
                    out2=self._scale)
        torch.addmm(project.bias, self._state, project.weight.T, out=self._condition)
        self._flat.view(past.shape).copy_(past)
        self._condition.addmm_(self._flat, self._past).add_(head.past.bias)
        if head.config.announced:
            self._condition.add_(head.level.weight[level])
        x = self._x.copy_(noise)
        for step in range(self.steps):
            torch.add(self._condition, self._told[step], out=self._y)
            torch.nn.functional.silu(self._y, inplace=True)
            torch.addmm(self._modulate_bias, self._y, self._modulate, out=self._modulated)
            torch.addmm(head.enter.bias, x, self._enter, out=self._z)
            for (scale, shift, gate), (up, up_bias), (down, down_bias) in zip(
                self._layers, self._ups, self._downs, strict=True
            ):
                self._norm(W)
                torch.addcmul(shift, self._normed, scale, out=self._wide)
                torch.addmm(up_bias, self._wide, up, out=self._hidden)
                torch.nn.functional.silu(self._hidden, inplace=True)
                torch.addmm(down_bias, self._hidden, down, out=self._wide)
                self._z.addcmul_(gate, self._wide)
            self._norm(W)
            scale, shift = self._last
            torch.addcmul(shift, self._normed, scale, out=self._wide)
            torch.addmm(head.leave.bias, self._wide, self._leave, out=self._velocity)
            x.add_(self._velocity, alpha=1 / self.steps)
        return x

    def _norm(self, width: int) -> None:
        _layer_norm(self._z, (width,), None, None, EPS, out0=self._normed, out1=self._mean, out2=self._scale)
