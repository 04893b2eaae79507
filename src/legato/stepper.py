"""One token at a time on top of a placed cache, without making a tensor on the way.

At batch 1 a step is a walk through the weights: each is read once, so what counts is how fast memory is read and how
little stands in between. Every buffer is made once and every result is written into one (`out=`); query heads of a
group share their keys by a batched product instead of repeated keys; activations, rotation and attention are float32
whatever the weights and the cache are. Weights are read in the layout and format that this CPU reads fastest, see
`_as_read`.

Not here: batches, sampling, gradients. Not thread-safe: one stepper, one caller.

Shapes: L layers, N query heads, H key/value heads, G = N / H, S tokens in the cache with the new one, D head width,
C model width.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.cache import Cache, Space
from legato.errors import OrganMismatch
from legato.transformer import RMSNorm, Transformer


class Stepper:
    """Decode on top of `cache`, which grows by one token a step (in place; the caller keeps it).

    Args:
        model: the decoder; its weights may be float32, bfloat16 or float16.
        cache: placed keys, batch 1, the model's geometry and dtype, with room for the tokens to come. It holds the
            first n - 1 tokens of a prefix; the first `step` feeds the n-th.

    Raises: SpaceError for content keys; OrganMismatch for another geometry, batch or dtype.
    """

    def __init__(self, model: Transformer, cache: Cache) -> None:
        c = model.config
        cache.require(Space.PLACED, "a decode step")
        cache.require_geometry(c.geometry, "this decoder")
        if cache.batch != 1:
            raise OrganMismatch(f"a step takes one sequence, but this cache holds {cache.batch}; step them one by one.")
        if cache.keys.dtype != model.dtype:
            raise OrganMismatch(f"this decoder computes in {model.dtype}, but the cache holds {cache.keys.dtype}; "
                                "convert it with cache.to.")
        assert cache.start is not None
        self.model, self.cache = model, cache
        self.room = min(cache.capacity, c.max_positions - cache.start)
        with torch.inference_mode():
            self._make_buffers()

    def _make_buffers(self) -> None:
        model, cache, c = self.model, self.cache, self.model.config
        device = cache.keys.device

        def buffer(*shape: int) -> Tensor:
            return torch.zeros(shape, device=device)

        self._x, normed = buffer(1, c.width), buffer(1, c.width)
        qkv, mixed = (buffer(1, n * c.head_dim) for n in (c.heads + 2 * c.kv_heads, c.heads))
        wide = buffer(1, 2 * c.ffn)
        self._logits = buffer(1, c.vocab)
        self._gate, self._up = wide.chunk(2, dim=1)
        self._flat, self._v = qkv.view(-1, c.head_dim).split((c.heads + c.kv_heads, c.kv_heads))  # (N + H, D), (H, D)
        self._first, self._second = self._flat.chunk(2, dim=1)
        self._turned = torch.zeros_like(self._flat)
        self._turned_first, self._turned_second = self._turned.chunk(2, dim=1)
        q, self._k = self._turned.split((c.heads, c.kv_heads))
        self._q, self._mixed = (t.view(c.kv_heads, c.heads // c.kv_heads, c.head_dim) for t in (q, mixed))  # (H, G, D)
        self._scores, self._weights = (buffer(c.heads * cache.capacity) for _ in range(2))
        self._widen = cache.keys.dtype != torch.float32
        if self._widen:
            self._keys32, self._values32 = (buffer(c.kv_heads * cache.capacity * c.head_dim) for _ in range(2))

        positions = torch.arange(cache.start, cache.start + cache.capacity, device=device)
        self._cos, sin = c.rotary.tables(positions)  # (capacity, D)
        self._sin = sin[:, : c.head_dim // 2].contiguous()
        self._minus_sin = -self._sin

        self._layers = [
            (_Norm(block.attn_norm, self._x, normed), _Product(block.qkv, normed, qkv),
             _Product(block.out, mixed, self._x, add=True), _Norm(block.ffn_norm, self._x, normed),
             _Product(block.gate_up, normed, wide), _Product(block.down, self._gate, self._x, add=True))
            for block in model.blocks
        ]
        self._last_norm = _Norm(model.norm, self._x, normed)
        self._head = _Product(model.head or model.embedding, normed, self._logits)

    @torch.inference_mode()
    def step(self, token: int) -> Tensor:
        """Feed one token; -> float32 logits (vocab,) for the next, a view that the next step overwrites.

        Raises: OrganMismatch if the cache has no room left.
        """
        cache, c = self.cache, self.model.config
        at = cache.length
        if at >= self.room:
            raise OrganMismatch(f"the cache is full: it has room for {self.room} tokens and holds {at}; "
                                "make it with a larger capacity.")
        S = at + 1
        keys, values = cache.keys[:, 0], cache.values[:, 0]  # (L, H, capacity, D)
        key_slots, value_slots = keys[:, :, at].unbind(), values[:, :, at].unbind()  # L x (H, D)
        past_keys, past_values = keys[:, :, :S].unbind(), values[:, :, :S].unbind()  # L x (H, S, D)
        scores, weights = (b[: c.heads * S].view(c.kv_heads, -1, S) for b in (self._scores, self._weights))  # (H, G, S)
        cos, sin, minus_sin = self._cos[at], self._sin[at], self._minus_sin[at]
        if self._widen:
            keys32, values32 = (b[: c.kv_heads * S * c.head_dim].view(c.kv_heads, S, c.head_dim)
                                for b in (self._keys32, self._values32))
        scale = c.head_dim**-0.5

        self._x.copy_(self.model.embedding.weight[token])
        for layer, (attn_norm, qkv, out, ffn_norm, gate_up, down) in enumerate(self._layers):
            attn_norm()
            qkv()
            torch.mul(self._flat, cos, out=self._turned)
            self._turned_first.addcmul_(self._second, minus_sin)
            self._turned_second.addcmul_(self._first, sin)
            key_slots[layer].copy_(self._k)
            value_slots[layer].copy_(self._v)
            k, v = past_keys[layer], past_values[layer]
            if self._widen:
                k, v = keys32.copy_(k), values32.copy_(v)
            torch.baddbmm(scores, self._q, k.transpose(1, 2), beta=0, alpha=scale, out=scores)
            torch.softmax(scores, -1, out=weights)
            torch.bmm(weights, v, out=self._mixed)
            out()
            ffn_norm()
            gate_up()
            F.silu(self._gate, inplace=True)
            self._gate.mul_(self._up)
            down()
        self._last_norm()
        self._head()
        cache.length = S
        return self._logits[0]


class _Norm:
    """RMSNorm from buffer to buffer, float32."""

    def __init__(self, norm: RMSNorm, x: Tensor, out: Tensor) -> None:
        self.weight, self.x, self.column, self.out = norm.weight.float(), x, x.t(), out
        self.eps = torch.full((1, 1), norm.eps, device=x.device)
        self.scale = torch.zeros_like(self.eps)
        self.share = 1.0 / x.shape[1]

    def __call__(self) -> None:
        torch.addmm(self.eps, self.x, self.column, alpha=self.share, out=self.scale)  # mean square + eps
        self.scale.rsqrt_()
        torch.mul(self.x, self.scale, out=self.out)
        self.out.mul_(self.weight)


class _Product:
    """y = x W^T or, with `add`, y += x W^T, for float32 rows x and y, whatever W is stored in."""

    def __init__(self, module: nn.Linear | nn.Embedding, x: Tensor, y: Tensor, add: bool = False) -> None:
        weight, self.add = _as_read(module), add
        self.sliced = weight.dim() == 3
        if self.sliced:  # (s, K, N / s)
            s = weight.shape[0]
            self.weight, self.x, self.y = weight, x.expand(s, 1, -1), y.view(s, 1, -1)
            return
        self.weight, self.x, self.y = weight.t(), x, y
        same = weight.dtype == x.dtype
        self.narrow_x = x if same else torch.zeros_like(x, dtype=weight.dtype, memory_format=torch.contiguous_format)
        self.narrow_y = torch.zeros_like(y, dtype=weight.dtype)
        self.wide_y = torch.zeros_like(y) if add else y

    def __call__(self) -> None:
        if self.sliced:
            if self.add:
                self.y.baddbmm_(self.x, self.weight)
            else:
                torch.bmm(self.x, self.weight, out=self.y)
            return
        if self.narrow_x is not self.x:
            self.narrow_x.copy_(self.x)
        torch.mm(self.narrow_x, self.weight, out=self.narrow_y)
        self.wide_y.copy_(self.narrow_y)
        if self.add:
            self.y.add_(self.wide_y)


_COPIES: WeakKeyDictionary[nn.Module, tuple[tuple[int, int, int], Tensor]] = WeakKeyDictionary()


def _as_read(module: nn.Linear | nn.Embedding) -> Tensor:
    """The weight (N, K) as one row is multiplied by it fastest; measured in benchmarks/products.py.

    - float32 on a CPU: (s, K, N / s), input-major and cut into s slices. The BLAS reads that up to twice as fast as
      torch's output-major (N, K), and uses a second thread only if it is asked for several products; s is the largest
      divisor of N up to the number of threads.
    - bfloat16 on a CPU: float16, which has a fast kernel where bfloat16 has none and holds every bfloat16 from 6e-5 to
      65504 exactly (smaller ones to 3e-8).
    - anything else as it is.

    Copies live as long as the module and are made again when its weight has changed.
    """
    weight = module.weight.detach()
    if weight.device.type != "cpu" or weight.dtype == torch.float16:
        return weight
    threads = torch.get_num_threads()
    stamp = (threads, weight.data_ptr(), 0 if weight.is_inference() else module.weight._version)
    if module not in _COPIES or _COPIES[module][0] != stamp:
        if weight.dtype == torch.float32:
            N, K = weight.shape
            s = next(s for s in range(threads, 0, -1) if N % s == 0)
            copy = weight.view(s, N // s, K).transpose(1, 2).contiguous()
        else:
            copy = weight.to(torch.float16)
        _COPIES[module] = stamp, copy
    return _COPIES[module][1]
