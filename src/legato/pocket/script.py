"""Words as the voice reads them: phonemes cut into learned pieces.

A word is its phonemes with the punctuation behind it ("pˈɛɹᵻs."). Pieces are byte pairs of such words (Sennrich et al.
2016, by `tokenizers`), so that a word takes one to three steps and the track keeps up with fast speech. A phoneme that
was never seen is left out: the word around it is still said.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, models, trainers

from legato.pocket.voice import SPECIALS


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
