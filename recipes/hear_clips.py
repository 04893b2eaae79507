"""Run the ear over every spoken question once, so that training reads features instead of audio.

    python recipes/hear_clips.py CLIPS OUT [--follow]

CLIPS is a folder made by recipes/speak_questions.py; OUT becomes a folder for `legato.pocket.features.Features`. Kill
it at any time and start it again: it goes on where it was. With --follow it may start before the clips are finished,
and ends when CLIPS holds a file named DONE. One thread, low priority: about 0.03 CPU-s a clip of three seconds on a CPU
with bfloat16 instructions, 160 kB a clip.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch

from legato.pocket.ear import Ear
from legato.pocket.features import FeatureWriter, complete_lines
from voices.shards import read_clip

BLOCK = 64  # clips read, heard and written together
BATCH = 16  # clips in one forward
WAIT = 5.0  # seconds between looks at a growing list


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--follow", action="store_true", help="wait for more clips until CLIPS/DONE exists")
    arguments = parser.parse_args()
    os.nice(10)
    torch.set_num_threads(1)
    ear = Ear.load(dtype=torch.bfloat16)
    with FeatureWriter(arguments.out, ear.manifest.sha256, ear.config.features) as writer:
        hear(arguments.clips, writer, ear, arguments.follow)


def hear(clips: Path, writer: FeatureWriter, ear: Ear, follow: bool) -> None:
    """Hear every clip that the writer has not got, to the end of the list (and, following, of its growth)."""
    known, read, heard, begun = 0, 0, 0, time.monotonic()
    while True:
        # Looked at before the list, or the list's last lines could be missed.
        finished = not follow or (clips / "DONE").exists()
        entries, read = complete_lines(clips / "clips.jsonl", read)
        known += len(entries)
        todo = [entry for entry in entries if entry["id"] not in writer.done]
        for start in range(0, len(todo), BLOCK):
            block = todo[start : start + BLOCK]
            samples = [torch.from_numpy(read_clip(clips, entry)).float() / 2**15 for entry in block]
            for entry, features in zip(block, ear.features(samples, BATCH), strict=True):
                writer.add(entry["id"], features, entry["row"])
            heard += len(block)
            show(len(writer.done), known, heard / (time.monotonic() - begun))
        if finished:
            break
        time.sleep(WAIT)
    print(f"\n{len(writer.done)} clips heard", file=sys.stderr)


def show(done: int, known: int, rate: float) -> None:
    minutes = (known - done) / rate / 60
    print(f"\r{done:,} of {known:,} clips, {rate:.1f}/s, {minutes:.1f} min left ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
