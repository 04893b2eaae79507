"""Is every word to be understood? What a recogniser heard against what was to be said, by word and character error.

The recogniser is handed in: a callable from audio to text. One recogniser can be deaf to a fault or invent words that
were not said; what it makes of the codec's own round trip is the ceiling of the measurement, not 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from legato.audio import Audio
from legato.errors import BadInput, MissingExtra
from legato.evaluate.instruments import grid
from legato.evaluate.instruments.words import Spoken, normal, toward
from legato.evaluate.statistics import Estimate, McNemar, bootstrap, compare, paired_permutation, wilson

UNHEARD, WRONG = "nothing heard", "all wrong"


@dataclass(frozen=True)
class Heard:
    """One sentence. said, heard: both texts as `words.normal` writes them. words, characters: of the said one.
    substitutions, deletions, insertions: words. character_errors: of the three kinds together."""

    said: str
    heard: str
    words: int
    substitutions: int
    deletions: int
    insertions: int
    characters: int
    character_errors: int

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def wer(self) -> float:
        return self.errors / self.words

    @property
    def cer(self) -> float:
        return self.character_errors / self.characters

    @property
    def score(self) -> float:
        """1 - word error, and 0 where more is wrong than was said."""
        return max(0.0, 1.0 - self.wer)

    @property
    def failure(self) -> str | None:
        """Why this sentence counts as failed: no word was heard, or as many are wrong as were said; None otherwise."""
        return UNHEARD if not self.heard else WRONG if self.wer >= 1 else None


@dataclass(frozen=True)
class Totals:
    """A corpus. wer, cer: errors over words (characters) of all sentences together. score: mean over sentences, with
    its interval. substitutions, deletions, insertions: words. `failed`: how many; failures: share, with interval."""

    sentences: int
    words: int
    substitutions: int
    deletions: int
    insertions: int
    wer: float
    cer: float
    score: Estimate
    failed: int
    failures: Estimate


@dataclass(frozen=True)
class Paired:
    """Two systems on the same sentences. score, wer: first minus second, with a bootstrap interval over sentences (wer
    of the whole corpus; negative: the first is better). p: two-sided, by flipping signs of the score differences.
    failures: `fixed` are those of the second that the first says."""

    sentences: int
    score: Estimate
    wer: Estimate
    p: float
    failures: McNemar


def match(said: str, heard: str, spoken: Spoken | None = None) -> Heard:
    """One transcript against its script, both read by the voice's front end `spoken` where there is one.

    Raises:
        BadInput: `said` holds no word.
        MissingExtra: jiwer or whisper-normalizer is not installed.
    """
    reference = normal(said, spoken)
    if not reference:
        raise BadInput(f"the text {said!r} holds no word; give what was to be said.")
    return counts(reference, toward(reference, normal(heard, spoken)))


def counts(reference: str, hypothesis: str) -> Heard:
    """Errors between two texts that are in one spelling already. Raises MissingExtra without jiwer."""
    jiwer = _jiwer()
    words = jiwer.process_words(reference, hypothesis)
    letters = jiwer.process_characters(reference, hypothesis)
    return Heard(
        reference,
        hypothesis,
        len(reference.split()),
        words.substitutions,
        words.deletions,
        words.insertions,
        len(reference),
        letters.substitutions + letters.deletions + letters.insertions,
    )


def listen(audio: Audio, said: str, recogniser: Callable[[Audio], str], spoken: Spoken | None = None) -> Heard:
    """What `recogniser` makes of one voice. Silence is not refused: it is a failure to count, heard as "" unasked,
    since recognisers invent words for it.

    Raises BadInput for audio that `grid.wave` refuses, and as `match` does.
    """
    try:
        grid.speech(audio)
    except BadInput:
        grid.wave(audio)  # what is not silence is refused
        return match(said, "", spoken)
    return match(said, recogniser(audio), spoken)


def totals(heard: Sequence[Heard]) -> Totals:
    """Raises BadInput for no sentence at all."""
    if not heard:
        raise BadInput("there is no sentence to total; measure at least one.")
    words = sum(h.words for h in heard)
    failed = sum(h.failure is not None for h in heard)
    return Totals(
        len(heard),
        words,
        sum(h.substitutions for h in heard),
        sum(h.deletions for h in heard),
        sum(h.insertions for h in heard),
        sum(h.errors for h in heard) / words,
        sum(h.character_errors for h in heard) / sum(h.characters for h in heard),
        bootstrap(np.mean, [[h.score for h in heard]]),
        failed,
        wilson(failed, len(heard)),
    )


def versus(first: Sequence[Heard], second: Sequence[Heard]) -> Paired:
    """Two systems over the same sentences in the same order. Raises BadInput where they differ or are none."""
    if not first or [h.said for h in first] != [h.said for h in second]:
        raise BadInput(
            f"the two systems said {len(first)} and {len(second)} sentences that are not the same; "
            "compare renderings of one list."
        )

    def wer(a: np.ndarray, b: np.ndarray, n: np.ndarray, axis: int) -> np.ndarray:
        return (a.sum(axis=axis) - b.sum(axis=axis)) / n.sum(axis=axis)

    scores = np.array([[h.score for h in first], [h.score for h in second]])
    return Paired(
        len(first),
        bootstrap(np.mean, [scores[0] - scores[1]]),
        bootstrap(wer, [[h.errors for h in first], [h.errors for h in second], [h.words for h in first]]),
        paired_permutation(scores[0] - scores[1]),
        compare([h.failure is None for h in first], [h.failure is None for h in second]),
    )


def _jiwer() -> ModuleType:
    try:
        import jiwer
    except ModuleNotFoundError as error:
        raise MissingExtra("jiwer", "instruments", "counting word errors") from error
    return jiwer
