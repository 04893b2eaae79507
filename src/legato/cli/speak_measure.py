"""`legato speak measure`: how well a voice says what it never read, as evidence that can be checked again.

Not listening: that is `legato listening`, on the folders that --keep leaves here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from legato.cli.evaluate import FILE, FOLDER, NEW_FILE, PICTURE, json_option, records_option

READ_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)
sentences_option = click.option("--sentences", type=FILE, required=True, help="JSONL file of id, text and kind.")


def said_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every measured run takes."""
    options = (
        sentences_option,
        click.option("--recogniser", type=READ_FOLDER, required=True, envvar="LEGATO_RECOGNISER", show_envvar=True,
                     help="Folder of a Whisper model for CTranslate2."),
        click.option("--ceiling", type=READ_FOLDER, help="Folder of <id>.wav: the codec's own decode of recordings."),
        click.option("--keep", type=FOLDER, help="Also keep the sounds there, as head/<id>.wav and depth/<id>.wav."),
        click.option("--engine", type=click.Choice(["torch", "onnx"]), default="torch", show_default=True,
                     help="What head and decoder run in."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def measure() -> None:
    """Say unseen sentences by head and by depth, hear them with a recogniser, and keep the evidence."""


@measure.command()
@click.argument("texts", type=FILE, nargs=-1)
@click.option("--out", type=NEW_FILE, required=True, help="The identity file to write; without TEXTS an empty one.")
def identities(texts: tuple[Path, ...], out: Path) -> None:
    """Write down, as hashes, what a voice was trained or chosen by: JSONL files with "text"."""
    from legato.errors import BadInput
    from legato.evaluate import lines
    from legato.evaluate.identities import DIGITS, Identities
    from legato.evaluate.questions import text_sha256

    seen = set()
    for path in texts:
        for number, line in enumerate(lines.read(path).whole, 1):
            text = lines.parse(line, f"{path.name} line {number}").get("text")
            if not isinstance(text, str):
                raise BadInput(f"{path.name} line {number} has no text; give JSON lines with text.")
            seen.add(text_sha256(text)[:DIGITS])
    Identities(text=frozenset(seen)).write(out)
    click.echo(f"{out}: {len(seen)} texts")


@measure.command()
@click.argument("name")
@sentences_option
@click.option("--source", required=True, help="One line that says how the sentences were made.")
@records_option
def seal(name: str, sentences: Path, source: str, records: Path) -> None:
    """Register final NAME, all of the sentences, before the voice is trained to its end."""
    from legato.evaluate.saying.final import seal_sentences
    from legato.evaluate.saying.sentences import read

    sealed = seal_sentences(records, name, read(sentences), source=source)
    click.echo(f"sealed {sealed.name}: {sealed.n} sentences, sha256 {sealed.sha256}")


@measure.command()
@click.argument("name")
@click.option("--train", type=FILE, required=True, help="Identity file of every text that was trained on.")
@click.option("--select", type=FILE, required=True, help="Identity file of every text that a choice was made by.")
@click.option("--note", default="", help="One line about the candidate.")
@records_option
def freeze(name: str, train: Path, select: Path, note: str, records: Path) -> None:
    """Freeze the pocket voice (codec, voice, head) as candidate NAME, by checksum."""
    from legato.assemble.measuring import voice_files
    from legato.evaluate.promote import freeze as freeze_candidate

    frozen = freeze_candidate(records, name, voice_files("pocket"), {"train": train, "select": select}, note=note)
    click.echo(f"froze {frozen.name}: {len(frozen.files)} files, sha256 {frozen.sha256}")


@measure.command()
@click.argument("name")
@said_options
@records_option
def run(
    name: str,
    sentences: Path,
    recogniser: Path,
    ceiling: Path | None,
    keep: Path | None,
    engine: str,
    records: Path,
) -> None:
    """Measure sentences that are no final, as often as wanted; the same NAME goes on where it was."""
    from legato.assemble.measuring import load_voice
    from legato.evaluate import layout
    from legato.evaluate.instruments.recogniser import whisper
    from legato.evaluate.saying import report as reports
    from legato.evaluate.saying import run as saying
    from legato.evaluate.saying.final import refuse_sealed
    from legato.evaluate.saying.record import read as read_records
    from legato.evaluate.saying.sentences import read

    wanted = read(sentences)
    refuse_sealed(records, wanted)
    held = saying.ceilings(ceiling, wanted) if ceiling else None
    path = layout.run(layout.say(records), name)
    done = saying.run(
        load_voice(engine=engine),
        wanted,
        whisper(recogniser),
        path,
        name=name,
        ceiling=held,
        keep=keep,
    )
    click.echo(f"{done.path}: {done.said} sentences now, {done.kept} before")
    click.echo(reports.table(reports.summarise(read_records(path))))


@measure.command("open")
@click.argument("final")
@click.argument("candidate")
@click.option("--run", "run_name", required=True, help="Name of the run; the same name resumes it.")
@said_options
@records_option
def open_(
    final: str,
    candidate: str,
    run_name: str,
    sentences: Path,
    recogniser: Path,
    ceiling: Path | None,
    keep: Path | None,
    engine: str,
    records: Path,
) -> None:
    """Open FINAL, once, with the frozen CANDIDATE: every sentence said once, raw records written."""
    from legato.assemble.measuring import load_voice
    from legato.evaluate.instruments.recogniser import whisper
    from legato.evaluate.saying import final as finals
    from legato.evaluate.saying.run import ceilings
    from legato.evaluate.saying.sentences import read

    wanted = read(sentences)
    voice, ear = load_voice(engine=engine), whisper(recogniser)
    settings = finals.settings_of(voice, ear, ceilings(ceiling, wanted) if ceiling else None)
    finals.require(records, candidate, voice)
    opened = finals.open_sentences(records, final, candidate, wanted, run=run_name, settings=settings)
    done = finals.run_final(records, opened, voice, ear, ceiling=ceiling, keep=keep)
    click.echo(f"{done.path}: {done.said} sentences now, {done.kept} before; {final} is closed")


@measure.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
@click.option("--plot", type=PICTURE, help="Also draw the figures of RUN into this file.")
@records_option
def report(run_name: str | None, as_json: bool, plot: Path | None, records: Path) -> None:
    """Re-derive every figure, and which floors it clears, from the raw records: of RUN, or of all finished finals."""
    from dataclasses import asdict

    from legato.evaluate.saying import gates
    from legato.evaluate.saying import report as reports

    if plot is not None and run_name is None:
        raise click.UsageError("give the RUN that --plot is to draw")
    if run_name is None:
        found = reports.report(records)
    else:
        of_run = reports.of_run(records, run_name)
        found = {"finals": [reports.summarise(of_run)], "unfinished": []}
        if plot is not None:
            reports.plot(of_run, plot)
    if as_json:
        floors = [[asdict(gate) for gate in gates.gates(f)] for f in found["finals"]]
        click.echo(json.dumps({**found, "floors": floors}))
        return
    for f in found["finals"]:
        click.echo(reports.table(f))
        click.echo(gates.table(gates.gates(f)))
    for u in found["unfinished"]:
        click.echo(f"run {u['run']} on {u['seal']} is unfinished: {u['missing']} sentences are missing")
    if not found["finals"] and not found["unfinished"]:
        click.echo("no final has been said yet")


@measure.command()
@click.argument("candidate")
@click.option("--seal", "final", required=True, help="The final that it was measured on.")
@click.option("--sheet", type=FOLDER, help="The listening sheet on which it was heard, with its votes.")
@click.option("--note", default="", help="Why it deserves it.")
@records_option
def promote(candidate: str, final: str, sheet: Path | None, note: str, records: Path) -> None:
    """Write the promotion record of a CANDIDATE that cleared every floor and was heard on a blind sheet."""
    from legato.evaluate.saying.promotion import promote_voice

    body = promote_voice(records, candidate, seal=final, sheet=sheet, note=note)
    click.echo(f"promoted {candidate} ({body['listening']['verdict']}): sha256 {body['sha256']}")
