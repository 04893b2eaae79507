"""One sentence's sounds through all instruments: what was heard, and what each instrument says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.audio import Audio
from legato.errors import BadInput
from legato.evaluate.instruments import grid, levels, noise, pauses, warble
from legato.evaluate.instruments.intelligibility import match
from legato.evaluate.instruments.rate import rate
from legato.evaluate.instruments.words import Spoken
from legato.evaluate.saying.record import Sound

Recogniser = Callable[[Audio], str]


def audible(audio: Audio) -> bool:
    """Is there anything to measure: at least 0.1 s, and not silent?"""
    try:
        grid.speech(audio)
    except BadInput:
        return False
    return True


def broken(text: str, spoken: Spoken) -> Sound:
    """A rendering that the run never came to the end of."""
    h = match(text, "", spoken)
    return Sound(None, None, None, "", "", 0, h.deletions, 0, h.character_errors, "broke")


def sound(
    audio: Audio,
    text: str,
    recogniser: Recogniser,
    spoken: Spoken,
    *,
    depth: Audio | None = None,
    ceiling_hnr: float | None = None,
) -> Sound:
    """Measure one rendering of `text`.

    Args:
        spoken: the voice's front end, for both sides of the comparison.
        depth: the depth path's rendering of the same frames, for all but itself.
        ceiling_hnr: dB, of the codec's own decode of a real recording of the sentence.

    Raises:
        BadInput: the audio has not the rate and channel that the instruments take.
        MissingExtra: an instrument's package is not installed.
    """
    there = audible(audio)
    transcript = recogniser(audio) if there else ""  # unasked: recognisers invent words for silence
    h = match(text, transcript, spoken)
    figures: dict[str, Any] = _own(audio, text, spoken) if there else {}
    if there and ceiling_hnr is not None and figures["hnr_db"] is not None:
        figures["hnr_deficit_db"] = ceiling_hnr - figures["hnr_db"]
    if there and depth is not None and audible(depth):
        figures |= _against(depth, audio)
    return Sound(
        audio.sha256, audio.seconds, round(audio.samples.shape[1] / grid.CODEC), transcript, h.heard, h.substitutions,
        h.deletions, h.insertions, h.character_errors, h.failure, **figures,
    )  # fmt: skip


def _own(audio: Audio, text: str, spoken: Spoken) -> dict[str, Any]:
    wobble, end, found = warble.wobble(audio), levels.ending(audio), pauses.pauses(audio)
    return {
        "hnr_db": noise.ratio(audio),
        "wobble_cents": None if wobble is None else wobble.cents,
        "clicks": len(levels.clicks(audio)),
        "static_s": end.static if end.is_static else 0.0,
        "cut": end.is_cut,
        "words_per_s": rate(audio, spoken(text)).words_per_second,
        "pauses": len(found.spans),
        "pause_s": found.total,
    }


def _against(depth: Audio, audio: Audio) -> dict[str, Any]:
    tremble, hiss = warble.warble(depth, audio), noise.noise(depth, audio)
    trace, split = levels.trace(depth, audio), pauses.shared(depth, audio)
    return {
        "warble_cents": None if tremble is None else tremble.cents,
        "noise_deficit_db": None if hiss is None else hiss.deficit,
        "level_offset_db": trace.offset,
        "level_spread_db": trace.spread,
        "level_worst_db": trace.worst[1],
        "pacing_s": split.pacing,
        "rendering_s": split.rendering,
        "filled_s": split.filled,
    }
