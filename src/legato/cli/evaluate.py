"""`legato eval`: the evidence, from the sealing of a final to the report that re-derives from its records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from legato.cli.ask import ARMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from legato.evaluate.questions import Question
    from legato.evaluate.record import RawRecord


class NewFile(click.Path):
    """A file to be written, in a folder that is there, with one of the endings (any, where none are given)."""

    def __init__(self, *endings: str) -> None:
        super().__init__(path_type=Path, dir_okay=False)
        self.endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if not path.parent.is_dir():
            self.fail(f"there is no folder {path.parent} to write {path.name} into", param, ctx)
        if self.endings and path.suffix not in self.endings:
            self.fail(f"{path.name} must end in {', '.join(self.endings)}", param, ctx)
        return path


FILE = click.Path(path_type=Path, dir_okay=False, exists=True)  # to be read
NEW_FILE = NewFile()
PICTURE = NewFile(".png", ".svg", ".pdf")
FOLDER = click.Path(path_type=Path, file_okay=False)  # of ours, read or made
AUDIO = click.Path(path_type=Path, file_okay=False, exists=True)
records_option = click.option(
    "--records", type=FOLDER, default=Path("records"), show_default=True, help="Where the evidence lies."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def spoken_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The two options that name spoken questions."""
    audio = click.option("--audio", type=AUDIO, required=True, help="Folder of <row id>.wav, .flac, .ogg or .mp3.")
    rows = click.option("--rows", type=FILE, required=True, help="JSONL file of rows.")
    return rows(audio(command))


def spoken(rows: Path, audio: Path) -> list[Question]:
    """Rows joined with their recordings."""
    from legato.corpora.rows import read_rows
    from legato.evaluate import questions

    read = read_rows(rows)
    return questions.spoken(read, questions.audio_in(audio, [row.id for row in read]))


def answered(records: Path, run_name: str) -> list[RawRecord]:
    """The raw records of a run; those of a closed one must be as they were closed."""
    from legato.evaluate import layout, ledger, record

    ledger.check_run(records, ledger.verify(records).entries, run_name)
    return record.read(layout.run(records, run_name))


@click.group("eval")
def evaluate() -> None:
    """Seal, freeze, open, report, audit: the evidence."""


@evaluate.command()
@click.argument("name")
@spoken_options
@click.option("--n", type=click.IntRange(min=1), required=True, help="Rows of the final.")
@click.option("--salt", required=True, help="Text that the ranking hash starts with; it makes this final its own draw.")
@click.option("--source", required=True, help="One line that says which corpus and revision the pool is.")
@records_option
def seal(name: str, rows: Path, audio: Path, n: int, salt: str, source: str, records: Path) -> None:
    """Register final NAME before anything is trained: the n rows of the pool with the lowest hashes."""
    from legato.evaluate.seal import seal as seal_final

    sealed = seal_final(records, name, spoken(rows, audio), salt=salt, source=source, n=n)
    click.echo(f"sealed {sealed.name}: {sealed.n} of {sealed.pool['n']} rows, sha256 {sealed.sha256}")


@evaluate.command()
@click.argument("rows", type=FILE, nargs=-1, required=True)
@click.option("--audio", type=AUDIO, multiple=True, help="Folder of recordings that go with them; may be repeated.")
@click.option("--out", type=NEW_FILE, required=True, help="The identity file to write.")
def identities(rows: tuple[Path, ...], audio: tuple[Path, ...], out: Path) -> None:
    """Write down, as hashes, what a training or selection saw: the words, facts and recordings of ROWS."""
    from legato.audio import read
    from legato.corpora.rows import read_rows
    from legato.evaluate.identities import Identities
    from legato.evaluate.questions import AUDIO_SUFFIXES

    seen = [row for path in rows for row in read_rows(path)]
    files = sorted(path for folder in audio for path in folder.iterdir() if path.suffix.lower() in AUDIO_SUFFIXES)
    found = Identities.of(seen, (read(path).sha256 for path in files))
    found.write(out)
    click.echo(f"{out}: {len(found.text)} questions, {len(found.fact)} facts, {len(found.audio)} recordings")


@evaluate.command()
@click.argument("name")
@click.option("--train", type=FILE, required=True, help="Identity file of everything that was trained on.")
@click.option("--select", type=FILE, required=True, help="Identity file of everything that a choice was made by.")
@click.option("--note", default="", help="One line about the candidate.")
@records_option
def freeze(name: str, train: Path, select: Path, note: str, records: Path) -> None:
    """Freeze the pocket system's weights as candidate NAME, by checksum."""
    from legato import assemble
    from legato.evaluate.promote import freeze as freeze_candidate

    frozen = freeze_candidate(records, name, assemble.files("pocket"), {"train": train, "select": select}, note=note)
    click.echo(f"froze {frozen.name}: {len(frozen.files)} files, sha256 {frozen.sha256}")


@evaluate.command("open")
@click.argument("final")
@click.argument("candidate")
@spoken_options
@click.option("--run", "run_name", required=True, help="Name of the run; the same name resumes it.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=48, show_default=True)
@records_option
def open_(final: str, candidate: str, rows: Path, audio: Path, run_name: str, max_tokens: int, records: Path) -> None:
    """Open FINAL, once, with the frozen CANDIDATE: every question to every arm, raw records written."""
    from legato import assemble
    from legato.evaluate import promote, run
    from legato.evaluate.seal import open_final

    system = assemble.load("pocket")
    system.require(promote.read(records, candidate).hashes)
    settings = {"max_tokens": max_tokens, "dtype": system.dtype}
    opened = open_final(records, final, candidate, spoken(rows, audio), run=run_name, arms=ARMS, settings=settings)
    system.warm(ARMS)
    done = run.final(records, opened, {arm: system.arms[arm] for arm in ARMS}, uses=assemble.USES)
    click.echo(f"{done.path}: {done.asked} answers now, {done.kept} before; {final} is closed")


@evaluate.command()
@json_option
@click.option("--plot", type=PICTURE, help="Also draw the accuracies into this file.")
@records_option
def report(as_json: bool, plot: Path | None, records: Path) -> None:
    """Re-derive every headline figure from the raw records alone."""
    from legato.evaluate import report as reports

    found = reports.report(records)
    if plot is not None:
        reports.plot(found, plot)
    click.echo(json.dumps(found) if as_json else reports.table(found))


@evaluate.command()
@click.option("--rows", type=FILE, help="JSONL file of rows; with --audio, to compare the sealed recordings too.")
@click.option("--audio", type=AUDIO, help="Folder of their recordings.")
@records_option
@click.pass_context
def audit(context: click.Context, rows: Path | None, audio: Path | None, records: Path) -> None:
    """Hold ledger, seals, candidates, runs and promotions against each other; exit code 1 when something is wrong."""
    from legato.evaluate.audit import audit as audit_records

    if (rows is None) != (audio is None):
        raise click.UsageError("give --rows and --audio together")
    found = audit_records(records, questions=spoken(rows, audio) if rows and audio else ())
    for fault in found.faults:
        click.echo(f"FAULT   {fault}")
    for remark in found.remarks:
        click.echo(f"remark  {remark}")
    faults, *checked = (
        f"{n} {what.removesuffix('s') if n == 1 else what}"
        for what, n in {"faults": len(found.faults), **found.checked}.items()
    )
    click.echo(f"{faults} in {', '.join(checked)}")
    if found.faults:
        context.exit(1)


@evaluate.command()
@click.argument("candidate")
@click.option("--seal", "final", required=True, help="The final that it was judged on.")
@click.option("--note", default="", help="Why it deserves it.")
@records_option
def promote(candidate: str, final: str, note: str, records: Path) -> None:
    """Write the promotion record of a judged CANDIDATE, with which it may serve."""
    from legato.evaluate.promote import promote as promote_candidate

    body = promote_candidate(records, candidate, seal=final, note=note)
    click.echo(f"promoted {candidate}: sha256 {body['sha256']}")


@evaluate.command()
@click.argument("run_name", metavar="RUN")
@json_option
@records_option
def agreement(run_name: str, as_json: bool, records: Path) -> None:
    """How far each arm of RUN says what the large model says, for talk that has no right answer."""
    from legato.evaluate.agreement import agreement as agree

    found = agree(answered(records, run_name))
    if as_json:
        click.echo(json.dumps(found))
        return
    for arm, figures in found.items():
        shown = ", ".join(f"{key} {value['value']:.3f}" for key, value in figures.items() if key != "n")
        click.echo(f"{arm:<9} n = {figures['n']}: {shown}")


@evaluate.group()
def judge() -> None:
    """Blind judging of free replies, by a person or by a model behind any OpenAI-compatible endpoint."""


@judge.command()
@click.argument("run_name", metavar="RUN")
@click.option("--rows", type=FILE, required=True, help="JSONL file of the rows that were asked.")
@click.option("--salt", required=True, help="Text that decides the shuffle.")
@click.option("--out", type=NEW_FILE, required=True, help="The sheet: replies without their arms.")
@click.option("--key", type=NEW_FILE, required=True, help="Who said what; keep it away from the judge.")
@records_option
def sheet(run_name: str, rows: Path, salt: str, out: Path, key: Path, records: Path) -> None:
    """Make a blind sheet of RUN's replies, and its key."""
    from legato.corpora.rows import read_rows
    from legato.evaluate import judge as judging
    from legato.evaluate import lines

    texts = {row.id: row.question for row in read_rows(rows)}
    made, secret = judging.make_sheet(answered(records, run_name), texts, salt=salt)
    lines.write_whole(out, made)
    lines.write_whole(key, secret)
    click.echo(f"{out}: {len(made['items'])} replies to score from 1 to 5")


@judge.command()
@click.argument("sheet_path", metavar="SHEET", type=FILE)
def fill(sheet_path: Path) -> None:
    """Let a model score SHEET: LEGATO_JUDGE_URL, LEGATO_JUDGE_MODEL and, if needed, LEGATO_JUDGE_KEY say which."""
    from legato.evaluate import judge as judging

    failed = judging.fill(sheet_path, judging.Endpoint.from_environment())
    click.echo(f"{sheet_path}: filled in, {failed} replies could not be judged")


@judge.command()
@click.argument("sheet_path", metavar="SHEET", type=FILE)
@click.argument("key", type=FILE)
@json_option
def unblind(sheet_path: Path, key: Path, as_json: bool) -> None:
    """Join a filled SHEET with its KEY: mean score of each arm, and each against small."""
    from legato.evaluate import judge as judging

    found = judging.unblind(judging.read_sheet(sheet_path), judging.read_key(key))
    if as_json:
        click.echo(json.dumps(found))
        return
    for arm, a in found["arms"].items():
        low, high = a["ci95"]
        against = found["against"].get(arm)
        p = f", p = {against['p_two_sided']:.3g} against {found['reference']}" if against else ""
        click.echo(f"{arm:<9} {a['mean']:.2f} ({low:.2f} to {high:.2f}), n = {a['n']}, {a['failed']} failed{p}")
