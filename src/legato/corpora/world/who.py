"""Stories told in the question: who has what and how many, who is taller, who came first.

As in `where`, who and what is asked about is drawn, so that neither position nor name gives the answer away.
"""

from __future__ import annotations

from collections.abc import Callable

from legato.corpora.world.cast import COLOURS, NAMES, PLURALS, Made, be, noun, some, spellings
from legato.corpora.world.frame import Kind, Pen, Story
from legato.corpora.world.numbers import spoken, words
from legato.corpora.world.tables import table

_TRAITS = table("traits")
_ASK_MORE = (
    "{p} is {more} than {q}. Who is {more}?",
    "{p} is {more} than {q}. Which of the two is {more}?",
    "{q} is {less} than {p}. Who is {more}?",
    "If {p} is {more} than {q}, who is {more}?",
    "If {q} is {less} than {p}, who is {more}?",
    "{q} is {less} than {p}. Which of the two is {more}?",
    "{q} is {less} than {p}, so who is {more}?",
    "{q} and {p} differ, {p} is {more}. Who is {more}?",
)
_ASK_LESS = (
    "{p} is {more} than {q}. Who is {less}?",
    "{q} is {less} than {p}. Who is {less}?",
    "Who is {less} if {p} is {more} than {q}?",
    "If {q} is {less} than {p}, who is {less}?",
    "{q} is {less} than {p}. Which of the two is {less}?",
)
_MOST = (
    "{p} is {more} than {q}. {q} is {more} than {r}. Who is the {most}?",
    "{q} is {more} than {r}. {p} is {more} than {q}. Who is the {most}?",
    "{r} is {less} than {q}. {q} is {less} than {p}. Who is the {most}?",
    "{p} is {more} than {q}, and {q} is {more} than {r}. Who is the {most}?",
    "{p} is {more} than {q}, but {r} is {less} than {q}. Who is the {most}?",
    "{q} is {less} than {p} and {more} than {r}. Who is the {most}?",
    "{q} is {less} than {p}. {r} is {less} than {q}. Who is the {most}?",
    "{q} is {less} than {p}, and {r} is {less} than {q}. Who is the {most}?",
    "{q} is {less} than {p} but {more} than {r}. Who is the {most}?",
    "{r} is {less} than {q}, and {q} is {less} than {p}. Who is the {most}?",
    "{q} is {more} than {r} and {less} than {p}. Who is the {most}?",
    "{q} is {less} than {p}, but {q} is {more} than {r}. Who is the {most}?",
)
_HAS = (
    "{p} has {x_s}. {q} has {y_s}. Who has the {a}?",
    "{p} took the {x} and {q} took the {y}. Who took the {a}?",
    "{p} bought {x_s}, and {q} bought {y_s}. Who bought the {a}?",
    "The {x} {belong_x} to {p}, the {y} to {q}. Who has the {a}?",
    "{p} carries the {x}, {q} carries the {y}. Who carries the {a}?",
    "{p} found {x_s}. {q} found {y_s}. Who found the {a}?",
)
_HAS_THREE = (
    "{p} has {x_s}, {q} has {y_s}, and {r} has {z_s}. Who has the {a}?",
    "{p} took the {x}, {q} the {y}, and {r} the {z}. Who took the {a}?",
    "{p} found {x_s}. {q} found {y_s}. {r} found {z_s}. Who found the {a}?",
    "{p} bought {x_s}, {q} bought {y_s}, and {r} bought {z_s}. Who bought the {a}?",
    "The {x} {belong_x} to {p}, the {y} to {q}, and the {z} to {r}. Who has the {a}?",
    "{p} carries the {x}, {q} the {y}, {r} the {z}. Who carries the {a}?",
)
_WHAT_HAS = (
    "{p} has {x_s}. {q} has {y_s}. What does {who} have?",
    "{p} took the {x} and {q} took the {y}. What did {who} take?",
    "{p} bought {x_s}, and {q} bought {y_s}. What did {who} buy?",
    "{p} carries the {x}, {q} carries the {y}. What does {who} carry?",
    "{p} found {x_s}. {q} found {y_s}. What did {who} find?",
)
_GAVE = (
    "{p} gave the {a} to {q}. Who has the {a} now?",
    "{p} had the {a} and gave {it} to {q}. Who has the {a}?",
    "{q} got the {a} from {p}. Who has the {a} now?",
    "{p} handed {q} the {a}. Who has the {a} now?",
    "{q} took the {a} from {p}. Who has the {a} now?",
)
_COLOUR = (
    "{p}'s {a} {is_} {g}. {q}'s {a} {is_} {h}. What colour {is_} {who}'s {a}?",
    "{p} has {g_a}, {q} has {h_a}. What colour {is_} {who}'s {a}?",
    "{p} bought {g_a} and {q} bought {h_a}. What colour {is_} {who}'s {a}?",
    "The {a} of {p} {is_} {g}, the {a} of {q} {is_} {h}. Which colour {is_} {who}'s {a}?",
)
_THING_COLOUR = (
    "The {x} {is_x} {g} and the {y} {is_y} {h}. What colour {is_} the {a}?",
    "{p} has {g_x} and {h_y}. What colour {is_} the {a}?",
    "I see {g_x} and {h_y}. What colour {is_} the {a}?",
    "The {x} {is_x} {g}. The {y} {is_y} {h}. Which colour {is_} the {a}?",
)
_THREE_COLOURS = (
    "The {x} {is_x} {g}, the {y} {is_y} {h}, and the {z} {is_z} {k}. What colour {is_} the {a}?",
    "{p} has {g_x}, {h_y}, and {k_z}. What colour {is_} the {a}?",
    "I see {g_x}, {h_y}, and {k_z}. What colour {is_} the {a}?",
    "The {x} {is_x} {g}. The {y} {is_y} {h}. The {z} {is_z} {k}. Which colour {is_} the {a}?",
    "{p} bought {g_x}, {h_y}, and {k_z}. What colour {is_} the {a}?",
)
_COUNT_PLUS = (
    "{p} has {n} {things} and gets {m} more. How many {things} does {p} have?",
    "{p} has {n} {things} and buys {m} more. How many {things} does {p} have now?",
    "{p} had {n} {things} and found {m} more. How many {things} are there now?",
    "{p} has {n} {things}. {q} has {m}. How many do they have together?",
    "There are {n} {things} here and {m} there. How many {things} are there?",
)
_COUNT_MINUS = (
    "{p} has {n} {things} and loses {m}. How many {things} are left?",
    "{p} has {n} {things} and gives {m} away. How many {things} are left?",
    "{p} had {n} {things} and sold {m}. How many {things} does {p} have now?",
    "There were {n} {things}, and {p} took {m}. How many {things} are left?",
    "{p} gives {q} {m} of {n} {things}. How many does {p} keep?",
)
_HOW_MANY = (
    "{p} has {n} {things} and {m} {others}. How many {which} does {p} have?",
    "There are {n} {things} and {m} {others}. How many {which} are there?",
    "{p} bought {n} {things} and {m} {others}. How many {which} did {p} buy?",
    "I see {n} {things} and {m} {others}. How many {which} do I see?",
)
_NAMED = (
    "{p}, {q}, {r}. Which name did I say {nth}?",
    "I say {p}, {q}, {r}. Which name came {nth}?",
    "Here come {p}, {q} and {r}. Who was named {nth}?",
    "I met {p}, then {q}, then {r}. Whom did I meet {nth}?",
    "{p}, {q} and {r} stand in a line. Who is {nth}?",
    "In came {p}, {q} and {r}, in that order. Who came {nth}?",
)
_RACE = (
    "{p} came before {q} in the race. Who was faster?",
    "In the race {q} came after {p}. Who was faster?",
    "{p} beat {q}. Who won?",
    "{q} lost to {p}. Who won?",
    "{p} finished first and {q} finished last. Who won?",
    "{q} was beaten by {p}. Who won?",
    "{q} finished last and {p} finished first. Who won?",
    "{q} came in after {p}. Who won?",
)


def _compared(wording_asks_more: bool) -> Callable[[Pen], Made]:
    def make(pen: Pen) -> Made:
        p, q = pen.words(NAMES, 2)
        trait = pen.rng.pick(_TRAITS)
        who = p if wording_asks_more else q
        return {"p": p, "q": q, "more": trait["more"], "less": trait["less"], "answer": who}, spellings(who)

    return make


def _most(pen: Pen) -> Made:
    p, q, r = pen.words(NAMES, 3)
    trait = pen.rng.pick(_TRAITS)
    return {"p": p, "q": q, "r": r, **trait, "answer": p}, spellings(p)


def _has(pen: Pen) -> Made:
    p, q = pen.words(NAMES, 2)
    (x, px), (y, py) = noun(pen), noun(pen)
    first = pen.rng.chance(0.5)
    who = p if first else q
    slots = {"p": p, "q": q, "x": x, "y": y, "x_s": some(x, px), "y_s": some(y, py),
             "belong_x": "belong" if px else "belongs", "a": x if first else y, "answer": who}  # fmt: skip
    return slots, spellings(who)


def _has_three(pen: Pen) -> Made:
    people, things = pen.words(NAMES, 3), [noun(pen) for _ in range(3)]
    i = pen.rng.below(3)
    slots = dict(zip("pqr", people, strict=True))
    for name, (thing, plural) in zip("xyz", things, strict=True):
        slots |= {name: thing, f"{name}_s": some(thing, plural)}
    slots |= {"belong_x": "belong" if things[0][1] else "belongs", "a": things[i][0], "answer": people[i]}
    return slots, spellings(people[i])


def _what_has(pen: Pen) -> Made:
    slots, (who, *_) = _has(pen)
    thing = slots["a"]
    return {**slots, "who": who, "answer": thing}, [thing]


def _gave(pen: Pen) -> Made:
    p, q = pen.words(NAMES, 2)
    thing, plural = noun(pen)
    return {"p": p, "q": q, "a": thing, "it": "them" if plural else "it", "answer": q}, spellings(q)


def _colour(pen: Pen) -> Made:
    p, q = pen.words(NAMES, 2)
    thing, plural = noun(pen)
    g, h = pen.words(COLOURS, 2)
    first = pen.rng.chance(0.5)
    answer = g if first else h
    slots = {"p": p, "q": q, "a": thing, "is_": be(plural), "g": g, "h": h, "g_a": some(f"{g} {thing}", plural),
             "h_a": some(f"{h} {thing}", plural), "who": p if first else q, "answer": answer}  # fmt: skip
    return slots, [answer]


def _thing_colour(pen: Pen) -> Made:
    (x, px), (y, py) = noun(pen), noun(pen)
    g, h = pen.words(COLOURS, 2)
    first = pen.rng.chance(0.5)
    answer = g if first else h
    slots = {"p": pen.word(NAMES), "x": x, "y": y, "is_x": be(px), "is_y": be(py), "g": g, "h": h,
             "g_x": some(f"{g} {x}", px), "h_y": some(f"{h} {y}", py), "a": x if first else y,
             "is_": be(px if first else py), "answer": answer}  # fmt: skip
    return slots, [answer]


def _three_colours(pen: Pen) -> Made:
    things, colours = [noun(pen) for _ in range(3)], pen.words(COLOURS, 3)
    i = pen.rng.below(3)
    slots = {"p": pen.word(NAMES), **dict(zip("ghk", colours, strict=True))}
    for name, tint, colour, (thing, plural) in zip("xyz", "ghk", colours, things, strict=True):
        slots |= {name: thing, f"is_{name}": be(plural), f"{tint}_{name}": some(f"{colour} {thing}", plural)}
    thing, plural = things[i]
    return {**slots, "a": thing, "is_": be(plural), "answer": colours[i]}, [colours[i]]


def _count(sign: int) -> Callable[[Pen], Made]:
    def make(pen: Pen) -> Made:
        p, q = pen.words(NAMES, 2)
        things = pen.word(PLURALS)
        m = 2 + pen.rng.below(8)
        n = 2 + pen.rng.below(9) + (m if sign < 0 else 0)
        forms = spoken(n + sign * m)
        return {"p": p, "q": q, "n": words(n), "m": words(m), "things": things, "answer": forms[0]}, forms

    return make


def _how_many(pen: Pen) -> Made:
    things, others = pen.words(PLURALS, 2)
    n = 2 + pen.rng.below(11)
    m = 2 + (n - 1 + pen.rng.below(10)) % 11  # never n
    first = pen.rng.chance(0.5)
    forms = spoken(n if first else m)
    slots = {"p": pen.word(NAMES), "n": words(n), "m": words(m), "things": things, "others": others,
             "which": things if first else others, "answer": forms[0]}  # fmt: skip
    return slots, forms


def _named(pen: Pen) -> Made:
    people = pen.words(NAMES, 3)
    i = pen.rng.below(3)
    slots = dict(zip("pqr", people, strict=True))
    return {**slots, "nth": ("first", "second", "last")[i], "answer": people[i]}, spellings(people[i])


def _race(pen: Pen) -> Made:
    p, q = pen.words(NAMES, 2)
    return {"p": p, "q": q, "answer": p}, spellings(p)


def kinds() -> list[Kind]:
    """The kinds of this family."""
    told = (
        ("story-more", _ASK_MORE, "{answer}.", 2.5, _compared(True)),
        ("story-less", _ASK_LESS, "{answer}.", 2.5, _compared(False)),
        ("story-most", _MOST, "{answer}.", 2, _most),
        ("story-has", _HAS, "{answer}.", 4, _has),
        ("story-has-three", _HAS_THREE, "{answer}.", 5, _has_three),
        ("story-what-has", _WHAT_HAS, "The {answer}.", 3, _what_has),
        ("story-gave", _GAVE, "{answer}.", 2, _gave),
        ("story-colour", _COLOUR, "{answer}.", 2.5, _colour),
        ("story-thing-colour", _THING_COLOUR, "{answer}.", 2.5, _thing_colour),
        ("story-three-colours", _THREE_COLOURS, "{answer}.", 4, _three_colours),
        ("story-plus", _COUNT_PLUS, "{answer}.", 1.5, _count(1)),
        ("story-minus", _COUNT_MINUS, "{answer}.", 1.5, _count(-1)),
        ("story-how-many", _HOW_MANY, "{answer}.", 2.5, _how_many),
        ("story-named", _NAMED, "{answer}.", 3, _named),
        ("story-race", _RACE, "{answer}.", 1, _race),
    )
    return [Story(name, "stories", wordings, reply, weight, make=make) for name, wordings, reply, weight, make in told]
