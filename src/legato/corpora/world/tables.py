"""Reads the committed tables under `data/`: tab-separated, one header line, the first column unique."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def table(name: str) -> tuple[dict[str, str], ...]:
    """Rows of `data/<name>.tsv` as dicts by column."""
    lines = files(__package__).joinpath("data", f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    columns = lines[0].split("\t")
    return tuple(dict(zip(columns, line.split("\t"), strict=True)) for line in lines[1:])


def column(name: str) -> list[str]:
    """First column of a table."""
    rows = table(name)
    key = next(iter(rows[0]))
    return [row[key] for row in rows]
