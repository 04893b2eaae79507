"""What a listening sheet is on the disk, and the check that nobody changed it.

    SHEET/sheet.json     public: the trials in their order, hashes of all audio, and the SHA-256 of the key; signed
    SHEET/key.json       who is who; its hash was in the sheet before the first vote, so it cannot be exchanged later
    SHEET/audio/         <trial>-left.wav, <trial>-right.wav under names that say nothing
    SHEET/votes.jsonl    append-only, one line a vote (`votes`)

Sides (left, right) are what the listener chooses between, systems (a, b) what the key hides. Nothing here is secret
from someone who opens the key: the hash shows that it is the old one, not that it was not read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from legato.errors import BadInput, ChecksumMismatch, SealError
from legato.evaluate import layout, lines

FORMAT = "legato listening sheet 1"
SIDES = ("left", "right")
Side = Literal["left", "right"]
System = Literal["a", "b"]
Kind = Literal["pair", "catch", "repeat"]


@dataclass(frozen=True)
class Trial:
    """What the listener may know of a trial."""

    id: str
    seconds: float
    least_s: float  # how long each side must have played before a vote counts
    audio: Mapping[str, str]  # side -> SHA-256 of its file


@dataclass(frozen=True)
class Secret:
    """What the key knows of a trial. A catch trial plays one system on both sides; a repeat swaps its original's."""

    kind: Kind
    item: str  # the file's name without its ending
    left: System
    right: System


@dataclass(frozen=True)
class Key:
    """a, b: what the two systems are called; trials: trial id -> who played where."""

    a: str
    b: str
    trials: Mapping[str, Secret]


@dataclass(frozen=True)
class Sheet:
    """An opened sheet whose files are what they were when it was made."""

    folder: Path
    sha256: str
    key_sha256: str
    seed: int
    trials: tuple[Trial, ...]

    @property
    def votes(self) -> Path:
        return self.folder / "votes.jsonl"

    def audio(self, trial: str, side: str) -> Path:
        return audio_path(self.folder, trial, side)

    def check_key(self) -> bytes:
        """The key's bytes.

        Raises:
            SealError: it is gone.
            ChecksumMismatch: it is not the one that was hashed before the first vote.
        """
        path = self.folder / "key.json"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise SealError(
                f"the key cannot be read ({path}: {error.strerror}); put it back beside the sheet."
            ) from error
        found = hashlib.sha256(data).hexdigest()
        if found != self.key_sha256:
            raise ChecksumMismatch(str(path), self.key_sha256, found)
        return data

    def key(self) -> Key:
        """Open the key: the end of blindness."""
        body = lines.loads(self.check_key())
        return Key(body["a"], body["b"], {name: Secret(**secret) for name, secret in body["trials"].items()})


def audio_path(folder: Path, trial: str, side: str) -> Path:
    return folder / "audio" / f"{trial}-{side}.wav"


def open_sheet(folder: Path) -> Sheet:
    """Open a sheet and hold everything in it against its hashes.

    Raises:
        BadInput: there is no sheet in the folder.
        SealError: the sheet was changed, or its key or audio is gone.
        ChecksumMismatch: the key or a recording is not the one that the sheet was made with.
    """
    if not (folder / "sheet.json").is_file():
        raise BadInput(f"there is no listening sheet in {folder}; make one with: legato listening new {folder}")
    body = layout.read_signed(folder / "sheet.json", "listening sheet")
    if body.get("format") != FORMAT:
        raise BadInput(f"{folder} holds a sheet of format {body.get('format')!r}; this version reads {FORMAT!r}.")
    trials = tuple(Trial(**trial) for trial in body["trials"])
    sheet = Sheet(folder, body["sha256"], body["key_sha256"], body["seed"], trials)
    sheet.check_key()
    for trial in trials:
        for side, expected in trial.audio.items():
            _check_audio(sheet.audio(trial.id, side), expected)
    return sheet


def as_json(seed: int, trials: list[Trial], key_sha256: str, created: str) -> dict[str, Any]:
    """The signed body of sheet.json."""
    public = [{"id": t.id, "seconds": t.seconds, "least_s": t.least_s, "audio": dict(t.audio)} for t in trials]
    body = {"format": FORMAT, "created": created, "seed": seed, "key_sha256": key_sha256, "trials": public}
    return layout.signed(body)


def _check_audio(path: Path, expected: str) -> None:
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SealError(f"a recording of the sheet cannot be read ({path}: {error.strerror}); restore it.") from error
    if found != expected:
        raise ChecksumMismatch(str(path), expected, found)
