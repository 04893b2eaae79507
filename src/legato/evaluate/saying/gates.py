"""Floors: what a voice must clear before it is put on a blind sheet. They ask whether it is fit to be heard, not liked.

A floor whose instrument gave no figure is not cleared: what was not measured was not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCORE = 0.85  # what the backbone must reach on its own domain: a head on a mumbling backbone shows nothing
FAILED = 0  # sentences of the head that a recording does not fail on: one reply that is not said is one too many
WORSE = 0.03  # word error of head minus depth, upper end of the interval: one word in 33, which a sheet cannot show
DEFICIT = 3.0  # dB of harmonics-to-noise ratio below the codec's own ceiling: from there on it is heard as hiss
WOBBLE = 3.0  # cents above the depth path's own: what two means over 200 sentences vary by; a trained ear needs 5
LEVEL = 3.0  # dB from the depth path: more than an unmatched loudness, the head then speaks with another force
SILENCE = 0.02  # s a second of speech that the head alone is silent in
CLICKS = 1.0  # a minute: a plosive now and then falls on a join and reads as one
STATIC = 0  # sentences that end in loud noise
CUT = 0  # sentences that stop in full voice


@dataclass(frozen=True)
class Gate:
    """One floor. value: None where it was not measured. wanted: in words."""

    name: str
    value: float | None
    wanted: str
    cleared: bool


def gates(f: Mapping[str, Any]) -> list[Gate]:
    """The floors of one run's figures (`report.summarise`)."""
    head, depth = f["arms"]["head"], f["arms"]["depth"]
    against = f["head_vs_depth"]
    minutes = head["seconds"] / 60
    level = _value(head["level_offset_db"])
    own = _value(head["rendering_s"])
    return [
        _at_least("score of the depth path", depth["score"]["value"], SCORE),
        _at_least("score of the head", head["score"]["value"], SCORE),
        _at_most("failures of the head's own", head["failures"]["own"], FAILED),
        _at_most("word error, head - depth, upper end", against["wer"]["ci95"][1], WORSE),
        _at_most("HNR deficit to the codec's ceiling, dB", _value(head["hnr_deficit_db"]), DEFICIT),
        _at_most("wobble, head - depth, cents", _value(against["wobble_cents"]), WOBBLE),
        _at_most("level, head - depth, dB either way", None if level is None else abs(level), LEVEL),
        _at_most("silence by the head alone, s a second", None if own is None else own * head["n"] / head["seconds"],
                 SILENCE),
        _at_most("clicks a minute", head["clicks"] / minutes if minutes else None, CLICKS),
        _at_most("endings in static", head["static_endings"], STATIC),
        _at_most("endings cut off", head["cut_endings"], CUT),
    ]  # fmt: skip


def missed(found: list[Gate]) -> str | None:
    """The floors that were not cleared, as the rest of a sentence; None when all were."""
    low = [f"{g.name} is {'not measured' if g.value is None else f'{g.value:.3g}'}" for g in found if not g.cleared]
    return ", ".join(low) or None


def table(found: list[Gate]) -> str:
    """For people."""
    rows = [
        f"  {'cleared' if g.cleared else 'MISSED':<8} {g.name:<40} "
        f"{'not measured' if g.value is None else f'{g.value:.3g}':>12}  wanted {g.wanted}"
        for g in found
    ]
    short = sum(not g.cleared for g in found)
    end = (
        f"{short} of {len(found)} floors missed: not to be heard yet"
        if short
        else "all floors cleared: let it be heard"
    )
    return "\n".join(["floors", *rows, end])


def _value(estimate: Mapping[str, Any] | None) -> float | None:
    return None if estimate is None else estimate["value"]


def _at_least(name: str, value: float | None, floor: float) -> Gate:
    return Gate(name, value, f"{floor:g} or more", value is not None and value >= floor)


def _at_most(name: str, value: float | None, most: float) -> Gate:
    return Gate(name, value, f"{most:g} or less", value is not None and value <= most)
