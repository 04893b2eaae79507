"""Hearing and saying every name that the fact tables speak, without telling the fact.

A fact that is held from training can still be asked about only if its words can be heard: whoever never heard "Lyon"
cannot say where it is. So training repeats the names and words of all facts, HELD FACTS INCLUDED: "Say Lyon." What is
held is the fact that links the words (that Lyon is in France), never its words. The identity "name:Lyon" is therefore
never held, and select and final ask nothing of these kinds.

A name is one slot of a fact or one reference answer, said whole ("Burkina Faso"), without its article. Left out are
letters that are spelled, names that tell a held fact ("pine tree": a pine is a tree), and names in which a held word
of the stories occurs (stories keep words that these kinds never speak). `repeat-name` alone also leaves out names with
a held word of `echo` (training is never asked to repeat or spell that word, it only hears and names it, `hear-name`)
and those that `echo` could ask as three words.
"""

from __future__ import annotations

import re
from functools import cache

from legato.corpora.identity import normalise
from legato.corpora.world import cast, echo, language, nature, order, people, places, things
from legato.corpora.world.frame import Fact, Kind, Table, TrainOnly, Words

# None of these is a wording that `echo` may hold, so that no text is in two splits.
_SAY = (
    "Say {name}.",
    "Now say {name}.",
    "Say after me, {name}.",
    "Please repeat {name}.",
    "Try to say {name}.",
    "Let me hear you say {name}.",
    "Say {name} for me.",
    "I say {name}, and you say it too.",
)
_HEAR = (
    "I am thinking of {name}. What am I thinking of?",
    "The card says {name}. What does it say?",
    "You hear {name}. What do you hear?",
    "I just read {name}. What did I read?",
    "Listen, {name}. What did I say?",
    "{name} is what I said. What did I say?",
    "Somebody called out {name}. What was called out?",
    "The note says {name}. What is on the note?",
)
_FACT_FAMILIES = (places, people, nature, things, language)
_NOT_SPOKEN_ALONE = "is_"  # the verb of a wording
_SPELLED = re.compile(r"[A-Z](, [A-Z])*")
_ARTICLE = re.compile(r"^(a|an|the|some) ")


def fact_kinds() -> list[Table]:
    """The kinds whose names are heard: all of the tables of facts."""
    return [kind for family in _FACT_FAMILIES for kind in family.kinds() if isinstance(kind, Table)]


def bare_name(text: str) -> str:
    """Without its article: "the Nile" -> "Nile", but "The Great Gatsby" keeps the word of its title."""
    return _ARTICLE.sub("", text)


def speaks_held(text: str, lists: tuple[Words, ...]) -> bool:
    """Whether a held word of the lists occurs in the text as a word (or as several, "gas station")."""
    return not _runs(normalise(text)).isdisjoint(_held_words(lists))


@cache
def _held_words(lists: tuple[Words, ...]) -> frozenset[str]:
    """The held words of the lists as they are matched."""
    return frozenset(normalise(w) for each in lists for share in ("select", "final") for w in each.by_share[share])


@cache
def names() -> list[str]:
    """All of them, sorted, each once however it is written ("turkey" is heard as "Turkey" is)."""
    found = {*order.DAYS, *order.MONTHS, *order.PLANETS, *order.SEASONS}
    for kind in fact_kinds():
        for fact in kind.facts:
            for slot, text in fact.slots.items():
                if slot != _NOT_SPOKEN_ALONE and not _SPELLED.fullmatch(text):
                    found.add(bare_name(text))
    once: dict[str, str] = {}
    for name in sorted(found):  # capitals come first
        once.setdefault(normalise(name), name)
    links = _held_links()
    return sorted(
        name for heard, name in once.items() if not speaks_held(name, cast.WORD_LISTS) and not _tells(heard, links)
    )


def _held_links() -> dict[str, set[str]]:
    """What held facts ask about, with what they answer; both normalised, without article."""
    links: dict[str, set[str]] = {}
    for kind in fact_kinds():
        for fact in kind.facts:
            if fact.held:
                answer = normalise(bare_name(fact.slots["answer"]))
                for text in fact.slots.values():
                    subject = normalise(bare_name(text))
                    if subject != answer:
                        links.setdefault(subject, set()).add(answer)
    return links


def _tells(name: str, links: dict[str, set[str]]) -> bool:
    """Whether a name (normalised) speaks a subject of a held fact and, beside it, the answer."""
    for subject in _runs(name) & links.keys():
        rest = f" {name} ".replace(f" {subject} ", " | ", 1)
        if any(f" {answer} " in rest for answer in links[subject]):
            return True
    return False


def _runs(name: str) -> set[str]:
    """All runs of whole words of a normalised text."""
    parts = name.split()
    return {" ".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)}


def _is_three_words(fact: Fact) -> bool:
    """Whether `echo` could draw the name as three words, whose wording "Say, ..." it holds ("Anne Frank House")."""
    parts = normalise(fact.slots["name"]).split()
    return len(parts) == 3 and _sayable().issuperset(parts)


@cache
def _sayable() -> frozenset[str]:
    return frozenset(normalise(word) for words in echo.WORD_LISTS for word in words.words)


def kinds() -> list[Kind]:
    """The kinds of this family. Their weights give them two fifths of the skills in training."""
    facts = [Fact(f"name:{name}", {"name": name}, (name,)) for name in names()]
    repeated = [f for f in facts if not speaks_held(f.slots["name"], echo.WORD_LISTS) and not _is_three_words(f)]
    return [
        TrainOnly("repeat-name", "skills", _SAY, "{name}.", 14.0, facts=repeated),
        TrainOnly("hear-name", "skills", _HEAR, "{name}.", 7.6, facts=facts),
    ]
