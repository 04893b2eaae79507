"""When two texts, rows or sounds are the same, and a check that two sets share nothing.

`normalise` is also what answers are matched with. No sound is read here: audio is compared by the
SHA-256 that whoever made it hands in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from legato.corpora.rows import Row

_DROP = re.compile(r"['’]")
_OTHER = re.compile(r"[^a-z0-9]+")


def normalise(text: str) -> str:
    """Lower case, apostrophes dropped, all other punctuation to one space: "It's: A, B." -> "its a b"."""
    return _OTHER.sub(" ", _DROP.sub("", text.lower())).strip()


@dataclass(frozen=True)
class Overlap:
    """What two sets of rows share; each entry is (id in the first set, id in the second). Falsy when disjoint."""

    text: tuple[tuple[str, str], ...]  # same normalised question
    audio: tuple[tuple[str, str], ...]  # same audio SHA-256
    fact: tuple[tuple[str, str], ...]  # same fact identity

    def __bool__(self) -> bool:
        return bool(self.text or self.audio or self.fact)


def audit(
    first: Iterable[Row],
    second: Iterable[Row],
    *,
    first_audio: Mapping[str, str] | None = None,
    second_audio: Mapping[str, str] | None = None,
) -> Overlap:
    """Compare two sets by question text, by audio and by fact.

    `first_audio` and `second_audio` map row ids to the SHA-256 of their audio; without them the
    audio part of the report is empty. Shared facts are reported as found: selection and final ask
    seen facts on purpose, so whoever calls decides which of the three lists must be empty.
    """
    first, second = list(first), list(second)
    return Overlap(
        text=_shared(((normalise(r.question), r.id) for r in first), ((normalise(r.question), r.id) for r in second)),
        audio=_shared(
            ((sha, row) for row, sha in (first_audio or {}).items()),
            ((sha, row) for row, sha in (second_audio or {}).items()),
        ),
        fact=_shared(((r.fact, r.id) for r in first), ((r.fact, r.id) for r in second)),
    )


def _shared(first: Iterable[tuple[str, str]], second: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Pairs (id, id) whose keys are equal: each id of `second` once, with the first id that has its key."""
    known: dict[str, str] = {}
    for key, row in first:
        known.setdefault(key, row)
    found = {(known[key], row): None for key, row in second if key in known}
    return tuple(found)
