"""Words as the voice reads them: phonemes cut into learned pieces, and a track that says at which step each is read.

A word is its phonemes with the punctuation behind it ("pˈɛɹᵻs."). Pieces are byte pairs of such words (Sennrich et al.
2016, by `tokenizers`), so that a word takes one to three steps and the track keeps up with fast speech. A phoneme that
was never seen is left out: the word around it is still said.

Shapes: T steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from tokenizers import Tokenizer, models, trainers
from torch import Tensor

from legato.pocket.voice import PAD, SPECIALS, WORD


def learn(words: Iterable[str], count: int) -> Tokenizer:
    """Pieces of words; ids begin behind the special tokens."""
    tokenizer = Tokenizer(models.BPE())
    marks = [f"<{n}>" for n in range(SPECIALS)]
    trainer = trainers.BpeTrainer(vocab_size=count, special_tokens=marks, show_progress=False)
    tokenizer.train_from_iterator(words, trainer)
    return tokenizer


def pieces(tokenizer: Tokenizer, word: str) -> list[int]:
    """One word as token ids; empty when none of its phonemes is known."""
    return tokenizer.encode(word).ids


def track(words: Sequence[tuple[int, Sequence[int]]], steps: int) -> Tensor:
    """Words with the step at which they should begin -> the text stream (T,).

    A word that comes while another is still being read waits for it.
    """
    out = torch.full((steps,), PAD)
    free = 0
    for begins, ids in words:
        at = max(free, begins)
        free = at + 1 + len(ids)
        if free > steps:
            break
        out[at] = WORD
        out[at + 1 : free] = torch.tensor(ids)
    return out
