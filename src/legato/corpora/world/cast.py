"""Who and what the stories are about: the word lists, and the grammar of a drawn thing."""

from __future__ import annotations

from collections.abc import Sequence

from legato.corpora.world.frame import Pen, Words, a
from legato.corpora.world.tables import column, table

Made = tuple[dict[str, str], Sequence[str]]  # slots of a story, accepted answers

NAMES = Words("name", column("names"))
OBJECTS = Words("object", column("objects"))
PLURALS = Words("plural", column("plurals"))
CONTAINERS = Words("container", column("containers"))
PLACES = Words("place", column("places"))
COLOURS = Words("colour", column("paints"))
WORD_LISTS = (NAMES, OBJECTS, PLURALS, CONTAINERS, PLACES, COLOURS)
_RESPELLINGS = {r["name"]: r["respellings"].split(";") for r in table("names") if r["respellings"] != "-"}


def noun(pen: Pen) -> tuple[str, bool]:
    """A thing and whether it is several: one in five is."""
    plural = pen.rng.chance(0.2)
    return pen.word(PLURALS if plural else OBJECTS), plural


def some(noun: str, plural: bool) -> str:
    """With its indefinite article, or "some"."""
    return f"some {noun}" if plural else a(noun)


def be(plural: bool) -> str:
    """The verb that goes with it."""
    return "are" if plural else "is"


def spellings(name: str) -> list[str]:
    """A name and the spellings that sound alike: an answer is heard, not read."""
    return [name, *_RESPELLINGS.get(name, ())]
