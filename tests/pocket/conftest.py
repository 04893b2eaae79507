"""A tokenizer of a few hundred pieces, and a decoder that knows its ids and the prompt's."""

from __future__ import annotations

import pytest
import torch

from legato.corpora.rows import Row, row_id
from legato.pocket.tiny import VOCAB, tiny_listener

TEXT = (
    "Paris is the capital of France. What is the capital of Norway? Say Oslo. The keys are in the bag. Spell cat. "
    "Where are the keys? In the bag. Seventeen plus four is twenty-one. O'Neill wrote it. C, A, T. Monday comes first."
)


@pytest.fixture(scope="session")
def tokenizer():
    """Byte-level BPE as the base model's, but trained here: any text, a few hundred ids, none below the marks'."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    marks = [f"<mark {i}>" for i in range(12)]  # ids 0 .. 11, as in the base vocabulary
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=marks, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([TEXT] * 2, trainer)
    assert tokenizer.get_vocab_size() < VOCAB
    return tokenizer


@pytest.fixture(scope="session")
def row():
    """(question, answer, accepted) -> a Row."""

    def make(question: str, answer: str, *accepted: str, domain: str = "facts", held: bool = False) -> Row:
        return Row(row_id("made", question, answer), domain, "made", f"made:{answer}", "made/0", question, answer,
                   accepted or (answer.lower(),), held, False)

    return make


@pytest.fixture
def model():
    """A tiny decoder of its own for each test: some train it."""
    return tiny_listener(seed=31, layers=2).model


class Projector(torch.nn.Linear):
    """(1, n, F) -> (1, n, C)."""


@pytest.fixture
def projector(model):
    torch.manual_seed(0)
    return Projector(5, model.config.width)
