"""The handoff between two models: one hears, its memory is mapped, corrected and placed, and the other answers on it.

One class covers every arm, so that all of them go through the same steps in the same order, one timed span each:

    prefill   audio -> content memory of the listener                      (L, 1, H, n - 1, D)
    map       -> content memory in the answering model's geometry          (L', 1, H', n - 1, D')
    correct   -> the same, plus a correction
    place     -> the same, keys turned to positions 0 .. n - 2
    install   -> copied into the decoder's own cache, the prompt's last token run on top: logits

Without a mapper and a residual it is a model answering by itself. Decoding is in `decode`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from legato.cache import Cache
from legato.clock import Stopwatch
from legato.errors import OrganMismatch
from legato.listen.prefill import hear, require_memory
from legato.organs import DecodeState, Heard, Listener, Prompt, TextDecoder

if TYPE_CHECKING:
    from legato.audio import Audio
    from legato.listen.mapper import CacheMapper


class Answerer(Listener, TextDecoder, Protocol):
    """A model that can answer, and that would have heard the question too: it knows its own prompt for an audio."""


@dataclass(frozen=True)
class Handoff:
    """Who hears, who answers, and what lies between.

    Args:
        listener: hears the question.
        answerer: decodes the answer; its prompt for the same audio must equal the listener's, id for id.
        mapper: listener geometry -> answerer geometry; None when the memory is used as it is.
        residual: (listener memory, mapped memory) -> corrected memory. Without a mapper both arguments are the
            listener's own memory: that is the control, a correction which sees no other model.

    Raises: OrganMismatch when the geometries do not meet.
    """

    listener: Listener
    answerer: Answerer
    mapper: CacheMapper | None = None
    residual: Callable[[Cache, Cache], Cache] | None = None

    def __post_init__(self) -> None:
        own = self.answerer.geometry
        takes, gives, taker = own, own, self.answerer.name
        if self.mapper is not None:
            takes, gives, taker = self.mapper.config.source, self.mapper.config.target, "the mapper"
        if self.listener.geometry != takes:
            raise OrganMismatch(
                f"{taker} takes a memory of {takes}, but {self.listener.name} remembers {self.listener.geometry}; "
                "fit a mapper for this pair."
            )
        if gives != own:
            raise OrganMismatch(
                f"the mapper gives a memory of {gives}, but {self.answerer.name} needs {own}; "
                "fit a mapper for this pair."
            )

    @torch.inference_mode()
    def carry(self, heard: Heard, watch: Stopwatch) -> Cache:
        """The listener's memory -> the content memory that the answering model shall believe to be its own."""
        memory = heard.memory
        if self.mapper is not None:
            with watch.span("map"):
                memory = self.mapper(heard)
                require_memory(memory, heard.prompt, self.answerer.geometry, "the mapped memory")
        if self.residual is not None:
            with watch.span("correct"):
                memory = self.residual(heard.memory, memory)
                require_memory(memory, heard.prompt, self.answerer.geometry, "the corrected memory")
        return memory

    @torch.inference_mode()
    def hear(self, audio: Audio, watch: Stopwatch) -> Heard:
        """What the listener remembers of a question; span prefill.

        Raises: OrganMismatch when the two prompts differ or the memory breaks the n-1 rule or is not finite.
        """
        heard = hear(self.listener, audio, watch)
        if self.listener is not self.answerer:
            require_same_prompt(self.listener.name, heard.prompt, self.answerer.name, self.answerer.prompt(audio))
        return heard

    @torch.inference_mode()
    def begin(self, heard: Heard, room: int, watch: Stopwatch) -> DecodeState:
        """From a memory to the logits of the first answer token.

        Args:
            heard: by this handoff's listener.
            room: answer tokens to make room for.
            watch: gets the spans map, correct, place, install (those that this handoff has).

        Raises: OrganMismatch when a memory breaks the n-1 rule or is not finite.
        """
        memory = self.carry(heard, watch)
        with watch.span("place"):
            placed = memory.place(self.answerer.rotary)
        with watch.span("install"):
            return self.answerer.start(placed, heard.prompt.ids[-1], placed.length + room)


def require_same_prompt(one: str, a: Prompt, other: str, b: Prompt) -> None:
    """Raise OrganMismatch unless both models read the same ids at the same positions."""
    if a == b:
        return
    if len(a.ids) != len(b.ids):
        how = f"{one} reads {len(a.ids)} tokens and {other} {len(b.ids)}"
    else:
        at = next((i for i, (x, y) in enumerate(zip(a.ids, b.ids, strict=True)) if x != y), None)
        how = (f"{one} and {other} find the audio in other places" if at is None else
               f"at position {at} {one} reads {a.ids[at]} and {other} {b.ids[at]}")
    raise OrganMismatch(
        f"the prompts of one question differ: {how}; a memory can only be handed over under one tokenizer and template."
    )
