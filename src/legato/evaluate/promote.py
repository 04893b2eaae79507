"""Freeze one candidate by checksum before a final is opened; write its promotion record afterwards.

A candidate is a list of files with their SHA-256 (models, mapper, residual) and the identity sets of everything that
trained or selected it. Promotion copies those hashes beside the hash of the report that earned them: a serving bridge
loads what stands in a promotion record and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legato.errors import BadInput, ChecksumMismatch, NotPromoted, SealError
from legato.evaluate import layout, ledger, lines
from legato.evaluate.identities import Identities
from legato.evaluate.questions import file_sha256

SETS = ("train", "select")


@dataclass(frozen=True)
class Pinned:
    """A file as it was when it was frozen."""

    path: str  # relative to the records folder
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Candidate:
    """What is about to be judged."""

    name: str
    created: str
    files: Mapping[str, Pinned]
    sets: Mapping[str, Pinned]  # "train" and "select": files of identities
    note: str
    sha256: str

    @property
    def hashes(self) -> dict[str, str]:
        """File name -> SHA-256, as raw records carry them."""
        return {name: pinned.sha256 for name, pinned in self.files.items()}


def freeze(
    records: Path, name: str, files: Mapping[str, Path], sets: Mapping[str, Path], *, note: str = ""
) -> Candidate:
    """Pin a candidate: `files` name -> path; `sets` the identity files "train" and "select".

    Where nothing was trained or selected, declare an empty file: a set that is not declared is not audited.

    Raises:
        BadInput: no files, a file is missing, a set is not declared or is no identity file, or the name is taken.
    """
    path = layout.candidate(records, name)
    if not files:
        raise BadInput(f"candidate {name!r} has no files; name at least one weight file.")
    if set(sets) != set(SETS):
        raise BadInput(
            f"candidate {name!r} declares the sets {sorted(sets)}, wanted {', '.join(SETS)} (empty files are fine)."
        )
    for file in sets.values():
        Identities.read(file)
    body = layout.signed(
        {
            "name": name,
            "created": ledger.now(),
            "files": {key: _pin(records, file) for key, file in files.items()},
            "sets": {key: _pin(records, file) for key, file in sets.items()},
            "note": note,
        }
    )
    with ledger.writing(records) as book:
        layout.refuse_taken(path, f"candidate {name!r}", book.last("frozen", name=name) is not None)
        lines.write_whole(path, body)
        book.append("frozen", name=name, sha256=body["sha256"])
    return _candidate(body)


def _pin(records: Path, path: Path) -> dict[str, Any]:
    sha = file_sha256(path)
    return {"path": layout.relative(records, path), "sha256": sha, "bytes": path.stat().st_size}


def read(records: Path, name: str) -> Candidate:
    """Read a frozen candidate.

    Raises:
        SealError: there is none of that name, or its file was changed.
    """
    return _candidate(layout.read_signed(layout.candidate(records, name), f"frozen candidate {name!r}"))


def _candidate(body: Mapping[str, Any]) -> Candidate:
    files = {key: Pinned(**pin) for key, pin in body["files"].items()}
    sets = {key: Pinned(**pin) for key, pin in body["sets"].items()}
    return Candidate(body["name"], body["created"], files, sets, body["note"], body["sha256"])


def check_files(records: Path, candidate: Candidate) -> None:
    """Compare every file and set of a candidate with the disk.

    Raises:
        ChecksumMismatch: naming the file and both hashes.
        BadInput: a file is missing.
    """
    for key, pinned in [*candidate.files.items(), *candidate.sets.items()]:
        found = file_sha256(records / pinned.path)
        if found != pinned.sha256:
            raise ChecksumMismatch(f"{key} of candidate {candidate.name!r} ({pinned.path})", pinned.sha256, found)


def promote(records: Path, name: str, *, seal: str, note: str = "") -> dict[str, Any]:
    """Write the promotion record of a candidate that was judged on a final; returns it.

    Whether the figures deserve it is for a person to say: the record carries them, and the hash of the report.

    Raises:
        SealError: the final was not opened with this candidate, or its run is not closed.
        ChecksumMismatch: a file of the candidate is no longer the one that was judged.
        BadInput: the candidate is promoted already.
    """
    from legato.evaluate import report  # here, because it brings scipy and freezing needs none

    candidate = read(records, name)
    check_files(records, candidate)
    path = layout.promotion(records, name)
    with ledger.writing(records) as book:
        opened = book.last("opened", seal=seal, candidate=name)
        if opened is None or opened.data["candidate_sha256"] != candidate.sha256:
            raise SealError(f"final {seal!r} was never opened with candidate {name!r}; open it first.")
        layout.refuse_taken(path, f"promotion of {name!r}", book.last("promoted", name=name) is not None)
        final = report.final(records, opened.data["run"])  # refuses a run that is not finished
        body = layout.signed(
            {
                "name": name,
                "created": ledger.now(),
                "candidate_sha256": candidate.sha256,
                "files": {key: vars(pinned) for key, pinned in candidate.files.items()},
                "seal": seal,
                "run": opened.data["run"],
                "report_sha256": layout.digest(final),
                "headline": {
                    "n": final["n"],
                    "accuracy": {arm: figures["accuracy"] for arm, figures in final["arms"].items()},
                    "gap_recovered": final["gap_recovered"],
                },
                "note": note,
            }
        )
        lines.write_whole(path, body)
        book.append("promoted", name=name, seal=seal, sha256=body["sha256"])
    return body


def promotion(records: Path, name: str) -> dict[str, Any]:
    """Read a promotion record, for whoever is about to serve.

    Raises:
        NotPromoted: the candidate has none.
        SealError: the record was changed.
    """
    path = layout.promotion(records, name)
    if not path.exists():
        raise NotPromoted(f"candidate {name!r} has no promotion record; judge it on a sealed final and promote it.")
    return layout.read_signed(path, f"promotion of {name!r}")
