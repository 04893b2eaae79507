"""A voice of two buzzes for every sentence, a recogniser that knows them by heart, and a desk with their evidence."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from legato.audio import Audio
from legato.errors import BadInput
from legato.evaluate import layout, promote
from legato.evaluate.identities import Identities
from legato.evaluate.instruments.recogniser import Recogniser
from legato.evaluate.questions import file_sha256
from legato.evaluate.saying import final
from legato.evaluate.saying.run import Done, Voice, run
from legato.evaluate.saying.sentences import Sentence

RATE, FRAME = 24_000, 1920
TEXTS = (
    ("Rosa.", "short"),
    ("It costs $3.50.", "number"),
    ("Mr. Brown lives in Oslo.", "name"),
    ("Where is the red lamp?", "question"),
    ("The goat ran after the heron and nobody knows why.", "plain"),
    ("I'll be home at seven.", "plain"),
)
SPOKEN = {
    "It costs $3.50.": "It costs three dollars and fifty cents.",
    "Mr. Brown lives in Oslo.": "Mister Brown lives in Oslo.",
}


def spoken(text: str) -> str:
    return SPOKEN.get(text, text)


def buzz(seed: int, hiss: float, frames: int = 8) -> np.ndarray:
    """A voice-like tone of `frames` codec frames, fading out at its ends: (1, S)."""
    draw = np.random.default_rng(seed)
    n = frames * FRAME
    t = np.arange(n) / RATE
    pitch = 110 + draw.uniform(0, 30) + 5 * np.sin(2 * np.pi * 0.7 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    wave = sum(np.sin(k * phase) / k for k in range(1, 12))
    shape = np.minimum(1, np.minimum(np.arange(n), np.arange(n)[::-1]) / 4800)
    return (0.1 * shape * (wave + hiss * draw.standard_normal(n))).astype(np.float32)[None]


@dataclass
class Buzzer:
    """Says every sentence by head and by depth; keeps what it was asked; may refuse, or be killed, at one of them."""

    asked: list[tuple[str, int]] = field(default_factory=list)
    refuse: str = ""
    silent: str = ""
    kill_at: int | None = None
    hiss: float = 0.02

    def __call__(self, text: str, seed: int) -> dict[str, Audio]:
        if self.kill_at == len(self.asked):
            raise KeyboardInterrupt
        self.asked.append((text, seed))
        if text == self.refuse:
            raise BadInput("the text was not finished after 9 steps; give it in pieces.")
        head, depth = buzz(seed, self.hiss), buzz(seed, 0.05)
        return {"head": Audio(0 * head if text == self.silent else head, RATE), "depth": Audio(depth, RATE)}


@dataclass
class Desk:
    """A records folder, the files of a candidate beside it, and the usual calls."""

    records: Path
    files: dict[str, Path]
    sets: dict[str, Path]
    sentences: tuple[Sentence, ...]
    say: Buzzer
    wrong: dict[str, str]  # text -> what is heard instead, by head and by depth
    heard: list[str] = field(default_factory=list)

    @property
    def hashes(self) -> dict[str, str]:
        return {name: file_sha256(path) for name, path in self.files.items()}

    def voice(self) -> Voice:
        return Voice(self.say, spoken, self.hashes, {"temperature": 0.6})

    def recogniser(self) -> Recogniser:
        known = {}
        for s in self.sentences:
            for hiss in (0.02, 0.05, 0.5):
                known[Audio(buzz(s.seed, hiss), RATE).sha256] = self.wrong.get(s.text, spoken(s.text))

        def hear(audio: Audio) -> str:
            self.heard.append(audio.sha256)
            return known[audio.sha256]

        return Recogniser("stub", hashlib.sha256(b"stub").hexdigest(), hear)

    def seal(self, name: str = "first") -> final.SentenceSeal:
        return final.seal_sentences(self.records, name, self.sentences, source="a test, seed 0")

    def freeze(self, name: str = "voice-1") -> promote.Candidate:
        return promote.freeze(self.records, name, self.files, self.sets)

    def open(self, run: str = "once", **changes) -> final.Opened:
        terms = {"name": "first", "candidate": "voice-1", "sentences": self.sentences} | changes
        settings = terms.pop("settings", None) or final.settings_of(self.voice(), self.recogniser())
        return final.open_sentences(self.records, *terms.values(), run=run, settings=settings)

    def finish(self, opened: final.Opened, **changes) -> Done:
        return final.run_final(self.records, opened, self.voice(), self.recogniser(), progress=False, **changes)

    def measure(self, name: str = "trial", **changes) -> Done:
        return run(
            self.voice(), self.sentences, self.recogniser(), self.path(name), name=name, progress=False, **changes
        )

    def path(self, run: str) -> Path:
        return layout.run(layout.say(self.records), run)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    files = {name: tmp_path / f"{name}.bin" for name in ("codec", "voice", "head")}
    for name, path in files.items():
        path.write_bytes(name.encode())
    sets = {name: tmp_path / f"{name}.txt" for name in ("train", "select")}
    for path in sets.values():
        Identities().write(path)
    sentences = tuple(Sentence(hashlib.sha256(t.encode()).hexdigest()[:16], t, kind) for t, kind in TEXTS)
    return Desk(tmp_path / "records", files, sets, sentences, Buzzer(), {})
