"""What the residual is trained for, measured through the frozen small decoder.

The answer loss asks for the label's tokens. The guard keeps what the small model knew: where its own answer already
was the label, the corrected cache must leave its distribution alone.

Shapes: B batch, A answer tokens, V vocabulary, L layers, H key/value heads, T memory tokens, D head width; N label
tokens of a batch, padding left out, answer after answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from legato.transformer import Transformer

PADDING = -100


def pad(answers: Sequence[Sequence[int]]) -> Tensor:
    """Lists of ids -> (B, A), padded right."""
    width = max(len(a) for a in answers)
    return torch.tensor([[*a, *([PADDING] * (width - len(a)))] for a in answers])


def answer_logits(decoder: Transformer, keys: Tensor, values: Tensor, last_id: int, answers: Tensor) -> Tensor:
    """Logits by which each label token is chosen on top of a content memory, teacher-forced.

    Args:
        keys, values: (L, B, H, T, D) content.
        last_id: the prompt's last token, which the decoder runs itself.
        answers: (B, A) label ids, padded right with -100.

    Returns: (N, V) float32, a row for each entry of `answers` that is no padding.
    """
    start = torch.full_like(answers[:, :1], last_id)
    inputs = torch.cat((start, answers[:, :-1].clamp_min(0)), dim=1)
    dtype = decoder.dtype
    states = decoder(decoder.embed(inputs), memory=(keys.to(dtype), values.to(dtype)))
    return decoder.logits(states[answers != PADDING]).float()


def answer_loss(logits: Tensor, answers: Tensor) -> Tensor:
    """Mean cross-entropy of label tokens: logits (N, V) of answers (B, A)."""
    return F.cross_entropy(logits, answers[answers != PADDING])


def guard(logits: Tensor, native: Tensor) -> Tensor:
    """KL(native small || corrected) of logits (N, V) each, mean over N; 0 where there are none."""
    if not len(logits):
        return logits.new_zeros(())
    return F.kl_div(logits.log_softmax(-1), native.log_softmax(-1), log_target=True, reduction="batchmean")
