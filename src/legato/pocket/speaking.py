"""The pocket voice one frame at a time, behind `SpeechModel`: what `Voice` computes for whole sequences, step by step.

Both transformers walk on a `Ring`; what the depth model is handed besides is copied into buffers made once.

Shapes: R rows (1, or 2 when guided: the text read, the text blanked), K books, V entries, C backbone width, D depth
width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from legato.organs import Layout
from legato.pocket.ring import Ring
from legato.pocket.voice import BLANK, PAD, WORD, Voice


class PocketVoice:
    """`SpeechModel`: a frozen `Voice` that can be started again and again."""

    def __init__(self, voice: Voice, name: str = "pocket") -> None:
        self.voice, self.name = voice.eval(), name
        self.width = voice.config.backbone.width
        self.layout = Layout(voice.config.delays, PAD, WORD)

    def start(self, *, guided: bool) -> Speaking:
        return Speaking(self.voice, 2 if guided else 1)


class Speaking:
    """`SpeechState` of a pocket voice."""

    def __init__(self, voice: Voice, rows: int) -> None:
        c = voice.config
        self.voice, self.rows = voice, rows
        self._ring = Ring(voice.backbone, rows, c.window)
        self._depth_ring = Ring(voice.depth, rows, c.books)
        self._h = torch.zeros(rows, c.backbone.width)
        self._text = torch.zeros(rows, dtype=torch.int64)

    @torch.inference_mode()
    def step(self, text: int, codes: Tensor) -> tuple[Tensor, Tensor]:
        voice = self.voice
        self._text.fill_(text)
        self._text[1:] = BLANK
        x = voice.backbone.embed(self._text) + voice.read_codes(voice.vectors(codes).flatten())
        self._h.copy_(self._ring.step(x))
        return self._h, voice.action(self._h[0])

    def depth(self, text: int) -> Depth:
        self._depth_ring.restart()
        self._text.fill_(text)
        self._text[1:] = BLANK
        return Depth(self.voice, self._depth_ring, self._h, self._text)


class Depth:
    """`DepthState` of one frame."""

    def __init__(self, voice: Voice, ring: Ring, h: Tensor, text: Tensor) -> None:
        self.voice, self.ring = voice, ring
        self._handed = voice.hand_down(h)  # (R, D)
        self._next = self._handed + voice.stage[0] + voice.depth.embed(text)

    @torch.inference_mode()
    def logits(self, stage: int) -> Tensor:
        assert stage == self.ring.length, f"stage {stage} after {self.ring.length} others"
        return self.ring.step(self._next) @ self.voice.heads[stage]

    @torch.inference_mode()
    def take(self, stage: int, code: int) -> None:
        if stage + 1 < self.voice.config.books:
            said = self.voice.codebooks[stage, code] @ self.voice.read_code[stage]  # (D,)
            self._next = self._handed + self.voice.stage[stage + 1] + said
