"""Text in, sound out, both as they come: words are read ahead, frames are rendered as soon as they are complete.

The first frames of an utterance, before the first word can be heard, are spoken like all others; what is left out is
nothing. Where the text pauses the sound waits: the harness asks for a word only when the voice wants to begin one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from legato.speak.harness import Frame, Harness
from legato.speak.lead import Word
from legato.speak.render import Renderer

Front = Callable[[Iterable[str]], Iterator[Word]]  # pieces of text -> words for this voice, as soon as they are certain


@dataclass(frozen=True)
class Speaker:
    """One voice. Not thread-safe: one utterance at a time.

    Args:
        front: text to words.
        rate: Hz of the sound.
    """

    front: Front
    harness: Harness
    renderer: Renderer
    rate: int

    def speak(self, text: str | Iterable[str]) -> Iterator[np.ndarray]:
        """Chunks of one codec frame, float32 (S,) in [-1, 1]. Text may be a stream of pieces.

        Raises: BadInput where nothing in the text can be spoken.
        """
        for _, chunk in self.rendered(text):
            yield chunk

    def rendered(self, text: str | Iterable[str]) -> Iterator[tuple[Frame, np.ndarray]]:
        """The same with the frame that each chunk was rendered from."""
        render = self.renderer.start()
        for frame in self.harness.frames(self.front([text] if isinstance(text, str) else text)):
            yield frame, render(frame)[0].clamp(-1, 1).numpy()
