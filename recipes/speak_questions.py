"""Speak text questions with many voices in many conditions: 16 kHz clips for training a listener and for sealed tests.

    python recipes/speak_questions.py --rows rows.jsonl --split train --out FOLDER [--takes K] [--workers N] [--wav]
        [--without ENGINE...]

rows.jsonl holds one object a line with at least "id" and "question". FOLDER gets clips.jsonl (one line a clip: id, row,
voice, condition, seconds, sha256 of the int16 samples, place) and shards of raw int16; `read_clip(FOLDER, entry)` reads
one. With --wav each clip is a FLAC file instead. The same row id, take and seed give the same clip whatever else is in
the file; a killed run continues where it stopped. Voices and their licences: `voices/catalogue.py`. Held voices, rooms
and noises never occur in the train split. What it is not: natural speech. All voices are synthetic.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from voices.catalogue import VOICES, engine, order_voices
from voices.conditions import apply_condition, draw_condition, stretch, trim, warp
from voices.engines import MissingVoice
from voices.shards import ClipWriter, read_clip, read_entries

__all__ = ["Clip", "main", "read_clip", "read_entries", "speak", "speak_one"]

RECIPE = 4  # raised whenever the same seed would no longer give the same clips
SPLITS = ("train", "held")
CROWD_WORDS = (
    "We could walk along the river before it gets dark.",
    "They moved the meeting to the second week of May.",
    "She never told me what the doctor really said.",
    "Put the big box under the table, please.",
    "I was going to call you but the phone died.",
    "Nobody knows how the old man got up there.",
)
CROWD_VOICES = {"train": ("rms", "slt", "kal16", "bdl", "clb", "pico-gb"), "held": ("awb", "joe")}


@dataclass(frozen=True)
class Clip:
    """A finished clip: samples int16 (N,) at 16 kHz, and the record of how it was made."""

    samples: np.ndarray
    record: dict[str, Any]


def _rng(*parts: object) -> np.random.Generator:
    digest = hashlib.blake2b("|".join(map(str, parts)).encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


def _say(name: str, text: str, warp_by: float, speed: float, pitch: float) -> np.ndarray:
    """The voice's speech at 16 kHz, float (N,): warped, at `speed` times its natural pace all told."""
    voice = engine(name)
    samples, rate = voice.say(text, speed / warp_by if voice.bends_speed else 1.0, pitch)
    speech = trim(warp(samples, rate, warp_by))
    return speech if voice.bends_speed else stretch(speech, speed / warp_by)


@cache
def _crowd(split: str) -> list[np.ndarray]:
    """Other people's speech for babble, from voices of the same split."""
    crowd = []
    for name in CROWD_VOICES[split]:
        for n, words in enumerate(CROWD_WORDS):
            speech = _say(name, words, (0.88, 1.0, 1.13)[n % 3], 1.0, 1.0)
            crowd.append(speech / (np.sqrt((speech**2).mean()) + 1e-9))
    return crowd


def speak_one(
    row: dict[str, Any],
    split: str,
    seed: int,
    take: int = 0,
    without: tuple[str, ...] = (),
    voice_name: str | None = None,
) -> Clip:
    """Speak one row once. `voice_name` overrides the drawn voice (for listening to a voice; not used for sets)."""
    voice = VOICES[voice_name] if voice_name else order_voices(_rng(seed, row["id"], split), split, without)[take]
    rng = _rng(seed, row["id"], split, take)
    warp_by = round(float(rng.uniform(*voice.bend)), 3)
    speed = round(float(np.clip(rng.uniform(0.85, 1.25), 0.78 * warp_by, 1.32 * warp_by)), 3)
    pitch = round(float(rng.uniform(0.85, 1.2)), 3) if engine(voice.name).bends_pitch else 1.0
    condition = draw_condition(rng, split)
    speech = _say(voice.name, row["question"], warp_by, speed, pitch)
    samples = apply_condition(speech, condition, rng, _crowd(split) if condition.noise in ("babble", "cafe") else [])
    record = {
        "id": f"{row['id']}.{take}",
        "row": row["id"],
        "take": take,
        "split": split,
        "seed": seed,
        "voice": voice.name,
        "engine": voice.engine,
        "warp": warp_by,
        "speed": speed,
        "pitch": pitch,
        "condition": condition.kind,
        **{k: v for k, v in dataclasses.asdict(condition).items() if k != "kind"},
    }
    return Clip(samples, record)


def speak(
    rows: Iterable[dict[str, Any]], split: str, seed: int, takes: int = 1
) -> Iterator[tuple[dict[str, Any], Clip]]:
    """Speak every row `takes` times, each time by another voice; yields (row, clip) in order."""
    for row in rows:
        for take in range(takes):
            yield row, speak_one(row, split, seed, take)


def _job(job: tuple[dict[str, Any], str, int, int, tuple[str, ...]]) -> Clip:
    return speak_one(*job)


def read_rows(path: Path, limit: int | None) -> list[dict[str, Any]]:
    """The rows of a JSONL file; raises ValueError with one sentence for a line that is not a row."""
    rows = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if limit is not None and len(rows) >= limit:
                break
            if not line.strip():
                continue
            row = json.loads(line)
            if not isinstance(row, dict) or not row.get("id") or not str(row.get("question", "")).strip():
                raise ValueError(f'{path} line {number} is not a row; each line needs a non-empty "id" and "question".')
            rows.append(row)
    if len({row["id"] for row in rows}) < len(rows):
        raise ValueError(f"{path} has two rows with the same id; give each row its own.")
    return rows


def _settle(folder: Path, settings: dict[str, Any]) -> None:
    """Remember how a folder is being made, and refuse to continue it in another way."""
    path = folder / "settings.json"
    if path.exists() and (before := json.loads(path.read_text())) != settings:
        raise ValueError(f"{folder} was made with {before}, not {settings}; choose another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings) + "\n")


def build(
    rows: list[dict[str, Any]],
    split: str,
    out: Path,
    seed: int,
    takes: int = 1,
    workers: int = 1,
    flac: bool = False,
    without: tuple[str, ...] = (),
) -> int:
    """Speak the rows into a folder, skipping what is there; returns the number of clips it then holds."""
    from tqdm import tqdm

    settings = {"recipe": RECIPE, "split": split, "seed": seed, "takes": takes, "flac": flac}
    _settle(out, settings | ({"without": list(without)} if without else {}))
    writer = ClipWriter(out, flac, by_row=takes == 1)
    jobs = [
        (row, split, seed, take, without)
        for row in rows
        for take in range(takes)
        if f"{row['id']}.{take}" not in writer.done
    ]
    bar = tqdm(
        total=len(jobs) + len(writer.done),
        initial=len(writer.done),
        unit="clip",
        desc=f"speaking {split}",
        mininterval=2,
    )
    try:
        if workers == 1:
            for job in jobs:
                clip = _job(job)
                writer.add(clip.samples, clip.record)
                bar.update()
        else:
            import multiprocessing

            with multiprocessing.get_context("fork").Pool(workers) as pool:
                for clip in pool.imap(_job, jobs, chunksize=8):
                    writer.add(clip.samples, clip.record)
                    bar.update()
    finally:
        bar.close()
        writer.close()
    return writer.count


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Speak text questions into 16 kHz clips.")
    parser.add_argument("--rows", type=Path, required=True, help='JSONL with "id" and "question"')
    parser.add_argument("--split", choices=SPLITS, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--takes", type=int, default=1, help="clips a row, each by another voice")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=int, help="only the first N rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wav", action="store_true", help="one FLAC file a clip instead of shards")
    parser.add_argument("--without", nargs="+", default=(), metavar="ENGINE", help="engines to leave out (slow ones)")
    options = parser.parse_args(argv)
    try:
        count = build(
            read_rows(options.rows, options.limit),
            options.split,
            options.out,
            options.seed,
            options.takes,
            options.workers,
            options.wav,
            tuple(options.without),
        )
    except (MissingVoice, ValueError, FileNotFoundError) as error:
        print(f"speak_questions: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {count} clips")
    return 0


if __name__ == "__main__":
    os.nice(10)
    raise SystemExit(main())
