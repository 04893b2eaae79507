"""Pre-register a final by hash rule before anything is trained; open it once, with one frozen candidate.

`seal` ranks a pool of questions by a salted hash and takes the lowest n: nobody chose the rows. The seal file pins each
row's words, audio and answer key. `open_final` refuses unless everything is as it was declared, and writes the opening
into the ledger before the first question is asked. A second opening refuses, also after a crash: a crashed run may only
be resumed, under the same run id with the same candidate, arms and settings, and never repeats an answered question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from legato.errors import BadInput, SealError
from legato.evaluate import layout, ledger, lines, promote, record
from legato.evaluate.identities import Identities
from legato.evaluate.promote import Candidate
from legato.evaluate.questions import Question, file_sha256

RULE = (
    "lowest n of sha256(salt|source|row id|audio sha256), as lower-case hex, over the pool without rows sealed before"
)


@dataclass(frozen=True)
class SealedRow:
    """One row of a final, as it was when it was sealed."""

    id: str
    audio_sha256: str
    text_sha256: str
    key_sha256: str  # of the answer key and labels, see `Question.key_sha256`


@dataclass(frozen=True)
class Seal:
    """A pre-registered final."""

    name: str
    created: str
    rule: str
    salt: str
    source: str  # corpus, revision, configuration and split, as one line
    n: int
    pool: Mapping[str, Any]  # {"n", "sha256"} of all rows that were ranked
    left_out: Mapping[str, int]  # earlier seal -> rows of the pool that it already holds
    code_sha256: str  # of the judge's own source at that time
    rows: tuple[SealedRow, ...]  # in rank order
    sha256: str


def rank(row: str, audio_sha256: str, *, salt: str, source: str) -> str:
    """The hash by which rows are ranked."""
    return hashlib.sha256(f"{salt}|{source}|{row}|{audio_sha256}".encode()).hexdigest()


def seal(records: Path, name: str, pool: Iterable[Question], *, salt: str, source: str, n: int) -> Seal:
    """Seal the lowest-ranked n of `pool`. Rows (words or audio) that an earlier seal holds are left out and counted.

    Raises:
        BadInput: the name is taken, two rows of the pool share an id, words or audio, or fewer than n rows remain.
    """
    pool = list(pool)
    path = layout.seal(records, name)
    _refuse_twins(pool)
    with ledger.writing(records) as book:
        layout.refuse_taken(path, f"seal {name!r}", book.last("sealed", name=name) is not None)
        left_out: dict[str, int] = {}
        for earlier in (entry.data["name"] for entry in book.entries if entry.event == "sealed"):
            held = read(records, earlier)
            shas = {row.text_sha256 for row in held.rows} | {row.audio_sha256 for row in held.rows}
            fresh = [q for q in pool if q.text_sha256 not in shas and q.audio_sha256 not in shas]
            if len(fresh) < len(pool):
                left_out[earlier] = len(pool) - len(fresh)
            pool = fresh
        if not 0 < n <= len(pool):
            raise BadInput(f"seal {name!r} wants {n} rows and the pool holds {len(pool)} fresh ones; widen the pool.")
        ranked = sorted(pool, key=lambda q: rank(q.id, q.audio_sha256, salt=salt, source=source))
        body = layout.signed(
            {
                "name": name,
                "created": ledger.now(),
                "rule": RULE,
                "salt": salt,
                "source": source,
                "n": n,
                "pool": {"n": len(pool), "sha256": pool_sha256(pool)},
                "left_out": left_out,
                "code_sha256": code_sha256(),
                "rows": [asdict(sealed(q)) for q in ranked[:n]],
            }
        )
        lines.write_whole(path, body)
        book.append("sealed", name=name, n=n, sha256=body["sha256"])
    return _seal(body)


def sealed(question: Question) -> SealedRow:
    """What a seal keeps of a question."""
    return SealedRow(question.id, question.audio_sha256, question.text_sha256, question.key_sha256)


def _refuse_twins(pool: list[Question]) -> None:
    for what in ("id", "text_sha256", "audio_sha256"):
        seen: dict[str, int] = {}
        for i, q in enumerate(pool):
            first = seen.setdefault(getattr(q, what), i)
            if first != i:
                raise BadInput(f"rows {pool[first].id} and {q.id} of the pool share their {what}; keep one of them.")


def pool_sha256(pool: Iterable[Question]) -> str:
    """Identity of a pool: its rows' ids and audio in any order."""
    return hashlib.sha256("\n".join(sorted(f"{q.id}|{q.audio_sha256}" for q in pool)).encode()).hexdigest()


def code_sha256(pattern: str = "*.py") -> str:
    """Identity of the judge: the source files of this room, by name; "**/*.py" takes its instruments along."""
    room = Path(__file__).parent
    total = hashlib.sha256()
    for path in sorted(room.glob(pattern)):
        total.update(f"{path.relative_to(room).as_posix()} {file_sha256(path)}\n".encode())
    return total.hexdigest()


def read(records: Path, name: str) -> Seal:
    """Read a seal.

    Raises:
        SealError: there is none of that name, its file was changed, or its rows are not in the order of its rule.
    """
    found = _seal(layout.read_signed(layout.seal(records, name), f"seal {name!r}"))
    keys = [rank(row.id, row.audio_sha256, salt=found.salt, source=found.source) for row in found.rows]
    if keys != sorted(keys) or len(found.rows) != found.n:
        raise SealError(f"seal {name!r} does not hold {found.n} rows in the order of its own rule; restore its file.")
    return found


def _seal(body: Mapping[str, Any]) -> Seal:
    return Seal(**{**body, "rows": tuple(SealedRow(**row) for row in body["rows"])})


@dataclass(frozen=True)
class Opened:
    """A final that may be run now."""

    seal: Seal
    candidate: Candidate
    run: str
    arms: tuple[str, ...]
    settings: Mapping[str, Any]
    questions: tuple[Question, ...]  # in rank order
    resumed: bool


def open_final(
    records: Path,
    name: str,
    candidate: str,
    questions: Iterable[Question],
    *,
    run: str,
    arms: Sequence[str],
    settings: Mapping[str, Any],
) -> Opened:
    """Open a final for one frozen candidate, or resume the run that did.

    `questions` must contain every sealed row; others are ignored. `settings` is what the arms are run with:
    "max_tokens" and whatever else (plain JSON) must be the same when the run is resumed.

    Raises:
        SealError: the seal, the ledger or the candidate were changed; the seal is younger than the candidate; a row is
            missing or its words, audio or key differ; the rows overlap with a declared set; the final was opened.
        ChecksumMismatch: a file of the candidate is not the frozen one.
    """
    path = layout.run(records, run)
    with ledger.writing(records) as book:
        final = read(records, name)
        frozen = admit(records, book, name, final.sha256, candidate)
        rows = _match(final, questions)
        seen = audit_sets(records, frozen, rows)
        if seen:
            raise SealError(
                f"final {name!r} is not outside the sets of candidate {candidate!r} ({len(seen)} clashes): {seen[0]}; "
                "train without these rows and freeze anew."
            )
        terms = {
            "seal": name,
            "seal_sha256": final.sha256,
            "candidate": candidate,
            "candidate_sha256": frozen.sha256,
            "run": run,
            "arms": list(arms),
            "settings": dict(settings),
        }
        before = book.last("opened", seal=name)
        if before is None:
            if book.last("opened", run=run):
                raise SealError(f"run id {run!r} belongs to another final; choose a new one.")
            _refuse_traces(records, name, path)
            book.append("opened", **terms, code_sha256=code_sha256(), overlap=0, sets=_counts(records, frozen))
        else:
            resume(book, before, terms, len(record.scan(path).records))
    return Opened(final, frozen, run, tuple(arms), dict(settings), rows, resumed=before is not None)


def admit(records: Path, book: ledger.Book, name: str, sha256: str, candidate: str) -> Candidate:
    """The candidate that may open the final `name`, whose seal has this hash: both are what the ledger says they are.

    Raises:
        SealError: one is not, or the seal is younger than the candidate.
        ChecksumMismatch: a file of the candidate is not the frozen one.
    """
    frozen = promote.read(records, candidate)
    entered = book.last("sealed", name=name)
    if entered is None or entered.data["sha256"] != sha256:
        raise SealError(f"seal {name!r} is not the one that the ledger holds; restore its file.")
    froze = book.last("frozen", name=candidate)
    if froze is None or froze.data["sha256"] != frozen.sha256:
        raise SealError(f"candidate {candidate!r} is not the one that the ledger holds; restore its file.")
    if froze.n < entered.n:
        raise SealError(f"candidate {candidate!r} was frozen before {name!r} was sealed; seal first, then train.")
    promote.check_files(records, frozen)
    return frozen


def _match(final: Seal, questions: Iterable[Question]) -> tuple[Question, ...]:
    """The questions of a seal's rows, each compared with it; the recordings are read again here."""
    known = {q.id: q for q in questions}
    rows = []
    for row in final.rows:
        if row.id not in known:
            raise SealError(f"row {row.id} of final {final.name!r} is missing; hand in the sealed questions.")
        q = known[row.id]
        try:
            audio = q.audio().sha256
        except BadInput as error:
            raise SealError(f"the audio of sealed row {row.id} cannot be read ({error}); restore it.") from error
        if audio != row.audio_sha256:
            raise SealError(
                f"the audio of sealed row {row.id} was changed: sealed sha256 {row.audio_sha256}, found {audio}; "
                "restore it."
            )
        for what, mine, theirs in (
            ("words", q.text_sha256, row.text_sha256),
            ("answer key", q.key_sha256, row.key_sha256),
            ("audio", q.audio_sha256, row.audio_sha256),
        ):
            if mine != theirs:
                raise SealError(
                    f"the {what} of sealed row {row.id} differ from the seal; hand in the sealed questions."
                )
        rows.append(q)
    return tuple(rows)


def audit_sets(records: Path, candidate: Candidate, questions: Sequence[Question]) -> list[str]:
    """One sentence for everything that the questions share with the candidate's declared sets and must not."""
    return [
        f"{clash} [{key}]"
        for key, pinned in candidate.sets.items()
        for clash in Identities.read(records / pinned.path).clashes(questions, trained=key == "train")
    ]


def _counts(records: Path, candidate: Candidate) -> dict[str, dict[str, int]]:
    sets = {key: Identities.read(records / pinned.path) for key, pinned in candidate.sets.items()}
    return {key: {"text": len(found.text), "audio": len(found.audio)} for key, found in sets.items()}


def _refuse_traces(records: Path, name: str, path: Path) -> None:
    """A first opening leaves no records behind it: if there are any, the ledger has lost its end."""
    for file in sorted((records / "runs").glob("*.jsonl")):
        if file == path and record.scan(file).records:
            raise SealError(
                f"{file.name} holds records already, but the ledger knows no such run; choose a new run id."
            )
        if any(r.seal == name for r in record.scan(file).records):
            raise SealError(
                f"{file.name} holds answers to final {name!r}, but the ledger knows no opening; restore it."
            )


def resume(book: ledger.Book, before: ledger.Entry, terms: Mapping[str, Any], answered: int) -> None:
    """Enter that the run which opened a final goes on, after `answered` records.

    Raises:
        SealError: it is closed, it was opened on other terms, or records are gone since it was last resumed.
    """
    name, run = terms["seal"], before.data["run"]
    if book.last("closed", run=run):
        raise SealError(f"final {name!r} was opened and finished by run {run!r}; a final opens once, seal a new one.")
    for key, value in terms.items():
        if before.data[key] != value:
            how = "not by" if key == "run" else f"with {key} {before.data[key]!r}, not"
            raise SealError(
                f"final {name!r} was opened by run {run!r}, {how} {value!r}; "
                "a final opens once, resume that run as it was or seal a new final."
            )
    resumed = book.last("resumed", run=run)
    if resumed is not None and answered < resumed.data["records"]:
        raise SealError(
            f"run {run!r} held {resumed.data['records']} records when it was last resumed and holds "
            f"{answered} now; restore its file."
        )
    side = {"side": terms["side"]} if "side" in terms else {}
    book.append("resumed", run=run, seal=name, records=answered, **side)


def close_final(records: Path, opened: Opened) -> None:
    """Declare the run of an opened final finished: from here on it cannot be resumed.

    Raises:
        SealError: an answer is missing.
        ChecksumMismatch: a file of the candidate changed while it ran.
    """
    path = layout.run(records, opened.run)
    promote.check_files(records, opened.candidate)
    answered = record.read(path)
    have = {(r.row, r.arm) for r in answered}
    missing = [(row.id, arm) for row in opened.seal.rows for arm in opened.arms if (row.id, arm) not in have]
    if missing:
        row, arm = missing[0]
        raise SealError(f"run {opened.run!r} lacks {len(missing)} answers, first row {row} by {arm}; resume it.")
    with ledger.writing(records) as book:
        if book.last("closed", run=opened.run) is None:
            book.append(
                "closed", run=opened.run, seal=opened.seal.name, records=len(answered), sha256=file_sha256(path)
            )
