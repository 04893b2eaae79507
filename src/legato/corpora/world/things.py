"""What a thing is, what it is for, what it is made of, who works how, and how many parts a whole has."""

from __future__ import annotations

from legato.corpora.world.frame import Kind, Table, a, fact
from legato.corpora.world.numbers import spoken
from legato.corpora.world.tables import table

_CATEGORY = (
    "What kind of thing is {thing}?",
    "What is {thing}?",
    "Tell me what {thing} is.",
    "What sort of thing is {thing}?",
    "How would you describe {thing} in one word?",
    "{thing} is what kind of thing?",
    "What do we call things like {thing}?",
)
_USE = (
    "What do you use to {purpose}?",
    "What do you need to {purpose}?",
    "With what do you {purpose}?",
    "What would you take to {purpose}?",
    "What helps you to {purpose}?",
    "I want to {purpose}. What do I need?",
)
_WORKER = (
    "Who {does}?",
    "What do you call someone who {does}?",
    "Whose job is it? This person {does}.",
    "Which job does a person have who {does}?",
    "What is the job of someone who {does}?",
)
_MADE = (
    "What is {product} made from?",
    "What is {product} made of?",
    "What do you need to make {product}?",
    "From what do people make {product}?",
    "Tell me what {product} is made of.",
)
_PARTS_IN = (
    "How many {part} are in {whole}?",
    "How many {part} are there in {whole}?",
    "Tell me the number of {part} in {whole}.",
    "What is the number of {part} in {whole}?",
)
_PARTS_OF = (
    "How many {part} does {whole} have?",
    "How many {part} has {whole} got?",
    "{whole} has how many {part}?",
    "Tell me how many {part} {whole} has.",
)
_HOLIDAY = (
    "In which month is {holiday}?",
    "Which month is {holiday} in?",
    "When is {holiday}, in which month?",
    "Tell me the month of {holiday}.",
)
_PLURAL_PRODUCTS = ("bricks", "candles", "raisins", "prunes", "jeans", "french fries", "potato chips")
_UNCOUNTED = ("clothing", "furniture", "jewelry")


def _category(name: str) -> str:
    return name if name in _UNCOUNTED else a(name)


def _parts(how: str, name: str, wordings: tuple[str, ...], weight: float) -> Table:
    rows = [r for r in table("counts") if r["how"] == how]
    return Table(name, "facts", wordings, "{answer}.", weight, facts=[
        fact(f"count:{r['key']}", spoken(int(r["number"])), part=r["part"], whole=r["whole"]) for r in rows
    ])  # fmt: skip


def kinds() -> list[Kind]:
    """The kinds of this family."""
    return [
        Table("category", "facts", _CATEGORY, "{a_answer}.", 9, facts=[
            fact(f"category:{r['thing']}", r["categories"], thing=r["thing"],
                 a_answer=_category(r["categories"].split(";")[0]))
            for r in table("categories")
        ]),
        Table("use", "facts", _USE, "{answer}.", 2, facts=[
            fact(f"use:{r['purpose']}", r["tools"], purpose=r["purpose"]) for r in table("uses")
        ]),
        Table("worker", "facts", _WORKER, "{a_answer}.", 1.5, facts=[
            fact(f"worker:{r['job']}", r["job"], does=r["does"], a_answer=a(r["job"].split(";")[0]))
            for r in table("workers")
        ]),
        Table("made-of", "facts", _MADE, "{answer}.", 1.5, facts=[
            fact(f"made:{r['product']}", r["sources"], product=r["product"])
            for r in table("made") if r["product"] not in _PLURAL_PRODUCTS
        ]),
        _parts("in", "parts-in", _PARTS_IN, 1),
        _parts("has", "parts-of", _PARTS_OF, 0.8),
        Table("holiday", "facts", _HOLIDAY, "{answer}.", 0.4, facts=[
            fact(f"holiday:{r['holiday']}", r["months"], holiday=r["holiday"]) for r in table("holidays")
        ]),
    ]  # fmt: skip
