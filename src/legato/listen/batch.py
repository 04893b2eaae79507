"""Greedy answers to many memories at once, for research: the same tokens as `decode`, several times faster a question.

The same in float32, that is: in half precision sums are rounded in another order, and a near tie may fall otherwise, so
a reported figure comes from the arms. No timing, no text, no live use. Works on a plain `Transformer`, since a protocol
for one token cannot be batched.

Shapes: B batch, L layers, H key/value heads, D head width, S columns of the shared cache.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import torch
from torch import Tensor

from legato.cache import Cache, Space
from legato.rotary import turn
from legato.transformer import Transformer


@torch.inference_mode()
def answers(
    model: Transformer, memories: Sequence[Cache], last_id: int, max_tokens: int, end_ids: Set[int]
) -> list[list[int]]:
    """Run `last_id` on top of every memory and take the likeliest token until an end mark or `max_tokens`.

    Args:
        model: the decoder that answers.
        memories: content caches of one question each, any lengths; not written to.
        last_id: the prompt's last token, the same for all.

    Returns: per memory its answer tokens without the end mark; one of `max_tokens` tokens was stopped by the limit.
    Raises: SpaceError for placed memories, OrganMismatch for another geometry.
    """
    rotary = model.config.rotary
    lengths = [memory.length for memory in memories]
    width = max(lengths)
    cache = Cache.allocate(
        model.config.geometry, width + max_tokens, batch=len(memories), space=Space.PLACED, dtype=model.dtype,
        device=model.embedding.weight.device,
    )
    keys, values = cache.keys, cache.values  # (L, B, H, S, D)
    for b, memory in enumerate(memories):
        memory.require_geometry(model.config.geometry, "answering in a batch")
        placed_keys, placed_values = memory.place(rotary).filled()
        # Padded left, so that the columns a row may see are one run that ends at the newest.
        keys[:, b, :, width - memory.length : width] = placed_keys[:, 0]
        values[:, b, :, width - memory.length : width] = placed_values[:, 0]
    size = torch.tensor(lengths, device=keys.device)[:, None]  # (B, 1)
    padded = torch.arange(keys.shape[3], device=keys.device) < width - size  # (B, S)
    bias = torch.zeros_like(padded, dtype=model.dtype).masked_fill(padded, float("-inf"))[:, None, None]  # (B, 1, 1, S)
    replies: list[list[int]] = [[] for _ in memories]
    rows = list(range(len(memories)))  # which memory each row of the batch still answers; -1 once it has ended
    token = torch.full((len(rows),), last_id, device=keys.device)
    for step in range(max_tokens):
        token = _step(model, token, size + step, keys, values, bias, width + step)
        for at, chosen in enumerate(token.tolist()):
            if rows[at] < 0:
                continue
            if chosen in end_ids:
                rows[at] = -1
            else:
                replies[rows[at]].append(chosen)
        running = [at for at, row in enumerate(rows) if row >= 0]
        if not running:
            break
        if 2 * len(running) <= len(rows):  # few long answers left: stop computing the ended ones
            keys, values = keys[:, running], values[:, running]
            size, bias, token = size[running], bias[running], token[running]
            rows = [rows[at] for at in running]
    return replies


def _step(
    model: Transformer, token: Tensor, positions: Tensor, keys: Tensor, values: Tensor, bias: Tensor, column: int
) -> Tensor:
    """token (B,) at positions (B, 1) -> the likeliest next token (B,); its keys and values go into `column`."""
    x = model.embed(token[:, None])  # (B, 1, C)
    cos, sin = (t[:, None].to(x.dtype) for t in model.config.rotary.tables(positions))  # (B, 1, 1, D)
    for layer, block in enumerate(model.blocks):
        q, k, v = block.project(x)
        keys[layer, :, :, column] = turn(k, cos, sin)[:, :, 0]
        values[layer, :, :, column] = v[:, :, 0]
        k, v = keys[layer, :, :, : column + 1], values[layer, :, :, : column + 1]
        x = block.attend(x, turn(q, cos, sin), k, v, bias[..., : column + 1], causal=False)
    return model.logits(model.norm(x[:, -1])).argmax(-1)
