"""The sentences by which a voice is judged: a final of 250 to be sealed, and 60 more to choose by.

    python recipes/say_sentences.py records/say --avoid TEXTS.jsonl [--avoid MORE.jsonl] [--seed N]

Writes final.jsonl and select.jsonl, {"id", "text", "kind"} a line, by rule from the seed: answers and questions of the
pocket world's final split, and sentences of the same words that no table of the world holds. Kinds: "short" (one or two
words), "number" (dates, money, units, times), "name" (people and places), "question", "long" (20 words and more) and
"plain". Nothing of a training text is in them: after normalising, no sentence equals a text of the --avoid files
(JSON lines with "text"), and none of three words or more stands inside one. An id is the hash of its text.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from legato.corpora.identity import normalise
from legato.corpora.world import draw
from legato.corpora.world.tables import column, table

FINAL = {"short": 40, "number": 50, "name": 50, "question": 40, "long": 30, "plain": 40}
SELECT = {"short": 10, "number": 12, "name": 12, "question": 10, "long": 7, "plain": 9}
WORLD = 6000  # rows of the final split that are drawn on
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
KNOWN = 300  # cities, by the weight with which the world asks for them
Rng = random.Random


def a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def thing(rng: Rng) -> str:
    return rng.choice(column("objects"))


def things(rng: Rng) -> str:
    return rng.choice(column("plurals"))


def place(rng: Rng) -> str:
    return rng.choice(column("places"))


def name(rng: Rng) -> str:
    return rng.choice(column("names"))


def animal(rng: Rng) -> str:
    return rng.choice(column("animals"))


def city(rng: Rng) -> str:
    """One that many have heard of: how a recogniser spells the others says nothing of the voice."""
    return rng.choice(sorted(table("cities"), key=lambda row: -float(row["weight"]))[:KNOWN])["city"]


def book(rng: Rng) -> str:
    return rng.choice([row["work"] for row in table("works") if row["verb"] == "wrote"])


def country(rng: Rng) -> str:
    return rng.choice(column("countries"))


def colour(rng: Rng) -> str:
    return rng.choice(column("paints"))


NUMBER: tuple[Callable[[Rng], str], ...] = (
    lambda r: f"The {thing(r)} costs ${r.randrange(2, 90)}.{r.choice(('25', '50', '75', '99', '05'))}.",
    lambda r: f"{name(r)} paid ${r.randrange(100, 990)} for {a(thing(r))}.",
    lambda r: f"The {place(r)} opened on {r.choice(MONTHS)} {r.randrange(1, 29)}, {r.randrange(1920, 2026)}.",
    lambda r: f"The {animal(r)} weighs {r.randrange(12, 99)} kg.",
    lambda r: f"It is {r.randrange(11, 980)} km from {city(r)} to {city(r)}.",
    lambda r: f"We meet at the {place(r)} at {r.randrange(1, 13)}:{r.choice(('05', '15', '20', '30', '45'))}.",
    lambda r: f"There are {r.randrange(21, 999)} {things(r)} in the {place(r)}.",
    lambda r: f"It was {r.randrange(11, 39)}°C in {city(r)} on {r.choice(MONTHS)} {r.randrange(1, 29)}.",
    lambda r: f"About {r.randrange(11, 95)}% of the {things(r)} were {colour(r)}.",
    lambda r: f"The {thing(r)} is {r.randrange(2, 9)}.{r.randrange(1, 9)} m long and {r.randrange(11, 99)} cm wide.",
    lambda r: f"In {r.randrange(1805, 1999)} the {place(r)} sold {r.randrange(2, 9)},{r.randrange(100, 999)} "
    f"{things(r)}.",
    lambda r: f"{name(r)} came {r.choice(('2nd', '3rd', '4th', '11th', '12th', '21st', '30th'))} out of "
    f"{r.randrange(31, 99)}.",
)  # fmt: skip
NAME: tuple[Callable[[Rng], str], ...] = (
    lambda r: f"{name(r)} and {name(r)} are going to {city(r)}.",
    lambda r: f"{name(r)} lives in {city(r)}, near the {place(r)}.",
    lambda r: f"The {animal(r)} belongs to {name(r)}.",
    lambda r: f"{name(r)} wrote to {name(r)} from {country(r)}.",
    lambda r: f"In {city(r)}, {name(r)} bought {a(thing(r))}.",
    lambda r: f"Dr. {name(r)} has never been to {country(r)}.",
    lambda r: f"{name(r)}, this is {name(r)} from {city(r)}.",
    lambda r: f"{r.choice(column('people'))} never saw {city(r)}.",
    lambda r: f"Both {country(r)} and {country(r)} are far from {city(r)}.",
    lambda r: f"{name(r)} read {book(r)} in the {place(r)}.",
)
PLAIN: tuple[Callable[[Rng], str], ...] = (
    lambda r: f"The {thing(r)} is behind the {thing(r)}.",
    lambda r: f"Please put the {thing(r)} on the {thing(r)}.",
    lambda r: f"Every {animal(r)} in the {place(r)} was asleep.",
    lambda r: f"The {animal(r)} ran after the {animal(r)}.",
    lambda r: f"I can't find my {colour(r)} {thing(r)}.",
    lambda r: f"It's quiet in the {place(r)} today.",
    lambda r: f"They sold {things(r)} and {things(r)} at the {place(r)}.",
    lambda r: f"The {r.choice(column('workers')).split(';')[0]} left this {thing(r)} here.",
    lambda r: f"Nobody saw the {colour(r)} {animal(r)}.",
    lambda r: f"You'll need {a(thing(r))} and some {things(r)}.",
)
SHORT: tuple[Callable[[Rng], str], ...] = (
    lambda r: f"{things(r).capitalize()}.",
    lambda r: f"{colour(r).capitalize()} {things(r)}.",
    lambda r: f"Hello, {name(r)}.",
    lambda r: f"Not {name(r)}.",
    lambda r: f"{name(r)}?",
    lambda r: f"In {city(r)}.",
)


LONG: tuple[Callable[[Rng], str], ...] = (
    lambda r: (
        f"{name(r)} walked from the {place(r)} to the {place(r)}, and on the way {name(r)} showed {name(r)} the "
        f"{colour(r)} {thing(r)} that had come from {city(r)}."
    ),
    lambda r: (
        f"If you put the {thing(r)} next to the {thing(r)}, the {animal(r)} will not find the {things(r)} that "
        f"{name(r)} left in the {place(r)} this morning."
    ),
    lambda r: (
        f"Yesterday the {place(r)} was full of {things(r)}, but today there is only {a(thing(r))}, and nobody in "
        f"{country(r)} knows where all the {things(r)} have gone."
    ),
    lambda r: (
        f"My {animal(r)} is older than yours, but the {animal(r)} that {name(r)} brought home from {city(r)} is "
        f"the oldest of them all, as everybody in the {place(r)} can see."
    ),
    lambda r: (
        f"When {name(r)} called, I was looking for the {things(r)}, and {name(r)} had already gone to the "
        f"{place(r)} to ask for {a(thing(r))} or two {things(r)}."
    ),
)


def by_turns(first: Iterator[str], second: Iterator[str]) -> Iterator[str]:
    """One of each; the first may end."""
    for text in second:
        yield text
        if (other := next(first, None)) is not None:
            yield other


def made(templates: tuple[Callable[[Rng], str], ...], rng: Rng) -> Iterator[str]:
    """Without end, one template after the other."""
    while True:
        for template in templates:
            text = template(rng)
            yield text[0].upper() + text[1:]


def candidates(seed: int) -> dict[str, Iterator[str]]:
    """Kind -> texts without end, or until the world has no more."""
    rows = list(draw(WORLD, seed=f"say {seed}", split="final"))
    order = Rng(f"say world {seed}")
    order.shuffle(rows)
    answers = (row.answer for row in rows if words(row.answer) <= 2)
    asked = (row.question for row in rows if 5 <= words(row.question) <= 19)
    told = (text for row in rows if words(text := f"{row.question} {row.answer}") >= 20)
    joined = (text for text in made(LONG, Rng(f"say long {seed}")) if words(text) >= 20)
    return {
        "short": (t for t in by_turns(answers, made(SHORT, Rng(f"say short {seed}"))) if words(t) <= 2),
        "number": made(NUMBER, Rng(f"say number {seed}")),
        "name": made(NAME, Rng(f"say name {seed}")),
        "question": asked,
        "long": by_turns(told, joined),
        "plain": made(PLAIN, Rng(f"say plain {seed}")),
    }


def words(text: str) -> int:
    return len(text.split())


class Avoided:
    """Texts that must not be said, nor hold a sentence of three words or more."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.whole = {normalise(text) for text in texts}
        self._joined = "".join(f"| {text} " for text in sorted(self.whole))

    def __contains__(self, text: str) -> bool:
        normal = normalise(text)
        return not normal or normal in self.whole or (words(normal) >= 3 and f" {normal} " in self._joined)


def sentences(avoided: Avoided, seed: int) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Final and selection: what comes first by the seed goes to the final, and no words are in both."""
    taken: set[str] = set()
    sets: tuple[list[dict[str, str]], list[dict[str, str]]] = ([], [])
    for kind, source in candidates(seed).items():
        for wanted, out in zip((FINAL, SELECT), sets, strict=True):
            left = wanted[kind]
            for text in source:
                if text in avoided or normalise(text) in taken or not re.fullmatch(r"[ -~°]+", text):
                    continue
                taken.add(normalise(text))
                out.append({"id": hashlib.sha256(text.encode()).hexdigest()[:16], "text": text, "kind": kind})
                left -= 1
                if not left:
                    break
            assert not left, f"too few fresh sentences of kind {kind}"
    return sets


def read(path: Path) -> Iterator[str]:
    """Texts of a JSON lines file; a last line that is still being written is left out."""
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return (json.loads(line)["text"] for line in whole.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--avoid", type=Path, action="append", required=True, help="training texts; may be repeated")
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    avoided = Avoided(text for path in args.avoid for text in read(path))
    args.out.mkdir(parents=True, exist_ok=True)
    for where, rows in zip(("final", "select"), sentences(avoided, args.seed), strict=True):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (args.out / f"{where}.jsonl").write_text(text, encoding="utf-8")
        print(f"{where}: {len(rows)} sentences, none of them in {len(avoided.whole):,} training texts")


if __name__ == "__main__":
    main()
