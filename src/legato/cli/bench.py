"""`legato bench`: measurements of speed."""

from __future__ import annotations

import json

import click

from legato.cli.evaluate import json_option


@click.group()
def bench() -> None:
    """Measure speed on this machine."""


@bench.command()
@click.argument("question", required=False, type=click.Path())
@click.option("--repeats", type=click.IntRange(min=2), default=21, show_default=True, help="Counted turns of each arm.")
@click.option("--tokens", type=click.IntRange(min=2), default=128, show_default=True, help="Decoded in each turn.")
@json_option
def listen(question: str | None, repeats: int, tokens: int, as_json: bool) -> None:
    """All arms in turn on QUESTION (a fixed hum of 3 s by default), and how far each is from the memory's limit."""
    from legato import assemble
    from legato.assemble import bench as measuring
    from legato.listen.arms import hum

    heard = hum(3.0) if question is None else assemble.hear(question)
    found = measuring.measure(assemble.load("pocket"), heard, repeats=repeats, tokens=tokens, progress=not as_json)
    click.echo(json.dumps(found) if as_json else measuring.table(found))
