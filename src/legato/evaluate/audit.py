"""Check all evidence under a `records` folder against itself; every fault is one sentence.

It reads what `seal`, `promote` and `run` wrote and believes none of it: the ledger's chain, each file against its
ledger line, each record against its seal and candidate, each promotion against the report as it re-derives today. It
changes nothing. Without the questions it cannot hear the audio, and without the declared identity files it cannot
repeat the comparison that was made at the opening; it says so as a remark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from legato.errors import LegatoError
from legato.evaluate import layout, ledger, promote, record, report, seal
from legato.evaluate.ledger import Entry
from legato.evaluate.promote import Candidate
from legato.evaluate.questions import Question, file_sha256, record_key_sha256
from legato.evaluate.saying import check
from legato.evaluate.saying import report as said
from legato.evaluate.saying.final import SentenceSeal
from legato.evaluate.seal import Seal


@dataclass
class Findings:
    """What an audit found: `faults` break the evidence, `remarks` do not."""

    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)  # what -> how many

    def attempt(self, check: Callable[[], Any]) -> Any:
        """The result of a check; one that raises becomes a fault, once however many checks find it, and gives None."""
        try:
            return check()
        except LegatoError as error:
            if str(error) not in self.faults:
                self.faults.append(str(error))
            return None


def audit(records: Path, *, questions: Iterable[Question] = ()) -> Findings:
    """Audit everything; `questions` (any that are at hand) are compared with the seals, recordings included."""
    found = Findings()
    verified = found.attempt(lambda: ledger.verify(records))
    entries = verified.entries if verified else []
    if verified and verified.torn:
        found.remarks.append(
            "the ledger ends in a torn line, which was never acknowledged; the next entry cuts it off."
        )
    known = {q.id: q for q in questions}

    seals = _files(found, records, "seals", lambda name: seal.read(records, name))
    candidates = _files(found, records, "candidates", lambda name: promote.read(records, name))
    promotions = _files(found, records, "promotions", lambda name: promote.promotion(records, name))
    spoken, voices = check.files(found, records)
    if verified:  # a broken chain is fault enough: nothing that it says can be held against the files
        _entered(found, entries, "sealed", "seal", {name: s.sha256 for name, s in [*seals.items(), *spoken.items()]})
        _entered(found, entries, "frozen", "candidate", {name: c.sha256 for name, c in candidates.items()})
        both = [*promotions.items(), *voices.items()]
        _entered(found, entries, "promoted", "promotion", {name: p["sha256"] for name, p in both})
        _order(found, entries)
        _runs(found, records, entries, {**seals, **spoken}, candidates)
    _shared(found, seals)
    check.shared(found, spoken)
    for held in seals.values():
        _heard(found, held, known)
    for candidate in candidates.values():
        _pinned(found, records, candidate)
    for name, body in promotions.items():
        _promoted(found, name, body, candidates.get(name), lambda run: report.final(records, run))
    for run in sorted((records / "runs").glob("*.jsonl")):
        _run(found, records, run, entries if verified else None, seals, candidates, known)
    for name, body in voices.items():
        _promoted(found, name, body, candidates.get(name), lambda run: said.final(records, run))
    for run in sorted((layout.say(records) / "runs").glob("*.jsonl")):
        check.run(found, records, run, entries if verified else None, spoken, candidates)
    found.checked["ledger lines"] = len(entries)
    return found


def _files(found: Findings, records: Path, folder: str, read: Callable[[str], Any]) -> dict[str, Any]:
    names = sorted(path.stem for path in (records / folder).glob("*.json"))
    found.checked[folder] = len(names)
    items = {name: found.attempt(lambda name=name: read(name)) for name in names}
    return {name: item for name, item in items.items() if item is not None}


def _entered(found: Findings, entries: list[Entry], event: str, what: str, hashes: Mapping[str, str]) -> None:
    """Files and ledger lines must name each other."""
    lines = {e.data["name"]: e.data["sha256"] for e in entries if e.event == event}
    for name, sha in hashes.items():
        if name not in lines:
            found.faults.append(f"{what} {name!r} is not in the ledger.")
        elif lines[name] != sha:
            found.faults.append(f"{what} {name!r} is not the one in the ledger ({lines[name]} there, {sha} here).")
    for name in lines.keys() - hashes.keys():
        found.faults.append(f"{what} {name!r} stands in the ledger, but its file is missing or damaged.")


def _order(found: Findings, entries: list[Entry]) -> None:
    """Sealed, frozen, opened once, closed, promoted: in this order."""
    opened: dict[str, Entry] = {}
    for entry in (e for e in entries if e.event == "opened"):
        name, candidate = entry.data["seal"], entry.data["candidate"]
        if name in opened:
            found.faults.append(f"final {name!r} was opened twice, in ledger lines {opened[name].n} and {entry.n}.")
        opened[name] = entry
        sealed = ledger.last(entries, "sealed", name=name)
        frozen = ledger.last(entries, "frozen", name=candidate)
        if sealed is None or frozen is None or not sealed.n < frozen.n < entry.n:
            found.faults.append(f"final {name!r} was not sealed, then candidate {candidate!r} frozen, then opened.")
        if ledger.last(entries, "closed", run=entry.data["run"]) is None:
            found.remarks.append(f"final {name!r} was opened by run {entry.data['run']!r}, which is not finished.")
    for entry in (e for e in entries if e.event == "resumed"):
        found.remarks.append(f"run {entry.data['run']!r} was resumed after {entry.data['records']} answers.")


def _runs(
    found: Findings,
    records: Path,
    entries: list[Entry],
    seals: Mapping[str, Seal | SentenceSeal],
    candidates: Mapping[str, Candidate],
) -> None:
    """What the ledger says of runs, against their files."""
    for closed in (e for e in entries if e.event == "closed"):
        found.attempt(lambda run=closed.data["run"]: ledger.check_run(records, entries, run))
    for opened in (e for e in entries if e.event == "opened"):
        held, frozen = seals.get(opened.data["seal"]), candidates.get(opened.data["candidate"])
        if held and held.sha256 != opened.data["seal_sha256"]:
            found.faults.append(f"final {held.name!r} was opened as another seal than the one that lies there.")
        if frozen and frozen.sha256 != opened.data["candidate_sha256"]:
            found.faults.append(f"final {opened.data['seal']!r} was opened with another candidate {frozen.name!r}.")
        if held and held.code_sha256 != opened.data["code_sha256"]:
            found.remarks.append(f"the judge's own code changed between sealing and opening {held.name!r}.")


def _shared(found: Findings, seals: Mapping[str, Seal]) -> None:
    """No row may stand in two finals, by its words or by its recording."""
    where: dict[str, str] = {}
    for name, held in seals.items():
        for row in held.rows:
            for sha in (row.text_sha256, row.audio_sha256):
                first = where.setdefault(sha, name)
                if first != name:
                    found.faults.append(f"row {row.id} of seal {name!r} stands in seal {first!r} as well.")
                    break


def _heard(found: Findings, held: Seal, known: Mapping[str, Question]) -> None:
    """Compare sealed rows with the questions at hand."""
    missing = 0
    for row in held.rows:
        if row.id not in known:
            missing += 1
            continue
        q = known[row.id]
        if seal.sealed(q) != row:
            found.faults.append(f"row {row.id} of seal {held.name!r} differs from the question at hand.")
        elif (audio := found.attempt(q.audio)) is not None and audio.sha256 != row.audio_sha256:
            found.faults.append(f"the recording of row {row.id} of seal {held.name!r} was changed.")
    if not known:
        found.remarks.append(
            f"the rows and recordings of seal {held.name!r} were not given, so words, keys and audio were not compared "
            "with it; to do so, give --rows and --audio."
        )
    elif missing:
        found.remarks.append(
            f"{missing} of the {held.n} rows of seal {held.name!r} are not among those given, so not compared."
        )


def _pinned(found: Findings, records: Path, candidate: Candidate) -> None:
    """A candidate's files, where they still lie there: weights may rest elsewhere, but may not differ."""
    for key, pinned in [*candidate.files.items(), *candidate.sets.items()]:
        path = records / pinned.path
        if not path.is_file():
            found.remarks.append(f"{key} of candidate {candidate.name!r} is not at hand ({pinned.path}).")
        elif (sha := file_sha256(path)) != pinned.sha256:
            found.faults.append(
                f"{key} of candidate {candidate.name!r} ({pinned.path}) was changed: frozen {pinned.sha256}, "
                f"found {sha}."
            )


def _promoted(
    found: Findings, name: str, body: Mapping[str, Any], candidate: Candidate | None, final: Callable[[str], Any]
) -> None:
    """A promotion against its candidate and the report as it re-derives today; final: of a run."""
    if candidate is None or candidate.sha256 != body["candidate_sha256"]:
        found.faults.append(f"promotion {name!r} is not of the candidate that lies there.")
    again = found.attempt(lambda: final(body["run"]))
    if again is not None and layout.digest(again) != body["report_sha256"]:
        found.faults.append(f"promotion {name!r} rests on a report that no longer re-derives from run {body['run']!r}.")


def _run(
    found: Findings,
    records: Path,
    path: Path,
    entries: list[Entry] | None,
    seals: Mapping[str, Seal],
    candidates: Mapping[str, Candidate],
    known: Mapping[str, Question],
) -> None:
    """One file of raw records against its seal, its opening and its candidate."""
    scanned = found.attempt(lambda: record.scan(path))
    if scanned is None:
        return
    found.checked["records"] = found.checked.get("records", 0) + len(scanned.records)
    if scanned.torn and entries is not None and ledger.last(entries, "closed", run=path.stem) is None:
        found.remarks.append(f"{path.name} ends in a torn line; resuming its run repairs it.")
    names = {r.seal for r in scanned.records}
    if names <= {None}:
        return
    if len(names) > 1 or {r.run for r in scanned.records} != {path.stem}:
        found.faults.append(f"{path.name} mixes records of several seals or runs.")
        return
    name = scanned.records[0].seal
    opened = ledger.last(entries, "opened", seal=name, run=path.stem) if entries is not None else None
    if entries is not None and opened is None:
        found.faults.append(f"{path.name} answers final {name!r}, which run {path.stem!r} never opened.")
    held = seals.get(name or "")
    rows = {row.id: row for row in held.rows} if held else {}
    candidate = candidates.get(opened.data["candidate"]) if opened else None
    for r in scanned.records:
        if held and r.row not in rows:
            found.faults.append(f"{path.name} answers row {r.row}, which seal {name!r} does not hold.")
        elif held:
            row = rows[r.row]
            if (r.question_sha256, r.audio_sha256, record_key_sha256(r)) != (
                row.text_sha256,
                row.audio_sha256,
                row.key_sha256,
            ):
                found.faults.append(
                    f"{path.name} answers row {r.row} by {r.arm} in other words, audio or key than sealed."
                )
        if candidate and any(candidate.hashes.get(file) != sha for file, sha in r.artifacts.items()):
            found.faults.append(f"{path.name} answers row {r.row} by {r.arm} from files that were not frozen.")
        if opened and r.arm not in opened.data["arms"]:
            found.faults.append(f"{path.name} answers row {r.row} by arm {r.arm!r}, which was not opened.")
    if candidate and held and (questions := [known[row] for row in rows if row in known]):
        sets = all((records / pinned.path).is_file() for pinned in candidate.sets.values())
        for clash in (found.attempt(lambda: seal.audit_sets(records, candidate, questions)) or []) if sets else []:
            found.faults.append(f"final {name!r} and candidate {candidate.name!r}: {clash}.")
