"""A question as the judge puts it: the words' and the audio's identity, and what counts as a right answer.

It joins a corpus row with the recording in which it is spoken. The judge never makes audio. A recording's identity is
`Audio.sha256`, its content at 16 bit, so that the same sound in another container is the same sound, in the training
sets as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from legato.artifacts import sha256_file
from legato.audio import Audio
from legato.audio import read as read_audio
from legato.corpora.identity import normalise
from legato.corpora.rows import Row
from legato.errors import BadInput
from legato.evaluate import lines

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")


@dataclass(frozen=True)
class Question:
    """One row, spoken in one recording."""

    id: str
    text: str
    accepted: tuple[str, ...]
    domain: str
    kind: str
    fact: str
    wording: str
    fact_held: bool
    wording_held: bool
    audio: Callable[[], Audio]  # loads the recording, anew each time
    audio_sha256: str  # its `Audio.sha256`
    choices: Mapping[str, str] | None = None  # letter -> text
    letter: str | None = None  # the right one

    @property
    def text_sha256(self) -> str:
        return text_sha256(self.text)

    @property
    def key_sha256(self) -> str:
        """Identity of the answer key and the labels by which results are grouped; `record_key_sha256` is its twin."""
        return _key(self)


def text_sha256(text: str) -> str:
    """SHA-256 of the normalised words: the same question in other punctuation is the same question."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes.

    Raises:
        BadInput: the file is missing or cannot be read.
    """
    try:
        return sha256_file(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); restore the file.") from error


def record_key_sha256(record: object) -> str:
    """`Question.key_sha256` as re-derived from a raw record."""
    return _key(record)


def _key(source: object) -> str:
    names = ("accepted", "domain", "kind", "fact_held", "wording_held", "choices", "letter")
    return hashlib.sha256(lines.dumps({name: getattr(source, name) for name in names})).hexdigest()


def spoken(rows: Iterable[Row], audio: Mapping[str, Path]) -> list[Question]:
    """Join rows with their audio files (`row id -> path`); each file is read once for its identity.

    Raises:
        BadInput: a row has no audio, or its file cannot be read.
    """
    questions = []
    for row in rows:
        if row.id not in audio:
            raise BadInput(f"row {row.id} ({row.question!r}) has no audio; speak it first.")
        load = partial(read_audio, audio[row.id])
        questions.append(
            Question(
                id=row.id,
                text=row.question,
                accepted=tuple(row.accepted),
                domain=row.domain,
                kind=row.kind,
                fact=row.fact,
                wording=row.wording,
                fact_held=row.fact_held,
                wording_held=row.wording_held,
                audio=load,
                audio_sha256=load().sha256,
            )
        )
    return questions


def audio_in(folder: Path, ids: Sequence[str]) -> dict[str, Path]:
    """The files `<row id>.<wav|flac|ogg|mp3>` of a folder, for `spoken`.

    Raises:
        BadInput: a row has no file, or more than one.
    """
    found = {}
    for row in ids:
        files = [path for suffix in AUDIO_SUFFIXES if (path := folder / f"{row}{suffix}").is_file()]
        if len(files) != 1:
            raise BadInput(f"{folder} holds {len(files)} audio files for row {row}, wanted one {row}.wav or alike.")
        found[row] = files[0]
    return found
