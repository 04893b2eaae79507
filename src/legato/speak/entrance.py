"""The codec's second entrance: its projections kept, only the discretisation left out.

A codec wraps its quantiser in learned projections, so the latent of its encoder stands in another space than the one
its decoder reads: fed there directly it gives noise. What may be skipped is the cutting up between the two projections.
A head renders what stands there, `u`, normalised to mean 0 and deviation 1 in every dimension so that one level of
noise means the same to all.

Shapes: B batch, U projected width, C decoder latent width, F codec frames, S samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from legato.errors import BadInput, OrganMismatch
from legato.organs import Codec, CodecStream


@dataclass(frozen=True)
class Statistics:
    """Mean and deviation of `u`, (U,) each."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, latents: Iterable[Tensor]) -> Statistics:
        """From pieces (U, F), summed in float64. Raises: BadInput for fewer than two frames."""
        count, total, squares = 0, torch.zeros(()), torch.zeros(())
        for u in latents:
            u = u.double()
            count, total, squares = count + u.shape[1], total + u.sum(1), squares + u.square().sum(1)
        if count < 2:
            raise BadInput(f"statistics of latents need two frames or more, and {count} were given; give more audio.")
        mean = total / count
        deviation = (squares / count - mean.square()).clamp_min(0).sqrt()
        return cls(mean.float(), deviation.float().clamp_min(1e-4))

    def normalise(self, u: Tensor) -> Tensor:
        """(..., U, F) -> the same."""
        return (u - self.mean[:, None]) / self.deviation[:, None]

    def restore(self, x: Tensor) -> Tensor:
        """(..., U, F) -> the same."""
        return x * self.deviation[:, None] + self.mean[:, None]


@dataclass(frozen=True)
class Entrance:
    """A codec with the statistics of its continuous latent.

    Raises: OrganMismatch when they are of another width.
    """

    codec: Codec
    statistics: Statistics

    def __post_init__(self) -> None:
        if (found := len(self.statistics.mean)) != self.codec.projected:
            raise OrganMismatch(
                f"this codec's continuous latent is {self.codec.projected} wide and the statistics are of {found}; "
                "measure them on this codec."
            )

    @torch.inference_mode()
    def encode(self, audio: Tensor) -> Tensor:
        """Audio (B, S) -> normalised latent (B, U, F)."""
        return self.statistics.normalise(self.codec.project(self.codec.latent(audio)))

    def latent(self, x: Tensor) -> Tensor:
        """Normalised latent (B, U, F) -> what the decoder reads (B, C, F)."""
        return self.codec.unproject(self.statistics.restore(x))

    def decode(self, x: Tensor) -> Tensor:
        """Normalised latent (B, U, F) -> audio (B, S)."""
        return self.codec.decode(self.latent(x))

    def stream(self, batch: int = 1) -> EntranceStream:
        return EntranceStream(self, self.codec.stream(batch))


@dataclass(frozen=True)
class EntranceStream:
    """The codec's stream behind this entrance: normalised latents (B, U, F) in, audio out."""

    entrance: Entrance
    decoder: CodecStream

    def __call__(self, x: Tensor) -> Tensor:
        return self.decoder(self.entrance.latent(x))
