"""Words about words: opposites, past tense, plural, and the names of a country's people."""

from __future__ import annotations

from legato.corpora.world.frame import Kind, Table, fact
from legato.corpora.world.tables import table

_OPPOSITE = (
    "What is the opposite of {word}?",
    "What's the opposite of {word}?",
    "Tell me the opposite of {word}.",
    "Give me the opposite of {word}.",
    "Which word is the opposite of {word}?",
    "Name the opposite of the word {word}.",
    "{word}, what is its opposite?",
    "What word means the opposite of {word}?",
)
_PAST = (
    "What is the past tense of {verb}?",
    "Today I {verb}, yesterday I what?",
    "Tell me the past tense of {verb}.",
    "Put the verb {verb} into the past.",
    "What is the past of the verb {verb}?",
    "Give me the past tense of {verb}.",
)
_PRESENT = (
    "Which verb has the past tense {past}?",
    "{past} is the past tense of which verb?",
    "What verb is {past} the past of?",
    "Name the verb whose past tense is {past}.",
)
_PLURAL = (
    "What is the plural of {noun}?",
    "Tell me the plural of {noun}.",
    "Give me the plural of the word {noun}.",
    "One {noun}, two what?",
    "What do you call more than one {noun}?",
    "What is the plural form of {noun}?",
)
_PEOPLE = (
    "What do you call someone from {country}?",
    "What do you call a person from {country}?",
    "Somebody from {country} is called what?",
    "What is the word for people from {country}?",
    "What nationality are people from {country}?",
)
_PEOPLE_OF = (
    "Which country do {people} people come from?",
    "{people} people come from which country?",
    "Where do {people} people live, in which country?",
    "Name the country of the {people} people.",
)


def kinds() -> list[Kind]:
    """The kinds of this family. Words that are linked as opposites share one fate."""
    people = table("demonyms")
    past = [r for r in table("past") if r["verb"] not in r["past"].split(";")]
    forms = [f for r in past for f in r["past"].split(";")]
    return [
        Table("opposite", "facts", _OPPOSITE, "{answer}.", 8, facts=[
            fact(f"opposite:{r['group']}", r["opposites"], word=r["word"]) for r in table("opposites")
        ]),
        Table("past", "facts", _PAST, "{answer}.", 3, facts=[
            fact(f"past:{r['verb']}", r["past"], verb=r["verb"]) for r in table("past")
        ]),
        Table("present", "facts", _PRESENT, "{answer}.", 1, facts=[
            fact(f"past:{r['verb']}", r["verb"], past=r["past"].split(";")[0])
            for r in past if forms.count(r["past"].split(";")[0]) == 1
        ]),
        Table("plural", "facts", _PLURAL, "{answer}.", 2.5, facts=[
            fact(f"plural:{r['noun']}", r["plural"], noun=r["noun"]) for r in table("irregular_plurals")
        ]),
        Table("people-of", "facts", _PEOPLE, "{answer}.", 2, facts=[
            fact(f"people:{r['country']}", r["people"], country=r["country"]) for r in people
        ]),
        Table("country-of-people", "facts", _PEOPLE_OF, "{country}.", 1.5, facts=[
            fact(f"people:{r['country']}", r["country"].removeprefix("the "), country=r["country"],
                 people=r["people"].split(";")[0])
            for r in people if r["country"] != "South Korea"
        ]),
    ]  # fmt: skip
