"""Stories told in the question: where things and people are.

Which of the told things is asked about, and in which order they are told, is drawn, so that neither position nor
name gives the answer away.
"""

from __future__ import annotations

from legato.corpora.world.cast import CONTAINERS, NAMES, PLACES, Made, be, noun, some, spellings
from legato.corpora.world.frame import Kind, Pen, Story, a

_CHAIN = (
    "The {a} {is_} in the {b}. The {b} is in the {c}. Where {is_} the {a}?",
    "The {b} is in the {c}. The {a} {is_} in the {b}. Where {is_} the {a}?",
    "There is {a_b} in the {c}. The {a} {is_} in the {b}. Where {is_} the {a}?",
    "I put the {a} in the {b} and the {b} in the {c}. Where {is_} the {a}?",
    "The {a} went into the {b}. The {b} went into the {c}. Where {is_} the {a} now?",
    "The {b} stands in the {c}. In the {b} {is_} the {a}. Where {is_} the {a}?",
    "The {a} {is_} inside the {b}, and the {b} is inside the {c}. Where {is_} the {a}?",
    "{name} put the {a} in the {b}, then the {b} in the {c}. Where {is_} the {a}?",
)
_NESTED = (
    "In the {c} is {a_b}. In the {b} {is_} the {a}. Where {is_} the {a}?",
    "The {c} holds the {b}. The {b} holds the {a}. Where {is_} the {a}?",
    "I put the {b} in the {c} and the {a} in the {b}. Where {is_} the {a}?",
    "The {b} is inside the {c}, and the {a} {is_} inside the {b}. Where {is_} the {a}?",
    "{name} put the {b} in the {c}, then the {a} in the {b}. Where {is_} the {a}?",
    "The {b} went into the {c}, and the {a} into the {b}. Where {is_} the {a} now?",
    "The {b} is kept in the {c}, and the {a} in the {b}. Where {is_} the {a}?",
    "Inside the {c} is {a_b}. The {a} {is_} in that {b}. Where {is_} the {a}?",
)
_TWO = (
    "The {x} {is_x} in the {u}. The {y} {is_y} in the {v}. Where {is_} the {a}?",
    "{name} put the {x} in the {u} and the {y} in the {v}. Where {is_} the {a}?",
    "I left the {x} in the {u} and the {y} in the {v}. Where {is_} the {a}?",
    "There {is_x} {x_s} in the {u} and {y_s} in the {v}. Where {is_} the {a}?",
    "In the {u} {is_x} the {x}, in the {v} {is_y} the {y}. Where {is_} the {a}?",
    "You will find the {x} in the {u} and the {y} in the {v}. Where {is_} the {a}?",
)
_THREE = (
    "The {x} {is_x} in the {u}, the {y} {is_y} in the {v}, and the {z} {is_z} in the {w}. Where {is_} the {a}?",
    "{name} put the {x} in the {u}, the {y} in the {v}, and the {z} in the {w}. Where {is_} the {a}?",
    "I left the {x} in the {u}, the {y} in the {v}, and the {z} in the {w}. Where {is_} the {a}?",
    "In the {u} {is_x} the {x}, in the {v} {is_y} the {y}, in the {w} {is_z} the {z}. Where {is_} the {a}?",
    "You will find the {x} in the {u}, the {y} in the {v}, and the {z} in the {w}. Where {is_} the {a}?",
    "The {u} holds the {x}. The {v} holds the {y}. The {w} holds the {z}. Where {is_} the {a}?",
)
_INSIDE_THREE = (
    "The {x} {is_x} in the {u}, the {y} {is_y} in the {v}, and the {z} {is_z} in the {w}. What is in the {c}?",
    "{name} put the {x} in the {u}, the {y} in the {v}, and the {z} in the {w}. What is in the {c}?",
    "I left the {x} in the {u}, the {y} in the {v}, and the {z} in the {w}. What did I leave in the {c}?",
    "The {u} holds the {x}, the {v} the {y}, and the {w} the {z}. What does the {c} hold?",
    "In the {u} {is_x} the {x}, in the {v} {is_y} the {y}, in the {w} {is_z} the {z}. What is in the {c}?",
)
_INSIDE = (
    "The {x} {is_x} in the {u}. The {y} {is_y} in the {v}. What is in the {c}?",
    "{name} put the {x} in the {u} and the {y} in the {v}. What is in the {c}?",
    "I left the {x} in the {u} and the {y} in the {v}. What did I leave in the {c}?",
    "In the {u} {is_x} the {x}, in the {v} {is_y} the {y}. What is in the {c}?",
    "The {u} holds the {x}. The {v} holds the {y}. What does the {c} hold?",
)
_MOVED = (
    "The {a} {was} in the {b}. {name} moved {it} to the {c}. Where {is_} the {a}?",
    "{name} took the {a} out of the {b} and put {it} in the {c}. Where {is_} the {a} now?",
    "First the {a} {was} in the {b}, now {it2} {is_} in the {c}. Where {is_} the {a}?",
    "The {a} {is_} now in the {c}. Before, {it2} {was} in the {b}. Where {is_} the {a}?",
    "I moved the {a} from the {b} to the {c}. Where {is_} the {a} now?",
    "The {a} {is_} in the {c} and no longer in the {b}. Where {is_} the {a}?",
    "In the {c} {is_} the {a}, not in the {b} as before. Where {is_} the {a}?",
    "{name} put the {a} in the {c}, out of the {b}. Where {is_} the {a}?",
)
_WENT = (
    "{p} went to the {u}. {q} went to the {v}. Where is {who}?",
    "{p} is in the {u}. {q} is in the {v}. Where is {who}?",
    "{p} walked to the {u} and {q} walked to the {v}. Where did {who} go?",
    "{p} is at the {u} and {q} is at the {v}. Where is {who}?",
    "This morning {p} went to the {u}, and {q} to the {v}. Where did {who} go?",
    "{p} waits at the {u}. {q} waits at the {v}. Where does {who} wait?",
    "{p} drove to the {u}, but {q} drove to the {v}. Where is {who}?",
)
_WENT_THREE = (
    "{p} is at the {u}, {q} at the {v}, and {r} at the {w}. Where is {who}?",
    "{p} went to the {u}, {q} to the {v}, {r} to the {w}. Where did {who} go?",
    "{p} is in the {u}. {q} is in the {v}. {r} is in the {w}. Where is {who}?",
    "{p} waits at the {u}, {q} at the {v}, and {r} at the {w}. Where does {who} wait?",
    "{p} drove to the {u}, {q} to the {v}, and {r} to the {w}. Where is {who}?",
)
_WHO_WENT = (
    "{p} went to the {u}. {q} went to the {v}. Who went to the {where}?",
    "{p} is in the {u}. {q} is in the {v}. Who is in the {where}?",
    "{p} walked to the {u} and {q} walked to the {v}. Who is at the {where}?",
    "{p} waits at the {u}. {q} waits at the {v}. Who waits at the {where}?",
    "This morning {p} went to the {u}, and {q} to the {v}. Who went to the {where}?",
)
_THEN = (
    "{p} was at the {u}. Then {p} went to the {v}. Where is {p} now?",
    "{p} went from the {u} to the {v}. Where is {p} now?",
    "First {p} went to the {u}, then to the {v}. Where is {p} now?",
    "{p} left the {u} and went to the {v}. Where is {p}?",
    "{p} is now at the {v}. Before, {p} was at the {u}. Where is {p}?",
    "{p} came to the {v} from the {u}. Where is {p} now?",
    "{p} is at the {v} and no longer at the {u}. Where is {p}?",
    "{p} is in the {v}, no longer in the {u}. Where is {p}?",
)
_TOGETHER = (
    "{p} is with {q}. {q} is in the {u}. Where is {p}?",
    "{q} is in the {u}. {p} is with {q}. Where is {p}?",
    "{q} went to the {u}, and {p} went along. Where is {p}?",
    "{p} followed {q} to the {u}. Where is {p}?",
)


def _chain(pen: Pen) -> Made:
    thing, plural = noun(pen)
    b, c = pen.words(CONTAINERS, 2)
    slots = {"a": thing, "is_": be(plural), "b": b, "c": c, "a_b": a(b), "name": pen.word(NAMES), "answer": c}
    return slots, [c]


def _two(pen: Pen) -> Made:
    (x, px), (y, py) = noun(pen), noun(pen)
    u, v = pen.words(CONTAINERS, 2)
    first = pen.rng.chance(0.5)
    slots = {"x": x, "y": y, "u": u, "v": v, "is_x": be(px), "is_y": be(py), "name": pen.word(NAMES),
             "x_s": some(x, px), "y_s": some(y, py), "a": x if first else y, "is_": be(px if first else py),
             "answer": u if first else v}  # fmt: skip
    return slots, [slots["answer"]]


def _inside(pen: Pen) -> Made:
    slots, (c,) = _two(pen)
    slots["c"], slots["answer"] = c, slots["a"]
    return slots, [slots["a"]]


def _three(pen: Pen) -> Made:
    things = [noun(pen) for _ in range(3)]
    where = pen.words(CONTAINERS, 3)
    i = pen.rng.below(3)
    slots = {name: thing for name, (thing, _) in zip("xyz", things, strict=True)}
    slots |= {f"is_{name}": be(plural) for name, (_, plural) in zip("xyz", things, strict=True)}
    slots |= dict(zip("uvw", where, strict=True))
    thing, plural = things[i]
    return {**slots, "name": pen.word(NAMES), "a": thing, "is_": be(plural), "answer": where[i]}, [where[i]]


def _inside_three(pen: Pen) -> Made:
    slots, (c,) = _three(pen)
    slots["c"], slots["answer"] = c, slots["a"]
    return slots, [slots["a"]]


def _moved(pen: Pen) -> Made:
    thing, plural = noun(pen)
    b, c = pen.words(CONTAINERS, 2)
    slots = {"a": thing, "is_": be(plural), "was": "were" if plural else "was", "b": b, "c": c,
             "it": "them" if plural else "it", "it2": "they" if plural else "it", "name": pen.word(NAMES),
             "answer": c}  # fmt: skip
    return slots, [c]


def _went(pen: Pen) -> Made:
    p, q = pen.words(NAMES, 2)
    u, v = pen.words(PLACES, 2)
    first = pen.rng.chance(0.5)
    place = u if first else v
    return {"p": p, "q": q, "u": u, "v": v, "who": p if first else q, "answer": place}, [place]


def _went_three(pen: Pen) -> Made:
    people, where = pen.words(NAMES, 3), pen.words(PLACES, 3)
    i = pen.rng.below(3)
    slots = dict(zip("pqruvw", people + where, strict=True))
    return {**slots, "who": people[i], "answer": where[i]}, [where[i]]


def _who_went(pen: Pen) -> Made:
    slots, (place,) = _went(pen)
    who = slots.pop("who")
    return {**slots, "where": place, "answer": who}, spellings(who)


def _then(pen: Pen) -> Made:
    u, v = pen.words(PLACES, 2)
    return {"p": pen.word(NAMES), "u": u, "v": v, "answer": v}, [v]


def _together(pen: Pen) -> Made:
    p, q = pen.words(NAMES, 2)
    u = pen.word(PLACES)
    return {"p": p, "q": q, "u": u, "answer": u}, [u]


def kinds() -> list[Kind]:
    """The kinds of this family."""
    told = (
        ("story-location", _CHAIN, "The {answer}.", 3, _chain),
        ("story-nested", _NESTED, "The {answer}.", 3, _chain),  # the same, told from the outside in
        ("story-two-places", _TWO, "The {answer}.", 4, _two),
        ("story-inside", _INSIDE, "The {answer}.", 3, _inside),
        ("story-three-places", _THREE, "The {answer}.", 5, _three),
        ("story-inside-three", _INSIDE_THREE, "The {answer}.", 4, _inside_three),
        ("story-moved", _MOVED, "The {answer}.", 3, _moved),
        ("story-went", _WENT, "The {answer}.", 5, _went),
        ("story-went-three", _WENT_THREE, "The {answer}.", 5, _went_three),
        ("story-who-went", _WHO_WENT, "{answer}.", 4, _who_went),
        ("story-then", _THEN, "The {answer}.", 2, _then),
        ("story-together", _TOGETHER, "The {answer}.", 1.5, _together),
    )
    return [Story(name, "stories", wordings, reply, weight, make=make) for name, wordings, reply, weight, make in told]
