"""Write down, as hashes, every question that trained the pair or its transfer: drawn, spoken or captured.

    python recipes/training_identities.py OUT.txt --rows ROW... --clips CLIP... [--drawn SEED:BATCHES ...]
        [--words SEED:ROWS ...]

--rows are JSONL files of rows, --clips folders in which they are spoken; --drawn names the batches that a stage of
`pocket_pair.py` drew as words (its seed, and how many batches of words it read), --words what `transfer.py capture
--words` drew. Word lists (`lexicon.py`) are left out: they ask nothing, and no final can hold one. So are the prompts
"Say ..." by which the small model learns to speak what its tail was told; their answers are those of these rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from legato.audio import Audio
from legato.corpora.rows import Row, read_rows
from legato.corpora.world import draw
from legato.evaluate.identities import Identities
from pocket_pair import BATCH, CHUNK
from voices.shards import RATE, read_clip, read_entries


def drawn(seed: int, batches: int) -> Iterator[Row]:
    """The rows of whole chunks that so many batches of `pocket_pair.text_data` were taken from."""
    for chunk in range(-(-batches * BATCH // CHUNK)):
        yield from draw(CHUNK, seed=seed * 100003 + chunk, split="train")


def recordings(folder: Path, rows: set[str]) -> Iterator[str]:
    """`Audio.sha256` of every clip of a folder that speaks one of `rows`."""
    for entry in read_entries(folder):
        if entry["row"] in rows:
            samples = read_clip(folder, entry).astype(np.float32)[None] / 2**15
            yield Audio(samples, RATE).sha256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=Path, nargs="+", required=True)
    parser.add_argument("--clips", type=Path, nargs="*", default=[])
    parser.add_argument("--drawn", nargs="*", default=[], metavar="SEED:BATCHES")
    parser.add_argument("--words", nargs="*", default=[], metavar="SEED:ROWS")
    args = parser.parse_args()
    seen = [row for path in args.rows for row in read_rows(path)]
    spoken = {row.id for row in seen}
    for seed, batches in (map(int, each.split(":")) for each in args.drawn):
        seen += drawn(seed, batches)
    for seed, n in (map(int, each.split(":")) for each in args.words):
        seen += draw(n, seed=seed, split="train")
    found = Identities.of(seen, (sha for folder in args.clips for sha in recordings(folder, spoken)))
    found.write(args.out)
    print(f"{args.out}: {len(found.text)} questions, {len(found.fact)} facts, {len(found.audio)} recordings")


if __name__ == "__main__":
    main()
