"""The voice's part of an audit: its seals, runs and promotions against each other and against the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.errors import BadInput
from legato.evaluate import layout, ledger
from legato.evaluate.ledger import Entry
from legato.evaluate.promote import Candidate
from legato.evaluate.saying import final, record
from legato.evaluate.saying.final import SentenceSeal
from legato.evaluate.saying.record import Record
from legato.evaluate.saying.run import DEPTH, HEAD
from legato.evaluate.saying.sentences import Sentence

if TYPE_CHECKING:
    from legato.evaluate.audit import Findings


def shared(found: Findings, seals: Mapping[str, SentenceSeal]) -> None:
    """No sentence may stand in two finals."""
    where: dict[str, str] = {}
    for name, held in seals.items():
        for row in held.rows:
            if (first := where.setdefault(row.text_sha256, name)) != name:
                found.faults.append(f"sentence {row.id} of seal {name!r} stands in seal {first!r} as well.")


def run(
    found: Findings,
    records: Path,
    path: Path,
    entries: list[Entry] | None,
    seals: Mapping[str, SentenceSeal],
    candidates: Mapping[str, Candidate],
) -> None:
    """One file of raw records against itself, its seal, its opening and its candidate."""
    scanned = found.attempt(lambda: record.scan(path))
    if scanned is None:
        return
    found.checked["records"] = found.checked.get("records", 0) + len(scanned.records)
    for r in scanned.records:
        found.attempt(lambda r=r: consistent(r, path.name))
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
        found.faults.append(f"{path.name} says final {name!r}, which run {path.stem!r} never opened.")
    held = seals.get(name or "")
    rows = {row.id: row for row in held.rows} if held else {}
    candidate = candidates.get(opened.data["candidate"]) if opened else None
    for r in scanned.records:
        if held and r.id not in rows:
            found.faults.append(f"{path.name} says sentence {r.id}, which seal {name!r} does not hold.")
        elif held and rows[r.id].content_sha256 != r.content_sha256:
            found.faults.append(f"{path.name} says sentence {r.id} in other words than sealed.")
        if candidate and dict(r.artifacts) != candidate.hashes:
            found.faults.append(f"{path.name} says sentence {r.id} from files that were not frozen.")
        if opened and r.recogniser["sha256"] != opened.data["settings"]["recogniser"]:
            found.faults.append(f"{path.name} heard sentence {r.id} by another recogniser than it was opened with.")


def consistent(r: Record, file: str) -> None:
    """Do a record's own parts agree: words with hash and seed, counts with the texts they were counted on?

    Raises:
        BadInput: they do not; a line was edited.
    """
    from legato.evaluate.instruments.intelligibility import counts

    sentence = Sentence(r.id, r.text, r.kind)
    if (sentence.content_sha256, sentence.seed) != (r.content_sha256, r.seed):
        raise BadInput(f"{file}: the words or the seed of sentence {r.id} are not those of its record; restore it.")
    if not {HEAD, DEPTH} <= r.sounds.keys():
        raise BadInput(f"{file}: sentence {r.id} lacks a renderer; restore it.")
    for name in r.sounds:
        if counts(r.said, r.sounds[name].heard) != r.heard(name):
            raise BadInput(f"{file}: the word errors of sentence {r.id} by {name} do not follow from what was heard.")


def files(found: Findings, records: Path) -> tuple[dict[str, SentenceSeal], dict[str, dict[str, Any]]]:
    """Seals and promotions of the voice, by name; counted where there are any."""
    folder = layout.say(records)
    seals = _read(found, folder / "seals", lambda name: final.read(records, name))
    promotions = _read(
        found,
        folder / "promotions",
        lambda name: layout.read_signed(layout.promotion(folder, name), f"promotion of {name!r}"),
    )
    for what, items in (("voice seals", seals), ("voice promotions", promotions)):
        if items:
            found.checked[what] = len(items)
    return seals, promotions


def _read(found: Findings, folder: Path, read: Any) -> dict[str, Any]:
    items = {path.stem: found.attempt(lambda name=path.stem: read(name)) for path in sorted(folder.glob("*.json"))}
    return {name: item for name, item in items.items() if item is not None}
