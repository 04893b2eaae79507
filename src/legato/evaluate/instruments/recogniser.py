"""A recogniser to hear with: Whisper through CTranslate2, from a folder on this machine, known by its hash.

Greedy at temperature 0, without the fallbacks by which the library would try again warmer where it is unsure, and
without timestamps or memory of the sentence before: one sound gives one transcript. Its own mistakes are part of every
figure; what it makes of the codec's decode of real speech (the ceiling) says how many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from legato.artifacts import sha256_file
from legato.audio import Audio
from legato.errors import BadInput, MissingExtra

RATE = 16_000  # Hz, what Whisper reads
NEEDED = ("model.bin", "config.json", "tokenizer.json")


@dataclass(frozen=True)
class Recogniser:
    """Callable from audio to text. name, sha256: which it is, as records carry it."""

    name: str
    sha256: str
    hear: Callable[[Audio], str]

    def __call__(self, audio: Audio) -> str:
        return self.hear(audio)


def whisper(folder: Path) -> Recogniser:
    """The English model in `folder`, a CTranslate2 conversion as faster-whisper reads it. Float32 on the processor.

    Raises:
        MissingExtra: faster-whisper is not installed.
        BadInput: the folder is not such a model.
    """
    if missing := [name for name in NEEDED if not (folder / name).is_file()]:
        raise BadInput(
            f"{folder} is no Whisper model for CTranslate2: it lacks {', '.join(missing)}; give the folder of one, "
            "such as that of Systran/faster-whisper-base."
        )
    try:
        from faster_whisper import WhisperModel
    except ModuleNotFoundError as error:
        raise MissingExtra("faster-whisper", "recogniser", "hearing a voice") from error
    try:
        model = WhisperModel(str(folder), device="cpu", compute_type="float32", cpu_threads=1)
    except (RuntimeError, ValueError) as error:
        raise BadInput(f"{folder} cannot be loaded as a Whisper model ({error}); fetch it again.") from error

    def hear(audio: Audio) -> str:
        wave = audio.mono().resample(RATE).samples[0].astype(np.float32)
        segments, _ = model.transcribe(
            wave, language="en", beam_size=1, temperature=0.0, without_timestamps=True, condition_on_previous_text=False
        )
        return " ".join(segment.text.strip() for segment in segments).strip()

    return Recogniser(f"faster-whisper {folder.name}", _digest(folder), hear)


def _digest(folder: Path) -> str:
    """Of every file of the model, by name."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return hashlib.sha256("".join(f"{path.name} {sha256_file(path)}\n" for path in files).encode()).hexdigest()
