"""Greedy decoding, one token at a time, and what it cost. The one loop of every arm.

It gets a decoder's state, the ids that end an answer, and a limit; nothing that could tell it the right answer. It
keeps no text and knows no tokenizer. Batched decoding for research is in `batch`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from legato.errors import BadInput

if TYPE_CHECKING:
    from legato.clock import Stopwatch
    from legato.organs import DecodeState


@dataclass(frozen=True)
class Decoded:
    """The tokens of an answer, without its end mark, and the two times that matter."""

    tokens: tuple[int, ...]
    finish: str  # "end": an end mark came; "limit": the limit stopped it
    first_token_ms: float  # on the stopwatch: from its start to the first token known
    tokens_per_s: float | None  # over the steps after the first token (an end mark counts); None without such a step


def token_limit(max_tokens: int, force_tokens: int | None) -> int:
    """How many tokens an answer may have at most. Raises BadInput below 1."""
    limit = max_tokens if force_tokens is None else force_tokens
    if limit < 1:
        raise BadInput(f"{limit} answer tokens were asked for; ask for 1 at least.")
    return limit


@torch.inference_mode()
def decode(
    state: DecodeState, end_ids: Set[int], watch: Stopwatch, *, max_tokens: int = 48, force_tokens: int | None = None
) -> Decoded:
    """Take the likeliest token until an end mark or the limit.

    Args:
        state: a decoder with the whole prompt behind it and room for the tokens; it is advanced.
        end_ids: tokens that end an answer.
        watch: started when the question was; first_token_ms is read from it.
        max_tokens: the limit, end mark not counted.
        force_tokens: exactly so many tokens, end marks taken for tokens like any other; for speed measurements.

    Raises: BadInput for a limit below 1.
    """
    limit = token_limit(max_tokens, force_tokens)
    ends = end_ids if force_tokens is None else frozenset()
    token = _likeliest(state)
    first = watch.elapsed_ms
    tokens: list[int] = []
    steps = 0
    while token not in ends:
        tokens.append(token)
        if len(tokens) == limit:
            break
        state.step(token)
        token = _likeliest(state)
        steps += 1
    spent = watch.elapsed_ms - first
    finish = "limit" if len(tokens) == limit else "end"
    return Decoded(tuple(tokens), finish, first, 1000 * steps / spent if steps else None)


def _likeliest(state: DecodeState) -> int:
    return int(state.logits.float().argmax())  # over bfloat16 itself, argmax on CPU takes five times as long
