"""The five arms, five ways to answer one spoken question: one interface, one path, one decode loop.

    small      the small model hears and answers
    mapped     the large model hears, its memory is mapped, the small model answers
    control    the small model hears, a residual corrects its own memory: what mere tuning gives, without a large model
    transfer   the large model hears, its memory is mapped and corrected, the small model answers
    large      the large model hears and answers

Each arm pays for its own hearing. No arm sees a question's answer, and none is retried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legato.audio import Audio
from legato.cache import Cache
from legato.clock import Stopwatch
from legato.listen.decode import decode, token_limit
from legato.listen.handoff import Answerer, Handoff
from legato.organs import Answer, Arm

if TYPE_CHECKING:
    from legato.listen.mapper import CacheMapper

NAMES = ("small", "mapped", "control", "transfer", "large")


@dataclass(frozen=True)
class HandoffArm:
    """A named handoff with a decode loop behind it."""

    name: str
    handoff: Handoff

    def answer(self, audio: Audio, *, max_tokens: int = 48, force_tokens: int | None = None) -> Answer:
        """See `organs.Arm`. The prompt's last token is run after `place_ms`; its time is in `first_token_ms`."""
        room = token_limit(max_tokens, force_tokens)
        watch = Stopwatch()
        heard = self.handoff.hear(audio, watch)
        state = self.handoff.begin(heard, room, watch)
        answerer = self.handoff.answerer
        decoded = decode(state, answerer.end_ids, watch, max_tokens=max_tokens, force_tokens=force_tokens)
        text = answerer.text(list(decoded.tokens))
        total, ms = watch.elapsed_ms, watch.ms
        return Answer(
            text=text, tokens=decoded.tokens, finish=decoded.finish,
            prefill_ms=ms["prefill"], map_ms=ms.get("map"), correct_ms=ms.get("correct"), place_ms=ms["place"],
            first_token_ms=decoded.first_token_ms, decode_tokens_per_s=decoded.tokens_per_s, total_ms=total,
            doubt=heard.doubt,
        )


def five(
    small: Answerer, large: Answerer, mapper: CacheMapper, residual: Callable[[Cache, Cache], Cache],
    control: Callable[[Cache, Cache], Cache],
) -> dict[str, Arm]:
    """The five arms by name, in the order of `NAMES`. Raises OrganMismatch when the parts do not fit together."""
    handoffs = (
        Handoff(small, small),
        Handoff(large, small, mapper),
        Handoff(small, small, residual=control),
        Handoff(large, small, mapper, residual),
        Handoff(large, large),
    )
    return {name: HandoffArm(name, handoff) for name, handoff in zip(NAMES, handoffs, strict=True)}


def warm(arms: Iterable[Arm]) -> None:
    """Run every arm once on a fixed sound, so that no measured answer pays for first-time set-up."""
    for arm in arms:
        arm.answer(hum(), force_tokens=8)


def hum(seconds: float = 2.0, rate: int = 16_000) -> Audio:
    """A voice-like buzz gliding around 120 Hz: the same samples every time."""
    t = np.arange(int(seconds * rate)) / rate
    phase = 2 * math.pi * 120 * t + 8 * np.sin(3 * t)
    return Audio.fitted((0.2 * sum(np.sin(k * phase) / k for k in range(1, 12)))[None].astype(np.float32), rate)
