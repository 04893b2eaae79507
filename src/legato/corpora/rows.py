"""One question with its reference answer, and its JSONL form.

A row is text only: audio is made elsewhere from `question`. Reading is strict, so that a file written
by another version is refused and not half understood.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from legato.errors import BadInput

DOMAINS = ("facts", "stories", "skills", "talk")


@dataclass(frozen=True)
class Row:
    """A question of the pocket world.

    Attributes:
        id: first 16 hex digits of SHA-256 over (kind, question, answer); see `row_id`.
        domain: "facts", "stories", "skills" (sums, order, spelling, repeating) or "talk".
        kind: what is asked, e.g. "capital" or "story-location".
        fact: identity of the fact, e.g. "capital:France"; for stories the drawn words.
        wording: kind and number of the wording, e.g. "capital/3".
        question: exactly what is spoken: words, spaces, and `.` `,` `?` `'` `-`; numbers are words.
        answer: the reference reply, answer first, one short sentence.
        accepted: normalised strings (`identity.normalise`) any of which counts as correct.
        fact_held: no training ever sees this fact (or one of the words in it).
        wording_held: no training ever sees this wording.
    """

    id: str
    domain: str
    kind: str
    fact: str
    wording: str
    question: str
    answer: str
    accepted: tuple[str, ...]
    fact_held: bool
    wording_held: bool


def row_id(kind: str, question: str, answer: str) -> str:
    """Identity of a row: equal for equal content, whoever drew it."""
    return hashlib.sha256(f"{kind}\x1f{question}\x1f{answer}".encode()).hexdigest()[:16]


def write_rows(path: str | Path, rows: Iterable[Row]) -> int:
    """Write one JSON object a line; returns the number of rows."""
    n = 0
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
            n += 1
    return n


def read_rows(path: str | Path) -> list[Row]:
    """Read what `write_rows` wrote.

    Raises:
        BadInput: a line is no JSON object, a key is unknown, missing or of the wrong type,
            or the id does not belong to the content.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as rows ({error}); give a JSONL file of rows") from error
    return [_parse(line, f"{path} line {n}") for n, line in enumerate(text.splitlines(), 1)]


_TYPES = {field.name: bool if "held" in field.name else str for field in fields(Row)} | {"accepted": list}


def _parse(line: str, where: str) -> Row:
    try:
        data = json.loads(line)
        json.dumps(data, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", error)
        raise BadInput(f"{where} is not JSON ({reason}); each line must be one row object") from error
    if not isinstance(data, dict):
        raise BadInput(f"{where} is a {type(data).__name__}; each line must be one row object")
    for key in data:
        if key not in _TYPES:
            raise BadInput(f"{where} has the unknown key {key!r}; known keys are {', '.join(_TYPES)}")
    for key, kind in _TYPES.items():
        if key not in data:
            raise BadInput(f"{where} lacks the key {key!r}; a row needs {', '.join(_TYPES)}")
        if not isinstance(data[key], kind):
            raise BadInput(f"{where} key {key!r} is a {type(data[key]).__name__}, wanted a {kind.__name__}")
    if not data["accepted"] or not all(isinstance(a, str) and a for a in data["accepted"]):
        raise BadInput(f"{where} key 'accepted' must be a non-empty list of non-empty strings")
    if data["domain"] not in DOMAINS:
        raise BadInput(f"{where} key 'domain' is {data['domain']!r}, wanted one of {', '.join(DOMAINS)}")
    row = Row(**{**data, "accepted": tuple(data["accepted"])})
    if row.id != row_id(row.kind, row.question, row.answer):
        raise BadInput(f"{where} key 'id' is {row.id!r}, which is not the identity of its content; rewrite the row")
    return row
