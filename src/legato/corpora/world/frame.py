"""What a kind of question is: wordings, a reply, and facts to ask about.

A `Table` kind asks about listed facts (a `TrainOnly` one in training alone), a `Story` kind draws its words
anew each time. All hand out a `Fact` for a share ("seen", "select", "final"; see `splits`) and know nothing of
rows or splits of text.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Generic, TypeVar

from legato.corpora.identity import normalise
from legato.corpora.splits import held_wordings, share_of

T = TypeVar("T")
SHARES = ("seen", "select", "final")


class Rng:
    """Seeded draws built on `random.random` alone, whose values Python promises to keep."""

    def __init__(self, seed: str) -> None:
        self.unit = random.Random(seed).random

    def below(self, n: int) -> int:
        """0..n-1."""
        return int(self.unit() * n)

    def pick(self, items: Sequence[T]) -> T:
        """One of them, each equally likely."""
        return items[int(self.unit() * len(items))]

    def chance(self, p: float) -> bool:
        """True with probability `p`."""
        return self.unit() < p


class Weighted(Generic[T]):
    """Items with weights, drawn by bisection."""

    def __init__(self, items: Sequence[T], weights: Iterable[float]) -> None:
        self.items = list(items)
        self.edges = list(accumulate(weights))

    def pick(self, rng: Rng) -> T:
        """One of them, by weight."""
        at = bisect_right(self.edges, rng.unit() * self.edges[-1])
        return self.items[min(at, len(self.items) - 1)]


@dataclass(frozen=True)
class Fact:
    """One thing that can be asked: the words that fill wording and reply, and what counts as right."""

    identity: str
    slots: dict[str, str]
    accepted: tuple[str, ...]  # as spoken; normalised when the row is made
    held: bool = False
    weight: float = 1.0
    held_words: tuple[str, ...] = ()  # of a story: the question must speak one of them to count as held


def fact(identity: str, accepted: str | Sequence[str], weight: float = 1.0, **slots: str) -> Fact:
    """A listed fact; `accepted` is "a;b" or a sequence, the first being the reference, also as slot `answer`."""
    answers = accepted.split(";") if isinstance(accepted, str) else list(accepted)
    return Fact(identity, {"answer": answers[0], **slots}, tuple(answers), share_of(identity) != "seen", weight)


@dataclass
class Kind:
    """A kind of question. `wordings` and `reply` are templates over the slots of its facts."""

    name: str
    domain: str
    wordings: Sequence[str]
    reply: str
    weight: float = 1.0  # within its domain
    held: frozenset[int] = field(init=False)
    seen_wordings: list[int] = field(init=False)
    held_wordings: list[int] = field(init=False)

    def __post_init__(self) -> None:
        assert len(set(self.wordings)) == len(self.wordings), self.name
        self.held = held_wordings(self.name, self.wordings)
        self.seen_wordings = [i for i in range(len(self.wordings)) if i not in self.held]
        self.held_wordings = sorted(self.held)

    def sample(self, rng: Rng, share: str) -> Fact | None:
        """A fact of that share, or None where the kind has none."""
        raise NotImplementedError


@dataclass
class Table(Kind):
    """Listed facts, drawn by weight."""

    facts: Sequence[Fact] = ()
    shares: dict[str, Weighted] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shares = {}
        for share in SHARES:
            mine = [f for f in self.facts if share_of(f.identity) == share]
            if mine:
                self.shares[share] = Weighted(mine, (f.weight for f in mine))

    def sample(self, rng: Rng, share: str) -> Fact | None:
        return self.shares[share].pick(rng) if share in self.shares else None


@dataclass
class TrainOnly(Table):
    """Listed facts none of which is ever held, and which select and final never ask."""

    def __post_init__(self) -> None:
        super().__post_init__()
        assert not any(f.held for f in self.facts), self.name
        self.shares = {"seen": Weighted(self.facts, (f.weight for f in self.facts))}


def word_identity(word: str) -> str:
    """One identity for a word in every list it stands in, so that it is held in all or in none."""
    return f"word:{word}"


class Words:
    """A word list of which a part is held, dealt word by word."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self.name = name
        self.words = list(words)
        self.by_share = {s: [w for w in words if share_of(word_identity(w)) == s] for s in SHARES}


class Pen:
    """Draws the words of one story and remembers the held ones among them."""

    def __init__(self, rng: Rng, share: str) -> None:
        self.rng, self.share = rng, share
        self.used: list[str] = []
        self.held: list[str] = []

    def word(self, words: Words) -> str:
        """A word not used in this story yet; in a held share every other word is a held one."""
        while True:
            held = self.share != "seen" and self.rng.chance(0.5)
            word = self.rng.pick(words.by_share[self.share if held else "seen"])
            if word not in self.used:
                self.used.append(word)
                if held:
                    self.held.append(word)
                return word

    def words(self, words: Words, n: int) -> list[str]:
        """`n` different ones."""
        return [self.word(words) for _ in range(n)]


@dataclass
class Story(Kind):
    """Words drawn anew; `make` returns (slots, accepted) and draws every word through the pen."""

    make: Callable[[Pen], tuple[dict[str, str], Sequence[str]]] | None = None

    def sample(self, rng: Rng, share: str) -> Fact | None:
        assert self.make is not None
        while True:
            pen = Pen(rng, share)
            slots, accepted = self.make(pen)
            if share == "seen" or pen.held:
                identity = f"{self.name}:" + "|".join(f"{k}={v}" for k, v in sorted(slots.items()))
                return Fact(identity, slots, tuple(accepted), bool(pen.held), held_words=tuple(pen.held))


_YOU_SOUND = ("uni", "use", "usu", "euro", "ewe", "one", "ufo", "uk", "unit")
_SILENT_H = ("hour", "honest", "honour", "honor", "heir")


def a(noun: str) -> str:
    """The noun with its indefinite article, by sound: "an hour", "a unicorn", "an apple"."""
    low = noun.lower()
    vowel = low.startswith(_SILENT_H) or (low[0] in "aeiou" and not _you(low))
    return f"{'an' if vowel else 'a'} {noun}"


def _you(low: str) -> bool:
    return low.startswith(_YOU_SOUND) and not low.startswith(("unin", "unim", "onei"))


def sentence(text: str) -> str:
    """First letter of each sentence in capitals."""
    parts = text.split(". ")
    return ". ".join(p[:1].upper() + p[1:] for p in parts)


@cache
def accepted_forms(answers: tuple[str, ...]) -> tuple[str, ...]:
    """Normalised, in order, once each."""
    return tuple(dict.fromkeys(normalise(x) for x in answers))
