"""The one decoder-only transformer: grouped-query attention, rotary keys, RMSNorm, SwiGLU; Llama-compatible.

Three ways through it, one set of weights:
- `forward`: whole sequences with gradients, for training and diagnosis, from embeddings: audio can stand among words.
- `prefill`: a prefix into a preallocated `Cache`, keys kept *before* rotation (content) or placed, as asked.
- `legato.stepper`: one token on top of a placed cache, written into buffers made once.

Weights are fused at load: q, k, v in one matrix, gate and up in another. Loading from `transformers` or GGUF files is
in `legato.checkpoints`; this module knows nothing of file formats.

Shapes: B batch, T tokens, L layers, N query heads, H key/value heads, D head width, C model width.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.cache import Cache, Geometry, Space
from legato.errors import OrganMismatch
from legato.rotary import Llama3Scaling, Rotary, turn


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a Llama-shaped decoder, in the field's words."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    rope_theta: float = 10000.0
    rope_scaling: Llama3Scaling | None = None
    norm_eps: float = 1e-5
    tied: bool = True
    max_positions: int = 8192

    @property
    def geometry(self) -> Geometry:
        return Geometry(self.layers, self.kv_heads, self.head_dim)

    @property
    def rotary(self) -> Rotary:
        return Rotary(self.head_dim, self.rope_theta, self.rope_scaling)


class RMSNorm(nn.Module):
    """x / rms(x) * weight, the mean square taken in float32 (Zhang & Sennrich 2019)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


class Block(nn.Module):
    """One layer: attention and feed-forward, each behind its norm."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        c = config
        self.config = c
        self.attn_norm = RMSNorm(c.width, c.norm_eps)
        self.qkv = nn.Linear(c.width, (c.heads + 2 * c.kv_heads) * c.head_dim, bias=False)
        self.out = nn.Linear(c.heads * c.head_dim, c.width, bias=False)
        self.ffn_norm = RMSNorm(c.width, c.norm_eps)
        self.gate_up = nn.Linear(c.width, 2 * c.ffn, bias=False)
        self.down = nn.Linear(c.ffn, c.width, bias=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, C) -> unrotated q (B, N, T, D), k and v (B, H, T, D)."""
        c = self.config
        B, T, _ = x.shape
        qkv = self.qkv(self.attn_norm(x)).view(B, T, c.heads + 2 * c.kv_heads, c.head_dim).transpose(1, 2)
        return qkv.split((c.heads, c.kv_heads, c.kv_heads), dim=1)

    def attend(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """Placed q (B, N, T, D) over placed k, v (B, H, S, D); -> x (B, T, C) after both residual additions."""
        B, T, _ = x.shape
        if mask is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        else:
            y = masked_attention(q, k, v, mask)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, -1))
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def masked_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Grouped-query attention with an additive bias, spelled out.

    On short sequences the CPU backward of torch's fused attention costs ten times these two batched products.

    Args:
        q: (B, N, T, D); k, v: (B, H, S, D); bias: (B or 1, 1 or N, T, S), 0 where a row may look, -inf elsewhere.
    """
    assert bias.is_floating_point(), bias.dtype
    B, N, T, D = q.shape
    H, S = k.shape[1:3]
    grouped = q.reshape(B * H, N // H * T, D)
    scores = torch.bmm(grouped, k.reshape(B * H, S, D).transpose(1, 2)) * D**-0.5
    weights = (scores.view(B, N, T, S) + bias).softmax(-1)
    return torch.bmm(weights.view(B * H, N // H * T, S), v.reshape(B * H, S, D)).view(B, N, T, D)


@dataclass
class Trace:
    """What `forward` can hand out besides its result: per layer content keys, values and residual inputs."""

    keys: list[Tensor] = field(default_factory=list)  # L x (B, H, T, D), before rotation
    values: list[Tensor] = field(default_factory=list)  # L x (B, H, T, D)
    states: list[Tensor] = field(default_factory=list)  # L x (B, T, C), entering each layer


class Transformer(nn.Module):
    """The decoder. `embed` looks words up, `forward` runs embeddings, `logits` reads states."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.norm_eps)
        self.head = None if config.tied else nn.Linear(config.width, config.vocab, bias=False)

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.weight.dtype

    def embed(self, ids: Tensor) -> Tensor:
        """ids (...) int64 -> (..., C)."""
        return self.embedding(ids)

    def logits(self, states: Tensor) -> Tensor:
        """Normed states (..., C) -> (..., vocab)."""
        return F.linear(states, self.embedding.weight if self.head is None else self.head.weight)

    def forward(
        self, x: Tensor, *, positions: Tensor | None = None, mask: Tensor | None = None,
        memory: tuple[Tensor, Tensor] | None = None, trace: Trace | None = None,
    ) -> Tensor:
        """Run whole sequences, with gradients.

        Args:
            x: embeddings (B, T, C).
            positions: (T,) or (B, T); default 0..T-1, or following the memory.
            mask: (B, 1, T, S) or (B, N, T, S) bool, True where a row may look; default causal. S = memory + T.
            memory: *content* keys and values, each (L, B, H, M, D), standing before x at positions 0..M-1.
            trace: filled with content keys, values and layer inputs when given.

        Returns: normed states (B, T, C).
        """
        B, T, _ = x.shape
        M = 0 if memory is None else memory[0].shape[3]
        rotary = self.config.rotary
        if positions is None:
            positions = torch.arange(M, M + T, device=x.device)
        cos, sin = (t.to(x.dtype) for t in rotary.tables(positions))
        if positions.dim() == 2:
            cos, sin = cos[:, None], sin[:, None]
        if memory is not None:
            past = rotary.place(memory[0], torch.arange(M, device=x.device))
            if mask is None:
                mask = torch.ones(1, 1, T, M + T, dtype=torch.bool, device=x.device).tril(M)
        bias = None
        if mask is not None:
            bias = torch.zeros(mask.shape, dtype=x.dtype, device=x.device).masked_fill_(~mask, -torch.inf)
        for layer, block in enumerate(self.blocks):
            if trace is not None:
                trace.states.append(x)
            q, k, v = block.project(x)
            if trace is not None:
                trace.keys.append(k)
                trace.values.append(v)
            q, k = turn(q, cos, sin), turn(k, cos, sin)
            if memory is not None:
                k = torch.cat((past[layer], k), dim=2)
                v = torch.cat((memory[1][layer], v), dim=2)
            x = block.attend(x, q, k, v, bias, causal=bias is None)
        return self.norm(x)

    @torch.inference_mode()
    def prefill(self, x: Tensor, *, space: Space, capacity: int | None = None) -> tuple[Cache, Tensor]:
        """Run a prefix once and keep its keys and values.

        Args:
            x: embeddings (B, T, C), positions 0..T-1.
            space: content keeps keys as they are before rotation (exact); placed keeps them turned.
            capacity: room in the cache, at least T.

        Returns: the cache, and the normed state of the last token (B, C).
        """
        B, T, _ = x.shape
        c = self.config
        if c.max_positions < T:
            raise OrganMismatch(f"a prefix of {T} tokens was given, but this model has {c.max_positions} positions.")
        cache = Cache.allocate(c.geometry, max(T, capacity or T), batch=B, space=space, dtype=x.dtype, device=x.device)
        cos, sin = (t.to(x.dtype) for t in c.rotary.tables(torch.arange(T, device=x.device)))
        for layer, block in enumerate(self.blocks):
            q, k, v = block.project(x)
            placed = turn(k, cos, sin)
            cache.keys[layer, :, :, :T] = k if space is Space.CONTENT else placed
            cache.values[layer, :, :, :T] = v
            q = turn(q, cos, sin)
            if layer == c.layers - 1:  # of the last layer only the last token's state is asked for
                x = block.attend(x[:, -1:], q[:, :, -1:], placed, v, None, causal=False)
            else:
                x = block.attend(x, q, placed, v, None, causal=True)
        cache.length = T
        return cache, self.norm(x[:, -1])
