"""Seal the sentences of a final before the voice is trained; open it once, with one frozen candidate; close it.

The same ledger as the listening side's, the same events, the same order: sealed, frozen, opened, resumed, closed. A
sentence has no audio and no answer key, so its seal pins words and kind, and the whole file is sealed: which sentences
it holds was decided by the rule and the seed of the recipe that made it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from legato.errors import BadInput, ChecksumMismatch, SealError
from legato.evaluate import layout, ledger, lines, promote, seal
from legato.evaluate.identities import DIGITS, Identities
from legato.evaluate.instruments.recogniser import Recogniser
from legato.evaluate.promote import Candidate
from legato.evaluate.questions import file_sha256
from legato.evaluate.saying import record
from legato.evaluate.saying.run import DEPTH, HEAD, Done, Voice, ceilings, run
from legato.evaluate.saying.sentences import Sentence, refuse_twins

SIDE = "say"
CODE = "**/*.py"  # the judge here includes the instruments


@dataclass(frozen=True)
class SealedSentence:
    """One sentence of a final, as it was when it was sealed."""

    id: str
    text_sha256: str
    content_sha256: str


@dataclass(frozen=True)
class SentenceSeal:
    """A pre-registered final. source: how its sentences were made, as one line."""

    name: str
    created: str
    source: str
    n: int
    code_sha256: str  # of the judge's own source at that time
    rows: tuple[SealedSentence, ...]
    sha256: str


@dataclass(frozen=True)
class Opened:
    """A final that may be run now."""

    seal: SentenceSeal
    candidate: Candidate
    run: str
    sentences: tuple[Sentence, ...]
    resumed: bool


def seal_sentences(records: Path, name: str, sentences: Iterable[Sentence], *, source: str) -> SentenceSeal:
    """Seal all of `sentences`.

    Raises:
        BadInput: the name is taken, two sentences share an id or their words, or one stands in an earlier final.
    """
    sentences = tuple(sentences)
    refuse_twins(sentences)
    path = layout.seal(layout.say(records), name)
    with ledger.writing(records) as book:
        layout.refuse_taken(path, f"seal {name!r}", book.last("sealed", name=name) is not None)
        for earlier, again in _standing(records, book.entries, sentences):
            raise BadInput(
                f"sentence {again[0].id} stands in final {earlier!r} already ({len(again)} do); make the "
                "sentences with another seed."
            )
        body = layout.signed(
            {
                "name": name,
                "created": ledger.now(),
                "source": source,
                "n": len(sentences),
                "code_sha256": seal.code_sha256(CODE),
                "rows": [asdict(sealed(s)) for s in sentences],
            }
        )
        lines.write_whole(path, body)
        book.append("sealed", name=name, n=len(sentences), sha256=body["sha256"], side=SIDE)
    return _seal(body)


def sealed(sentence: Sentence) -> SealedSentence:
    """What a seal keeps of a sentence."""
    return SealedSentence(sentence.id, sentence.text_sha256, sentence.content_sha256)


def read(records: Path, name: str) -> SentenceSeal:
    """Read a seal. Raises SealError where there is none of that name or its file was changed."""
    return _seal(layout.read_signed(layout.seal(layout.say(records), name), f"seal {name!r}"))


def _seal(body: Mapping[str, Any]) -> SentenceSeal:
    return SentenceSeal(**{**body, "rows": tuple(SealedSentence(**row) for row in body["rows"])})


def open_sentences(
    records: Path,
    name: str,
    candidate: str,
    sentences: Iterable[Sentence],
    *,
    run: str,
    settings: Mapping[str, Any],
) -> Opened:
    """Open a final for one frozen candidate, or resume the run that did.

    `settings` (plain JSON) is all that decides what will be said and heard beside the candidate's files; it must be
    the same when the run is resumed. See `settings_of`.

    Raises:
        SealError: seal, ledger or candidate were changed; the seal is younger than the candidate; a sentence is missing
            or differs; one stands in a declared set; the final was opened.
        ChecksumMismatch: a file of the candidate is not the frozen one.
    """
    path = layout.run(layout.say(records), run)
    with ledger.writing(records) as book:
        final = read(records, name)
        frozen = seal.admit(records, book, name, final.sha256, candidate)
        rows = _match(final, sentences)
        if seen := overlap(records, frozen, rows):
            raise SealError(
                f"final {name!r} is not outside the sets of candidate {candidate!r} ({len(seen)} clashes): {seen[0]}; "
                "train without these sentences and freeze anew."
            )
        terms = {
            "side": SIDE,
            "seal": name,
            "seal_sha256": final.sha256,
            "candidate": candidate,
            "candidate_sha256": frozen.sha256,
            "run": run,
            "arms": [HEAD, DEPTH],
            "settings": dict(settings),
        }
        before = book.last("opened", seal=name)
        if before is None:
            if book.last("opened", run=run):
                raise SealError(f"run id {run!r} belongs to another final; choose a new one.")
            _refuse_traces(records, name, path)
            book.append("opened", **terms, code_sha256=seal.code_sha256(CODE), overlap=0)
        else:
            seal.resume(book, before, terms, len(record.scan(path).records))
    return Opened(final, frozen, run, rows, resumed=before is not None)


def refuse_sealed(records: Path, sentences: Iterable[Sentence]) -> None:
    """Raises SealError where a sentence stands in a sealed final: those are said once, by `open_sentences`."""
    for name, found in _standing(records, ledger.verify(records).entries, tuple(sentences)):
        raise SealError(
            f"sentence {found[0].id} stands in the sealed final {name!r} ({len(found)} do); measure others, a final is "
            "said once."
        )


def _standing(
    records: Path, entries: Iterable[ledger.Entry], sentences: Sequence[Sentence]
) -> Iterator[tuple[str, list[Sentence]]]:
    """(name of a sealed final, those of `sentences` that stand in it), where any does."""
    for entry in entries:
        if entry.event == "sealed" and entry.data.get("side") == SIDE:
            held = {row.text_sha256 for row in read(records, entry.data["name"]).rows}
            if found := [s for s in sentences if s.text_sha256 in held]:
                yield entry.data["name"], found


def settings_of(voice: Voice, recogniser: Recogniser, ceiling: Mapping[str, Path] | None = None) -> dict[str, Any]:
    """What an opening is bound to: how the voice speaks, who hears it, and which ceiling recordings there are."""
    held = sorted((id_, file_sha256(path)) for id_, path in (ceiling or {}).items())
    digest = hashlib.sha256(lines.dumps(held)).hexdigest() if held else None
    return {
        "voice": dict(voice.settings),
        "recogniser": recogniser.sha256,
        "ceiling": {"n": len(held), "sha256": digest},
    }


def run_final(
    records: Path,
    opened: Opened,
    voice: Voice,
    recogniser: Recogniser,
    *,
    ceiling: Path | None = None,
    keep: Path | None = None,
    progress: bool = True,
) -> Done:
    """Run an opened final to its end and close it.

    Raises:
        ChecksumMismatch: the voice is not the frozen candidate; and all of `require`, `run` and `close`.
    """
    require(records, opened.candidate.name, voice)
    done = run(
        voice,
        opened.sentences,
        recogniser,
        layout.run(layout.say(records), opened.run),
        name=opened.run,
        seal=opened.seal.name,
        ceiling=ceilings(ceiling, opened.sentences) if ceiling else None,
        keep=keep,
        progress=progress,
    )
    close(records, opened)
    return done


def require(records: Path, candidate: str, voice: Voice) -> None:
    """Raises ChecksumMismatch unless the voice in use was built from the very files that were frozen."""
    frozen = promote.read(records, candidate).hashes
    for name in sorted(frozen.keys() | voice.artifacts.keys()):
        wanted, found = (hashes.get(name, "no such file") for hashes in (frozen, voice.artifacts))
        if wanted != found:
            raise ChecksumMismatch(f"{name} of candidate {candidate!r}", wanted, found)


def close(records: Path, opened: Opened) -> None:
    """Declare the run of an opened final finished: from here on it cannot be resumed.

    Raises:
        SealError: a sentence is missing.
        ChecksumMismatch: a file of the candidate changed while it ran.
    """
    path = layout.run(layout.say(records), opened.run)
    promote.check_files(records, opened.candidate)
    have = {r.id for r in record.read(path)}
    if missing := [row.id for row in opened.seal.rows if row.id not in have]:
        raise SealError(f"run {opened.run!r} lacks {len(missing)} sentences, first {missing[0]}; resume it.")
    with ledger.writing(records) as book:
        if book.last("closed", run=opened.run) is None:
            book.append(
                "closed", run=opened.run, seal=opened.seal.name, records=len(have), sha256=file_sha256(path), side=SIDE
            )


def _match(final: SentenceSeal, sentences: Iterable[Sentence]) -> tuple[Sentence, ...]:
    known = {s.id: s for s in sentences}
    rows = []
    for row in final.rows:
        if row.id not in known:
            raise SealError(f"sentence {row.id} of final {final.name!r} is missing; hand in the sealed sentences.")
        if sealed(known[row.id]) != row:
            raise SealError(f"the words of sealed sentence {row.id} differ; hand in the sealed sentences.")
        rows.append(known[row.id])
    return tuple(rows)


def overlap(records: Path, candidate: Candidate, rows: Sequence[Sentence]) -> list[str]:
    """One sentence for every row whose words stand in a declared set."""
    return [
        f"{s.id} is a text of the set ({s.text!r}) [{key}]"
        for key, pinned in candidate.sets.items()
        for held in (Identities.read(records / pinned.path).text,)
        for s in rows
        if s.text_sha256[:DIGITS] in held
    ]


def _refuse_traces(records: Path, name: str, path: Path) -> None:
    """A first opening leaves no records behind it: if there are any, the ledger has lost its end."""
    for file in sorted((layout.say(records) / "runs").glob("*.jsonl")):
        found = record.scan(file).records
        if file == path and found:
            raise SealError(
                f"{file.name} holds records already, but the ledger knows no such run; choose a new run id."
            )
        if any(r.seal == name for r in found):
            raise SealError(f"{file.name} said final {name!r}, but the ledger knows no opening; restore it.")
