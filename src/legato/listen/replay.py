"""An arm over captured questions: which memory the decoder is given, and what it says to it. No audio is run.

For training, selection and diagnosis. What is measured for the record goes through `arms` from the audio on.

Shapes: B batch, T tokens, L layers, H key/value heads, D head width, F numbers per token and source layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

import torch
from torch import Tensor

from legato.cache import Cache, Space
from legato.listen.batch import answers
from legato.listen.capture import Capture, Entry
from legato.listen.mapper import CacheMapper, MapConfig, unflatten
from legato.listen.residual import CacheResidual
from legato.transformer import Transformer


def reader(capture: Capture, config: MapConfig, control: bool) -> Callable[[Entry], Tensor]:
    """-> a function from an entry to the features that `config` reads, (T, used layers, F)."""
    if control:
        return lambda e: capture.small(e)[:, list(config.used)]
    columns = [capture.layers.index(layer) for layer in config.used]
    return lambda e: capture.large(e)[:, columns]


def memories(
    residual: CacheResidual | None, mapper: CacheMapper | None, capture: Capture, batch: Sequence[Entry],
    control: bool, dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Content keys and values (L, B, H, T, D) that the decoder will be given for one batch of equal length.

    Without a mapper, or for the control, the base is the small model's own memory; the control's residual reads that
    too and nothing of the large model.
    """
    question = batch[0].question

    def features(config: MapConfig, control: bool) -> Tensor:
        read = reader(capture, config, control)
        return torch.stack([read(e) for e in batch]).to(dtype)

    if control or mapper is None:
        assert residual is not None, "the small model's own memory, uncorrected, is what it was captured with"
        target = residual.config.map.target
        base = torch.stack([capture.small(e) for e in batch]).to(dtype)
    else:
        target = mapper.config.target
        with torch.no_grad():
            base = mapper.map(features(mapper.config, False), question)
    if residual is not None:
        base = base + residual.correction(features(residual.config.map, control), question)
    return unflatten(base, target)


@torch.no_grad()
def said(
    decoder: Transformer, capture: Capture, entries: Sequence[Entry], residual: CacheResidual | None,
    mapper: CacheMapper | None, *, last_id: int, end_ids: Set[int], max_tokens: int, control: bool = False,
    batch: int = 64,
) -> dict[str, list[int]]:
    """What the decoder says, free-running and greedy, to each captured question: id -> tokens without the end mark."""
    by_length: dict[int, list[Entry]] = {}
    for e in entries:
        by_length.setdefault(e.length, []).append(e)
    replies: dict[str, list[int]] = {}
    for group in by_length.values():
        for at in range(0, len(group), batch):
            part = group[at : at + batch]
            keys, values = memories(residual, mapper, capture, part, control, decoder.dtype)
            caches = [Cache(k[:, None], v[:, None], k.shape[2], Space.CONTENT)
                      for k, v in zip(keys.unbind(1), values.unbind(1), strict=True)]
            spoken = answers(decoder, caches, last_id, max_tokens, end_ids)
            replies |= {e.id: tokens for e, tokens in zip(part, spoken, strict=True)}
    return replies


def agreement(replies: Mapping[str, Sequence[int]], entries: Sequence[Entry], end_ids: Set[int]) -> float:
    """Share of questions to which exactly the large model's own answer was said."""
    return sum([t for t in e.answer if t not in end_ids] == list(replies[e.id]) for e in entries) / len(entries)
