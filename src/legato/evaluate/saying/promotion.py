"""Promote a voice: every floor cleared on a sealed final, and a blind sheet on which it was heard.

The ear has the last word. Where it preferred the depth path the head is refused, whatever the instruments say; where it
preferred the head, or heard no difference, the head may ship. What the metric had said is kept beside it in the log of
the listening side, so that a metric which is overruled again and again is found out.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from legato.errors import NotPromoted, SealError
from legato.evaluate import layout, ledger, lines, promote
from legato.evaluate.listening import verdict
from legato.evaluate.listening.exact import ALPHA
from legato.evaluate.listening.sheet import Sheet, open_sheet
from legato.evaluate.saying import final, report
from legato.evaluate.saying.gates import gates, missed
from legato.evaluate.saying.run import DEPTH, HEAD

METRIC = "1 - word error"


def promote_voice(records: Path, name: str, *, seal: str, sheet: Path | None, note: str = "") -> dict[str, Any]:
    """Write the promotion record of a candidate that was measured on a final and heard on a sheet; returns it.

    Raises:
        SealError: the final was not opened with this candidate, or its run is not closed.
        ChecksumMismatch: a file of the candidate, the key or a recording of the sheet changed.
        NotPromoted: a floor was missed, or no listening verdict exists yet, or the ear preferred the depth path.
        BadInput: the candidate is promoted already, or there is no sheet in the folder.
    """
    candidate = promote.read(records, name)
    promote.check_files(records, candidate)
    path = layout.promotion(layout.say(records), name)
    with ledger.writing(records) as book:
        opened = book.last("opened", seal=seal, candidate=name, side=final.SIDE)
        if opened is None or opened.data["candidate_sha256"] != candidate.sha256:
            raise SealError(f"final {seal!r} was never opened with candidate {name!r}; open it first.")
        layout.refuse_taken(path, f"promotion of {name!r}", book.last("promoted", name=name) is not None)
        found = report.final(records, opened.data["run"])  # refuses a run that is not finished
        floors = gates(found)
        if short := missed(floors):
            raise NotPromoted(f"candidate {name!r} is not fit to be heard: {short}; mend the voice and judge it anew.")
        ears = heard(records, found, {row.id for row in final.read(records, seal).rows}, sheet)
        body = layout.signed(
            {
                "name": name,
                "created": ledger.now(),
                "candidate_sha256": candidate.sha256,
                "files": {key: vars(pinned) for key, pinned in candidate.files.items()},
                "seal": seal,
                "run": opened.data["run"],
                "report_sha256": layout.digest(found),
                "floors": [asdict(gate) for gate in floors],
                "listening": ears,
                "note": note,
            }
        )
        lines.write_whole(path, body)
        book.append("promoted", name=name, seal=seal, sha256=body["sha256"], side=final.SIDE)
    return body


def heard(records: Path, found: dict[str, Any], ids: set[str], sheet: Path | None) -> dict[str, Any]:
    """What the ear said of this run's sounds, with what the metric had said; noted in the log.

    Raises:
        NotPromoted: there is no sheet, or it has no verdict, or it prefers the depth path.
        SealError: the sheet is of other systems or other sentences.
    """
    if sheet is None:
        raise NotPromoted(
            "no listening verdict exists yet; make a sheet of the two folders with: legato listening new, hear it, and "
            "name it with --sheet."
        )
    opened = open_sheet(sheet)
    systems = _systems(opened, ids)
    told = verdict.report(opened)
    if told["verdict"] == verdict.YET:
        raise NotPromoted(f"no listening verdict exists yet: {told['why']}; finish the sheet.")
    noted = verdict.compare(told, METRIC, _metric(found, systems), records / "listening" / "metric_and_ear.jsonl")
    if systems.get(told["verdict"]) == DEPTH:
        overruled = " (listening overruled the metric)" if noted["outcome"] == "overruled" else ""
        raise NotPromoted(
            f"the ear preferred the depth path: {told['why']}{overruled}; polish the head and judge anew."
        )
    return {
        "sheet": opened.sha256,
        "verdict": systems.get(told["verdict"], told["verdict"]),
        "why": told["why"],
        "pairs": told["pairs"],
        "wins": {systems[side]: n for side, n in told["wins"].items()},
        "no_preference": told["no_preference"],
        "p_two_sided": told["p_two_sided"],
        "metric": noted["outcome"],
    }


def _systems(sheet: Sheet, ids: set[str]) -> dict[str, str]:
    """a, b -> head, depth."""
    key = sheet.key()
    systems = {"a": Path(key.a).name, "b": Path(key.b).name}
    if set(systems.values()) != {HEAD, DEPTH}:
        raise SealError(f"the sheet compares {key.a!r} with {key.b!r}; make one of a run's folders head and depth.")
    if strange := {secret.item for secret in key.trials.values()} - ids:
        raise SealError(f"the sheet plays {min(strange)}, which is no sentence of this final; make one of its sounds.")
    return systems


def _metric(found: dict[str, Any], systems: dict[str, str]) -> str:
    """Which system the metric preferred: "a", "b" or "none"."""
    v = found["head_vs_depth"]
    better = None if v["p"] > ALPHA else HEAD if v["wer"]["value"] < 0 else DEPTH
    return next((side for side, system in systems.items() if system == better), "none")
