"""How clips are kept: int16 samples end to end in `shard-0000.i16`, one JSON line a clip in `clips.jsonl`.

Made for tens of thousands of short clips: one open file instead of one a clip, and a reader that needs no audio
library.
`flac=True` writes one FLAC a clip instead, for sets that are committed. A killed run leaves at most one torn line or
half a clip; opening the folder again cuts it off and the run continues.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

CLIPS_PER_SHARD = 2000
RATE = 16_000


def read_clip(folder: str | Path, entry: dict[str, Any]) -> np.ndarray:
    """The samples of one line of clips.jsonl: int16 (N,), 16 kHz mono."""
    folder = Path(folder)
    if "file" in entry:
        import soundfile

        return soundfile.read(folder / entry["file"], dtype="int16")[0]
    return np.fromfile(folder / entry["shard"], "<i2", entry["samples"], offset=2 * entry["offset"])


def read_entries(folder: str | Path) -> list[dict[str, Any]]:
    """Every whole line of clips.jsonl, in the order written."""
    with open(Path(folder) / "clips.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def file_name(clip_id: str) -> str:
    """A clip's FLAC name: its id where that is a plain name, else the id made plain plus a short hash."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", clip_id)
    return name if name == clip_id else f"{name}-{hashlib.sha256(clip_id.encode()).hexdigest()[:8]}"


class ClipWriter:
    """Appends clips to a folder. `done` holds the ids that are already there, after repair.

    by_row: name FLAC files by their row, as `legato eval` looks for them; for folders of one clip a row.
    """

    def __init__(self, folder: str | Path, flac: bool = False, by_row: bool = False) -> None:
        self.folder, self.flac, self.by_row = Path(folder), flac, by_row
        self.folder.mkdir(parents=True, exist_ok=True)
        self.index = self.folder / "clips.jsonl"
        self.entries = self._repair() if self.index.exists() else []
        self.done = {entry["id"] for entry in self.entries}
        self.count = len(self.entries)
        self.lines = open(self.index, "a", encoding="utf-8")  # noqa: SIM115 - open as long as the writer
        self.shard: Any = None

    def _repair(self) -> list[dict[str, Any]]:
        """Keep the lines that are whole and whose samples are there; cut everything after them."""
        kept, length, ends = [], 0, {}
        for line in self.index.read_bytes().splitlines(keepends=True):
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                entry = None
            if entry is None or not self._present(entry):
                break
            kept.append(entry)
            length += len(line)
            if "shard" in entry:
                ends[entry["shard"]] = 2 * (entry["offset"] + entry["samples"])
        with open(self.index, "r+b") as file:
            file.truncate(length)
        for path in self.folder.glob("shard-*.i16"):
            with open(path, "r+b") as file:
                file.truncate(ends.get(path.name, 0))
        return kept

    def _present(self, entry: dict[str, Any]) -> bool:
        if "file" in entry:
            return (self.folder / entry["file"]).exists()
        path = self.folder / entry["shard"]
        return path.exists() and path.stat().st_size >= 2 * (entry["offset"] + entry["samples"])

    def add(self, samples: np.ndarray, record: dict[str, Any]) -> dict[str, Any]:
        """Write samples, int16 (N,), then their line; the record gains sha256, seconds and where they lie."""
        entry = {
            **record,
            "seconds": round(len(samples) / RATE, 4),
            "samples": len(samples),
            "sha256": hashlib.sha256(samples.astype("<i2").tobytes()).hexdigest(),
        }
        if self.flac:
            import soundfile

            entry["file"] = f"{file_name(record['row' if self.by_row else 'id'])}.flac"
            part = self.folder / f"{entry['file']}.part"
            soundfile.write(part, samples, RATE, format="FLAC", subtype="PCM_16")
            part.replace(self.folder / entry["file"])
        else:
            name = f"shard-{self.count // CLIPS_PER_SHARD:04d}.i16"
            if self.shard is None or Path(self.shard.name).name != name:
                if self.shard is not None:
                    self.shard.close()
                self.shard = open(self.folder / name, "ab")  # noqa: SIM115 - open until the next shard
            entry |= {"shard": name, "offset": self.shard.tell() // 2}
            self.shard.write(samples.astype("<i2").tobytes())
            self.shard.flush()
        self.lines.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self.lines.flush()
        self.count += 1
        self.done.add(entry["id"])
        return entry

    def close(self) -> None:
        self.lines.close()
        if self.shard is not None:
            self.shard.close()
