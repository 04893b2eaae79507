"""What must hold of the pocket pair before any map is fitted; each takes seconds.

1. tail only = everything: a model that may look at the tail alone answers as well as one that may look at all;
2. tail hidden = chance: without its tail the small model has nothing to answer from;
3. told oracle >= .95: the small model's own tail, told the answer in words, put behind another question, speaks it;
4. read-out >= .9: from what a map may read at one tail position (keys and values of the captured layers), one matrix
   gives the state with which the model begins its answer; the model's own output matrix reads the first token off
   that guess at least .9 times as often as off the true state (`read_out`: a tuned lens, Belrose et al.,
   arXiv 2303.08112). A probe that has to learn the words of the answers as well (`legato.probe.probe`) needs more
   questions than there are answers and falls short with thousands (records/LOG.md).

The first two are `train.key_accuracy` under a mask.

Shapes: B batch, T tokens, L layers, H key/value heads, D head width, C model width, N questions, F numbers a position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from legato.pocket.examples import Example, collate
from legato.pocket.prompt import SLOTS, START, TAIL
from legato.probe import lens
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
def at_slots(
    model: Transformer, projector: nn.Module, examples: Sequence[Example], features: Mapping[str, Tensor],
    layers: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """What a map may read at each slot, (N, slots, layers x 2 H D), and the state that begins the answer, (N, C)."""
    memories, states = [], []
    for at in range(0, len(examples), 32):
        batch = collate(list(examples[at : at + 32]), features)
        trace = Trace()
        out = model(batch.embed(model, projector), mask=batch.mask, trace=trace)
        kept = [(trace.keys[i], trace.values[i]) for i in layers]
        memory = torch.cat([part.transpose(1, 2).flatten(2) for pair in kept for part in pair], dim=2)  # (B, T, F)
        for b, layout in enumerate(batch.layouts):
            memories.append(memory[b, layout.slots].float())
            states.append(out[b, layout.prompt - 1].float())
    return torch.stack(memories), torch.stack(states)


@torch.no_grad()
def read_out(
    model: Transformer, projector: nn.Module, fit_on: Sequence[Example], asked: Sequence[Example],
    features: Mapping[str, Tensor], layers: Sequence[int],
) -> tuple[list[int], int]:
    """How many first answer tokens are read right from each slot by a lens fitted on other questions, and how many
    the model itself says right at the start mark."""
    memories, states = at_slots(model, projector, [*fit_on, *asked], features, layers)
    first = torch.tensor([e.answer[0] for e in asked])

    def right(guess: Tensor) -> int:
        return int((model.logits(guess.to(model.dtype)).argmax(-1) == first).sum())

    slots = [right(lens(memories[:, i], states, len(fit_on))) for i in range(len(SLOTS))]
    return slots, right(states[len(fit_on) :])
