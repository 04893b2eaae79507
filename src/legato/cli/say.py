"""`legato say`: text in, sound out, into a file or as it is made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from legato.errors import BadInput

if TYPE_CHECKING:
    import numpy as np

PIECE = 4096  # characters read at a time
LONGEST = 10_000_000  # characters


@click.command()
@click.argument("text", required=False)
@click.option("--file", "source", type=click.Path(), help="Say a text file; - reads from standard input as it comes.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write a WAV file (24 kHz, 16 bit).")
@click.option("--stream", is_flag=True, help="Write raw 16-bit samples to standard output as they are made.")
@click.option("--render", type=click.Choice(["head", "depth"]), default="head", show_default=True, help="By whom.")
@click.option("--both", is_flag=True, help="Write OUT by the head and OUT-depth.wav by the teacher, of one run.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed is another take.")
@click.option("--engine", type=click.Choice(["torch", "onnx"]), default="torch", show_default=True,
              help="What head and decoder run in.")
@click.option("--stages", type=click.IntRange(min=1), help="Codes fed back to the voice a frame; all by default.")
def say(
    text: str | None, source: str | None, out: Path | None, stream: bool, render: str, both: bool, seed: int,
    engine: str, stages: int | None,
) -> None:
    """Say TEXT (English) in the pocket voice."""
    if (text is None) == (source is None):
        raise BadInput("give a text or --file FILE, one of the two.")
    if stream == (out is not None):
        raise BadInput("give -o FILE.wav to write a file or --stream for raw samples, one of the two.")
    if both and stream:
        raise BadInput("--both writes two files; give it -o FILE.wav instead of --stream.")
    written = _read(source) if source is not None else iter([text or ""])

    from tqdm import tqdm

    from legato import audio
    from legato.assemble.speech import load_speaker
    from legato.speak.harness import Sampling

    speaker = load_speaker("pocket", sampling=Sampling(seed=seed, stages=stages), engine=engine)
    by = ("head", "depth") if both else (render,)
    with ExitStack() as stack:
        if out is None:
            puts = [_raw]
        else:
            names = [out, out.with_name(f"{out.stem}-depth{out.suffix}")][: len(by)]
            puts = [stack.enter_context(audio.writing(name, speaker.rate)) for name in names]
        bar = stack.enter_context(tqdm(disable=None if out is not None else True, unit=" s", unit_scale=True))
        for chunks in speaker.rendered(written, by):
            for put, chunk in zip(puts, chunks, strict=True):
                put(chunk)
            bar.update(len(chunks[0]) / speaker.rate)


def _read(source: str) -> Iterator[str]:
    """A text file, or standard input as it comes."""
    length = 0
    with ExitStack() as stack:
        try:
            file = sys.stdin if source == "-" else stack.enter_context(open(source, encoding="utf-8"))
            while piece := file.readline(PIECE):
                length += len(piece)
                if length > LONGEST:
                    raise BadInput(f"{source} is longer than {LONGEST:,} characters; say it in parts.")
                yield piece
        except FileNotFoundError:
            raise BadInput(f"there is no file {source}; check the path.") from None
        except IsADirectoryError:
            raise BadInput(f"{source} is a directory; give one text file.") from None
        except PermissionError:
            raise BadInput(f"{source} may not be read by this user; check its permissions.") from None
        except UnicodeDecodeError:
            raise BadInput(f"{source} is no UTF-8 text; save it as UTF-8.") from None


def _raw(chunk: np.ndarray) -> None:
    from legato.audio import pcm16

    sys.stdout.buffer.write(pcm16(chunk))
    sys.stdout.buffer.flush()
