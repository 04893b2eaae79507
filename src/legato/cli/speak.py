"""`legato speak`: the campaign for a head, from the probe of the codec to the polish."""

from __future__ import annotations

from pathlib import Path

import click

from legato.cli.evaluate import FOLDER, PICTURE
from legato.cli.speak_measure import measure

OBJECTIVES = ("unrolled", "lsd")
tap_argument = click.argument("tapped", metavar="TAP", type=FOLDER)
out_argument = click.argument("out", metavar="OUT", type=FOLDER)
preset_option = click.option("--preset", default="pocket", show_default=True, help="Whose codec and voice.")
seed_option = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
plot_option = click.option("--plot", type=PICTURE, help="Draw it into this file.")


@click.group()
def speak() -> None:
    """Probe the codec, tap the frozen voice, train the head that renders it, polish and measure it."""


speak.add_command(measure)


@speak.command()
@click.argument("recordings", type=FOLDER)
@out_argument
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="So many recordings at most.")
@click.option(
    "--recogniser", type=FOLDER, help="Folder of a Whisper model: hear the recordings that have a transcript (.txt)."
)
@preset_option
def probe(recordings: Path, out: Path, limit: int, recogniser: Path | None, preset: str) -> None:
    """Measure first: does the codec's decoder take what it has only seen quantised?

    RECORDINGS is a folder of WAV, FLAC, OGG or MP3 files. Figures, pictures, sound and a page go into folder OUT.
    """
    from legato.assemble import campaign_probe

    found = campaign_probe.probe(recordings, out, limit=limit, recogniser=recogniser, preset=preset)
    for sentence in (*found.verdicts, *found.missing):
        click.echo(sentence)
    click.echo(f"{found.page}: figures, pictures and sound of {found.probed.recordings} recordings")


@speak.command()
@click.argument("spoken", type=FOLDER)
@out_argument
@click.option("--limit", type=click.IntRange(min=1), help="So many recordings at most; all by default.")
@preset_option
def tap(spoken: Path, out: Path, limit: int | None, preset: str) -> None:
    """Write into folder OUT what the frozen voice thought at every frame of recordings with timed words.

    SPOKEN is a folder with spoken.jsonl, a line a recording: {"audio": "a.flac", "text": "The cat sat.", "words":
    [["The", 0.12], ["cat", 0.31], ["sat.", 0.58]]}, each word with the second at which it begins.
    """
    from legato.assemble import campaign

    added, found = campaign.tap(spoken, out, limit=limit, preset=preset)
    frames, held = sum(e.frames for e in found.entries), sum(e.held for e in found.entries)
    click.echo(f"{out}: {len(found.entries)} recordings, {added} of them new, {held} held out; {frames:,} frames")


@speak.command()
@tap_argument
@out_argument
@click.option("--width", type=click.IntRange(min=8), default=144, show_default=True, help="Size of the head.")
@click.option("--steps", type=click.IntRange(min=1), default=6000, show_default=True)
@seed_option
@click.option("--plain", is_flag=True, help="For an experiment: the condition is added to the input and nowhere else.")
@click.option("--unannounced", is_flag=True, help="For an experiment: the head is not told how corrupt its past is.")
@plot_option
def train(
    tapped: Path, out: Path, width: int, steps: int, seed: int, plain: bool, unannounced: bool, plot: Path | None
) -> None:
    """Train a head on TAP; the artifact and its log go into folder OUT. The same command resumes a killed training.

    Its losses are teacher-forced: they say whether it learns, never how it will speak.
    """
    from legato.assemble import campaign
    from legato.speak.train import HeadTraining

    manifest = campaign.train(
        tapped, out, HeadTraining(steps=steps, seed=seed), width=width, plain=plain, unannounced=unannounced, plot=plot,
        tell=click.echo,
    )
    click.echo(f"{out}: sha256 {manifest.sha256}")


@speak.command()
@tap_argument
@click.argument("head", type=FOLDER)
@out_argument
@click.option("--steps", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option(
    "--objective", type=click.Choice(OBJECTIVES), default=OBJECTIVES[0], show_default=True,
    help="unrolled: a generator of few steps, judged as sound. lsd: the flow map distilled from its own velocity.",
)
@click.option(
    "--flow-steps", type=click.IntRange(1, 64), default=2, show_default=True, help="Steps the head is to render in."
)
@seed_option
@plot_option
@preset_option
def polish(
    tapped: Path, head: Path, out: Path, steps: int, objective: str, flow_steps: int, seed: int, plot: Path | None,
    preset: str,
) -> None:
    """One round of polish on the HEAD that was trained on TAP: texture, and two steps instead of eight.

    Into folder OUT go the new artifact, its log, sound before and after, and round.json: what was won and lost on every
    instrument on the held recordings. These figures are teacher-forced and never gate.
    """
    from legato.assemble import campaign
    from legato.speak import plots
    from legato.speak.polish import Polish

    how = Polish(steps=steps, objective=objective, flow_steps=flow_steps, seed=seed)
    manifest, record = campaign.polish(tapped, head, out, how, preset=preset, tell=click.echo)
    if plot is not None:
        plots.round_(campaign.curve(out), plot)
    for name, change in record["changes"].items():
        figures = " -> ".join("-" if change[k] is None else f"{change[k]:.3f}" for k in ("before", "after"))
        click.echo(f"  {name:<18} {figures:<18} {change['outcome']}")
    for sentence in record["not measured"]:
        click.echo(f"  {sentence}")
    click.echo(f"  ({record['conditions']})")
    click.echo(f"{out}: sha256 {manifest.sha256}")
