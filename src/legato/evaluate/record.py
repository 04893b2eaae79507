"""The raw record: one question answered by one arm, one JSON line. Every figure is derived from these and nothing else.

A record says what was asked (by hash), by whom it was answered (arm and artefact hashes), what was said (text and
token ids) and what it cost. It holds no score: a better scoring rule can be applied years later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from legato.errors import BadInput
from legato.evaluate import lines

FINISHES = ("end", "limit")


@dataclass(frozen=True)
class Timings:
    """What an answer cost; None where the arm has no such step. `_ms` are milliseconds."""

    prefill_ms: float | None = None
    map_ms: float | None = None
    correct_ms: float | None = None
    place_ms: float | None = None
    first_token_ms: float | None = None
    decode_tokens_per_s: float | None = None
    total_ms: float | None = None


@dataclass(frozen=True)
class RawRecord:
    """One question, one arm."""

    run: str
    seal: str | None  # the sealed final that the question belongs to; None on selection sets and the like
    row: str
    arm: str
    question_sha256: str  # of the normalised text, see `questions.text_sha256`
    audio_sha256: str  # `Audio.sha256` of the recording
    artifacts: Mapping[str, str]  # name -> SHA-256 of every file the arm was built from
    reply: str
    tokens: tuple[int, ...]  # ids as decoded, without the end mark
    finish: str  # "end": the model stopped by itself; "limit": the token limit stopped it
    timings: Timings
    accepted: tuple[str, ...]  # any of these is a right answer
    domain: str
    kind: str
    fact_held: bool  # no fit and no selection ever saw this fact
    wording_held: bool  # no training ever saw this wording
    choices: Mapping[str, str] | None = None  # letter -> text, for multiple choice
    letter: str | None = None  # the right letter, for multiple choice
    letter_logits: Mapping[str, float] | None = None  # letter -> logit where the answer starts


def to_json(record: RawRecord) -> dict[str, Any]:
    """The record as the object of its line."""
    return asdict(record)


_TYPES: dict[str, tuple[type, ...]] = {
    **{f.name: (str,) for f in fields(RawRecord)},
    "seal": (str, type(None)),
    "artifacts": (dict,),
    "tokens": (list,),
    "timings": (dict,),
    "accepted": (list,),
    "fact_held": (bool,),
    "wording_held": (bool,),
    "choices": (dict, type(None)),
    "letter": (str, type(None)),
    "letter_logits": (dict, type(None)),
}
_TIMINGS = tuple(f.name for f in fields(Timings))


def from_json(data: Mapping[str, Any], where: str) -> RawRecord:
    """Read a line's object, strictly.

    Raises:
        BadInput: a key is unknown, missing or of the wrong type; `where` names the line in the message.
    """
    _same_keys(data, _TYPES, where)
    for key, types in _TYPES.items():
        if not isinstance(data[key], types):
            wanted = " or ".join("null" if t is type(None) else t.__name__ for t in types)
            raise BadInput(f"{where}: {key!r} is a {type(data[key]).__name__}, wanted {wanted}.")
    _same_keys(data["timings"], _TIMINGS, f"{where}: 'timings'")
    numbers = [v for v in data["timings"].values() if v is not None] + list((data["letter_logits"] or {}).values())
    if not all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in numbers):
        raise BadInput(f"{where}: 'timings' and 'letter_logits' hold finite numbers, got {numbers}.")
    if not all(type(t) is int for t in data["tokens"]):
        raise BadInput(f"{where}: 'tokens' must be a list of integer ids.")
    texts = [*data["artifacts"].values(), *data["accepted"], *(data["choices"] or {}).values()]
    if not all(isinstance(t, str) for t in texts):
        raise BadInput(f"{where}: 'artifacts', 'accepted' and 'choices' hold strings.")
    if data["finish"] not in FINISHES:
        raise BadInput(f"{where}: 'finish' is {data['finish']!r}, wanted one of {', '.join(FINISHES)}.")
    multiple = [data["choices"] is None, data["letter"] is None]
    if any(multiple) != all(multiple) or (data["letter"] is not None and data["letter"] not in data["choices"]):
        raise BadInput(f"{where}: 'letter' must be one of 'choices', and both stand or both are null.")
    if data["letter_logits"] is not None and set(data["letter_logits"]) != set(data["choices"] or {}):
        raise BadInput(f"{where}: 'letter_logits' needs exactly the letters of 'choices'.")
    return RawRecord(
        **{
            **data,
            "tokens": tuple(data["tokens"]),
            "accepted": tuple(data["accepted"]),
            "timings": Timings(**data["timings"]),
        }
    )


def _same_keys(data: Mapping[str, Any], known: Any, where: str) -> None:
    for key in data:
        if key not in known:
            raise BadInput(f"{where} has the unknown key {key!r}; known are {', '.join(known)}.")
    for key in known:
        if key not in data:
            raise BadInput(f"{where} lacks the key {key!r}; a record holds {', '.join(known)}.")


@dataclass(frozen=True)
class Found:
    """A record file as it lies on the disk."""

    records: list[RawRecord]
    torn: bytes  # an unfinished last line, which resuming the run repairs


def scan(path: Path) -> Found:
    """Read a record file, a torn last line aside; a missing file is an empty one.

    Raises:
        BadInput: any whole line is damaged, or a (row, arm) pair stands there twice; the message names the line.
    """
    found = lines.read(path)
    records = [from_json(lines.parse(line, where), where) for where, line in _numbered(path, found.whole)]
    seen: dict[tuple[str, str, str], int] = {}
    for number, record in enumerate(records, 1):
        first = seen.setdefault((record.run, record.row, record.arm), number)
        if first != number:
            raise BadInput(
                f"{path.name} lines {first} and {number} both answer row {record.row} with arm {record.arm}; "
                "a question is answered once, restore the file."
            )
    return Found(records, found.torn)


def read(path: Path) -> list[RawRecord]:
    """Read a finished record file.

    Raises:
        BadInput: no such file, or it is damaged, or its last line is torn.
    """
    if not path.is_file():
        raise BadInput(f"{path} is not a file of raw records; name a file under records/runs.")
    found = scan(path)
    if found.torn:
        raise BadInput(f"{path.name} ends in a torn line; resume its run, which repairs it.")
    return found.records


def _numbered(path: Path, whole: list[bytes]) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(whole, 1):
        yield f"{path.name} line {number}", line


class Writer(lines.Appender):
    """Appends raw records durably; `repaired` says what was done to a torn last line."""

    def write(self, record: RawRecord) -> None:
        """Append one record; on return it is on the disk."""
        self.append(to_json(record))
