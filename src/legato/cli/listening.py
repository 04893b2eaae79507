"""`legato listening`: a blind A/B sheet of two systems, made, heard in the browser, and unblinded."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from legato.cli.evaluate import FOLDER, json_option, records_option

SIDE_NAMES = click.Choice(["a", "b", "none"])


@click.group()
def listening() -> None:
    """Two systems, one pair of ears: a blind sheet decides what ships."""


@listening.command()
@click.argument("out", type=FOLDER)
@click.option("--a", "a", type=FOLDER, required=True, help="Folder of the first system's .wav or .flac files.")
@click.option("--b", "b", type=FOLDER, required=True, help="Folder of the second's, with the same names.")
@click.option("--catch", type=click.IntRange(min=0), default=2, show_default=True, help="Trials of an identical pair.")
@click.option("--repeat", type=click.IntRange(min=0), default=2, show_default=True, help="Pairs shown again, swapped.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides the order and who is left.")
def new(out: Path, a: Path, b: Path, catch: int, repeat: int, seed: int) -> None:
    """Make the blind sheet OUT of two folders of recordings: equally loud, equally long, shuffled, sealed."""
    from legato.evaluate.listening import exact
    from legato.evaluate.listening.make import make

    sheet = make(out, a, b, catch=catch, repeat=repeat, seed=seed)
    pairs = len(sheet.trials) - catch - repeat
    seconds = sum(trial.seconds for trial in sheet.trials)
    click.echo(
        f"{out}: {pairs} pairs, {catch} catch and {repeat} repeat trials, {seconds / 60:.1f} min each way through"
    )
    click.echo(f"key sealed: sha256 {sheet.key_sha256}")
    click.echo(f"{pairs} preferences would show a true one of 80 % with a power of {exact.power(pairs, 0.8):.2f}")
    click.echo(f"listen: legato listening serve {out}")


@listening.command()
@click.argument("sheet_path", metavar="SHEET", type=FOLDER)
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 takes any free one.")
def serve(sheet_path: Path, port: int) -> None:
    """Show SHEET in the browser, on this machine only, until interrupted (Ctrl-C)."""
    from legato.evaluate.listening import votes
    from legato.evaluate.listening.sheet import open_sheet
    from legato.serve import listening as page
    from legato.serve import local

    sheet = open_sheet(sheet_path)
    given = votes.read(sheet)
    if given.remark:
        click.echo(given.remark)
    app = page.app(sheet)

    def ready(address: str) -> None:
        click.echo(f"{len(given.by_trial)} of {len(sheet.trials)} trials are answered; open {address}  (Ctrl-C ends)")

    # An interrupt is how this command is meant to end; none is raised where a shell ignores it.
    with local.listen(port) as door, suppress(KeyboardInterrupt):
        local.serve(app, door, ready)
    done = len(votes.read(sheet).by_trial)
    click.echo(f"{done} of {len(sheet.trials)} trials are answered; the same command goes on from there")


@listening.command()
@click.argument("sheet_path", metavar="SHEET", type=FOLDER)
@json_option
@click.option("--metric-said", type=SIDE_NAMES, help="Note in the log which system a metric had preferred.")
@click.option("--metric", default="", help="That metric's name.")
@records_option
def report(sheet_path: Path, as_json: bool, metric_said: str | None, metric: str, records: Path) -> None:
    """Open the key of SHEET: who was preferred, how surely, and by how reliable an ear."""
    from legato.evaluate.listening import verdict
    from legato.evaluate.listening.sheet import open_sheet

    if (metric_said is None) != (not metric):
        raise click.UsageError("give --metric-said and --metric together")
    found = verdict.report(open_sheet(sheet_path))
    if metric_said is not None:
        log = records / "listening" / "metric_and_ear.jsonl"
        found["metric"] = verdict.compare(found, metric, metric_said, log)
    click.echo(json.dumps(found) if as_json else as_text(found))


def as_text(found: dict[str, Any]) -> str:
    """The report for people."""
    names, wins, share = found["systems"], found["wins"], found["share_a"]
    n = wins["a"] + wins["b"]
    lines = [
        f"verdict  {names.get(found['verdict'], found['verdict'])}: {found['why']}",
        f"votes    {found['voted']} of {found['trials']} trials, {found['pairs']} of them pairs",
        f"         a {names['a']}: {wins['a']}    b {names['b']}: {wins['b']}    neither: {found['no_preference']}",
    ]
    if n:
        lines.append(
            f"         a is preferred in {share['value']:.0%} (95 %: {share['low']:.0%} to {share['high']:.0%}), "
            f"exact two-sided p = {found['p_two_sided']:.3g}"
        )
    catch, repeat, left = found["catch"], found["repeat"], found["left_chosen"]
    if catch["n"]:
        lines.append(f"catch    a preference between identical recordings in {catch['fooled']} of {catch['n']}")
    if repeat["n"]:
        lines.append(f"repeat   the same answer in {repeat['same']} of {repeat['n']}, reversed in {repeat['reversed']}")
    if n:
        lines.append(f"sides    left chosen {left['left']} of {n} times (p = {left['p_two_sided']:.3g})")
    for against, counts in found["faults"].items():
        if counts:
            shown = ", ".join(f"{tag} {count}" for tag, count in counts.items())
            lines.append(f"against  {names.get(against, against)}: {shown}")
    lines.append("needed   preferences for a power of 0.8, by the true share of the better system")
    for row in found["needed"]:
        lines.append(f"         {row['preference']:.0%}: {row['choices']}, {row['more']} more than now")
    if found["remark"]:
        lines.append(f"remark   {found['remark']}")
    if "metric" in found:
        m = found["metric"]
        outcome = "listening overruled the metric" if m["outcome"] == "overruled" else f"the metric was {m['outcome']}"
        if m["outcome"] == "agreed":
            outcome = "metric and ear agree"
        lines.append(f"metric   {m['metric']} said {m['metric_said']}, the ear {m['ear_said']}: {outcome}")
    return "\n".join(lines)
