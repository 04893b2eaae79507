"""What the ear heard, kept on disk: features of many clips as raw bfloat16 shards with an index of JSON lines.

A folder holds `features.json` (width, which ear), `index.jsonl` (one line a clip) and `feat-0000.bf16`,
`feat-0001.bf16`, ... (rows of `width` bfloat16, little-endian, clip after clip). The index line of a clip is written
after its data, so a killed writer loses at most the clips that have no line yet. One writer at a time; any number of
readers, also while it writes. Not an artifact: no checksum, no place in a release; it can always be heard again.

Letters: n tokens of one clip (6.25/s), C width of a feature (4096).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

import torch
from torch import Tensor

from legato.errors import ArtifactError, OrganMismatch

HEADER, INDEX = "features.json", "index.jsonl"
SHARD_BYTES = 256 * 2**20


def _shard(folder: Path, number: int) -> Path:
    return folder / f"feat-{number:04d}.bf16"


def complete_lines(path: Path, start: int = 0) -> tuple[list[dict], int]:
    """The JSON lines of a growing file from byte `start`, and the byte where the first unfinished line begins."""
    if not path.exists():
        return [], start
    with path.open("rb") as file:
        file.seek(start)
        block = file.read()
    end = block.rfind(b"\n") + 1
    return [json.loads(line) for line in block[:end].splitlines()], start + end


class FeatureWriter:
    """Appends clips to a folder of features; opened again after a kill, it goes on behind the last whole clip.

    `ear` names the weights that hear (a SHA-256): a folder begun with another ear raises `OrganMismatch`.
    """

    def __init__(self, folder: Path, ear: str, width: int = 4096):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.width = folder, width
        header = {"dtype": "bfloat16", "width": width, "ear": ear}
        if (folder / HEADER).exists():
            found = json.loads((folder / HEADER).read_text())
            if found != header:
                raise OrganMismatch(
                    f"{folder} holds features of {found}, and this run makes {header}; choose an empty folder."
                )
        else:
            (folder / HEADER).write_text(json.dumps(header) + "\n")
        entries, end = complete_lines(folder / INDEX)
        self.done = {entry["id"] for entry in entries}
        self._number = entries[-1]["shard"] if entries else 0
        self._next = entries[-1]["offset"] + entries[-1]["n"] if entries else 0  # rows of the open shard
        self._data = self._reopen(_shard(folder, self._number), self._next * width * 2)
        self._index = self._reopen(folder / INDEX, end)

    @staticmethod
    def _reopen(path: Path, size: int) -> BinaryIO:
        found = path.stat().st_size if path.exists() else 0
        if found < size:
            raise ArtifactError(f"{path} has {found} bytes and its index names {size}; delete the folder, begin again.")
        file = path.open("ab")
        file.truncate(size)
        return file

    def add(self, clip_id: str, features: Tensor, row: str | None = None) -> None:
        """Append one clip, features (n, C) of any float dtype; `row` names the question it speaks."""
        assert features.shape[1] == self.width and clip_id not in self.done
        raw = features.detach().to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy()
        if self._next and (self._next + len(raw)) * self.width * 2 > SHARD_BYTES:
            self._data.close()
            self._number, self._next = self._number + 1, 0
            self._data = self._reopen(_shard(self.folder, self._number), 0)
        entry = {"id": clip_id, "row": row, "shard": self._number, "offset": self._next, "n": len(raw)}
        self._data.write(raw.tobytes())
        self._data.flush()
        self._index.write((json.dumps(entry) + "\n").encode())
        self._index.flush()
        self._next += len(raw)
        self.done.add(clip_id)

    def close(self) -> None:
        self._data.close()
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()


class Features:
    """Features by clip id: `Features(folder)["clip-17"]` -> (n, 4096) bfloat16, read from disk when asked for.

    `refresh()` looks for clips that came since. Missing folder: `ArtifactError`; unknown clip: `KeyError`.
    """

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        header = self.folder / HEADER
        if not header.exists():
            raise ArtifactError(f"{self.folder} has no {HEADER}, so no features; run recipes/hear_clips.py first.")
        about = json.loads(header.read_text())
        self.width: int = about["width"]
        self.ear: str = about["ear"]
        self._entries: dict[str, dict] = {}
        self._read = 0
        self.refresh()

    def refresh(self) -> int:
        """Take in new index lines; returns how many clips are known now."""
        entries, self._read = complete_lines(self.folder / INDEX, self._read)
        self._entries |= {entry["id"]: entry for entry in entries}
        return len(self._entries)

    def __getitem__(self, clip_id: str) -> Tensor:
        entry = self._entries[clip_id]
        raw = self._bytes(entry["shard"], entry["offset"], entry["n"])
        return torch.frombuffer(raw, dtype=torch.bfloat16).view(entry["n"], self.width)

    def _bytes(self, shard: int, first: int, rows: int) -> bytearray:
        """So many rows of a shard, in one read: a mapped file would read far ahead, or page by page."""
        path, row, raw = _shard(self.folder, shard), 2 * self.width, bytearray()
        if path.exists():
            with path.open("rb") as file:
                file.seek(row * first)
                raw = bytearray(file.read(row * rows))
        if len(raw) < row * rows:
            found = path.stat().st_size // row if path.exists() else 0
            raise ArtifactError(f"{path} holds {found} rows and its index names {first + rows}; hear the clips again.")
        return raw

    def tokens(self, clip_id: str) -> int:
        """How many feature vectors the clip has, without reading them."""
        return self._entries[clip_id]["n"]

    def row(self, clip_id: str) -> str | None:
        """The question that the clip speaks."""
        return self._entries[clip_id]["row"]

    def __contains__(self, clip_id: str) -> bool:
        return clip_id in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
