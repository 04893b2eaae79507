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
from legato.speak.flow import sample
from legato.speak.harness import Frame
from legato.speak.head import Head
from legato.speak.history import DROPPED, History, bucket, corrupt


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
        history, stream = History(c.history, c.latent), self.entrance.stream()
        level = torch.tensor([self.level])
        told, nothing = bucket(level), torch.tensor([DROPPED])
        begun = False

        @torch.inference_mode()
        def render(frame: Frame) -> Tensor:
            nonlocal begun
            past = corrupt(history.past, level, draw)
            condition = self.head.condition(frame.state[None], past, told if begun else nothing)
            noise = self.temperature**0.5 * torch.randn(1, c.latent, generator=draw)
            x = sample(lambda x, s, t: self.head(x, s, t, condition), noise, self.steps)
            history.push(x)
            begun = True
            return stream(x[:, :, None])

        return render
