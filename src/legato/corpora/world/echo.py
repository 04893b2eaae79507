"""Repeating, spelling, first and last letters: what is answered is in the question's own sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.corpora.world.frame import Fact, Kind, Pen, Story, Table, Words, fact, word_identity
from legato.corpora.world.numbers import spoken
from legato.corpora.world.tables import column, table

_SAY_ONE = ("Say the word {a}.", "Repeat the word {a}.", "Please say {a}.", "Say {a}.", "Repeat after me, {a}.",
            "Can you say {a}?", "Now say {a}.", "The word is {a}. Say it.")  # fmt: skip
_SAY_TWO = ("Say, {a} {b}.", "Repeat after me, {a} {b}.", "Please say {a} {b}.", "Say the words {a} {b}.",
            "Repeat {a} {b}.", "Can you say {a} {b}?", "Say this, {a} {b}.",
            "Repeat these words, {a} {b}.")  # fmt: skip
_SAY_THREE = ("Say, {a}, {b}, {c}.", "Repeat after me, {a}, {b}, {c}.", "Please say {a}, {b}, {c}.",
              "Say these words, {a}, {b}, {c}.", "Repeat {a}, {b}, {c}.", "Can you say {a}, {b}, {c}?")  # fmt: skip
_SPELL = ("Spell the word {word}.", "How do you spell {word}?", "Please spell {word}.", "Spell {word}.",
          "Can you spell {word}?", "Tell me how to spell {word}.", "What are the letters of {word}?")  # fmt: skip
_FIRST = ("What is the first letter of {word}?", "Which letter does {word} begin with?",
          "{word} starts with which letter?", "Tell me the first letter of {word}.",
          "With which letter does {word} start?")  # fmt: skip
_LAST = ("What is the last letter of {word}?", "Which letter does {word} end with?", "{word} ends with which letter?",
         "Tell me the last letter of {word}.")  # fmt: skip
_LENGTH = ("How many letters are in {word}?", "How many letters does {word} have?", "Count the letters in {word}.",
           "{word} has how many letters?", "Tell me how many letters {word} has.")  # fmt: skip
_UNSPELL = ("Which word is spelled {letters}?", "What word do you spell {letters}?", "{letters} spells what?",
            "What does {letters} spell?", "Tell me the word spelled {letters}.")  # fmt: skip

SIMPLE = Words("simple", column("simple"))
ADJECTIVES = Words("adjective", [r["word"] for r in table("simple") if r["part"] == "adjective"])
NOUNS = Words("noun", [r["word"] for r in table("simple") if r["part"] == "noun"])


def _wide_words() -> list[str]:
    """Every single word of the tables, but for words that sound like others and names that are also common words.

    Two words in one entry ("fire station") would make one question of two facts.
    """
    found: set[str] = set()
    for name in ("objects", "containers", "places", "opposites", "past", "irregular_plurals", "animals", "paints"):
        found.update(column(name))
    found.update(row["past"].split(";")[0] for row in table("past"))
    found.update(row["plural"] for row in table("plurals"))
    found.update(row["thing"].split(" ", 1)[-1] for row in table("categories") if row["thing"][0].islower())
    found.update(row["element"].split(";")[0] for row in table("elements"))
    found.update(row["job"].split(";")[0] for row in table("workers"))
    found.update(column("names"))
    found.update(name.removeprefix("the ") for name in column("countries"))
    found.update(row["city"] for row in table("cities") if float(row["weight"]) >= 0.5)
    taken = set(column("homophones")) | set(SIMPLE.words)
    common = {word for word in found if word.islower()}
    return sorted(
        word
        for word in found
        if word.isalpha() and word.lower() not in taken and (word in common or word.lower() not in common)
    )


WIDE = Words("wide", _wide_words())  # for repeating
SHORT = [w for w in SIMPLE.words + WIDE.words if 3 <= len(w) <= 6 and w.islower() and w.isalpha()]  # for spelling
WORD_LISTS = (SIMPLE, WIDE)


def _word(pen: Pen) -> str:
    return pen.word(WIDE if pen.rng.chance(0.6) else SIMPLE)


def _one(pen: Pen) -> tuple[dict[str, str], Sequence[str]]:
    word = _word(pen)
    return {"a": word, "answer": word}, [word]


def _two(pen: Pen) -> tuple[dict[str, str], Sequence[str]]:
    a, b = (pen.word(ADJECTIVES), pen.word(NOUNS)) if pen.rng.chance(0.5) else (_word(pen), _word(pen))
    return {"a": a, "b": b, "answer": f"{a} {b}"}, [f"{a} {b}"]


def _three(pen: Pen) -> tuple[dict[str, str], Sequence[str]]:
    a, b, c = (_word(pen) for _ in range(3))
    return {"a": a, "b": b, "c": c, "answer": f"{a}, {b}, {c}"}, [f"{a} {b} {c}"]


def kinds() -> list[Kind]:
    """The kinds of this family. Spelling, and letters of a word, share the fate of the word."""
    letters = {w: ", ".join(w.upper()) for w in SHORT}

    def each(answers: Callable[[str], list[str]]) -> list[Fact]:
        return [fact(word_identity(w), answers(w), word=w, letters=letters[w]) for w in SHORT]

    return [
        Story("say-one", "skills", _SAY_ONE, "{answer}.", 1.2, make=_one),
        Story("say-two", "skills", _SAY_TWO, "{answer}.", 2.0, make=_two),
        Story("say-three", "skills", _SAY_THREE, "{answer}.", 1.2, make=_three),
        Table("spell", "skills", _SPELL, "{answer}.", 2.0, facts=each(lambda w: [letters[w], w])),
        Table("unspell", "skills", _UNSPELL, "{answer}.", 1.0, facts=each(lambda w: [w])),
        Table("first-letter", "skills", _FIRST, "{answer}.", 1.2, facts=each(lambda w: [w[0].upper()])),
        Table("last-letter", "skills", _LAST, "{answer}.", 0.8, facts=each(lambda w: [w[-1].upper()])),
        Table("letter-count", "skills", _LENGTH, "{answer}.", 0.6, facts=each(lambda w: spoken(len(w)))),
    ]
