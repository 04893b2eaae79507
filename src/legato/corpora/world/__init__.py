"""The pocket world: a deterministic generator of short spoken questions with their answers, as text.

    rows = draw(1000, seed=0, split="train")

Splits (the rules are in `corpora.splits`):
  train   no held fact or story word, no held wording
  select  half held facts, half seen ones, three wordings in four held; for choosing between candidates
  final   the same with other held facts; for the sealed evaluation
No question text is in two splits, and no held fact is in both select and final.

The WORDS of a held fact are not held: training hears and repeats every name of the fact tables ("Say Lyon.", kinds
`repeat-name` and `hear-name`, see `heard`), held facts included. What no training sees is the fact that links them,
that Lyon is in France. Words held from stories, repeating and spelling stay out as `heard` says. `names()` lists the
names, `name_rows` asks each of them once.

Mix: `MIX` over domains; within a domain by the `weight` of its kinds (`kinds()` lists them). In training the names
take two fifths of the skills, 6 % of all rows; select and final have none of them.
Rows come one by one from the seed: a longer draw begins with the shorter one. Select and final never
repeat a question; train repeats one only when a few fresh tries failed, as small kinds run out. The mix holds for
about 4,000 rows of select and 8,000 of final; beyond, held facts run out and the other domains fill up.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache

from legato.corpora.identity import normalise
from legato.corpora.rows import Row, row_id
from legato.corpora.splits import SPLITS, split_of
from legato.corpora.world import (
    cast,
    echo,
    heard,
    language,
    nature,
    order,
    people,
    places,
    sums,
    talk,
    things,
    where,
    who,
)
from legato.corpora.world.frame import Fact, Kind, Rng, Table, TrainOnly, Weighted, accepted_forms, sentence
from legato.corpora.world.heard import names
from legato.errors import BadInput

__all__ = ["MIX", "count", "draw", "kinds", "name_rows", "names"]

MIX = {"facts": 0.40, "stories": 0.40, "skills": 0.15, "talk": 0.05}
HELD_FACT_SHARE = 0.5  # of select and final
HELD_WORDING_SHARE = 0.75  # of select and final
_FAMILIES = (places, people, nature, things, language, where, who, order, sums, echo, heard, talk)
_TRAIN_PATIENCE = 8  # draws before train accepts a repeat; more would drive it into the rare kinds
_PATIENCE = 400  # draws in a row without a fresh question after which a domain of select or final is spent


@cache
def _kinds() -> dict[str, Kind]:
    found = [kind for family in _FAMILIES for kind in family.kinds()]
    by_name = {kind.name: kind for kind in found}
    assert len(by_name) == len(found), "two kinds share a name"
    return by_name


@cache
def _by_domain(training: bool) -> dict[str, Weighted]:
    asked = [k for k in _kinds().values() if training or not isinstance(k, TrainOnly)]
    return {
        domain: Weighted(mine, [k.weight for k in mine])
        for domain in MIX
        if (mine := [k for k in asked if k.domain == domain])
    }


def kinds() -> tuple[str, ...]:
    """Names of all kinds."""
    return tuple(_kinds())


def draw(n: int, *, seed: int | str, split: str) -> list[Row]:
    """`n` rows of a split, the same for the same arguments on every machine.

    Raises:
        BadInput: unknown split, or select/final ran out of fresh questions.
    """
    if split not in SPLITS:
        raise BadInput(f"split {split!r} is unknown; use one of {', '.join(SPLITS)}")
    rng = Rng(f"legato world {split} {seed}")
    mix = Weighted(list(MIX), MIX.values())
    rows: list[Row] = []
    seen: set[str] = set()
    spent: set[str] = set()  # domains without fresh questions
    while len(rows) < n:
        domain = mix.pick(rng)
        if domain in spent:
            continue
        row = _train_row(domain, rng, seen) if split == "train" else _held_row(domain, rng, split, seen)
        if row is None:
            spent.add(domain)
            if len(spent) == len(MIX):
                raise BadInput(f"the world has no more fresh {split} questions after {len(rows)}; ask for fewer rows")
            continue
        seen.add(row.question)
        rows.append(row)
    return rows


def name_rows(*, seed: int | str) -> list[Row]:
    """One training row for every name, in the order of `names()`: a mix draw alone would leave most of them unheard."""
    asked: dict[str, list[tuple[Kind, Fact]]] = {}
    for kind in _kinds().values():
        if isinstance(kind, TrainOnly):
            for fact in kind.facts:
                asked.setdefault(fact.slots["name"], []).append((kind, fact))
    rng = Rng(f"legato world names {seed}")
    rows = []
    for name in names():
        row = None
        while row is None:  # most texts belong to training
            kind, fact = rng.pick(asked[name])
            row = _row(kind, fact, rng.pick(kind.seen_wordings), "train", frozenset())
        rows.append(row)
    return rows


def _train_row(domain: str, rng: Rng, seen: set[str]) -> Row:
    """A fresh row if a few draws find one, else a repeat."""
    draws = 0
    while True:
        kind = _by_domain(True)[domain].pick(rng)
        draws += 1
        row = _try(kind, rng, "train", "seen", kind.seen_wordings, seen if draws < _TRAIN_PATIENCE else frozenset())
        if row is not None:
            return row


def _held_row(domain: str, rng: Rng, split: str, seen: set[str]) -> Row | None:
    """A fresh row of select or final, or None when the domain seems spent.

    Whether fact and wording are held is drawn first, so that the part of held facts is as stated however often a
    draw is refused; talk has one fact a kind, which is never held.
    """
    share = split if rng.chance(HELD_FACT_SHARE) and domain != "talk" else "seen"
    held_wording = rng.chance(HELD_WORDING_SHARE) or domain == "talk"
    for _ in range(_PATIENCE):
        kind = _by_domain(False)[domain].pick(rng)
        row = _try(kind, rng, split, share, kind.held_wordings if held_wording else kind.seen_wordings, seen)
        if row is not None:
            return row
    return None


def _try(kind: Kind, rng: Rng, split: str, share: str, wordings: list[int], seen: Set[str]) -> Row | None:
    """One draw; None when the kind has no such fact or wording, or the question is seen or another split's."""
    fact = kind.sample(rng, share) if wordings else None
    return None if fact is None else _row(kind, fact, rng.pick(wordings), split, seen)


def _row(kind: Kind, fact: Fact, wording: int, split: str, seen: Set[str]) -> Row | None:
    """The row of a fact in a wording; None when the question is seen or another split's."""
    question = sentence(kind.wordings[wording].format_map(fact.slots))
    if question in seen:
        return None
    heard = f" {normalise(question)} "
    if fact.held_words and not any(f" {normalise(word)} " in heard for word in fact.held_words):
        return None  # the wording left the held word out
    wording_held = wording in kind.held
    if not fact.held and split_of(heard.strip(), held=wording_held) != split:
        return None
    answer = sentence(kind.reply.format_map(fact.slots))
    return Row(
        id=row_id(kind.name, question, answer),
        domain=kind.domain,
        kind=kind.name,
        fact=fact.identity,
        wording=f"{kind.name}/{wording}",
        question=question,
        answer=answer,
        accepted=accepted_forms(fact.accepted),
        fact_held=fact.held,
        wording_held=wording_held,
    )


def count() -> dict[str, dict[str, int | None]]:
    """Size of the world: per kind its facts (None: drawn anew), held facts and wordings; per word list its words."""
    sizes: dict[str, dict[str, int | None]] = {}
    for kind in _kinds().values():
        facts = {f.identity: f.held for f in kind.facts} if isinstance(kind, Table) else None
        sizes[kind.name] = {
            "facts": None if facts is None else len(facts),
            "held_facts": None if facts is None else sum(facts.values()),
            "wordings": len(kind.wordings),
            "held_wordings": len(kind.held),
        }
    for words in cast.WORD_LISTS + echo.WORD_LISTS:
        sizes[f"words:{words.name}"] = {
            "words": len(words.words),
            "held_words": len(words.words) - len(words.by_share["seen"]),
        }
    return sizes
