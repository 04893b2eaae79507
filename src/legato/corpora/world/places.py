"""Countries, their capitals, continents, languages and currencies; cities; states."""

from __future__ import annotations

from legato.corpora.world.frame import Fact, Kind, Table, fact
from legato.corpora.world.tables import table

_CAPITAL = (
    "What is the capital of {country}?",
    "Which city is the capital of {country}?",
    "Tell me the capital of {country}.",
    "Name the capital city of {country}.",
    "What's the capital city of {country}?",
    "Do you know the capital of {country}?",
    "{country}, what is its capital?",
    "I need the capital of {country}, please.",
)
_COUNTRY_OF_CAPITAL = (
    "{city} is the capital of which country?",
    "Which country has the capital {city}?",
    "What country is {city} the capital of?",
    "Name the country whose capital is {city}.",
    "Of which country is {city} the capital?",
)
_CONTINENT = (
    "Which continent is {country} in?",
    "On which continent is {country}?",
    "What continent does {country} belong to?",
    "Where is {country}, on which continent?",
    "Tell me the continent of {country}.",
)
_LANGUAGE = (
    "What language do people speak in {country}?",
    "Which language is spoken in {country}?",
    "What is the main language of {country}?",
    "Name a language of {country}.",
    "What do people in {country} speak?",
    "Tell me which language they speak in {country}.",
)
_CURRENCY = (
    "What is the currency of {country}?",
    "What money do they use in {country}?",
    "Which currency is used in {country}?",
    "Name the currency of {country}.",
    "With what money do you pay in {country}?",
    "Tell me the currency of {country}.",
)
_CITY = (
    "In which country is {city}?",
    "Which country is {city} in?",
    "What country is {city} in?",
    "Where is {city}, in which country?",
    "Tell me the country of {city}.",
    "{city} is a city in which country?",
    "To which country does {city} belong?",
    "Name the country where {city} is.",
)
_STATE = (
    "What is the capital of the state of {state}?",
    "Which city is the state capital of {state}?",
    "Name the capital of the state {state}.",
    "Tell me the state capital of {state}.",
    "What is {state}'s state capital?",
)
_CITY_CONTINENT = (
    "On which continent is the city of {city}?",
    "Which continent is {city} on?",
    "What continent is {city} on?",
    "Tell me the continent of the city {city}.",
    "The city of {city} is on which continent?",
)
_US_CITY = (
    "In which American state is {city}?",
    "Which state is {city} in?",
    "What US state is {city} in?",
    "Tell me the American state of {city}.",
    "{city} is a city in which American state?",
)
_STATE_OF_CAPITAL = (
    "Which state has the capital {city}?",
    "{city} is the capital of which state?",
    "Name the state whose capital is {city}.",
    "What state is {city} the capital of?",
)
_ALIASES = {
    "the United States": ("america", "usa", "us", "united states of america"),
    "the United Kingdom": ("uk", "britain", "great britain", "england"),
    "the Czech Republic": ("czechia",),
    "England": ("uk", "britain", "united kingdom", "great britain"),
    "Scotland": ("uk", "britain", "united kingdom", "great britain"),
    "the Netherlands": ("holland",),
    "the Ivory Coast": ("cote d'ivoire",),
    "Myanmar": ("burma",),
    "Eswatini": ("swaziland",),
    "Cape Verde": ("cabo verde",),
    "Timor-Leste": ("east timor",),
    "North Macedonia": ("macedonia",),
    "the Democratic Republic of the Congo": ("congo", "dr congo"),
    "the Republic of the Congo": ("congo",),
    "Bosnia": ("bosnia and herzegovina",),
    "Turkey": ("turkiye",),
}


def bare(country: str) -> str:
    """Without its article."""
    return country.removeprefix("the ")


def country_answers(country: str) -> list[str]:
    """Names that count as the country, ours (without article) first."""
    return [bare(country), *_ALIASES.get(country, ())]


def _country_fact(identity: str, country: str, weight: float = 1.0, **slots: str) -> Fact:
    return fact(identity, country_answers(country), weight, country=country, **slots)


def kinds() -> list[Kind]:
    """The kinds of this family."""
    rows = table("countries")
    capital_of = {city: row["country"] for row in rows for city in row["capitals"].split(";")}
    continents = {r["country"]: r["continents"] for r in rows}
    cities, states = table("cities"), table("states")

    def city_identity(row: dict[str, str]) -> str:
        """A capital's country is the same fact as the country's capital."""
        is_capital = capital_of.get(row["city"]) == row["country"]
        return f"capital:{row['country']}" if is_capital else f"city:{row['city']}"

    once = [r for r in rows if r["country"] not in ("England",)]  # London names the United Kingdom
    return [
        Table("capital", "facts", _CAPITAL, "{answer} is the capital of {country}.", 9, facts=[
            fact(f"capital:{r['country']}", r["capitals"], country=r["country"]) for r in rows
        ]),
        Table("country-of-capital", "facts", _COUNTRY_OF_CAPITAL, "{country}.", 5, facts=[
            _country_fact(f"capital:{r['country']}", r["country"], city=r["capitals"].split(";")[0])
            for r in once if bare(r["country"]) not in r["capitals"]
        ]),
        Table("continent", "facts", _CONTINENT, "{answer}.", 4, facts=[
            fact(f"continent:{r['country']}", r["continents"], country=r["country"]) for r in rows
        ]),
        Table("language", "facts", _LANGUAGE, "{answer}.", 6, facts=[
            fact(f"language:{r['country']}", r["languages"], country=r["country"]) for r in rows
        ]),
        Table("currency", "facts", _CURRENCY, "The {answer}.", 6, facts=[
            fact(f"currency:{r['country']}", r["currencies"], country=r["country"]) for r in rows
        ]),
        Table("city-country", "facts", _CITY, "{country}.", 16, facts=[
            _country_fact(city_identity(r), r["country"], float(r["weight"]), city=r["city"]) for r in cities
        ]),
        Table("city-continent", "facts", _CITY_CONTINENT, "{answer}.", 5, facts=[
            fact(city_identity(r), continents[r["country"]], float(r["weight"]), city=r["city"])
            for r in cities if ";" not in continents[r["country"]]
        ]),
        Table("us-city", "facts", _US_CITY, "{answer}.", 4, facts=[
            fact(f"us-city:{r['city']}", r["state"], float(r["weight"]), city=r["city"]) for r in table("us_cities")
        ]),
        Table("state-capital", "facts", _STATE, "{answer}.", 3, facts=[
            fact(f"state-capital:{r['state']}", r["capital"], state=r["state"]) for r in states
        ]),
        Table("state-of-capital", "facts", _STATE_OF_CAPITAL, "{answer}.", 2, facts=[
            fact(f"state-capital:{r['state']}", r["state"], city=r["capital"].split(";")[0])
            for r in states if r["state"] not in r["capital"]
        ]),
    ]  # fmt: skip
