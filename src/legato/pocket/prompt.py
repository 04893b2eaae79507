"""How a pocket model reads a question: header, audio (or words), turn marks, thinking slots, start mark.

    <|im_start|>user\\n  QUESTION  <|im_end|>\\n<|im_start|>assistant\\n  slot x 8  start      answer <|im_end|>
    '------ header ----'          '------------- tail ---------------------'  ^ row that answers first

The tail exists for the transfer. What a large model has decided must stand in the cache *before* the prompt's last
token, since that token always runs through the decoder that answers (the n-1 rule). The eight slots are distinct
tokens that the base vocabulary reserves and text never uses; in training, slot i is also asked for the answer's
token i, so the answer is decided there, and in half of the sequences the rows that answer may look at the tail but
not at the question, so it is read there.

Shapes: B batch, T tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from legato.organs import Prompt

SLOTS = (3, 4, 5, 6, 7, 8, 9, 10)  # <repo_name> ... <issue_closed>
START = 11  # <jupyter_start>: the token that the answering decoder runs itself
END = 2  # <|im_end|>
HEADER = (1, 4093, 198)  # <|im_start|> user \n
TURN = (2, 198, 1, 520, 9531, 198)  # <|im_end|> \n <|im_start|> assistant \n
TAIL = TURN + SLOTS


def prompt_ids(question: tuple[int, ...]) -> tuple[int, ...]:
    """The n ids of a prompt around `question` (word ids, or `Prompt.AUDIO` for each audio token)."""
    return HEADER + question + TAIL + (START,)


def audio_prompt(audio_tokens: int) -> Prompt:
    """The prompt of a spoken question that the ear turned into `audio_tokens` embeddings."""
    return Prompt(prompt_ids((Prompt.AUDIO,) * audio_tokens), slice(len(HEADER), len(HEADER) + audio_tokens))


@dataclass(frozen=True)
class Layout:
    """Where things stand in one training row."""

    question: slice
    prompt: int  # n: tokens of the prompt, the start mark included
    total: int  # n + answer tokens (the end mark's row is not needed as input)

    @classmethod
    def of(cls, question_tokens: int, answer_tokens: int) -> Layout:
        """The layout of a row with so many question and answer tokens, the end mark among the latter."""
        n = len(HEADER) + question_tokens + len(TAIL) + 1
        return cls(slice(len(HEADER), len(HEADER) + question_tokens), n, n + answer_tokens - 1)

    @property
    def slots(self) -> slice:
        """The thinking slots."""
        return slice(self.prompt - 1 - len(SLOTS), self.prompt - 1)


def attention_masks(layouts: list[Layout], tail_only: list[bool], tail_hidden: list[bool] | None = None) -> Tensor:
    """(B, 1, T, T) bool, True where a position may look: causal, so that nothing sees the padding on the right.

    Where `tail_only`, the answering positions (start mark and answer) may not see the question; where `tail_hidden`,
    they may not see the tail (a diagnosis, never used in training).
    """
    T = max(layout.total for layout in layouts)
    masks = torch.ones(T, T, dtype=torch.bool).tril().repeat(len(layouts), 1, 1, 1)
    for b, layout in enumerate(layouts):
        if tail_only[b]:
            masks[b, 0, layout.prompt - 1 :, layout.question] = False
        if tail_hidden is not None and tail_hidden[b]:
            masks[b, 0, layout.prompt - 1 :, layout.question.stop : layout.prompt - 1] = False
    return masks
