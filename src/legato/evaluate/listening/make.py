"""Draw up a blind sheet from two folders of equally named recordings: matched, shuffled, named by nothing, sealed.

Half of the pairs have system a on the left, and which ones is drawn by the seed, as is the order. Catch trials play one
recording on both sides (who hears a difference there guesses); repeat trials show a pair again, later and swapped (who
then prefers the other system was not sure). Neither counts for or against a system. The key carries a random number,
so that its hash does not give the few possible keys away.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from legato import audio
from legato.audio import Audio
from legato.errors import BadInput
from legato.evaluate import lines
from legato.evaluate.listening import loudness
from legato.evaluate.listening.sheet import SIDES, Secret, Sheet, System, Trial, as_json, audio_path, open_sheet

SUFFIXES = (".wav", ".flac")
LONGEST_S = 120.0  # one clip; nobody compares the start of a longer one with its end
LEAST_S = 2.0  # heard of each side before a vote counts, or most of a shorter clip
LEAST_SHARE = 0.8


def make(out: Path, a: Path, b: Path, *, catch: int = 2, repeat: int = 2, seed: int = 0) -> Sheet:
    """Make the sheet folder `out`, whole or not at all, and open it.

    a, b: folders of WAV or FLAC files, paired by name; catch, repeat: how many of those trials; seed: decides order
    and sides, so the same seed and files give the same sheet (but for the key's random number).

    Raises:
        BadInput: `out` is taken, the folders do not pair up, fewer than two pairs, more repeats than pairs, rates that
            differ, a recording that is damaged, silent or too long, or a pair of one and the same recording.
        OSError: `out` cannot be written.
    """
    found = pairs(a, b)
    names = sorted(found)
    if repeat > len(names):
        raise BadInput(f"{repeat} repeat trials were asked for, but there are {len(names)} pairs; ask for fewer.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} is there already; give the sheet a new folder.")
    matched = {name: _matched(*found[name]) for name in names}
    plan = _plan(names, catch, repeat, random.Random(f"legato listening {seed}"))
    scratch = out.with_name(f".{out.name}.{secrets.token_hex(4)}.part")
    try:
        (scratch / "audio").mkdir(parents=True)
        _write(scratch, plan, matched, a, b, seed)
        os.replace(scratch, out)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return open_sheet(out)


def pairs(a: Path, b: Path) -> dict[str, tuple[Path, Path]]:
    """name -> (file of a, file of b), every recording of one folder with its namesake in the other."""
    if a.resolve() == b.resolve():
        raise BadInput(f"both systems are the folder {a}; give two.")
    first, second = _recordings(a), _recordings(b)
    for folder, missing in ((b, first.keys() - second.keys()), (a, second.keys() - first.keys())):
        if missing:
            shown = ", ".join(sorted(missing)[:3]) + (", ..." if len(missing) > 3 else "")
            raise BadInput(f"{folder} lacks {len(missing)} recordings that the other folder has ({shown}); add them.")
    if len(first) < 2:
        raise BadInput(f"a sheet needs at least 2 pairs of .wav or .flac files; {a} and {b} have {len(first)}.")
    return {name: (first[name], second[name]) for name in first}


def _recordings(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}; give a folder of .wav or .flac files.")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in SUFFIXES and not path.name.startswith("."):
            if path.stem in found:
                raise BadInput(f"{folder} holds {path.stem} twice, as .wav and .flac; remove one.")
            found[path.stem] = path
    return found


def _matched(a: Path, b: Path) -> dict[System, Audio]:
    first, second = audio.read(a, LONGEST_S), audio.read(b, LONGEST_S)
    if first.rate != second.rate:
        raise BadInput(
            f"{a} has {first.rate:,} samples a second and {b} has {second.rate:,}; "
            "resample one, or the rate is what will be heard."
        )
    if first.rate < audio.MIN_QUESTION_RATE:
        raise BadInput(f"{a} has {first.rate:,} samples a second; {audio.MIN_QUESTION_RATE:,} is the least for speech.")
    if first.sha256 == second.sha256:
        raise BadInput(f"{a} and {b} are the same recording; leave that pair out.")
    try:
        first, second = loudness.match(first, second)
    except BadInput as error:
        raise BadInput(f"{a} and {b} cannot be compared: {error}") from error
    return {"a": first, "b": second}


def _plan(names: list[str], catch: int, repeat: int, draw: random.Random) -> list[Secret]:
    """All trials in the order in which they are shown."""
    lefts: list[System] = [("a", "b")[i % 2] for i in range(len(names))]
    if draw.random() < 0.5:  # which system has the odd one
        lefts = [_other(system) for system in lefts]
    draw.shuffle(lefts)
    shown = [Secret("pair", name, left, _other(left)) for name, left in zip(names, lefts, strict=True)]
    caught: list[System] = [("a", "b")[i % 2] for i in range(catch)]
    shown += [Secret("catch", draw.choice(names), system, system) for system in caught]
    draw.shuffle(shown)
    originals = [i for i, trial in enumerate(shown) if trial.kind == "pair"]
    early = originals[: max(repeat, 2 * len(originals) // 3)]  # so that something lies between the two
    places = [(float(i), trial) for i, trial in enumerate(shown)]
    for i in draw.sample(early, repeat):
        again = Secret("repeat", shown[i].item, shown[i].right, shown[i].left)
        places.append((draw.uniform(min(i + 1.5, len(shown) - 0.5), len(shown)), again))
    return [trial for _, trial in sorted(places, key=lambda place: place[0])]


def _other(system: System) -> System:
    return "b" if system == "a" else "a"


def _write(
    folder: Path, plan: list[Secret], matched: dict[str, dict[System, Audio]], a: Path, b: Path, seed: int
) -> None:
    draw = random.Random(f"legato listening ids {seed}")
    ids = [f"{n:06x}" for n in draw.sample(range(1 << 24), len(plan))]
    trials = []
    for name, secret in zip(ids, plan, strict=True):
        hashes = {}
        for side in SIDES:
            path = audio_path(folder, name, side)
            audio.write(path, matched[secret.item][getattr(secret, side)])
            hashes[side] = hashlib.sha256(path.read_bytes()).hexdigest()
        seconds = round(matched[secret.item]["a"].seconds, 3)
        trials.append(Trial(name, seconds, round(min(LEAST_S, LEAST_SHARE * seconds), 2), hashes))
    called = (a.name, b.name) if a.name != b.name else (str(a), str(b))
    key = {
        "a": called[0],
        "b": called[1],
        "nonce": secrets.token_hex(16),
        "trials": {name: asdict(secret) for name, secret in zip(ids, plan, strict=True)},
    }
    lines.write_whole(folder / "key.json", key)
    hashed = hashlib.sha256((folder / "key.json").read_bytes()).hexdigest()
    created = datetime.now(UTC).isoformat(timespec="seconds")
    lines.write_whole(folder / "sheet.json", as_json(seed, trials, hashed, created))
