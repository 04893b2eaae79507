"""Pair what two models remember of the same questions, once, on disk: what the mapper and the residual are fitted on.

Per question: the large model's content cache at chosen layers, the small model's own, the large model's own answer
(the label; no gold is needed), and the small model's tail after being *told* that answer in words. Files are raw
float16 beside an index with one JSON line a question, written after its numbers, so a killed capture resumes.

    large.f16   tokens x chosen layers x F       F = 2 * kv heads * head width
    small.f16   tokens x small layers x G
    told.f16    tail tokens x small layers x G
    index.jsonl, config.json

One writer at a time; any number of readers, also while it writes.

Shapes: T tokens of one prefix, L layers, F and G numbers per token and layer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from legato.artifacts import write_atomic
from legato.errors import ArtifactError, BadInput, OrganMismatch
from legato.listen.handoff import Answerer, require_same_prompt
from legato.listen.mapper import flatten
from legato.organs import Heard, Prompt

FILES = ("large", "small", "told")
CONFIG, INDEX = "config.json", "index.jsonl"
MEASURED = ("header", "tail", *FILES)  # keys of the configuration that follow from the questions
TELL = "Say {answer}"
MEND = "restore the file or capture anew into another folder"


@dataclass(frozen=True)
class Entry:
    """One line of the index."""

    id: str
    question: int  # question tokens
    length: int  # tokens in the memory, n - 1
    start: int  # first token's row in large.f16 and small.f16
    answer: tuple[int, ...]  # the large model's own answer, end mark included when it stopped by itself
    own: tuple[int, ...]  # the small model's own answer
    heard: bool  # the question was audio, not words


class Capture:
    """A finished or growing folder of paired caches, read through memory maps: what the index knew when it was opened.

    Attributes:
        config: what was captured between whom, and "layers", "header", "tail" and the shape of a row in each file.
        layers: of the large model, in large.f16's order.

    Raises: BadInput where no question was captured; ArtifactError where the configuration or the index is damaged, or a
        file is shorter than the index says.
    """

    def __init__(self, folder: Path) -> None:
        config = read_config(folder)
        if config is None:
            raise BadInput(f"{folder} holds no capture (no {CONFIG}); make one with: legato listen capture")
        self.folder = folder
        self.config = config
        self.layers: tuple[int, ...] = tuple(config["layers"])
        self.entries = read_index(folder, config)
        if not self.entries:
            raise BadInput(f"{folder} holds no captured question yet; make some with: legato listen capture")
        self._at = {e.id: i for i, e in enumerate(self.entries)}
        rows = rows_of(self.entries, self.config["tail"])
        self._maps = {name: self._map(folder / f"{name}.f16", rows[name], self.config[name]) for name in FILES}

    @staticmethod
    def _map(path: Path, rows: int, shape: Sequence[int]) -> np.memmap:
        require_size(path, 2 * rows * prod(shape))
        return np.memmap(path, np.float16, "r", shape=(rows, *shape))

    def large(self, e: Entry) -> Tensor:
        """(T, chosen layers, F) float32."""
        return self._rows("large", e.start, e.length)

    def small(self, e: Entry) -> Tensor:
        """(T, L, G) float32."""
        return self._rows("small", e.start, e.length)

    def told(self, e: Entry) -> Tensor:
        """(tail, L, G) float32: the small model's tail after it was told the large one's answer."""
        return self._rows("told", self._at[e.id] * self.config["tail"], self.config["tail"])

    def _rows(self, name: str, start: int, length: int) -> Tensor:
        return torch.from_numpy(self._maps[name][start : start + length].astype(np.float32))


def whole_lines(path: Path) -> list[str]:
    """Lines of a JSONL file that were written to their end; none where there is no file."""
    try:
        return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path} is damaged ({error}); {MEND}.") from None


def read_config(folder: Path) -> dict[str, Any] | None:
    """What the folder's capture was made of; None where there is none. Raises ArtifactError where it is damaged."""
    path = folder / CONFIG
    if not path.exists():
        return None
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged ({error}); {MEND}.") from None
    sizes = {"layers": list, "header": int, "tail": int} | dict.fromkeys(FILES, list)
    for key, kind in sizes.items():
        if not isinstance(config, dict) or not isinstance(config.get(key), kind):
            raise ArtifactError(f"{path} is damaged ({key!r} is not in it, or is no {kind.__name__}); {MEND}.")
        if not all(type(n) is int and n >= 0 for n in (config[key] if kind is list else [config[key]])):
            raise ArtifactError(f"{path} is damaged ({key!r} is {config[key]}); {MEND}.")
    return config


def read_index(folder: Path, config: Mapping[str, Any]) -> list[Entry]:
    """The index, whose lines must follow each other without a gap: they alone say which rows are whose.

    Raises: ArtifactError where a line is damaged, lost, repeated or out of order.
    """
    entries: list[Entry] = []
    known: set[str] = set()
    start = 0
    for number, line in enumerate(whole_lines(folder / INDEX), 1):
        where = f"{folder / INDEX} line {number}"
        e = read_entry(line, where)
        if e.start != start:
            raise ArtifactError(f"{where} starts at row {e.start}, but the lines before it end at {start}, so that one "
                                f"was lost or changed; {MEND}.")
        if e.length != config["header"] + e.question + config["tail"] or e.question < 0:
            raise ArtifactError(f"{where} has {e.length} tokens, {e.question} of them the question's, which does not "
                                f"fit {CONFIG}; {MEND}.")
        if e.id in known:
            raise ArtifactError(f"{where} repeats question {e.id}; {MEND}.")
        known.add(e.id)
        entries.append(e)
        start += e.length
    return entries


def read_entry(line: str, where: str = f"a line of {INDEX}") -> Entry:
    """One line of the index. Raises ArtifactError, which names `where`, if it is damaged."""
    try:
        fields = json.loads(line)
        found = Entry(**{**fields, "answer": tuple(fields["answer"]), "own": tuple(fields["own"])})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArtifactError(f"{where} is damaged ({error}); {MEND}.") from None
    numbers = (found.question, found.length, found.start, *found.answer, *found.own)
    if not isinstance(found.id, str) or not all(type(n) is int for n in numbers):
        raise ArtifactError(f"{where} is damaged (an id that is no text or a count that is no number); {MEND}.")
    return found


def rows_of(entries: Sequence[Entry], tail: int) -> dict[str, int]:
    """How many rows each file holds for these entries."""
    tokens = sum(e.length for e in entries)
    return {"large": tokens, "small": tokens, "told": tail * len(entries)}


def require_size(path: Path, size: int) -> None:
    """Raise ArtifactError unless the file has at least `size` bytes."""
    found = path.stat().st_size if path.exists() else 0
    if found < size:
        raise ArtifactError(f"{path} has {found} bytes, but its index needs {size}; restore it or capture anew.")


@dataclass(frozen=True)
class Pair:
    """What both models made of one question, in memory."""

    id: str
    large: Heard
    small: Heard
    told: Heard  # the small model's memory after it was told `answer` in words
    answer: tuple[int, ...]
    own: tuple[int, ...]


def pair(
    large: Answerer, small: Answerer, name: str, heard: Heard, own: Heard, answer: Sequence[int], mine: Sequence[int],
    tell: str = TELL,
) -> Pair:
    """Complete what was heard of one question: check that the prompts agree, and tell the small model the answer.

    Args:
        name: the question's id.
        heard, own: what the large and the small model remember of it.
        answer, mine: their own answers, end mark included when the model stopped by itself.

    Raises: OrganMismatch when the two read different prompts.
    """
    require_same_prompt(large.name, heard.prompt, small.name, own.prompt)
    told = small.read(tell.format(answer=large.text([t for t in answer if t not in large.end_ids])))
    return Pair(name, heard, own, told, tuple(answer), tuple(mine))


def capture(pairs: Iterable[Pair], folder: Path, layers: tuple[int, ...], about: Mapping[str, str]) -> int:
    """Append what both models remember of each question; ids already in the folder are skipped. Returns how many came.

    What a kill left half written is cut off first.

    Args:
        pairs: drawn one by one.
        layers: which of the large model's layers to keep.
        about: what identifies the models and the data, kept in config.json beside what is `MEASURED`.

    Raises:
        ArtifactError: the folder was captured with another `about` or other layers, its configuration or index is
            damaged, or a file is shorter than the index says. Nothing in it is changed then.
        OrganMismatch: a question has another prompt shape than those before it, or numbers beyond float16.
    """
    folder.mkdir(parents=True, exist_ok=True)
    assert not about.keys() & {"layers", *MEASURED}, about.keys()
    identity = {**about, "layers": list(layers)}
    config = read_config(folder)
    lines = whole_lines(folder / INDEX)
    if config is not None:
        _require_identity(folder, config, identity)
    elif lines:
        raise ArtifactError(f"{folder / INDEX} holds {len(lines)} questions, but {CONFIG} is missing; {MEND}.")
    done = read_index(folder, config) if config else []
    known = {e.id for e in done}
    rows = rows_of(done, config["tail"] if config else 0)
    start, added = rows["large"], 0
    sizes = {name: 2 * rows[name] * prod(config[name]) if config else 0 for name in FILES}
    for name, size in sizes.items():  # all of them before one is cut
        require_size(folder / f"{name}.f16", size)
    with ExitStack() as stack:
        files = {name: stack.enter_context(_appending(folder / f"{name}.f16", size)) for name, size in sizes.items()}
        index = stack.enter_context(_appending(folder / INDEX, sum(len(line.encode()) + 1 for line in lines)))
        for p in pairs:
            if p.id in known:
                continue
            audio, length = p.large.prompt.audio, p.large.memory.length
            tail = length - audio.stop
            arrays = {"large": flatten(p.large.memory, layers)[0], "small": flatten(p.small.memory)[0],
                      "told": flatten(p.told.memory)[0, -tail:]}
            shapes = {name: list(array.shape[1:]) for name, array in arrays.items()}
            found = {**identity, "header": audio.start, "tail": tail, **shapes}
            if config is None:
                config = found
                write_atomic(folder / CONFIG, (json.dumps(config, indent=1) + "\n").encode())
            elif config != found:
                raise OrganMismatch(f"question {p.id} has {_difference(found, config)} in the capture of {folder}; "
                                    "one capture holds prompts of one shape.")
            halves = {name: array.to(torch.float16).cpu() for name, array in arrays.items()}
            for name, half in halves.items():
                if not half.isfinite().all():
                    raise OrganMismatch(f"question {p.id} leaves numbers in {name} that float16 cannot hold.")
            for name, half in halves.items():
                files[name].write(half.numpy().tobytes())
                files[name].flush()
            heard = audio.stop > audio.start and p.large.prompt.ids[audio.start] == Prompt.AUDIO
            entry = Entry(p.id, audio.stop - audio.start, length, start, p.answer, p.own, heard)
            index.write((json.dumps(asdict(entry)) + "\n").encode())
            index.flush()
            start += length
            known.add(p.id)
            added += 1
    return added


def _require_identity(folder: Path, config: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    stored = {key: value for key, value in config.items() if key not in MEASURED}
    if stored != identity:
        raise ArtifactError(f"this capture has {_difference(identity, stored)} in {folder}; choose a new folder.")


def _difference(found: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """ "key a, not b" for the first key in which two mappings differ."""
    key = next(key for key in (*found, *known) if found.get(key) != known.get(key))
    return f"{key} {found.get(key)}, not {known.get(key)} as"


def _appending(path: Path, size: int):
    """The file opened at byte `size`, where it is cut off."""
    file = open(path, "ab")  # noqa: SIM115 - the caller closes it
    file.truncate(size)
    return file
