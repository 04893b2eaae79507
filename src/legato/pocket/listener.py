"""A pocket model that hears and answers: ear, projector and decoder behind the `Listener` and `TextDecoder` protocols.

Large and small are two of these. They may share one `Ear` object, but nothing is kept between calls: whoever listens
pays for the ear's pass. It runs in the dtype of the models that it is given.

Shapes: B batch, S samples at 16 kHz, n audio tokens, T prompt tokens without the last, F ear features, C model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from legato.cache import Cache, Geometry, Space
from legato.errors import OrganMismatch
from legato.organs import Heard, Prompt
from legato.pocket.ear import RATE, Ear
from legato.pocket.language import Language
from legato.pocket.prompt import END, audio_prompt, prompt_ids
from legato.rotary import Rotary
from legato.stepper import Stepper
from legato.transformer import Transformer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from legato.audio import Audio


class PocketListener:
    """One model of the pocket pair; `Listener` and `TextDecoder`. It keeps nothing between questions."""

    end_ids = frozenset({END})

    def __init__(
        self, ear: Ear, projector: nn.Module, model: Transformer, tokenizer: Tokenizer, name: str,
        language: Language | None = None,
    ) -> None:
        self.ear, self.projector, self.model, self.tokenizer, self.name = ear, projector, model, tokenizer, name
        self.language = language  # None: whatever is heard counts as a question

    @property
    def geometry(self) -> Geometry:
        return self.model.config.geometry

    @property
    def rotary(self) -> Rotary:
        return self.model.config.rotary

    def prompt(self, audio: Audio) -> Prompt:
        return audio_prompt(self.ear.tokens(_samples(audio)))

    @torch.inference_mode()
    def listen(self, audio: Audio) -> Heard:
        """See `organs.Listener`; where the model knows languages it says when this hardly is one it understands."""
        wave = self._wave(audio)
        features = self.ear(wave)[0]
        doubt = None if self.language is None else self.language.doubt(features, wave[0])
        return replace(self.hear([features])[0], doubt=doubt)

    @torch.inference_mode()
    def features(self, audio: Audio) -> Tensor:
        """What the ear makes of any audio, mixed down and resampled: (n, F)."""
        return self.ear(self._wave(audio))[0]

    def _wave(self, audio: Audio) -> Tensor:
        """Mixed down and resampled, (1, S)."""
        wave = torch.from_numpy(audio.mono().resample(RATE).samples)
        wave = torch.nn.functional.pad(wave, (0, _samples(audio) - wave.shape[1]))  # a resampler may round S otherwise
        return wave.to(self.model.embedding.weight.device)

    @torch.inference_mode()
    def hear(self, clips: Sequence[Tensor]) -> list[Heard]:
        """`listen` from features that the ear made before, (n_i, F) each, several questions in one pass.

        The memories of one call share storage; each is what it would be alone, up to rounding.
        """
        return self._remember([audio_prompt(len(clip)) for clip in clips], clips)

    @torch.inference_mode()
    def read(self, text: str) -> Heard:
        """The same prompt with words where the audio would stand; its `audio` slice says where they are."""
        words = tuple(self.tokenizer.encode(text).ids)
        return self._remember([Prompt(prompt_ids(words), audio_prompt(len(words)).audio)], ())[0]

    def _remember(self, prompts: Sequence[Prompt], clips: Sequence[Tensor]) -> list[Heard]:
        """All but the last token of each prompt through the model at once; `clips` fill the audio, where there is any.

        Rows are padded right, where the earlier tokens of a causal model cannot look.
        """
        device = self.model.embedding.weight.device
        lengths = [len(prompt.ids) - 1 for prompt in prompts]
        ids = torch.zeros(len(prompts), max(lengths), dtype=torch.int64)
        for row, prompt, length in zip(ids, prompts, lengths, strict=True):
            row[:length] = torch.tensor(prompt.ids[:-1])
        x = self.model.embed(ids.clamp_min(0).to(device))  # (B, T, C); audio tokens are replaced below
        for row, prompt, clip in zip(x, prompts, clips, strict=bool(clips)):
            row[prompt.audio] = self.projector(clip.to(device, self.model.dtype)[None])[0].to(x.dtype)
        cache, _ = self.model.prefill(x, space=Space.CONTENT)
        return [
            Heard(prompt, Cache(cache.keys[:, b : b + 1], cache.values[:, b : b + 1], length, Space.CONTENT))
            for b, (prompt, length) in enumerate(zip(prompts, lengths, strict=True))
        ]

    def start(self, memory: Cache, last_id: int, capacity: int) -> Decoding:
        memory.require(Space.PLACED, f"{self.name} to answer")
        memory.require_geometry(self.geometry, f"{self.name} to answer")
        room = self.model.config.max_positions - memory.start
        if not memory.length < capacity <= room:
            raise OrganMismatch(
                f"{self.name} was asked to make room for {capacity} tokens in all, but its memory has {memory.length} "
                f"and it has {room} positions; ask for 1 to {room - memory.length} more."
            )
        own = Cache.allocate(self.geometry, capacity, space=Space.PLACED, dtype=self.model.dtype,
                             device=self.model.embedding.weight.device, start=memory.start)
        keys, values = memory.filled()
        own.keys[..., : memory.length, :] = keys
        own.values[..., : memory.length, :] = values
        own.length = memory.length
        return Decoding(self.model, own, last_id)

    def text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids).strip()


class Decoding:
    """`DecodeState` over a cache of its own."""

    def __init__(self, model: Transformer, cache: Cache, last_id: int) -> None:
        self._stepper = Stepper(model, cache)
        self.step(last_id)

    def step(self, token: int) -> None:
        self.logits = self._stepper.step(token)


def _samples(audio: Audio) -> int:
    """Samples of the audio at 16 kHz, rounded up, whatever a resampler's own rounding is."""
    return -(-audio.samples.shape[1] * RATE // audio.rate)
