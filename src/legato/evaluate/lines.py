"""Durable, append-only JSON lines: the paper that records and ledger are written on.

A line is acknowledged only after it has reached the disk, so a kill can leave at most one unfinished line, the last.
`read` separates that torn tail from the whole lines; `Appender` repairs it before it writes. What the lines mean is
not known here.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

from legato.artifacts import write_atomic
from legato.errors import BadInput

DEEPEST = 16  # levels of a JSON value; ours have up to five


def dumps(value: Any) -> bytes:
    """The one spelling of a JSON value that we write and hash: ASCII, no spaces, sorted keys, no NaN."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def loads(data: bytes) -> Any:
    """A JSON value of ours from UTF-8 bytes.

    Raises:
        ValueError: it is no JSON, holds NaN or an infinity, or is nested deeper than anything that we write.
    """
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    level = [value]
    for _ in range(DEEPEST):
        level = [v for x in level if isinstance(x, dict | list) for v in (x.values() if isinstance(x, dict) else x)]
    if level:  # Python reads about a thousand levels, and fails where the value is hashed or shown
        raise ValueError("nested too deeply")
    return value


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number")


@dataclass(frozen=True)
class Lines:
    """What a file holds: whole lines without their newline, and the bytes behind the last newline."""

    whole: list[bytes]
    torn: bytes  # empty unless a write was cut off


def read(path: Path) -> Lines:
    """Split a file at its newlines; a missing file has no lines.

    Raises:
        BadInput: the file is there and cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Lines([], b"")
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); give a file of JSON lines.") from error
    *whole, torn = data.split(b"\n")
    return Lines(whole, torn)


def parse(line: bytes, where: str) -> dict[str, Any]:
    """One line as a JSON object.

    Raises:
        BadInput: it is not one; `where` names the line in the message.
    """
    try:
        value = loads(line)
    except ValueError as error:  # also a UnicodeDecodeError
        raise BadInput(f"{where} is not JSON ({error}); restore the file, a record is never edited.") from error
    if not isinstance(value, dict):
        raise BadInput(f"{where} holds a {type(value).__name__}; each line is one JSON object.")
    return value


class Appender:
    """Appends lines to one file, alone: it holds `<file>.lock` until closed. A context manager.

    `repaired` says what was done to a torn last line on opening: None, or one sentence. A tail that is a whole JSON
    object only lost its newline and is completed; any other tail was never acknowledged and is cut off.

    Raises:
        BadInput: another process is writing the same file.
    """

    def __init__(self, path: Path, *, wait_s: float = 0.0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(f"{path}.lock")
        try:
            self._lock.acquire(timeout=wait_s)
        except Timeout as error:
            raise BadInput(f"{path} is being written by another process; wait for it to end.") from error
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self.repaired = self._repair(path)
            _sync_folder(path.parent)  # or a new file's name may not survive a power cut
        except BaseException:
            self._lock.release()
            raise

    def _repair(self, path: Path) -> str | None:
        torn = read(path).torn
        if not torn:
            return None
        try:
            parse(torn, str(path))
        except BadInput:
            os.ftruncate(self._file, os.fstat(self._file).st_size - len(torn))
            os.fsync(self._file)
            return f"{path.name}: the last line was torn by a kill; its {len(torn)} bytes were cut off."
        self._write(b"\n")
        return f"{path.name}: the last line lacked its newline after a kill; it was completed."

    def append(self, value: dict[str, Any]) -> None:
        """Write one object as one line and return when it is on the disk."""
        self._write(dumps(value) + b"\n")

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def write_whole(path: Path, value: dict[str, Any]) -> None:
    """Write a small JSON file, readable, so that a kill leaves the old one or the new one: for seals and the like."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n")


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened, and a new name needs no such care
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
