"""Unblind a sheet: who was preferred, how surely, by how reliable an ear, and what it would take to know more.

The number of trials was fixed when the sheet was made, and that is the stopping rule: until every trial has its vote
there is no verdict, or one could stop at the first good moment. Only first showings of pairs count; catch and repeat
trials judge the listener. The log keeps what a metric had said beside what the ear said then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from legato.errors import BadInput
from legato.evaluate import lines
from legato.evaluate.listening import exact, votes
from legato.evaluate.listening.sheet import Key, Secret, Sheet

PREFERENCES = (0.6, 0.7, 0.8, 0.9)  # true shares whose needed choices are told
FEWEST = 6  # preferences; 5 of 5 still have p = 0.0625
YET = "no verdict yet"
NONE = "no difference shown"


def report(sheet: Sheet) -> dict[str, Any]:
    """Everything that the votes say, as plain JSON values.

    `verdict` is "a", "b", "no difference shown" or "no verdict yet"; `share_a` is a's share of the preferences.

    Raises:
        BadInput, SealError, ChecksumMismatch: votes or key are not what they were.
    """
    key = sheet.key()
    cast = votes.read(sheet)
    pairs = [s for s in key.trials.values() if s.kind == "pair"]
    heard = [(key.trials[trial], vote) for trial, vote in cast.by_trial.items()]
    first = [(secret, vote) for secret, vote in heard if secret.kind == "pair"]
    tally = Counter(preferred(secret, vote) for secret, vote in first)
    a, b = tally["a"], tally["b"]
    share = exact.clopper_pearson(a, a + b)
    lefts = sum(vote["choice"] == "left" for _, vote in first)
    p = exact.two_sided(a, a + b)
    done = len(cast.by_trial) == len(sheet.trials)
    verdict, why = _verdict(key, a, b, p, len(sheet.trials) - len(cast.by_trial))
    return {
        "sheet": sheet.sha256,
        "systems": {"a": key.a, "b": key.b},
        "verdict": verdict,
        "why": why,
        "finished": done,
        "trials": len(sheet.trials),
        "voted": len(cast.by_trial),
        "pairs": len(pairs),
        "wins": {"a": a, "b": b},
        "no_preference": tally["none"],
        "p_two_sided": p if a + b else None,
        "share_a": {"value": share.value, "low": share.low, "high": share.high},
        "left_chosen": {"n": a + b, "left": lefts, "p_two_sided": exact.two_sided(lefts, a + b) if a + b else None},
        "catch": _catch(heard, key),
        "repeat": _repeat(heard, key),
        "faults": _faults(first),
        "needed": [_needed(preference, a + b) for preference in PREFERENCES],
        "remark": cast.remark,
    }


def preferred(secret: Secret, vote: Mapping[str, Any]) -> str:
    """The system behind a vote's side, or "none"."""
    return "none" if vote["choice"] == "none" else str(getattr(secret, vote["choice"]))


def compare(found: Mapping[str, Any], metric: str, said: str, log: Path) -> dict[str, Any]:
    """Note in `log` (JSON lines) what a metric said ("a", "b" or "none") and what the ear said, once.

    `outcome`: "agreed", "overruled" (the ear chose against the metric) or "not confirmed" (the ear showed nothing).

    Raises:
        BadInput: there is no verdict yet.
        OSError: the log cannot be written.
    """
    if found["verdict"] == YET:
        raise BadInput(f"there is {YET} to hold against the metric: {found['why']}.")
    ear = "none" if found["verdict"] == NONE else found["verdict"]
    outcome = "agreed" if ear == said else "not confirmed" if ear == "none" else "overruled"
    note = {
        "sheet": found["sheet"],
        "systems": found["systems"],
        "metric": metric,
        "metric_said": said,
        "ear_said": ear,
        "outcome": outcome,
        "wins": found["wins"],
        "no_preference": found["no_preference"],
        "p_two_sided": found["p_two_sided"],
    }
    with lines.Appender(log, wait_s=5.0) as file:
        whole = (lines.parse(line, f"{log}, line {i},") for i, line in enumerate(lines.read(log).whole, 1))
        if not any({k: v for k, v in old.items() if k != "noted"} == note for old in whole):
            file.append({**note, "noted": datetime.now(UTC).isoformat(timespec="seconds")})
    return note


def _verdict(key: Key, a: int, b: int, p: float, missing: int) -> tuple[str, str]:
    if missing:
        return YET, f"{missing} of {len(key.trials)} trials have no vote"
    if a + b < FEWEST:
        return YET, f"only {a + b} votes name a preference, and fewer than {FEWEST} can show none"
    if p > exact.ALPHA:
        return NONE, f"{a} to {b} is well within what chance gives (p = {p:.3g})"
    winner = "a" if a > b else "b"
    return winner, f"{getattr(key, winner)} was preferred {max(a, b)} to {min(a, b)} (p = {p:.2g})"


def _catch(heard: Iterable[tuple[Secret, Mapping[str, Any]]], key: Key) -> dict[str, int]:
    """Identical pairs: `fooled` counts those in which a preference was heard."""
    choices = [vote["choice"] for secret, vote in heard if secret.kind == "catch"]
    planned = sum(secret.kind == "catch" for secret in key.trials.values())
    return {"planned": planned, "n": len(choices), "fooled": sum(choice != "none" for choice in choices)}


def _repeat(heard: Iterable[tuple[Secret, Mapping[str, Any]]], key: Key) -> dict[str, int]:
    """Pairs shown twice: `same` answers for the system (or none, twice), and `reversed` ones from a to b or back."""
    heard = list(heard)
    once = {secret.item: preferred(secret, vote) for secret, vote in heard if secret.kind == "pair"}
    twice = [
        (once[secret.item], preferred(secret, vote))
        for secret, vote in heard
        if secret.kind == "repeat" and secret.item in once
    ]
    planned = sum(secret.kind == "repeat" for secret in key.trials.values())
    same = sum(x == y for x, y in twice)
    return {"planned": planned, "n": len(twice), "same": same, "reversed": sum({x, y} == {"a", "b"} for x, y in twice)}


def _faults(first: Iterable[tuple[Secret, Mapping[str, Any]]]) -> dict[str, dict[str, int]]:
    """Tags by what they speak against: the system that was not chosen, or both where none was."""
    counts: dict[str, Counter[str]] = {"a": Counter(), "b": Counter(), "both": Counter()}
    for secret, vote in first:
        against = {"a": "b", "b": "a", "none": "both"}[preferred(secret, vote)]
        counts[against].update(vote["tags"])
    return {against: dict(counter.most_common()) for against, counter in counts.items()}


def _needed(preference: float, decided: int) -> dict[str, float | int | None]:
    n = exact.choices_needed(preference)
    return {"preference": preference, "choices": n, "more": None if n is None else max(0, n - decided)}
