"""Tap a frozen voice: what its backbone thought when each frame of a recording was complete, given the true codes.

Teacher-forced: the voice is stepped as the harness steps it, beginning with a wait and no codes, but reads the
recording's own codes and its words at their own times. The state of the step that completes a frame is the one from
which a renderer makes it (see `harness`); the first frames are made before the first word and are kept like all others.

Shapes: T steps, K books, F frames, C state width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from legato.organs import Layout, SpeechModel

NONE = -1  # a code that is not there yet


def script(words: Sequence[tuple[int, Sequence[int]]], steps: int, layout: Layout) -> Tensor:
    """Words (the frame in which each begins to sound, its pieces) -> the text stream (T,).

    Sound lies behind its text by the layout's first delay, so a word is read that much before it sounds. One that comes
    while another is still being read waits for it.
    """
    out = torch.full((steps,), layout.pad)
    free = 0
    for frame, pieces in words:
        at = max(free, frame)
        free = at + 1 + len(pieces)
        if free > steps:
            break
        out[at] = layout.word
        out[at + 1 : free] = torch.tensor(pieces)
    return out


def shifted(codes: Tensor, steps: int, layout: Layout) -> Tensor:
    """Codes (K, F) of frames -> (T, K), each book moved back by its delay, NONE elsewhere."""
    out = torch.full((steps, layout.books), NONE)
    for k, delay in enumerate(layout.delays):
        n = min(codes.shape[1], steps - delay)
        out[delay : delay + n, k] = codes[k, :n]
    return out


@torch.inference_mode()
def tap(model: SpeechModel, words: Sequence[tuple[int, Sequence[int]]], codes: Tensor) -> Tensor:
    """The state that completes each frame (F, C), for a recording's words (see `script`) and codes (K, F)."""
    layout, frames = model.layout, codes.shape[1]
    behind = max(layout.delays)
    steps = frames + behind
    text, heard = script(words, steps, layout), shifted(codes, steps, layout)
    state = model.start(guided=False)
    out = torch.empty(frames, model.width)
    read, last = layout.pad, torch.full((layout.books,), NONE)
    for step in range(steps):
        h, _ = state.step(read, last)
        if step >= behind:
            out[step - behind] = h[0]
        read, last = int(text[step]), heard[step]
    return out
