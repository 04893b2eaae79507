"""What must hold of the pocket pair before any map is fitted; each takes seconds.

1. tail only = everything: a model that may look at the tail alone answers as well as one that may look at all;
2. tail hidden = chance: without its tail the small model has nothing to answer from;
3. told oracle >= .95: the small model's own tail, told the answer in words, put behind another question, speaks it;
4. read-out >= .9: the answer's first token can be read linearly from the first slot, which training asked for it, as
   often as from the start mark (`first_token`: by the model's own output matrix, after the last layer, whose output no
   map reads). Beside it stands the stricter form: a ridge on what enters the layers there (`probe` on
   `states_at_tail`) against the model's accuracy. With a few thousand questions for as many answers it falls short.

The first two are `train.key_accuracy` under a mask.

Shapes: B batch, T tokens, L layers, H key/value heads, D head width, C model width, N questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from legato.pocket.examples import Example, collate
from legato.pocket.prompt import START, TAIL
from legato.probe import probe as probe  # the fourth gate
from legato.transformer import Trace, Transformer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@torch.no_grad()
def prefix_memory(
    model: Transformer, projector: nn.Module, example: Example, features: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Content keys and values (L, 1, H, n - 1, D) of one prompt."""
    batch = collate([example], features)
    trace = Trace()
    prefix = batch.layouts[0].prompt - 1
    model(batch.embed(model, projector)[:, :prefix], trace=trace)
    return torch.stack(trace.keys), torch.stack(trace.values)


@torch.no_grad()
def told_oracle(
    model: Transformer, projector: nn.Module, examples: Sequence[Example], features: Mapping[str, Tensor],
    tokenizer: Tokenizer, tell: str = "Say {answer}",
) -> float:
    """Share of questions whose reference key is spoken when the tail comes from a prompt that tells the answer."""
    right, tail = 0, slice(-len(TAIL), None)
    for e in examples:
        words = tuple(tokenizer.encode(tell.format(answer=e.row.answer)).ids)
        memory = prefix_memory(model, projector, e, features)
        told = prefix_memory(model, projector, replace(e, question=words, audio=None), features)
        for own, other in zip(memory, told, strict=True):
            own[..., tail, :] = other[..., tail, :]
        inputs = torch.tensor([(START, *e.answer[: e.key - 1])])
        states = model(model.embed(inputs), memory=memory)
        right += bool((model.logits(states[0]).argmax(-1) == torch.tensor(e.answer[: e.key])).all())
    return right / len(examples)


@torch.no_grad()
def first_token(
    model: Transformer, projector: nn.Module, examples: Sequence[Example], features: Mapping[str, Tensor]
) -> tuple[int, int]:
    """How many first answer tokens the output matrix reads right at the first slot, and at the start mark."""
    right = [0, 0]
    for at in range(0, len(examples), 32):
        part = list(examples[at : at + 32])
        batch = collate(part, features)
        states = model(batch.embed(model, projector), mask=batch.mask)
        for i, wanted in enumerate((layout.slots.start, layout.prompt - 1) for layout in batch.layouts):
            ids = model.logits(states[i, list(wanted)]).argmax(-1)
            right = [r + (found == part[i].answer[0]) for r, found in zip(right, ids.tolist(), strict=True)]
    return right[0], right[1]


@torch.no_grad()
def states_at_tail(
    model: Transformer, projector: nn.Module, examples: Sequence[Example], features: Mapping[str, Tensor]
) -> Tensor:
    """(N, L, tail + 1, C) float32: what enters each layer at every tail position and at the start mark."""
    rows = []
    for at in range(0, len(examples), 32):
        batch = collate(list(examples[at : at + 32]), features)
        trace = Trace()
        model(batch.embed(model, projector), mask=batch.mask, trace=trace)
        states = torch.stack(trace.states, dim=1)  # (B, L, T, C)
        for b, layout in enumerate(batch.layouts):
            rows.append(states[b, :, layout.prompt - 1 - len(TAIL) : layout.prompt].float().clone())
    return torch.stack(rows)
