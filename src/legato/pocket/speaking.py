"""The pocket voice one frame at a time, behind `SpeechModel`: what `Voice` computes for whole sequences, step by step.

The backbone looks back over a window, so its memory is a ring: a new key overwrites the oldest, and since attention
does not care in which order it finds what it may see, nothing is ever moved. Both rows of a guided run go through the
weights together. Everything is preallocated; a step makes only what torch needs inside a product.

Shapes: R rows (1, or 2 when guided: the text read, the text blanked), K books, V entries, C backbone width, D depth
width, W window.
"""

from __future__ import annotations

import torch
from torch import Tensor

from legato.organs import Layout
from legato.pocket.voice import BLANK, PAD, WORD, Voice
from legato.rotary import turn
from legato.transformer import Transformer


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


class Ring:
    """A transformer's memory of the last W steps, and one step on top of it."""

    def __init__(self, model: Transformer, rows: int, window: int) -> None:
        c = model.config
        self.model, self.window = model, window
        self.keys = torch.zeros(c.layers, rows, c.kv_heads, window, c.head_dim, dtype=model.dtype)
        self.values = torch.zeros_like(self.keys)
        self.length = 0

    def restart(self) -> None:
        self.length = 0

    @torch.inference_mode()
    def step(self, x: Tensor) -> Tensor:
        """x (R, C) of the newest step -> its normed state (R, C)."""
        model = self.model
        at, seen = self.length % self.window, min(self.length + 1, self.window)
        cos, sin = (t.to(x.dtype) for t in model.config.rotary.tables(torch.tensor([self.length])))
        x = x[:, None]
        for layer, block in enumerate(model.blocks):
            q, k, v = block.project(x)
            self.keys[layer, :, :, at] = turn(k, cos, sin)[:, :, 0]
            self.values[layer, :, :, at] = v[:, :, 0]
            keys, values = self.keys[layer, :, :, :seen], self.values[layer, :, :, :seen]
            x = block.attend(x, turn(q, cos, sin), keys, values, None, causal=False)
        self.length += 1
        return model.norm(x)[:, 0]

