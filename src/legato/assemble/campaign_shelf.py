"""Folders of a speech campaign: each is claimed by the step that fills it, and a tap is numbers beside an index.

    campaign.json       which step filled the folder, with what; another step, or other settings, are refused
    index.jsonl         a tap: one line a recording, written after its numbers, so that a killed tap resumes
    states-0000.f32     frames x C, what the voice thought
    latents-0000.f32    frames x U, what the codec's encoder heard, not cut up and not normalised
    codes-0000.u16      frames x K, the same cut up
    statistics.json     mean and deviation of the training recordings' latents, when all were tapped

Shards are appended to and never rewritten; one writer at a time. What is in them is made in `campaign`.

Shapes: C state width, U latent width, K books.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import torch
from torch import Tensor

from legato.corpora.splits import deal
from legato.errors import ArtifactError, BadInput
from legato.evaluate import lines
from legato.speak.entrance import Statistics
from legato.speak.train import Tapped

ABOUT, INDEX, STATISTICS = "campaign.json", "index.jsonl", "statistics.json"
HELD = 0.1  # share of the recordings that no training sees
SHARD = 1 << 16  # frames after which another shard is begun: 87 minutes
FILES = {"states": ("<f4", "f32"), "latents": ("<f4", "f32"), "codes": ("<u2", "u16")}
MEND = "restore it, or begin again in another folder"


def claim(out: Path, step: str, settings: Mapping[str, Any]) -> None:
    """Make `out` the folder of this step, or find that it is.

    Raises: BadInput where it holds anything else, or was begun with other settings. OSError as a full disk does.
    """
    about = json.loads(json.dumps({"step": step, **settings}))
    if (out / ABOUT).exists():
        found = about_of(out)
        if (other := found.get("step")) != step:
            raise BadInput(f"{out} is the folder of a {other}, not of a {step}; give another folder.")
        for key in about:
            then, now = found.get(key), about[key]
            if then != now:
                told = f"{key} ({then}, now {now})" if isinstance(now, str) else f"choice of {key}"
                raise BadInput(
                    f"{out} was begun with another {told}; give what it was begun with, or another folder."
                )
        return
    if out.exists() and any(not path.name.startswith(".") for path in out.iterdir()):
        raise BadInput(f"{out} already holds something else; give a new folder.")
    out.mkdir(parents=True, exist_ok=True)
    lines.write_whole(out / ABOUT, about)


def about_of(folder: Path) -> dict[str, Any]:
    """What a folder of a campaign was begun with. Raises: BadInput where it is none; ArtifactError for damage."""
    path = folder / ABOUT
    if not path.exists():
        raise BadInput(f"{folder} holds no step of a campaign (no {ABOUT}); give the folder that `legato speak` made.")
    try:
        return lines.parse(path.read_bytes(), str(path))
    except BadInput as error:
        raise ArtifactError(f"{path} is damaged ({error}); {MEND}.") from None


@dataclass(frozen=True)
class Entry:
    """One tapped recording. start: its first frame in its shard. held: no training may see it."""

    id: str
    audio: str
    text: str
    shard: int
    start: int
    frames: int
    held: bool


def held(text: str) -> bool:
    """By the words that are said, so that two recordings of one sentence are on one side."""
    return deal(" ".join(text.casefold().split()), "held recording") < HELD


class Tap:
    """A tap as its index knew it when it was opened.

    Attributes: about (voice, codec, widths), entries.
    Raises: BadInput where the folder is no tap or nothing was tapped; ArtifactError for damage.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.about = folder, about_of(folder)
        if self.about["step"] != "tap":
            raise BadInput(f"{folder} is the folder of a {self.about['step']}, not of a tap; give a tap's.")
        self.entries = read_index(folder)
        if not self.entries:
            raise BadInput(f"{folder} holds no tapped recording yet; give it to: legato speak tap")
        self._maps: dict[tuple[str, int], np.memmap] = {}

    @property
    def made_from(self) -> dict[str, str]:
        """Voice and codec by SHA-256, as a head's artifact names them."""
        return {name: self.about[name] for name in ("voice", "codec")}

    @property
    def sha256(self) -> str:
        """Identity: of what was tapped from what."""
        content = (self.folder / ABOUT).read_bytes() + (self.folder / INDEX).read_bytes()
        return hashlib.sha256(content).hexdigest()

    def rows(self, entry: Entry, name: str) -> Tensor:
        """One recording's "states" (F, C), "latents" (F, U) or "codes" (F, K), in memory of its own."""
        kind = FILES[name][0]
        key = (name, entry.shard)
        if key not in self._maps:
            path, width = file_of(self.folder, *key), self.about["widths"][name]
            frames = max(e.start + e.frames for e in self.entries if e.shard == entry.shard)
            if not path.exists() or path.stat().st_size < frames * width * np.dtype(kind).itemsize:
                raise ArtifactError(f"{path} is shorter than {INDEX} says; {MEND}.")
            self._maps[key] = np.memmap(path, kind, "r", shape=(frames, width))
        found = self._maps[key][entry.start : entry.start + entry.frames]
        return torch.from_numpy(found.astype(np.int64 if name == "codes" else np.float32))

    def chosen(self, *, held: bool) -> list[Entry]:
        """The training recordings or the held ones. Raises: BadInput where there is none."""
        found = [entry for entry in self.entries if entry.held == held]
        if not found:
            side = "held out" if held else "left to train on"
            raise BadInput(
                f"of the {len(self.entries)} recordings of {self.folder} none is {side}; tap more (from 40 or so, each "
                "side has some)."
            )
        return found

    def tapped(self, entries: list[Entry], statistics: Statistics) -> Tapped:
        """End to end, latents normalised."""
        states, latents = (torch.cat([self.rows(e, name) for e in entries]) for name in ("states", "latents"))
        firsts = torch.zeros(len(states), dtype=torch.bool)
        firsts[np.cumsum([0, *(e.frames for e in entries[:-1])])] = True
        return Tapped(states, statistics.normalise(latents.T).T.contiguous(), firsts)

    def measure(self) -> Statistics:
        """Statistics of the training recordings' latents, written beside them. Raises: BadInput where none trains."""
        found = Statistics.of(self.rows(e, "latents").T for e in self.chosen(held=False))
        content = {name: getattr(found, name).double().tolist() for name in ("mean", "deviation")}
        lines.write_whole(self.folder / STATISTICS, content | {"recordings": len(self.entries)})
        return found

    def statistics(self) -> Statistics:
        """Raises: BadInput where the tap was never finished; ArtifactError for damage."""
        path = self.folder / STATISTICS
        if not path.exists():
            raise BadInput(f"{self.folder} was not finished; give the same command again: legato speak tap")
        try:
            content = lines.parse(path.read_bytes(), str(path))
            return Statistics(*(torch.tensor(content[name], dtype=torch.float32) for name in ("mean", "deviation")))
        except (BadInput, KeyError, ValueError, TypeError) as error:
            raise ArtifactError(f"{path} is damaged ({error}); {MEND}.") from None


class TapWriter:
    """Appends recordings to a claimed folder; what a killed run wrote behind its last whole line is written again.

    A context manager. Raises: BadInput where another process writes there; OSError as a full disk does.
    """

    def __init__(self, folder: Path, widths: Mapping[str, int]) -> None:
        self.folder, self.widths = folder, widths
        with ExitStack() as stack:
            self._lines = stack.enter_context(lines.Appender(folder / INDEX))
            entries = read_index(folder)
            self._open = stack.pop_all()
        self.done = {entry.id for entry in entries}
        last = entries[-1] if entries else None
        self._shard, self._frames = (last.shard, last.start + last.frames) if last else (0, 0)
        self._files: dict[str, BinaryIO] = {}

    def add(self, id: str, audio: str, text: str, rows: Mapping[str, Tensor]) -> None:
        """rows: states (F, C), latents (F, U), codes (F, K)."""
        if self._frames >= SHARD:
            self._shard, self._frames, self._files = self._shard + 1, 0, {}
        if not self._files:
            self._begin()
        for name, file in self._files.items():
            file.write(rows[name].numpy().astype(FILES[name][0]).tobytes())
            file.flush()
            os.fsync(file.fileno())
        frames = len(rows["codes"])
        self._lines.append(asdict(Entry(id, audio, text, self._shard, self._frames, frames, held(text))))
        self.done.add(id)
        self._frames += frames

    def _begin(self) -> None:
        for name, (kind, _) in FILES.items():
            path = file_of(self.folder, name, self._shard)
            file = self._files[name] = self._open.enter_context(path.open("r+b" if path.exists() else "w+b"))
            size = self._frames * self.widths[name] * np.dtype(kind).itemsize
            if file.seek(0, os.SEEK_END) < size:
                raise ArtifactError(f"{path} is shorter than {INDEX} says; {MEND}.")
            file.truncate(size)
            file.seek(0, os.SEEK_END)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()


def file_of(folder: Path, name: str, shard: int) -> Path:
    return folder / f"{name}-{shard:04d}.{FILES[name][1]}"


def read_index(folder: Path) -> list[Entry]:
    """Whole lines alone. Raises: ArtifactError for damage."""
    return list(_entries(folder / INDEX))


def _entries(path: Path) -> Iterator[Entry]:
    for n, line in enumerate(lines.read(path).whole, 1):
        try:
            yield Entry(**lines.parse(line, f"line {n}"))
        except (BadInput, TypeError) as error:
            raise ArtifactError(f"{path} is damaged ({error}); {MEND}.") from None
