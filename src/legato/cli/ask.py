"""`legato ask`: spoken questions in, answers and their race out."""

from __future__ import annotations

import json

import click

from legato.cli import race
from legato.errors import BadInput

ARMS = ("small", "mapped", "control", "transfer", "large")
LONGEST = 1000  # tokens of an answer: room for it is made before the first


@click.command()
@click.argument("questions", metavar="QUESTION...", nargs=-1, required=True, type=click.Path())
@click.option("--arm", type=click.Choice([*ARMS, "all"]), default="transfer", show_default=True, help="Who answers.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a question instead of the table.")
@click.option(
    "--max-tokens", type=click.IntRange(1, LONGEST), default=48, show_default=True, help="End an answer here."
)
@click.option("--force-tokens", type=click.IntRange(1, LONGEST), help="Say exactly so many tokens, to measure speed.")
def ask(questions: tuple[str, ...], arm: str, as_json: bool, max_tokens: int, force_tokens: int | None) -> None:
    """Answer spoken questions (WAV, FLAC, OGG or MP3, up to 30 s each).

    Arms: small and large hear and answer by themselves; in transfer the large model hears and the small one answers
    from its mapped and corrected memory; mapped leaves the correction out; control corrects the small model's own
    memory. Times are taken after one warm-up turn. A recording that cannot be answered is told at the end (exit
    code 2); the others are answered.
    """
    from legato import assemble

    heard, refused = [], []
    for question in questions:
        try:
            heard.append((question, assemble.hear(question)))
        except BadInput as error:
            refused.append(str(error))
    if not heard:
        raise BadInput(" ".join(refused))
    system = assemble.load("pocket")
    chosen = ARMS if arm == "all" else (arm,)
    system.warm(chosen)
    races = []
    for question, audio in heard:
        try:
            replies = [
                system.answer(audio, arm=a, max_tokens=max_tokens, force_tokens=force_tokens, name=question)
                for a in chosen
            ]
        except BadInput as error:  # no question to the ear: those behind it are answered all the same
            refused.append(str(error))
            continue
        if as_json:
            click.echo(json.dumps(race.as_json(question, audio.seconds, system.artifacts, replies)))
        else:
            click.echo(race.as_text(question, audio.seconds, replies) + "\n")
        races.append(replies)
    if len(races) > 1 and not as_json:
        click.echo(race.summary(races))
    if refused:
        raise BadInput(" ".join(refused))
