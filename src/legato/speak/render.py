"""From a frame to sound: by the head, or by the codes that the depth model drew. One loop feeds either.

Shapes: U latent width, C state width, K books.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from legato.organs import Codec
from legato.speak.entrance import Entrance
from legato.speak.harness import Frame
from legato.speak.head import Head
from legato.speak.history import DROPPED, History, bucket, corrupt
from legato.speak.rendering import Rendering


class Renderer(Protocol):
    """Begins an utterance: what comes back turns one frame after the other into samples (1, S)."""

    def start(self) -> Callable[[Frame], Tensor]: ...


@dataclass(frozen=True)
class DepthRenderer:
    """The teacher's own decode: the codes that were drawn, looked up and decoded."""

    codec: Codec

    def start(self) -> Callable[[Frame], Tensor]:
        stream = self.codec.stream()

        def render(frame: Frame) -> Tensor:
            drawn = frame.codes[frame.codes >= 0]
            return stream(self.codec.lookup(drawn[None, :, None]))

        return render


@dataclass(frozen=True)
class HeadRenderer:
    """The head's latent through the codec's second entrance; the codes are not looked at.

    Args:
        steps: of the flow. temperature: variance of the noise it starts from.
        level: corruption of the head's own past, and what it is told of it. seed: of all noise here.
    """

    head: Head
    entrance: Entrance
    steps: int = 2
    temperature: float = 0.5
    level: float = 0.05
    seed: int = 0

    def start(self) -> Callable[[Frame], Tensor]:
        c = self.head.config
        draw = torch.Generator().manual_seed(self.seed)
        rendering = Rendering(self.head, self.steps)
        history, stream = History(c.history, c.latent), self.entrance.stream()
        level = torch.tensor([self.level])
        told = int(bucket(level))
        begun = False

        @torch.inference_mode()
        def render(frame: Frame) -> Tensor:
            nonlocal begun
            past = corrupt(history.past, level, draw)
            noise = self.temperature**0.5 * torch.randn(1, c.latent, generator=draw)
            x = rendering(frame.state, past, told if begun else DROPPED, noise)
            history.push(x)
            begun = True
            return stream(x[:, :, None])

        return render
