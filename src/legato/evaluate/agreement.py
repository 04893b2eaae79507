"""How far an arm says what the large model says, from raw records alone: the measure for talk that has no right answer.

Three readings of a reply against the large arm's reply to the same question: do both start with the same word of
content; how many token ids agree before the first that does not; how alike are the words as a whole. They need no
judge, and they do not say which reply is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein

from legato.errors import BadInput
from legato.evaluate import answers, statistics
from legato.evaluate.record import RawRecord


@dataclass(frozen=True)
class Agreement:
    """One reply against the reference reply."""

    first_answer: bool  # the first word behind articles and fillers is the same
    prefix: float  # tokens agreeing from the start, over the longer of the two
    similarity: float  # 1 - word edits / words of the longer
    same: bool  # word for word


def compare(reply: RawRecord, reference: RawRecord) -> Agreement:
    """Compare two replies to the same question."""
    a, b = answers.words(reply.reply), answers.words(reference.reply)
    longest = max(len(a), len(b))
    tokens = max(len(reply.tokens), len(reference.tokens))
    agreeing = 0
    for mine, theirs in zip(reply.tokens, reference.tokens, strict=False):
        if mine != theirs:
            break
        agreeing += 1
    return Agreement(
        first_answer=answers.first_word(reply.reply) == answers.first_word(reference.reply),
        prefix=agreeing / tokens if tokens else 1.0,
        similarity=1 - Levenshtein.distance(a, b) / longest if longest else 1.0,
        same=a == b,
    )


def agreement(found: Sequence[RawRecord], *, reference: str = "large") -> Mapping[str, Any]:
    """`{arm: {"n", "first_answer", "prefix", "similarity", "same"}}`, each a mean with its 95 % interval.

    Raises:
        BadInput: the reference arm is not in the records, or lacks a row.
    """
    by = {(r.arm, r.row): r for r in found}
    arms = sorted({r.arm for r in found} - {reference})
    if not arms or not any(r.arm == reference for r in found):
        raise BadInput(
            f"the records hold the arms {sorted({r.arm for r in found})}; agreement needs {reference!r} and another."
        )
    result = {}
    for arm in arms:
        rows = [row for a, row in by if a == arm]
        if lacking := [row for row in rows if (reference, row) not in by]:
            raise BadInput(f"arm {reference!r} has no reply to row {lacking[0]}; finish the run first.")
        each = [compare(by[arm, row], by[reference, row]) for row in rows]
        result[arm] = {"n": len(each)}
        for name in ("first_answer", "prefix", "similarity", "same"):
            estimate = statistics.bootstrap(np.mean, [[float(getattr(a, name)) for a in each]], resamples=5_000)
            result[arm][name] = {"value": estimate.value, "ci95": [estimate.low, estimate.high]}
    return result
