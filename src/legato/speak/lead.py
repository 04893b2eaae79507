"""Text leads audio: which word is read at which step, decided as the voice speaks.

The backbone chooses only between beginning the next word and waiting; everything else is forced. A word that has begun
is read piece by piece; after it come as many waits as its entry asks for (a break); a voice that waits longer than
`patience` steps is made to go on, and the first steps are waits, as in the data it was trained on. The words come from
an iterator that may block, so text can be streamed in: it is asked for a word only when one is to begin.

Kyutai's delayed streams work like this (moshi, `tts.StateMachine`); the steps are ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """One word: what is read, what it is called, and steps of silence forced behind it."""

    pieces: tuple[int, ...]
    text: str
    padding: int = 0


@dataclass(frozen=True)
class Pacing:
    """How a voice may pace itself, in steps."""

    initial: int = 2  # waits before the first word
    patience: int = 12  # waits after which the next word is forced
    between: int = 0  # waits forced behind every word


class Lead:
    """The text stream of one utterance.

    Args:
        words: asked for one by one; may block.
        pad, word: ids of waiting and of beginning a word.

    Attributes:
        spoken: (text, step) of every word that has begun.
        ended: the step at which a word was wanted and none was left; None before.
    """

    def __init__(self, words: Iterable[Word], pad: int, word: int, pacing: Pacing) -> None:
        self._words: Iterator[Word] = iter(words)
        self._next: Word | None = None
        self._asked = False
        self.pad, self.word, self.pacing = pad, word, pacing
        self._queue: deque[int] = deque()
        self._forced = pacing.initial
        self._waited = 0
        self._step = 0
        self.spoken: list[tuple[str, int]] = []
        self.ended: int | None = None

    def choices(self) -> Sequence[bool]:
        """May this step wait, may it begin a word? At least one may."""
        if self._queue or self._forced > 0 or self.ended is not None:
            return True, False
        if self._waited >= self.pacing.patience:
            return False, True
        return True, True

    def step(self, begin: bool) -> int:
        """The text id of this step, after the backbone chose to begin a word or to wait."""
        may_wait, may_begin = self.choices()
        assert may_begin if begin else may_wait, "the choice was not open"
        token = self.pad
        if self._queue:
            token = self._queue.popleft()
        elif begin:
            found = next(self._words, None)
            if found is None:
                self.ended = self._step
            else:
                token = self.word
                self._queue.extend(found.pieces)
                self._forced = found.padding + self.pacing.between
                self._waited = 0
                self.spoken.append((found.text, self._step))
        elif self._forced > 0:
            self._forced -= 1
        else:
            self._waited += 1
        self._step += 1
        return token
