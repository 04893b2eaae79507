"""Well-known works, people and landmarks."""

from __future__ import annotations

from legato.corpora.world.frame import Kind, Table, a, fact
from legato.corpora.world.places import bare, country_answers
from legato.corpora.world.tables import table

_ACTS = {  # verb -> (kind, weight, wordings)
    "wrote": ("wrote", 3, (
        "Who wrote {work}?", "Who is the author of {work}?", "Tell me who wrote {work}.", "{work}, who wrote it?",
        "Which writer wrote {work}?", "Name the author of {work}.", "By whom is {work}?")),
    "painted": ("painted", 1, (
        "Who painted {work}?", "Which painter made {work}?", "Tell me who painted {work}.",
        "Name the painter of {work}.", "Which artist painted {work}?")),
    "composed": ("composed", 1.2, (
        "Who composed {work}?", "Who is the composer of {work}?", "Tell me who composed {work}.",
        "Which composer wrote {work}?", "Name the composer of {work}.")),
    "invented": ("invented", 1.5, (
        "Who invented {work}?", "Who was the inventor of {work}?", "Tell me who invented {work}.",
        "Name the inventor of {work}.", "Who came up with {work}?")),
    "discovered": ("discovered", 1, (
        "Who discovered {work}?", "Tell me who discovered {work}.", "Who is known for discovering {work}?",
        "Name the person who discovered {work}.", "Who was it that discovered {work}?")),
}  # fmt: skip
_FROM = (
    "Which country did {person} come from?",
    "Where did {person} come from?",
    "What country was {person} from?",
    "Tell me the home country of {person}.",
    "From which country was {person}?",
)
_JOB = (
    "What was {person}'s job?",
    "What is {person} known as?",
    "What was {person} by profession?",
    "Tell me what {person} was by profession.",
    "Was {person} a painter, a singer or what?",
)
_LANDMARK_COUNTRY = (
    "In which country is {landmark}?",
    "Which country is {landmark} in?",
    "What country do you visit to see {landmark}?",
    "{landmark} is in which country?",
    "Name the country of {landmark}.",
)
_LANDMARK_CITY = (
    "In which city is {landmark}?",
    "Which city is {landmark} in?",
    "What city do you visit to see {landmark}?",
    "{landmark} is in which city?",
    "Name the city of {landmark}.",
)


def _countries(listed: str) -> list[str]:
    return [form for country in listed.split(";") for form in country_answers(country)]


def kinds() -> list[Kind]:
    """The kinds of this family. Country and city of a landmark are one fact."""
    works, people, landmarks = table("works"), table("people"), table("landmarks")
    return [
        *(
            Table(kind, "facts", wordings, "{answer}.", weight, facts=[
                fact(f"{verb}:{r['work']}", r["people"], work=r["work"]) for r in works if r["verb"] == verb
            ])
            for verb, (kind, weight, wordings) in _ACTS.items()
        ),
        Table("person-country", "facts", _FROM, "{country}.", 2, facts=[
            fact(f"person-country:{r['person']}", _countries(r["countries"]), person=r["person"],
                 country=r["countries"].split(";")[0])
            for r in people
        ]),
        Table("person-job", "facts", _JOB, "{a_answer}.", 1.5, facts=[
            fact(f"person-job:{r['person']}", r["jobs"], person=r["person"], a_answer=a(r["jobs"].split(";")[0]))
            for r in people
        ]),
        Table("landmark-country", "facts", _LANDMARK_COUNTRY, "{country}.", 2.5, facts=[
            fact(f"landmark:{r['landmark']}", _countries(r["country"]), landmark=r["landmark"],
                 country=r["country"].split(";")[0])
            for r in landmarks if bare(r["country"]) not in r["landmark"]
        ]),
        Table("landmark-city", "facts", _LANDMARK_CITY, "{answer}.", 2, facts=[
            fact(f"landmark:{r['landmark']}", r["city"], landmark=r["landmark"])
            for r in landmarks if r["city"] != "-" and r["city"] not in r["landmark"]
        ]),
    ]  # fmt: skip
