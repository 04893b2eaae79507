"""Put questions to arms and write raw records. Every question once, every arm, no retries, no scoring.

A run can be killed at any moment and started again with the same arguments: what was answered stays answered, and the
rest is asked. An arm that raises stops the run; nothing that was recorded is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from tqdm import tqdm

from legato.audio import Audio
from legato.errors import BadInput, LegatoError, SealError
from legato.evaluate import layout, record
from legato.evaluate.questions import Question, record_key_sha256
from legato.evaluate.record import RawRecord, Timings
from legato.evaluate.seal import Opened, close_final
from legato.organs import Answer, Arm


@runtime_checkable
class LetterArm(Protocol):
    """An arm that can also say how likely each letter is where its answer would start."""

    def letter_logits(self, audio: Audio, letters: Sequence[str]) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class Done:
    """What a call of `run` did."""

    path: Path
    asked: int  # answers recorded by this call
    kept: int  # answers that were there before
    repaired: str | None  # what was done to a torn last line, one sentence


def run(
    arms: Mapping[str, Arm],
    questions: Sequence[Question],
    path: Path,
    *,
    name: str,
    artifacts: Mapping[str, Mapping[str, str]],
    seal: str | None = None,
    max_tokens: int = 48,
    progress: bool = True,
) -> Done:
    """Ask every question of every arm and append the answers to `path`, or go on where an earlier call ended.

    `artifacts` says for each arm which files (name -> SHA-256) it was built from. Each recording is loaded once for all
    arms and compared with its hash. Which arm goes first moves on by one with each question, so that none of them is
    always the one with the cold caches.

    Raises:
        BadInput: two questions share an id, or `path` holds records of another run or is written by another process.
        SealError: a recording, or what was recorded before, is not what is now asked.
        LegatoError: an arm refused; the message says which, where, and that the rest is safe. Any other exception of an
            arm is passed on with such a note.
    """
    assert set(artifacts) == set(arms), "say for every arm what it was built from"
    if len({q.id for q in questions}) < len(questions):
        raise BadInput("two questions share an id; each is asked once.")
    order = list(arms)
    with record.Writer(path) as writer:
        kept = _kept(path, name, seal, questions, artifacts)
        asked = 0
        if writer.repaired and progress:
            tqdm.write(writer.repaired, file=sys.stderr)
        with tqdm(
            total=len(order) * len(questions), initial=len(kept), disable=None if progress else True, unit="answer"
        ) as bar:
            for i, question in enumerate(questions):
                due = [
                    arm for arm in order[i % len(order) :] + order[: i % len(order)] if (question.id, arm) not in kept
                ]
                if not due:
                    continue
                audio = question.audio()
                if audio.sha256 != question.audio_sha256:
                    raise SealError(
                        f"the recording of row {question.id} changed: expected sha256 {question.audio_sha256}, found "
                        f"{audio.sha256}; restore it."
                    )
                for arm in due:
                    bar.set_postfix_str(arm, refresh=False)
                    where = f"arm {arm} on row {question.id}"
                    safe = f"{len(kept) + asked} answers are safe in {path.name}, the same command goes on from there"
                    try:
                        answer = arms[arm].answer(audio, max_tokens=max_tokens)
                        logits = _letter_logits(arms[arm], audio, question)
                    except LegatoError as error:
                        raise LegatoError(f"{where} refused: {error} ({safe})") from error
                    except Exception as error:
                        error.add_note(f"{where} failed; {safe}")
                        raise
                    writer.write(_record(name, seal, arm, question, answer, artifacts[arm], logits))
                    asked += 1
                    bar.update()
    return Done(path, asked, len(kept), writer.repaired)


def final(
    records: Path,
    opened: Opened,
    arms: Mapping[str, Arm],
    *,
    uses: Mapping[str, Sequence[str]] | None = None,
    progress: bool = True,
) -> Done:
    """Run an opened final to its end and close it.

    `uses` says which of the candidate's files each arm is built from; without it every arm is said to use them all.

    Raises:
        SealError: the arms are not those that it was opened with, and all of `run` and `seal.close_final`.
    """
    if tuple(arms) != opened.arms:
        raise SealError(f"final {opened.seal.name!r} was opened for the arms {opened.arms}, not {tuple(arms)}.")
    hashes = opened.candidate.hashes
    artifacts = {arm: {file: hashes[file] for file in (uses[arm] if uses else hashes)} for arm in arms}
    done = run(
        arms,
        opened.questions,
        layout.run(records, opened.run),
        name=opened.run,
        artifacts=artifacts,
        seal=opened.seal.name,
        max_tokens=opened.settings["max_tokens"],
        progress=progress,
    )
    close_final(records, opened)
    return done


def _kept(
    path: Path, name: str, seal: str | None, questions: Sequence[Question], artifacts: Mapping[str, Mapping[str, str]]
) -> set[tuple[str, str]]:
    """(row, arm) of what is answered already, each compared with what would be asked now."""
    by_id = {q.id: q for q in questions}
    kept = set()
    for r in record.scan(path).records:
        if (r.run, r.seal) != (name, seal) or r.row not in by_id or r.arm not in artifacts:
            raise BadInput(
                f"{path.name} holds run {r.run!r}, seal {r.seal!r}, row {r.row}, arm {r.arm!r}, which is not part of "
                f"run {name!r} with seal {seal!r}; choose a new run id."
            )
        q = by_id[r.row]
        same = (r.question_sha256, r.audio_sha256, record_key_sha256(r)) == (
            q.text_sha256,
            q.audio_sha256,
            q.key_sha256,
        )
        if not same:
            raise SealError(f"{path.name} answered row {r.row} in other words, audio or key; choose a new run id.")
        if dict(r.artifacts) != dict(artifacts[r.arm]):
            raise SealError(
                f"{path.name} was answered by arm {r.arm!r} from other files; restore them or choose a new run id."
            )
        kept.add((r.row, r.arm))
    return kept


def _letter_logits(arm: Arm, audio: Audio, question: Question) -> Mapping[str, float] | None:
    if question.choices is None or not isinstance(arm, LetterArm):
        return None
    return {letter: float(logit) for letter, logit in arm.letter_logits(audio, sorted(question.choices)).items()}


def _record(
    name: str,
    seal: str | None,
    arm: str,
    question: Question,
    answer: Answer,
    artifacts: Mapping[str, str],
    logits: Mapping[str, float] | None,
) -> RawRecord:
    assert answer.finish in record.FINISHES, answer.finish
    return RawRecord(
        run=name,
        seal=seal,
        row=question.id,
        arm=arm,
        question_sha256=question.text_sha256,
        audio_sha256=question.audio_sha256,
        artifacts=dict(artifacts),
        reply=answer.text,
        tokens=tuple(answer.tokens),
        finish=answer.finish,
        timings=Timings(
            prefill_ms=answer.prefill_ms,
            map_ms=answer.map_ms,
            correct_ms=answer.correct_ms,
            place_ms=answer.place_ms,
            first_token_ms=answer.first_token_ms,
            decode_tokens_per_s=answer.decode_tokens_per_s,
            total_ms=answer.total_ms,
        ),
        accepted=question.accepted,
        domain=question.domain,
        kind=question.kind,
        fact_held=question.fact_held,
        wording_held=question.wording_held,
        choices=question.choices,
        letter=question.letter,
        letter_logits=logits,
    )
