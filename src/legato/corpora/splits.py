"""The hash rule that deals facts, words, wordings and questions to training, selection and final.

Pure arithmetic on SHA-256, so every machine deals alike and no list of held items has to be kept.
It knows nothing of the world's contents; `world` asks it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

HELD_FACTS = 0.15  # part of the facts (and of the words in stories) that no training sees
HELD_WORDINGS = 0.25  # part of the wordings of a kind that no training sees
SELECT_FACTS = 1 / 3  # part of the held facts that belongs to selection; the others belong to the final
TRAIN_QUESTIONS = 0.8  # part of the seen-fact, seen-wording questions that training may ask

SPLITS = ("train", "select", "final")


def deal(key: str, salt: str) -> float:
    """A number in [0, 1) that depends on `key` and `salt` only."""
    digest = hashlib.sha256(f"{salt}\x1f{key}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def share_of(fact: str) -> str:
    """Who may use a fact or a story word: "seen" (everyone), "select" or "final" (held from training)."""
    if deal(fact, "held fact") >= HELD_FACTS:
        return "seen"
    return "select" if deal(fact, "held share") < SELECT_FACTS else "final"


def held_wordings(kind: str, wordings: Sequence[str]) -> frozenset[int]:
    """Indices of the wordings of a kind that no training sees: a quarter, at least one of three or more."""
    if len(wordings) < 3:
        return frozenset()
    held = max(1, round(HELD_WORDINGS * len(wordings)))
    order = sorted(range(len(wordings)), key=lambda i: deal(f"{kind}\x1f{wordings[i]}", "held wording"))
    return frozenset(order[:held])


def split_of(question: str, *, held: bool) -> str:
    """The one split that may ask this question text.

    `held` says that its fact or its wording is held: then training is out of the question and
    selection and final share the texts; otherwise training gets `TRAIN_QUESTIONS` of them.
    """
    x = deal(question, "question")
    if not held:
        if x < TRAIN_QUESTIONS:
            return "train"
        x = (x - TRAIN_QUESTIONS) / (1 - TRAIN_QUESTIONS)
    return "select" if x < 0.5 else "final"
