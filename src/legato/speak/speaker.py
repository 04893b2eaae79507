"""Text in, sound out, both as they come: words are read ahead, frames are rendered as soon as they are complete.

Where the text pauses the sound waits: the harness asks for a word only when the voice wants to begin one. One run may
be rendered in several ways at once, since what is rendered never comes back into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from legato.errors import BadInput
from legato.speak.harness import Harness
from legato.speak.lead import Word
from legato.speak.render import Renderer

Front = Callable[[Iterable[str]], Iterator[Word]]  # pieces of text -> words for this voice, as soon as they are certain


@dataclass(frozen=True)
class Speaker:
    """One voice. Not thread-safe: one utterance at a time.

    Args:
        front: text to words.
        renderers: by name, such as "head" and "depth".
        rate: Hz of the sound.
    """

    front: Front
    harness: Harness
    renderers: Mapping[str, Renderer]
    rate: int

    def speak(self, text: str | Iterable[str], render: str = "head") -> Iterator[np.ndarray]:
        """Chunks of one codec frame, float32 (S,) in [-1, 1]. Text may be a stream of pieces.

        Raises: BadInput where nothing in the text can be spoken, or there is no such renderer.
        """
        for (chunk,) in self.rendered(text, (render,)):
            yield chunk

    def rendered(self, text: str | Iterable[str], by: Iterable[str]) -> Iterator[tuple[np.ndarray, ...]]:
        """One run, each frame's chunk by each of the renderers named."""
        renders = []
        for name in by:
            if name not in self.renderers:
                raise BadInput(f"there is no renderer {name!r}; choose one of {', '.join(self.renderers)}.")
            renders.append(self.renderers[name].start())
        for frame in self.harness.frames(self.front([text] if isinstance(text, str) else text)):
            yield tuple(render(frame)[0].clamp(-1, 1).numpy() for render in renders)
