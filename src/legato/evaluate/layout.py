"""Where the evidence lies under a `records` folder, and which names may stand there.

records/ledger.jsonl            every seal, freeze, opening, closing and promotion, chained by hash
records/seals/<name>.json       a final, pre-registered
records/candidates/<name>.json  a candidate, frozen by checksum
records/runs/<run>.jsonl        raw records, one line a question and arm
records/promotions/<name>.json  what a serving bridge may load
records/say/                    the same for a voice: seals, runs and promotions, and the sentences that it is to say
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from legato.errors import BadInput, SealError
from legato.evaluate import lines

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def checked(name: str) -> str:
    """The name itself.

    Raises:
        BadInput: it could not stand as a file name everywhere.
    """
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} cannot name a record; use up to 64 of a-z, 0-9, '.', '_' and '-', a letter or digit first."
        )
    return name


def say(records: Path) -> Path:
    """Where the voice's evidence lies; ledger and candidates are shared."""
    return records / "say"


def ledger(records: Path) -> Path:
    return records / "ledger.jsonl"


def seal(records: Path, name: str) -> Path:
    return records / "seals" / f"{checked(name)}.json"


def candidate(records: Path, name: str) -> Path:
    return records / "candidates" / f"{checked(name)}.json"


def run(records: Path, name: str) -> Path:
    return records / "runs" / f"{checked(name)}.jsonl"


def promotion(records: Path, name: str) -> Path:
    return records / "promotions" / f"{checked(name)}.json"


def relative(records: Path, path: Path) -> str:
    """How a file outside is written down: relative to `records`, so that a clone finds it again."""
    return Path(os.path.relpath(path.resolve(), records.resolve())).as_posix()


def signed(body: dict[str, Any]) -> dict[str, Any]:
    """`body` with its own SHA-256 as "sha256"."""
    return {**body, "sha256": digest(body)}


def digest(body: dict[str, Any]) -> str:
    """SHA-256 of a JSON object without its key "sha256"."""
    return hashlib.sha256(lines.dumps({k: v for k, v in body.items() if k != "sha256"})).hexdigest()


def read_signed(path: Path, what: str) -> dict[str, Any]:
    """Read a file that `signed` made.

    Raises:
        SealError: it is missing, is no JSON object, or its content no longer has its SHA-256; the message names `what`.
    """
    try:
        body = lines.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise SealError(f"there is no {what} ({path}); make it first, or restore the file.") from error
    except (OSError, ValueError) as error:
        raise SealError(f"the {what} cannot be read ({path}: {error}); restore the file.") from error
    if not isinstance(body, dict) or body.get("sha256") != digest(body):
        raise SealError(f"the {what} was changed after it was written ({path}); restore the file.")
    return body


def refuse_taken(path: Path, what: str, entered: bool) -> None:
    """Refuse to write `path` anew; `entered` says whether the ledger knows it.

    Raises:
        BadInput: it is there already, or was and is gone, or a kill left it without its ledger line.
    """
    if entered:
        raise BadInput(f"the {what} is in the ledger already; choose a new name.")
    if path.exists():
        raise BadInput(f"the {what} was written but never entered the ledger ({path}); delete the file and try again.")
