"""`legato listen`: paired caches, the mapper, the residual, and the diagnosis that comes before them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from legato.cli.evaluate import AUDIO, FILE, FOLDER, PICTURE, json_option
from legato.errors import BadInput

READS = ("nearest", "late", "all")
captured_argument = click.argument("captured", metavar="CAPTURE", type=FOLDER)
out_argument = click.argument("out", metavar="OUT", type=FOLDER)
reads_option = click.option(
    "--reads", type=click.Choice(READS), default="nearest", show_default=True, help="Layers each target layer reads."
)
int8_option = click.option("--int8", is_flag=True, help="Store matrices as int8 with a scale per 64 columns.")


@click.group()
def listen() -> None:
    """Capture paired caches, fit the mapper, train the residual, diagnose the pair."""


@listen.command()
@out_argument
@click.option("--rows", type=FILE, required=True, help="JSONL file of rows.")
@click.option("--audio", type=AUDIO, help="Folder of <row id>.wav or alike; without it the rows are read as words.")
@click.option("--every-layer", is_flag=True, help="Keep all of the large model's layers: what a diagnosis needs.")
def capture(out: Path, rows: Path, audio: Path | None, every_layer: bool) -> None:
    """Write into folder OUT what both models remember of the same questions. The same command resumes."""
    from legato.assemble import transfer
    from legato.corpora.rows import read_rows
    from legato.evaluate.questions import audio_in

    read = read_rows(rows)
    if not read:
        raise BadInput(f"{rows} holds no rows; give a JSONL file with one row a line.")
    files = None if audio is None else audio_in(audio, [row.id for row in read])
    added = transfer.capture_rows(out, read, files, every_layer=every_layer)
    click.echo(f"{out}: {added} questions captured, {len(read) - added} were there")


@listen.command()
@captured_argument
@out_argument
@click.option(
    "--target", type=click.Choice(("told", "own")), default="told", show_default=True, help="What the tail aims at."
)
@click.option(
    "--lam",
    "lams",
    type=click.FloatRange(min=0, min_open=True),
    multiple=True,
    default=(0.01, 0.1, 1.0),
    show_default=True,
    help="Ridge strength; of several, the one whose map lets the small model say most of what the large one said.",
)
@click.option("--plot", type=PICTURE, help="Draw R2 per layer into this file.")
@click.option(
    "--reads",
    "which",
    type=click.Choice(READS),
    multiple=True,
    default=("nearest",),
    show_default=True,
    help="Layers each target layer reads; several are chosen from as strengths are.",
)
@int8_option
def fit(
    captured: Path,
    out: Path,
    target: str,
    lams: tuple[float, ...],
    plot: Path | None,
    which: tuple[str, ...],
    int8: bool,
) -> None:
    """Fit the mapper on CAPTURE in closed form and save it as an artifact in folder OUT."""
    from legato.assemble import transfer
    from legato.listen import plots

    manifest, report, trials = transfer.fit_mapper(captured, out, target=target, which=which, lams=lams, int8=int8)
    for trial in trials:
        same = "not tried" if trial.score is None else f"{trial.score:.1%}"
        click.echo(f"{trial.reads:<8} lambda {trial.lam:<6g} mean R2 {trial.r2:.3f}  says the same: {same}")
    click.echo(f"lambda {report.lam:g} it is")
    click.echo("R2 on held questions, keys/values of each layer")
    for part, layers in report.r2.items():
        click.echo(f"  {part:<9} " + " ".join(f"{keys:.2f}/{values:.2f}" for keys, values in layers))
    if plot is not None:
        plots.r2(report, plot)
    size = sum((manifest.folder / name).stat().st_size for name in manifest.files)
    click.echo(f"{out}: mapper of {size / 1e6:.1f} MB, sha256 {manifest.sha256}")


@listen.command()
@captured_argument
@out_argument
@click.option("--mapper", type=FOLDER, help="Folder of the mapper that the residual corrects.")
@click.option(
    "--control", is_flag=True, help="Train the control instead: the small model's own memory, no large model."
)
@click.option(
    "--rank", default="16", show_default=True, help="Hidden units a layer, or 'full' for a trained linear map."
)
@click.option(
    "--questions", type=click.IntRange(min=1), help="Train on so many questions of the capture; all by default."
)
@click.option("--only", type=FILE, help="Train on the captured questions of these rows alone, say of one domain.")
@click.option(
    "--labels", type=FILE, help="Rows whose reference answers are trained on instead of the large model's own."
)
@click.option("--steps", type=click.IntRange(min=1), default=600, show_default=True)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), default=1e-3, show_default=True, help="Peak learning rate."
)
@click.option(
    "--guard", type=click.FloatRange(min=0), default=0.5, show_default=True, help="Weight of keeping what small knew."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--plot", type=PICTURE, help="Draw the training into this file.")
@reads_option
@int8_option
def train(
    captured: Path,
    out: Path,
    mapper: Path | None,
    control: bool,
    rank: str,
    questions: int | None,
    only: Path | None,
    labels: Path | None,
    steps: int,
    rate: float,
    guard: float,
    seed: int,
    plot: Path | None,
    reads: str,
    int8: bool,
) -> None:
    """Train the residual on CAPTURE through the frozen small model; the artifact and its log go into folder OUT.

    The same command resumes a killed training.
    """
    from legato.assemble import transfer
    from legato.corpora.rows import read_rows
    from legato.listen import plots
    from legato.listen.train import ResidualTraining

    if rank != "full" and not (rank.isascii() and rank.isdigit() and int(rank) > 0):
        raise click.UsageError(f"--rank is {rank!r}; give a whole number from 1, or full")
    among = None if only is None else frozenset(row.id for row in read_rows(only))
    training = transfer.Training(None if rank == "full" else int(rank), questions, control, reads, among)
    how = ResidualTraining(steps=steps, learning_rate=rate, guard=guard, seed=seed)
    gold = None if labels is None else read_rows(labels)
    manifest = transfer.train(captured, out, mapper, training, how, gold, int8=int8, tell=click.echo)
    if plot is not None:
        plots.training(transfer.curve(out), plot)
    click.echo(f"{out}: sha256 {manifest.sha256}")


@listen.command()
@captured_argument
@click.option(
    "--limit", type=click.IntRange(min=8), default=400, show_default=True, help="Use at most so many questions."
)
@click.option("--plot", type=PICTURE, help="Draw probes and views into this file.")
@json_option
def diagnose(captured: Path, limit: int, plot: Path | None, as_json: bool) -> None:
    """Where does each model hold the answer, and where does it look for it? CAPTURE must hold every layer."""
    from legato.assemble import transfer

    found = transfer.diagnose_pair(captured, limit, plot)
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{found['questions']} questions; share of each model's own answers that survives")
    for name, shares in found["views"].items():
        click.echo(f"  {name:<6} " + ", ".join(f"{view} {share:.1%}" for view, share in shares.items()))
    for name, share in found["probe_at_last_position"].items():
        click.echo(f"  {name:<6} answer's first token read linearly at the last memory position: {share:.1%}")
    click.echo(f"  small speaks an answer that its tail was told: {found['told_oracle']:.1%}")
