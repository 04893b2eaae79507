"""Speaking rate: words in a second of speech, pauses left out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from legato.audio import Audio
from legato.errors import BadInput
from legato.evaluate.instruments.pauses import pauses

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


@dataclass(frozen=True)
class Rate:
    """words: of the text. speech: s without pauses and without the silence around. total: s of audio."""

    words: int
    speech: float
    total: float

    @property
    def words_per_second(self) -> float:
        return self.words / self.speech


def rate(audio: Audio, text: str) -> Rate:
    """How fast `text` is said in `audio`.

    Raises:
        BadInput: audio that `grid.speech` refuses, a text without words, or one with digits (what they are read as
            decides the count: hand in the words).
    """
    if re.search(r"\d", text):
        raise BadInput(f"the text {text!r} holds digits; write numbers as they are spoken.")
    words = _WORD.findall(text)
    if not words:
        raise BadInput(f"the text {text!r} holds no word; give what was to be said.")
    p = pauses(audio)
    return Rate(len(words), audio.seconds - p.total - p.before - p.after, audio.seconds)
