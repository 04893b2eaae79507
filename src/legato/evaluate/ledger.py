"""The journal of the evidence: what was sealed, frozen, opened, closed and promoted, in which order.

Append-only. Each line carries the hash of the line before it and its own, so that a changed, removed or inserted line
is found and named. A chain cannot show that its end was cut off or that all of it was written anew: for that the
records are committed, and `audit` compares them with the seals and runs that lie beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from legato.errors import BadInput, SealError
from legato.evaluate import layout, lines
from legato.evaluate.questions import file_sha256

GENESIS = "0" * 64
EVENTS = ("sealed", "frozen", "opened", "resumed", "closed", "promoted", "repaired")


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    n: int  # from 1
    time: str  # UTC, ISO 8601
    event: str  # one of EVENTS
    data: dict[str, Any]
    previous: str  # SHA-256 of the line before, GENESIS for the first
    sha256: str  # of this line without this key


@dataclass(frozen=True)
class Verified:
    """A ledger whose chain holds."""

    entries: list[Entry]
    torn: bytes  # an unfinished last line: never acknowledged, cut off by the next writer


def verify(records: Path) -> Verified:
    """Read the ledger and check its chain; a missing ledger is an empty one.

    Raises:
        SealError: naming the first line that does not fit.
    """
    found = lines.read(layout.ledger(records))
    entries: list[Entry] = []
    previous = GENESIS
    for n, line in enumerate(found.whole, 1):
        where = f"ledger line {n}"
        try:
            data = lines.parse(line, where)
        except BadInput as error:
            raise SealError(str(error)) from error
        if set(data) != {"n", "time", "event", "data", "previous", "sha256"}:
            raise SealError(f"{where} is broken: it holds the keys {sorted(data)}; restore the ledger.")
        if data["previous"] != previous or data["n"] != n:
            raise SealError(f"{where} is broken: it does not follow line {n - 1}; restore the ledger.")
        if data["sha256"] != layout.digest(data):
            raise SealError(f"{where} is broken: its content was changed; restore the ledger.")
        entries.append(Entry(**data))
        previous = data["sha256"]
    return Verified(entries, found.torn)


class Book:
    """A verified ledger, locked for writing; see `writing`."""

    def __init__(self, appender: lines.Appender, entries: list[Entry]) -> None:
        self._appender = appender
        self.entries = entries

    def append(self, event: str, **data: Any) -> Entry:
        """Add a line; on return it is on the disk."""
        assert event in EVENTS
        body = {
            "n": len(self.entries) + 1,
            "time": now(),
            "event": event,
            "data": data,
            "previous": self.entries[-1].sha256 if self.entries else GENESIS,
        }
        entry = Entry(**layout.signed(body))
        self._appender.append(layout.signed(body))
        self.entries.append(entry)
        return entry

    def last(self, event: str, **data: Any) -> Entry | None:
        """The newest entry of this event whose data agree, or None."""
        return last(self.entries, event, **data)


def last(entries: list[Entry], event: str, **data: Any) -> Entry | None:
    """The newest entry of this event whose data agree, or None."""
    for entry in reversed(entries):
        if entry.event == event and all(entry.data.get(k) == v for k, v in data.items()):
            return entry
    return None


def home(records: Path, entry: Entry) -> Path:
    """The folder under which an entry's seal, run or promotion lies: the voice has its own."""
    return layout.say(records) if entry.data.get("side") == "say" else records


def check_run(records: Path, entries: list[Entry], run: str) -> bool:
    """Whether a run was closed; if it was, its file must be the one that was closed, byte for byte.

    Raises:
        SealError: the file of a closed run is missing or was changed; the message names the run and both hashes.
    """
    closed = last(entries, "closed", run=run)
    if closed is None:
        return False
    path = layout.run(home(records, closed), run)
    found = f"found sha256 {file_sha256(path)}" if path.is_file() else "the file is missing"
    if found != f"found sha256 {closed.data['sha256']}":
        raise SealError(
            f"{path.name} was changed after run {run!r} was closed: the ledger holds sha256 {closed.data['sha256']}, "
            f"{found}; restore the file."
        )
    return True


@contextmanager
def writing(records: Path) -> Iterator[Book]:
    """Lock, repair a torn last line (and write down that it was), verify, and hand out the book.

    Raises:
        BadInput: another process has held the ledger for half a minute.
        SealError: the chain is broken.
    """
    with lines.Appender(layout.ledger(records), wait_s=30.0) as appender:
        book = Book(appender, verify(records).entries)
        if appender.repaired:
            book.append("repaired", what=appender.repaired)
        yield book


def now() -> str:
    """The time as the records write it: UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
