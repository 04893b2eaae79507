"""The raw record of a voice: one sentence said once, one JSON line, with every rendering of that one run in it.

A line is written whole or not at all, so a kill never leaves a head without its depth path. Figures over sentences are
derived from these lines and nothing else. The transcript stays as the recogniser wrote it: a better rule of what counts
as the same word can be applied years later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from legato.errors import BadInput
from legato.evaluate import lines
from legato.evaluate.instruments.intelligibility import UNHEARD, WRONG, Heard

BROKE = "broke"
FAILURES = (BROKE, UNHEARD, WRONG)  # the run ended in an error; silence or no word; WER of 1 or more


@dataclass(frozen=True)
class Sound:
    """One rendering, measured. None: not to be measured here (silence, no voiced frame, no ceiling, the reference).

    transcript: as the recogniser wrote it. heard: the same in the spelling of what was said. substitutions, deletions,
    insertions: words. hnr_db: mean harmonics-to-noise ratio; hnr_deficit_db: the ceiling's minus this. wobble_cents: of
    its own pitch, 3 to 10 Hz. clicks: at codec frame joins. static_s: loud noise at the end; cut: stops in full voice.
    pauses: of 200 ms and more, pause_s of them in all. From warble_cents on: against the depth path on the same frames;
    pacing_s, rendering_s, filled_s: whose its pauses are (`pauses.Split`).
    """

    audio_sha256: str | None
    seconds: float | None
    frames: int | None
    transcript: str
    heard: str
    substitutions: int
    deletions: int
    insertions: int
    character_errors: int
    failure: str | None
    hnr_db: float | None = None
    hnr_deficit_db: float | None = None
    wobble_cents: float | None = None
    clicks: int | None = None
    static_s: float | None = None
    cut: bool | None = None
    words_per_s: float | None = None
    pauses: int | None = None
    pause_s: float | None = None
    warble_cents: float | None = None
    noise_deficit_db: float | None = None
    level_offset_db: float | None = None
    level_spread_db: float | None = None
    level_worst_db: float | None = None
    pacing_s: float | None = None
    rendering_s: float | None = None
    filled_s: float | None = None


@dataclass(frozen=True)
class Record:
    """One sentence. said: what counts as said, as `words.normal` writes it, of so many words and characters. broke: the
    error that ended the run, or None. sounds: by renderer, and "ceiling" where a recording was at hand."""

    run: str
    seal: str | None
    id: str
    kind: str
    text: str
    content_sha256: str
    said: str
    words: int
    characters: int
    seed: int
    broke: str | None
    recogniser: Mapping[str, str]  # name, sha256
    artifacts: Mapping[str, str]  # name -> SHA-256 of every file that the voice was built from
    settings: Mapping[str, Any]  # how codes were drawn and latents walked
    sounds: Mapping[str, Sound]

    def heard(self, renderer: str) -> Heard:
        """As the intelligibility instrument takes it."""
        s = self.sounds[renderer]
        return Heard(
            self.said, s.heard, self.words, s.substitutions, s.deletions, s.insertions, self.characters,
            s.character_errors,
        )  # fmt: skip


_TOP: dict[str, tuple[type, ...]] = {
    **{f.name: (str,) for f in fields(Record)},
    "seal": (str, type(None)),
    "broke": (str, type(None)),
    **dict.fromkeys(("words", "characters", "seed"), (int,)),
    **dict.fromkeys(("recogniser", "artifacts", "settings", "sounds"), (dict,)),
}
_COUNTS = ("substitutions", "deletions", "insertions", "character_errors")
_SOUND: dict[str, tuple[type, ...]] = {
    **{f.name: (int, float, type(None)) for f in fields(Sound)},
    **dict.fromkeys(("transcript", "heard"), (str,)),
    **dict.fromkeys(("audio_sha256", "failure"), (str, type(None))),
    **dict.fromkeys(_COUNTS, (int,)),
    **dict.fromkeys(("frames", "clicks", "pauses"), (int, type(None))),
    "cut": (bool, type(None)),
}


def to_json(record: Record) -> dict[str, Any]:
    """The record as the object of its line."""
    return asdict(record)


def from_json(data: Mapping[str, Any], where: str) -> Record:
    """Read a line's object, strictly.

    Raises:
        BadInput: a key is unknown, missing or of the wrong type; `where` names the line in the message.
    """
    _check(data, _TOP, where)
    for name, sound in data["sounds"].items():
        if not isinstance(sound, dict):
            raise BadInput(f"{where}: sound {name!r} is a {type(sound).__name__}, wanted an object.")
        _check(sound, _SOUND, f"{where}: sound {name!r}")
        if sound["failure"] not in (None, *FAILURES):
            raise BadInput(f"{where}: sound {name!r} failed by {sound['failure']!r}, wanted one of {FAILURES}.")
    strings = [*data["artifacts"].values(), *data["recogniser"].values()]
    if not all(isinstance(value, str) for value in strings):
        raise BadInput(f"{where}: 'artifacts' and 'recogniser' hold strings.")
    return Record(**{**data, "sounds": {name: Sound(**sound) for name, sound in data["sounds"].items()}})


def _check(data: Mapping[str, Any], types: Mapping[str, tuple[type, ...]], where: str) -> None:
    if data.keys() != types.keys():
        wrong = sorted(data.keys() ^ types.keys())
        raise BadInput(f"{where}: the key {wrong[0]!r} is unknown or missing; a record holds {', '.join(types)}.")
    for key, wanted in types.items():
        value = data[key]
        fits = isinstance(value, wanted) and not (isinstance(value, bool) and bool not in wanted)
        if not fits or (isinstance(value, float) and not math.isfinite(value)):
            raise BadInput(f"{where}: {key!r} is {value!r}, wanted {' or '.join(t.__name__ for t in wanted)}.")


@dataclass(frozen=True)
class Found:
    """A record file as it lies on the disk. torn: an unfinished last line, which resuming the run repairs."""

    records: list[Record]
    torn: bytes


def scan(path: Path) -> Found:
    """Read a record file, a torn last line aside; a missing file is an empty one.

    Raises:
        BadInput: a whole line is damaged, or a sentence stands there twice.
    """
    found = lines.read(path)
    records: list[Record] = []
    first: dict[str, int] = {}
    for number, line in enumerate(found.whole, 1):
        where = f"{path.name} line {number}"
        r = from_json(lines.parse(line, where), where)
        if first.setdefault(r.id, number) != number:
            raise BadInput(f"{where} says sentence {r.id} again after line {first[r.id]}; it is said once, restore it.")
        records.append(r)
    return Found(records, found.torn)


def read(path: Path) -> list[Record]:
    """Read a finished record file. Raises BadInput where it is missing, empty, damaged or torn."""
    found = scan(path)
    if not found.records:
        raise BadInput(f"{path} holds no record of a voice; run it first.")
    if found.torn:
        raise BadInput(f"{path.name} ends in a torn line; resume its run, which repairs it.")
    return found.records


class Writer(lines.Appender):
    """Appends records durably; `repaired` says what was done to a torn last line."""

    def write(self, record: Record) -> None:
        """Append one record; on return it is on the disk."""
        self.append(to_json(record))
