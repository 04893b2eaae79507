"""Votes on a sheet: what one holds, how it is checked, and how it reaches the disk. Append-only, one a trial.

Every vote names the sheet by its hash, so votes cannot move to another one. The file is opened anew for each vote: a
write that failed half-way (a full disk) is cut off by the next one, and two servers cannot vote on one trial twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from legato.errors import BadInput, SealError
from legato.evaluate import lines
from legato.evaluate.listening.sheet import SIDES, Sheet, Trial

CHOICES = (*SIDES, "none")
TAGS = ("warble", "hiss", "pause", "word", "tone")
FIELDS = {"trial", "choice", "tags", "plays", "heard_s", "switches", "took_s"}


class TakenVote(BadInput):
    """The trial has its vote already."""


@dataclass(frozen=True)
class Votes:
    """by_trial: trial id -> vote, in the order given; remark: what is wrong with the end of the file, or None."""

    by_trial: Mapping[str, Mapping[str, Any]]
    remark: str | None


def read(sheet: Sheet) -> Votes:
    """All votes of a sheet; a last line that a kill has torn is left out, and said so.

    Raises:
        BadInput: a whole line is no vote.
        SealError: a vote was cast on another sheet, or a trial has two.
    """
    content = lines.read(sheet.votes)
    whole, remark = list(content.whole), None
    if content.torn:
        try:
            lines.parse(content.torn, "the last line")
        except BadInput:
            remark = f"{sheet.votes.name}: the last line was torn by a kill and does not count."
        else:
            whole.append(content.torn)
    trials = {trial.id: trial for trial in sheet.trials}
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(whole, 1):
        where = f"{sheet.votes}, line {number},"
        vote = lines.parse(line, where)
        if vote.get("sheet") != sheet.sha256:
            raise SealError(f"{where} was cast on another sheet; give each sheet its own folder.")
        _check({key: vote.get(key) for key in FIELDS}, trials, where)
        if vote["trial"] in found:
            raise SealError(f"{where} is a second vote on trial {vote['trial']}; restore the file.")
        found[vote["trial"]] = vote
    return Votes(found, remark)


def waiting(sheet: Sheet, votes: Votes) -> tuple[int, Trial] | None:
    """(its index, the first trial without a vote), or None when all are done."""
    return next(((i, trial) for i, trial in enumerate(sheet.trials) if trial.id not in votes.by_trial), None)


def cast(sheet: Sheet, vote: Mapping[str, Any]) -> None:
    """Check one vote and append it; on return it is on the disk.

    vote: trial; choice ("left", "right" or "none"); tags (of TAGS, what decided); plays and heard_s by side (times
    started or switched to, seconds heard); switches; took_s (from the trial's first sight to the vote).

    Raises:
        BadInput: something is missing or wrong, or a side was not heard for long enough.
        TakenVote: the trial has a vote.
        SealError, ChecksumMismatch: the key changed since.
        OSError: the disk did not take it.
    """
    sheet.check_key()
    positions = {trial.id: i for i, trial in enumerate(sheet.trials)}
    _check(vote, {trial.id: trial for trial in sheet.trials}, "the vote")
    with lines.Appender(sheet.votes, wait_s=5.0) as file:
        if vote["trial"] in read(sheet).by_trial:
            raise TakenVote(f"trial {vote['trial']} has its vote already; a vote is not changed.")
        kept = {key: vote[key] for key in sorted(FIELDS)}
        order = {"position": positions[vote["trial"]], "of": len(sheet.trials)}
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        file.append({**kept, **order, "seed": sheet.seed, "sheet": sheet.sha256, "voted": now})


def _check(vote: Mapping[str, Any], trials: Mapping[str, Trial], where: str) -> None:
    if not isinstance(vote, Mapping) or set(vote) != FIELDS:
        raise BadInput(f"{where} must hold {', '.join(sorted(FIELDS))} and nothing else.")
    if not isinstance(vote["trial"], str) or vote["trial"] not in trials:
        raise BadInput(f"{where} names trial {vote['trial']!r}, which the sheet does not have.")
    if vote["choice"] not in CHOICES:
        raise BadInput(f"{where} chooses {vote['choice']!r}; choose one of {', '.join(CHOICES)}.")
    tags = vote["tags"]
    if not isinstance(tags, list) or len(set(map(str, tags))) != len(tags) or not set(map(str, tags)) <= set(TAGS):
        raise BadInput(f"{where} has the tags {tags!r}; use {', '.join(TAGS)}, each at most once.")
    counts = (*_by_side(vote["plays"]), vote["switches"])
    heard = _by_side(vote["heard_s"])
    numbers = (*counts, *heard, vote["took_s"])
    if not all(type(n) in (int, float) and math.isfinite(n) and n >= 0 for n in numbers) or float in map(type, counts):
        raise BadInput(f"{where} needs plays and heard_s of left and right, switches and took_s as numbers from 0 up.")
    least = trials[vote["trial"]].least_s
    if min(heard) < least:
        raise BadInput(f"{where} came before both sides were heard for {least:g} s; listen to both first.")


def _by_side(value: Any) -> tuple[Any, Any]:
    return (value["left"], value["right"]) if isinstance(value, dict) and set(value) == set(SIDES) else (None, None)
