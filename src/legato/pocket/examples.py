"""Training rows of the pocket pair: words or audio in, answer out, collated into batches with their masks.

A row's *key* is the part of the answer that is scored ("Paris" of "Paris is the capital of France."); since answers
come first, it is the first few answer tokens. A model whose greedy choice is right at every key token, given the
reference before it, says exactly that key when it runs free: the teacher-forced key accuracy here is the free one.

Shapes: B batch, T tokens, C model width, F audio feature width, n audio tokens, N answer tokens of a batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from legato.corpora.identity import normalise
from legato.corpora.rows import Row
from legato.pocket.hearing import side_by_side
from legato.pocket.prompt import END, SLOTS, Layout, attention_masks, prompt_ids

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from legato.transformer import Transformer


@dataclass(frozen=True)
class Example:
    """One question and its answer as tokens; `audio` holds the clip id when the question is heard, not read."""

    row: Row
    question: tuple[int, ...]  # word ids; empty when heard
    answer: tuple[int, ...]  # END included
    key: int  # number of leading answer tokens that are scored
    audio: str | None = None


def encode(row: Row, tokenizer: Tokenizer, audio: str | None = None) -> Example:
    """Row -> Example. Answers carry a leading space, so that their first word is the base model's whole-word token."""
    encoding = tokenizer.encode(" " + row.answer)
    key_end = key_span(row)
    key = sum(start < key_end for start, _ in encoding.offsets)
    question = () if audio else tuple(tokenizer.encode(row.question).ids)
    return Example(row, question, (*encoding.ids, END), key, audio)


def key_span(row: Row) -> int:
    """Characters of " " + answer up to the end of the first accepted string that occurs in it, as whole words.

    All of them where none occurs.
    """
    answer = " " + row.answer
    said = normalise(answer)
    for accepted in row.accepted:
        at = f" {said} ".find(f" {accepted} ")
        if at >= 0:
            wanted = said[: at + len(accepted)]
            return next(end for end in range(len(answer) + 1) if normalise(answer[:end]) == wanted)
    return len(answer)


@dataclass
class Batch:
    """Examples side by side, padded right, with the places where their tokens are predicted."""

    examples: list[Example]
    layouts: list[Layout]
    ids: Tensor  # (B, T) input ids, 0 where padded or heard
    audio: list[tuple[int, slice, Tensor]]  # row, where, features (n, F)
    mask: Tensor  # (B, 1, T, T)
    answer_rows: tuple[Tensor, Tensor]  # row and column of every position that predicts an answer token, (N,) each
    answer_ids: Tensor  # (N,) what they should predict
    key: Tensor  # (N,) bool, which of them are scored
    owner: Tensor  # (N,) which example each belongs to
    slot_rows: tuple[Tensor, Tensor]  # row and column of every slot that predicts an answer token
    slot_ids: Tensor  # what they should predict

    def embed(self, model: Transformer, projector: nn.Module) -> Tensor:
        """(B, T, C): words looked up, audio projected into place."""
        x = model.embed(self.ids)
        if self.audio:
            heard = side_by_side(projector, [features for _, _, features in self.audio])
            x = x.clone()
            for (b, where, _), piece in zip(self.audio, heard, strict=True):
                x[b, where] = piece.to(x.dtype)
        return x


def collate(examples: list[Example], features: Mapping[str, Tensor], tail_only: list[bool] | None = None,
            tail_hidden: list[bool] | None = None) -> Batch:
    """Examples -> Batch.

    Args:
        features: clip id -> (n, F).
        tail_only, tail_hidden: see `prompt.attention_masks`; nobody by default.
    """
    heard = [None if e.audio is None else features[e.audio] for e in examples]
    sizes = [len(e.question) if h is None else len(h) for e, h in zip(examples, heard, strict=True)]
    layouts = [Layout.of(n, len(e.answer)) for e, n in zip(examples, sizes, strict=True)]
    ids = torch.zeros(len(examples), max(layout.total for layout in layouts), dtype=torch.int64)
    audio: list[tuple[int, slice, Tensor]] = []
    answers: list[tuple[int, int, int, bool]] = []  # row, column, token, scored
    slots: list[tuple[int, int, int]] = []  # row, column, token
    for b, (e, h, layout) in enumerate(zip(examples, heard, layouts, strict=True)):
        words = e.question if h is None else (0,) * len(h)
        ids[b, : layout.total] = torch.tensor(prompt_ids(words) + e.answer[:-1])
        if h is not None:
            audio.append((b, layout.question, h))
        answers += [(b, layout.prompt - 1 + i, token, i < e.key) for i, token in enumerate(e.answer)]
        slots += [(b, layout.slots.start + i, token) for i, token in enumerate(e.answer[: len(SLOTS)])]
    rows, columns, tokens, key = (torch.tensor(x) for x in zip(*answers, strict=True))
    slot_rows, slot_columns, slot_ids = (torch.tensor(x) for x in zip(*slots, strict=True))
    mask = attention_masks(layouts, tail_only or [False] * len(examples), tail_hidden)
    return Batch(examples, layouts, ids, audio, mask, (rows, columns), tokens, key, rows,
                 (slot_rows, slot_columns), slot_ids)


def batches(examples: list[Example], size: int, rng: random.Random,
            length: Callable[[Example], float] | None = None) -> list[list[Example]]:
    """Shuffle, then group rows of like length so that padding stays small; the groups come in random order."""
    length = length or (lambda e: len(e.question) + len(e.answer))
    order = rng.sample(examples, len(examples))
    pool = size * 16
    grouped = []
    for at in range(0, len(order), pool):
        part = sorted(order[at : at + pool], key=length)
        grouped += [part[i : i + size] for i in range(0, len(part), size)]
    rng.shuffle(grouped)
    return grouped
