"""Animals, chemical elements, colours of things, rivers and mountains, senses."""

from __future__ import annotations

from legato.corpora.world.frame import Fact, Kind, Table, a, fact
from legato.corpora.world.numbers import spoken
from legato.corpora.world.tables import table

_SYMBOL = (
    "What is the chemical symbol of {element}?",
    "What is the symbol for {element}?",
    "Which letters stand for the element {element}?",
    "Tell me the chemical symbol for {element}.",
    "In chemistry, how do you write {element}?",
)
_ELEMENT = (
    "Which element has the symbol {letters}?",
    "What element is {letters}?",
    "In chemistry, what does {letters} stand for?",
    "Name the element with the symbol {letters}.",
    "{letters} is the symbol of which element?",
)
_ATOMIC = (
    "What is the atomic number of {element}?",
    "Which atomic number does {element} have?",
    "Tell me the atomic number of {element}.",
    "What number is {element} in the periodic table?",
)
_ATOM_OF = (
    "Which element has the atomic number {number}?",
    "What is element number {number}?",
    "Name element number {number}.",
    "Tell me the element with the atomic number {number}.",
)
_LEGS = (
    "How many legs does {an} have?",
    "How many legs has {an} got?",
    "Tell me how many legs {an} has.",
    "{an} has how many legs?",
    "On how many legs does {an} stand?",
)
_SOUND = (
    "What sound does {an} make?",
    "What noise does {an} make?",
    "What does {an} say?",
    "Which sound do you hear from {an}?",
    "Tell me the sound of {an}.",
)
_YOUNG = (
    "What is a baby {animal} called?",
    "What do you call a young {animal}?",
    "What is the name for a young {animal}?",
    "Name the young of {an}.",
    "What do you call the baby of {an}?",
)
_PARENT = (
    "Which animal has {a_young} as its baby?",
    "What does {a_young} grow up to be?",
    "{a_young} is the young of which animal?",
    "What animal is the parent of {a_young}?",
)
_CLASS = (
    "What kind of animal is {an}?",
    "Which class of animals does {an} belong to?",
    "Is {an} a mammal, a bird, a fish or what?",
    "{an} is what kind of animal?",
    "Tell me what kind of animal {an} is.",
)
_HOME = (
    "Where does {an} live?",
    "Where can you find {an}?",
    "What is the home of {an}?",
    "Where does {an} make its home?",
    "Tell me where {an} lives.",
)
_COLOUR = (
    "What color is {thing}?",
    "Which color is {thing}?",
    "What is the color of {thing}?",
    "Tell me the color of {thing}.",
    "What color does {thing} have?",
    "Name the color of {thing}.",
)
_NATURE = (
    "On which continent {is_} {name}?",
    "Which continent {is_} {name} on?",
    "What continent {is_} {name} on?",
    "Tell me the continent of {name}.",
)
_SENSE = (
    "What part of the body do you {act} with?",
    "With what do you {act}?",
    "Which part of your body do you need to {act}?",
    "What do we use to {act}?",
    "Tell me what you {act} with.",
)


def _is(row: dict[str, str]) -> str:
    return "are" if "mountains" in row["kinds"].split(";") and row["name"].endswith("s") else "is"


def _animals() -> list[Kind]:
    rows = table("animals")

    def known(column: str) -> list[dict[str, str]]:
        return [r for r in rows if r[column] != "-"]

    def ask(prefix: str, row: dict[str, str], answers: str | list[str], **slots: str) -> Fact:
        return fact(f"{prefix}:{row['animal']}", answers, an=a(row["animal"]), animal=row["animal"], **slots)

    parents: dict[str, list[str]] = {}
    for row in known("young"):
        for young in row["young"].split(";"):
            parents.setdefault(young, []).append(row["animal"])
    return [
        Table("legs", "facts", _LEGS, "{answer}.", 1.5, facts=[
            ask("legs", r, [*spoken(int(r["legs"])), *(["none", "no legs"] if r["legs"] == "0" else [])])
            for r in known("legs")
        ]),
        Table("sound", "facts", _SOUND, "{answer}.", 1.5, facts=[ask("sound", r, r["sound"]) for r in known("sound")]),
        Table("young", "facts", _YOUNG, "{a_answer}.", 2, facts=[
            ask("young", r, r["young"], a_answer=a(r["young"].split(";")[0])) for r in known("young")
        ]),
        Table("parent", "facts", _PARENT, "{an}.", 0.7, facts=[
            ask("young", r, r["animal"], a_young=a(r["young"].split(";")[0]))
            for r in known("young") if len(parents[r["young"].split(";")[0]]) == 1  # a calf has many parents
        ]),
        Table("animal-class", "facts", _CLASS, "{a_answer}.", 2, facts=[
            ask("animal-class", r, r["class"], a_answer=a(r["class"])) for r in rows
        ]),
        Table("home", "facts", _HOME, "{answer}.", 2, facts=[ask("home", r, r["home"]) for r in known("home")]),
    ]  # fmt: skip


def kinds() -> list[Kind]:
    """The kinds of this family."""
    elements = table("elements")
    letters = {r["symbol"]: ", ".join(r["symbol"].upper()) for r in elements}
    names = {r["element"]: r["element"].split(";")[0] for r in elements}
    return [
        Table("symbol", "facts", _SYMBOL, "{answer}.", 2, facts=[
            fact(f"symbol:{names[r['element']]}", [letters[r["symbol"]], r["symbol"]], element=names[r["element"]])
            for r in elements
        ]),
        Table("element", "facts", _ELEMENT, "{answer}.", 2, facts=[
            fact(f"symbol:{names[r['element']]}", r["element"], letters=letters[r["symbol"]]) for r in elements
        ]),
        Table("atomic-number", "facts", _ATOMIC, "{answer}.", 0.8, facts=[
            fact(f"atomic:{names[r['element']]}", spoken(int(r["number"])), element=names[r["element"]])
            for r in elements if int(r["number"]) <= 50
        ]),
        Table("atom-of-number", "facts", _ATOM_OF, "{answer}.", 0.8, facts=[
            fact(f"atomic:{names[r['element']]}", r["element"], number=spoken(int(r["number"]))[0])
            for r in elements if int(r["number"]) <= 50
        ]),
        *_animals(),
        Table("color", "facts", _COLOUR, "{answer}.", 5, facts=[
            fact(f"color:{r['thing']}", r["colors"], thing=r["thing"]) for r in table("colors")
        ]),
        Table("nature-continent", "facts", _NATURE, "{answer}.", 1.5, facts=[
            fact(f"nature:{r['name']}", r["continents"], name=r["name"], is_=_is(r)) for r in table("nature")
        ]),
        Table("sense", "facts", _SENSE, "{answer}.", 0.4, facts=[
            fact(f"sense:{r['act']}", r["parts"], act=r["act"]) for r in table("senses")
        ]),
    ]  # fmt: skip
