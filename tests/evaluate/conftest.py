"""A small spoken final: questions in real WAV files, arms that answer from a table, and a candidate of two files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from legato.audio import Audio, write
from legato.corpora.rows import Row, row_id
from legato.evaluate import promote, seal
from legato.evaluate.identities import Identities
from legato.evaluate.questions import Question, audio_in, spoken
from legato.evaluate.record import RawRecord, Timings
from legato.organs import Answer

PLACES = ("Paris", "Rome", "Oslo", "Lima", "Cairo", "Quito", "Sofia", "Dakar", "Tunis", "Accra", "Minsk", "Doha")


def row(i: int) -> Row:
    place = f"{PLACES[i % len(PLACES)]}{i // len(PLACES) or ''}"
    question, answer = f"What is the capital of land {i}?", f"{place}."
    kind = "capital" if i % 2 else "sum"
    return Row(
        id=row_id(kind, question, answer),
        domain="facts" if i % 2 else "skills",
        kind=kind,
        fact=f"{kind}:{i}",
        wording=f"{kind}/0",
        question=question,
        answer=answer,
        accepted=(place.lower(),),
        fact_held=i % 3 == 0,
        wording_held=False,
    )


@pytest.fixture
def rows() -> list[Row]:
    return [row(i) for i in range(12)]


@pytest.fixture
def audio_folder(tmp_path: Path, rows: list[Row]) -> Path:
    folder = tmp_path / "audio"
    folder.mkdir()
    for i, r in enumerate(rows):
        noise = np.random.default_rng(i).standard_normal((1, 160)).astype(np.float32)
        write(folder / f"{r.id}.wav", Audio(0.1 * noise / np.abs(noise).max(), 16_000))
    return folder


@pytest.fixture
def questions(audio_folder: Path, rows: list[Row]) -> list[Question]:
    return spoken(rows, audio_in(audio_folder, [r.id for r in rows]))


@dataclass
class TableArm:
    """Answers by the recording's hash; keeps what it was asked."""

    name: str
    replies: Mapping[str, str]
    asked: list[str] = field(default_factory=list)
    fail_at: int | None = None
    error: Exception | None = None

    def answer(self, audio: Audio, *, max_tokens: int = 48, force_tokens: int | None = None) -> Answer:
        if self.error is not None and len(self.asked) == self.fail_at:
            raise self.error
        self.asked.append(audio.sha256)
        text = self.replies[audio.sha256]
        return Answer(text, tuple(text.encode()[:max_tokens]), "end", 5.0, None, None, None, 6.0, 100.0, 9.0)


@pytest.fixture
def arms(questions: Sequence[Question]) -> dict[str, TableArm]:
    """`small` is never right, `transfer` every other time, `large` always."""
    right = {q.audio_sha256: f"{q.accepted[0].title()}." for q in questions}
    some = {sha: text if i % 2 else "No idea." for i, (sha, text) in enumerate(right.items())}
    none = dict.fromkeys(right, "No idea.")
    return {name: TableArm(name, table) for name, table in (("small", none), ("transfer", some), ("large", right))}


@dataclass
class Desk:
    """A records folder with the files of a candidate beside it, and the usual calls."""

    records: Path
    weights: dict[str, Path]
    sets: dict[str, Path]
    questions: list[Question]

    def seal(self, name: str = "first", n: int = 8) -> seal.Seal:
        return seal.seal(self.records, name, self.questions, salt="s", source="tests/1", n=n)

    def freeze(self, name: str = "candidate") -> promote.Candidate:
        return promote.freeze(self.records, name, self.weights, self.sets)

    def open(self, run: str = "run", candidate: str = "candidate", name: str = "first", **changes) -> seal.Opened:
        terms = {"arms": ["small", "transfer", "large"], "settings": {"max_tokens": 48}} | changes
        return seal.open_final(self.records, name, candidate, self.questions, run=run, **terms)


@pytest.fixture
def desk(tmp_path: Path, questions: list[Question]) -> Desk:
    weights = {"mapper": tmp_path / "mapper.bin", "residual": tmp_path / "residual.bin"}
    for name, path in weights.items():
        path.write_bytes(name.encode())
    seen = [row(i) for i in range(100, 110)]
    sets = {"train": tmp_path / "train.txt", "select": tmp_path / "select.txt"}
    Identities.of(seen[:5], ["a" * 64]).write(sets["train"])
    Identities.of(seen[5:]).write(sets["select"])
    return Desk(tmp_path / "records", weights, sets, questions)


@pytest.fixture
def planted() -> Callable[..., RawRecord]:
    """(row, arm, reply, ...) -> a raw record whose right answer is "yes it is"."""

    def make(row: str, arm: str, reply: str, **changes) -> RawRecord:
        values = {
            "run": "run",
            "seal": "first",
            "question_sha256": "q",
            "audio_sha256": "a",
            "artifacts": {"mapper": "m"},
            "tokens": tuple(range(len(reply.split()))),
            "finish": "end",
            "timings": Timings(total_ms=10.0),
            "accepted": ("paris",),
            "domain": "facts",
            "kind": "capital",
            "fact_held": False,
            "wording_held": False,
        } | changes
        return RawRecord(row=row, arm=arm, reply=reply, **values)

    return make
