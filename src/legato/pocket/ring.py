"""A transformer one step at a time over a memory that forgets: the newest W steps, two rows at most, no allocation.

The memory is a ring: a new key overwrites the oldest, and since attention does not care in which order it finds what it
may see, nothing is ever moved. Rows (a guided run has two) go through the weights together, so that each weight is read
once a step. As in `stepper`, every buffer is made once and every result is written into one; norms are folded into the
matrices behind them. Float32 only.

Shapes: R rows, N query heads, H key/value heads, G = N / H, W window, D head width, C model width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from legato.transformer import Transformer

POSITIONS = 4096  # whose rotations are kept; later ones are made anew, as many at a time


class Ring:
    """Memory and buffers of one sequence in `rows` versions.

    Attributes:
        length: steps taken.
    """

    def __init__(self, model: Transformer, rows: int, window: int) -> None:
        c = model.config
        assert model.dtype == torch.float32, f"a ring computes in float32, not {model.dtype}"
        self.model, self.rows, self.window, self.length = model, rows, window, 0
        heads = c.heads + 2 * c.kv_heads
        self.keys = torch.zeros(c.layers, rows * c.kv_heads, window, c.head_dim)
        self.values = torch.zeros_like(self.keys)
        self._x, self._square, self._normed = (torch.zeros(rows, c.width) for _ in range(3))
        self._size = torch.zeros(rows, 1)
        self._qkv = torch.zeros(rows, heads * c.head_dim)
        parts = self._qkv.view(rows, heads, c.head_dim)
        self._turning, self._v = parts[:, : c.heads + c.kv_heads], parts[:, c.heads + c.kv_heads :]
        self._turned = torch.zeros(rows, c.heads + c.kv_heads, c.head_dim)
        half = c.head_dim // 2
        self._halves = (self._turning[..., :half], self._turning[..., half:])
        self._turned_halves = (self._turned[..., :half], self._turned[..., half:])
        groups = c.heads // c.kv_heads
        self._q = torch.zeros(rows * c.kv_heads, groups, c.head_dim)
        self._scores = torch.zeros(rows * c.kv_heads * groups * window)
        self._weights = torch.zeros_like(self._scores)
        self._mixed = torch.zeros(rows * c.kv_heads, groups, c.head_dim)
        self._wide = torch.zeros(rows, 2 * c.ffn)
        self._gate, self._up = self._wide.chunk(2, dim=1)
        self._hidden = torch.zeros(rows, c.ffn)
        self._out = torch.zeros(rows, c.width)
        self._layers = [
            (
                (block.qkv.weight * block.attn_norm.weight).T.contiguous(), block.out.weight.T.contiguous(),
                (block.gate_up.weight * block.ffn_norm.weight).T.contiguous(), block.down.weight.T.contiguous(),
            )
            for block in model.blocks
        ]
        self._tables(0)

    def _tables(self, start: int) -> None:
        self._start = start
        cos, sin = self.model.config.rotary.tables(torch.arange(start, start + POSITIONS))
        self._cos, self._sin = cos, sin[:, : sin.shape[1] // 2].contiguous()
        self._minus_sin = -self._sin

    def restart(self) -> None:
        """Forget everything."""
        self.length = 0
        if self._start:
            self._tables(0)

    def _norm(self) -> None:
        torch.mul(self._x, self._x, out=self._square)
        torch.mean(self._square, 1, keepdim=True, out=self._size)
        self._size.add_(self.model.config.norm_eps).rsqrt_()
        torch.mul(self._x, self._size, out=self._normed)

    @torch.inference_mode()
    def step(self, x: Tensor) -> Tensor:
        """x (R, C) of the newest step -> its normed state (R, C), a view that the next step overwrites."""
        c, at = self.model.config, self.length % self.window
        if self.length - self._start >= POSITIONS:
            self._tables(self.length)
        position = self.length - self._start
        cos, sin, minus_sin = self._cos[position], self._sin[position], self._minus_sin[position]
        seen = min(self.length + 1, self.window)
        groups = c.heads // c.kv_heads
        size = self.rows * c.heads * seen
        scores, weights = (
            b[:size].view(self.rows * c.kv_heads, groups, seen) for b in (self._scores, self._weights)
        )
        first, second = self._halves
        turned_first, turned_second = self._turned_halves
        q = self._turned[:, : c.heads].view(self.rows, c.kv_heads, groups, c.head_dim)
        scale = c.head_dim**-0.5
        self._x.copy_(x)
        for layer, (qkv, out, gate_up, down) in enumerate(self._layers):
            self._norm()
            torch.mm(self._normed, qkv, out=self._qkv)
            torch.mul(self._turning, cos, out=self._turned)
            turned_first.addcmul_(second, minus_sin)
            turned_second.addcmul_(first, sin)
            keys, values = self.keys[layer], self.values[layer]
            keys.view(self.rows, c.kv_heads, self.window, -1)[:, :, at].copy_(self._turned[:, c.heads :])
            values.view(self.rows, c.kv_heads, self.window, -1)[:, :, at].copy_(self._v)
            self._q.view(self.rows, c.kv_heads, groups, -1).copy_(q)
            torch.baddbmm(
                scores, self._q, keys[:, :seen].transpose(1, 2), beta=0, alpha=scale, out=scores
            )
            torch.softmax(scores, -1, out=weights)
            torch.bmm(weights, values[:, :seen], out=self._mixed)
            self._x.addmm_(self._mixed.view(self.rows, -1), out)
            self._norm()
            torch.mm(self._normed, gate_up, out=self._wide)
            F.silu(self._gate, inplace=True)
            torch.mul(self._gate, self._up, out=self._hidden)
            self._x.addmm_(self._hidden, down)
        self._norm()
        torch.mul(self._normed, self.model.norm.weight, out=self._out)
        self.length += 1
        return self._out
