"""Recordings with the time of every word: what a voice is tapped on, and how its front end reads them.

A folder with `spoken.jsonl`, one line a recording, and the audio it names:

    {"audio": "a.flac", "text": "The cat sat.", "words": [["The", 0.12], ["cat", 0.31], ["sat.", 0.58]]}

The text is read as the voice would read it, marks included; a written word that is spoken as several ("12%") has them
spread until the next word begins. A text whose spoken words cannot be laid on the timed ones is refused.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from legato import audio
from legato.errors import BadInput
from legato.evaluate import lines
from legato.pocket.phonemes import sentence_phonemes
from legato.pocket.script import pieces
from legato.speak.text import sentences

FILE = "spoken.jsonl"
SHORTEST, LONGEST = 0.2, 60.0  # s of one recording
KEYS = ("audio", "text", "words")


@dataclass(frozen=True)
class Recording:
    """One line. where: what a refusal calls it. words: each with the second at which it begins. id: of its content."""

    where: str
    audio: Path
    text: str
    words: tuple[tuple[str, float], ...]
    id: str


def read_spoken(folder: Path) -> list[Recording]:
    """The recordings of a folder, in order; a line that is there twice counts once.

    Raises: BadInput for a folder, or a line in it, that cannot be used.
    """
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}; give one with recordings and {FILE}.")
    path = folder / FILE
    if not path.exists():
        raise BadInput(f"{folder} holds no {FILE}; write one line a recording: audio, text and timed words.")
    found = lines.read(path)
    written = [*found.whole, found.torn]
    read = [
        _recording(folder, line, f"line {n} of {path}") for n, line in enumerate(written, 1) if line.strip()
    ]
    if not read:
        raise BadInput(f"{path} holds no recordings; write one line a recording: audio, text and timed words.")
    return list({recording.id: recording for recording in read}.values())


def _recording(folder: Path, line: bytes, where: str) -> Recording:
    try:
        content: Any = lines.loads(line)
    except ValueError as error:
        raise BadInput(f"{where} is not JSON ({error}); write it again.") from None
    if not isinstance(content, dict) or (missing := [key for key in KEYS if key not in content]):
        what = f"has no {missing[0]}" if isinstance(content, dict) else "is no JSON object"
        raise BadInput(f"{where} {what}; each line needs {', '.join(KEYS)}.")
    name, text, timed = (content[key] for key in KEYS)
    if not (isinstance(name, str) and isinstance(text, str)):
        raise BadInput(f"{where} names its audio or its text by something that is no text; write both as strings.")
    if not isinstance(timed, list) or not timed:
        raise BadInput(f"{where} has no words; give each word with the second at which it begins.")
    words: list[tuple[str, float]] = []
    for pair in timed:
        right = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
        if not right or isinstance(pair[1], bool) or not isinstance(pair[1], int | float):
            raise BadInput(f'{where} holds the word {json.dumps(pair)}; write ["word", second at which it begins].')
        word, at = pair[0], float(pair[1])
        if at < (words[-1][1] if words else 0.0):
            before = f"before {words[-1][0]!r}" if words else "before the recording"
            raise BadInput(f"{where}: {word!r} begins at {at:g} s, {before}; give the words in order.")
        words.append((word, at))
    if len(written := text.split()) != len(words):
        raise BadInput(f"{where}: its text has {len(written)} words and {len(words)} are timed; time each of them.")
    id = hashlib.sha256(lines.dumps({"audio": name, "text": text, "words": timed})).hexdigest()[:16]
    return Recording(where, folder / name, text, tuple(words), id)


def sound(recording: Recording, rate: int) -> np.ndarray:
    """Samples (S,) float32 at the codec's rate. Raises: BadInput for audio that cannot be read, or is too short."""
    read = audio.read(recording.audio, max_seconds=LONGEST).mono()
    if read.seconds < SHORTEST:
        raise BadInput(f"{recording.audio} lasts {read.seconds:.3f} s, too short to hold a word; record it again.")
    word, last = recording.words[-1]
    if last >= read.seconds:
        raise BadInput(
            f"{recording.where}: {word!r} begins at {last:g} s, and {recording.audio.name} lasts {read.seconds:.2f} s; "
            "correct the times."
        )
    return read.resample(rate).samples[0]


def read_words(tokenizer: Tokenizer, recording: Recording, seconds: float) -> list[tuple[float, list[int]]]:
    """Seconds at which each spoken word begins, and its pieces; words without any are left out, as when speaking."""
    said: list[str] = []
    sounding: list[str] = []
    for sentence in sentences([recording.text]):
        said += (spelled := sentence.split())
        sounding += sentence_phonemes(spelled)
    times = _times(said, recording, seconds)
    read = [(at, pieces(tokenizer, phonemes)) for at, phonemes in zip(times, sounding, strict=True)]
    return [(at, ids) for at, ids in read if ids]


def _times(said: list[str], recording: Recording, seconds: float) -> list[float]:
    begins = [at for _, at in recording.words]
    if len(said) == len(begins):
        return begins
    counts = [_spoken_as(word) for word in recording.text.split()]
    if sum(counts) != len(said):
        raise BadInput(
            f"{recording.where}: the voice reads this text as {len(said)} words ({' '.join(said)!r}), and "
            f"{len(begins)} are timed; write it as it is spoken."
        )
    ends = [*begins[1:], seconds]
    return [
        at + n * (end - at) / count
        for at, end, count in zip(begins, ends, counts, strict=True)
        for n in range(count)
    ]


def _spoken_as(word: str) -> int:
    """How many words the front end makes of one written word; none of a sign that is not spoken."""
    try:
        return sum(len(sentence.split()) for sentence in sentences([word]))
    except BadInput:
        return 0
