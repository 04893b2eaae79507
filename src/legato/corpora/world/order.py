"""Days, months, letters, numbers, seasons: what comes before, after or between.

Two neighbours are one fact, asked forwards or backwards.
"""

from __future__ import annotations

from legato.corpora.world.frame import Kind, Table, fact
from legato.corpora.world.numbers import spoken, words

_AFTER = (
    "What comes after {a}?",
    "What comes right after {a}?",
    "{a}, what comes next?",
    "Which {what} follows {a}?",
    "What {what} comes after {a}?",
    "Tell me the {what} after {a}.",
    "Name the {what} that follows {a}.",
)
_BEFORE = (
    "What comes before {a}?",
    "What comes right before {a}?",
    "Which {what} comes before {a}?",
    "What {what} is just before {a}?",
    "Tell me the {what} before {a}.",
    "Name the {what} that comes before {a}.",
)
_BETWEEN = (
    "What comes between {a} and {b}?",
    "Which {what} is between {a} and {b}?",
    "Name the {what} between {a} and {b}.",
    "What {what} lies between {a} and {b}?",
    "Tell me the {what} between {a} and {b}.",
)
_TWO_AFTER = (
    "Which {what} is two after {a}?",
    "What {what} comes two after {a}?",
    "Go two {what}s on from {a}.",
    "Tell me the {what} two {what}s after {a}.",
)
_PLACE = (
    "Which is the {nth} {what}?",
    "What is the {nth} {what}?",
    "Name the {nth} {what}.",
    "Tell me the {nth} {what}.",
)
NTH = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
    "twentieth",
]  # fmt: skip
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
LETTERS = list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
PLANETS = ["Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"]
SEASONS = ["spring", "summer", "autumn", "winter"]
# one row of neighbours: (what, members, comes round again, spoken name of a member, weight)
_RINGS = (
    ("day", DAYS, True, "{}", 1.0),
    ("month", MONTHS, True, "{}", 1.0),
    ("season", SEASONS, True, "{}", 0.4),
    ("letter", LETTERS, False, "the letter {}", 1.0),
    ("planet", PLANETS, False, "the planet {}", 0.5),
    ("number", [words(n) for n in range(121)], False, "{}", 0.4),
)
_PLACED = (
    ("month", MONTHS, "month of the year"),
    ("letter", LETTERS[:20], "letter of the alphabet"),
    ("day", DAYS, "day of the week"),
    ("planet", PLANETS, "planet from the sun"),
)


def kinds() -> list[Kind]:
    """The kinds of this family."""
    after, before, between, two, place = [], [], [], [], []
    for what, members, ring, name, weight in _RINGS:
        n = len(members)
        for i, member in enumerate(members):
            if i + 1 < n or ring:
                follower = members[(i + 1) % n]
                same = f"order:{member},{follower}"
                after.append(fact(same, _forms(what, follower), weight, a=name.format(member), what=what))
                before.append(fact(same, _forms(what, member), weight, a=name.format(follower), what=what))
            if i + 2 < n or ring:
                middle, end = members[(i + 1) % n], members[(i + 2) % n]
                ends = {"a": name.format(member), "b": name.format(end), "what": what}
                between.append(fact(f"between:{member},{end}", _forms(what, middle), weight, **ends))
                two.append(fact(f"two-after:{member},{end}", _forms(what, end), weight, a=ends["a"], what=what))
    for what, members, label in _PLACED:
        for nth, member in zip(NTH, members, strict=False):
            place.append(fact(f"place:{member}", _forms(what, member), 1.0, nth=nth, what=label))
    return [
        Table("after", "skills", _AFTER, "{answer}.", 2.5, facts=after),
        Table("before", "skills", _BEFORE, "{answer}.", 2.5, facts=before),
        Table("between", "skills", _BETWEEN, "{answer}.", 1.2, facts=between),
        Table("two-after", "skills", _TWO_AFTER, "{answer}.", 0.8, facts=two),
        Table("place", "skills", _PLACE, "{answer}.", 0.6, facts=place),
    ]


def _forms(what: str, member: str) -> list[str]:
    if what == "number":
        return next(spoken(n) for n in range(121) if words(n) == member)
    return [member, "fall"] if member == "autumn" else [member]
