"""What is minimised: the flow, distances of spectra, and what judges and the judged want of each other.

Shapes: B batch, S samples; N rows, U latent width, W width of the head's condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from legato.mel import mel_filters
from legato.speak.flow import between, draw_times
from legato.speak.head import Head

RATE = 24_000  # Hz
SCALES = ((32, 5), (64, 10), (128, 20), (256, 40), (512, 80), (1024, 160), (2048, 320))  # window, mel bands
QUIETEST = 1e-5  # mel amplitudes are not told apart below


@cache
def _scale(window: int, bands: int) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(mel_filters(bands, window // 2 + 1, RATE)), torch.hann_window(window)


def log_mel_distance(made: Tensor, real: Tensor, scales: Sequence[tuple[int, int]] = SCALES) -> Tensor:
    """Mean difference of log mel amplitudes (natural log) over windows of 1.3 to 85 ms; audio (B, S) at 24 kHz.

    The gradient flows to `made` alone.
    """
    distance = made.new_zeros((), dtype=torch.float32)
    for window, bands in scales:
        filters, shape = _scale(window, bands)

        def log_mel(x: Tensor, window: int = window, filters: Tensor = filters, shape: Tensor = shape) -> Tensor:
            spectrum = torch.stft(x.float(), window, window // 4, window=shape, return_complex=True)
            # The square root of zero has no slope.
            amplitude = (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()
            return (filters @ amplitude).clamp_min(QUIETEST).log()

        with torch.no_grad():
            wanted = log_mel(real)
        distance = distance + (log_mel(made) - wanted).abs().mean()
    return distance / len(scales)


def hinge_discriminator(real: Sequence[Tensor], made: Sequence[Tensor]) -> Tensor:
    """Judges want real above 1 and made below -1; the mean over judges."""
    lost = [F.relu(1 - r.float()).mean() + F.relu(1 + m.float()).mean() for r, m in zip(real, made, strict=True)]
    return torch.stack(lost).mean()


def hinge_generator(made: Sequence[Tensor]) -> Tensor:
    """The judged wants to be taken for real, and no more than that (hinged, as in Vocos)."""
    return torch.stack([F.relu(1 - m.float()).mean() for m in made]).mean()


def feature_matching(real: Sequence[Tensor], made: Sequence[Tensor]) -> Tensor:
    """Mean absolute difference of the judges' features, as a share of the real ones' size in every layer."""
    apart = [
        (r.detach().float() - m.float()).abs().mean() / r.detach().float().abs().mean().clamp_min(1e-6)
        for r, m in zip(real, made, strict=True)
    ]
    return torch.stack(apart).mean()


def flow_matching(head: Head, data: Tensor, condition: Tensor, draws: int = 4) -> Tensor:
    """Mean squared error of the velocity on `draws` points of each row's path: data (N, U), condition (N, W)."""
    data, condition = data.repeat(draws, 1), condition.repeat(draws, 1)
    noise, t = torch.randn_like(data), draw_times(len(data)).to(data)
    return (head(between(noise, data, t), t, t, condition) - (data - noise)).square().mean()


def self_distillation(head: Head, data: Tensor, condition: Tensor) -> Tensor:
    """How far the map is from following its own velocity: Lagrangian self-distillation (arXiv 2505.18825).

    d/dt X(x, s, t) is to be v(X, t, t), held fixed; s < t are drawn, the derivative is taken in forward mode.
    """
    noise = torch.randn_like(data)
    s, t = torch.stack((draw_times(len(data)), draw_times(len(data)))).to(data).sort(dim=0).values
    x = between(noise, data, s)
    moved, slope = torch.func.jvp(lambda time: head(x, s, time, condition), (t,), (torch.ones_like(t),))
    far = (t - s)[:, None]
    with torch.no_grad():
        wanted = head(x + far * moved, t, t, condition)
    return (moved + far * slope - wanted).square().mean()


def shuffle_gap(
    head: Head, data: Tensor, h: Tensor, past: Tensor, level: Tensor, draws: int = 8
) -> tuple[float, float]:
    """The flow loss with each row's own state, and with another row's: what a head that listens must not share.

    The same noise and times for both.
    """
    losses = []
    seed = torch.random.get_rng_state()
    with torch.no_grad():
        for states in (h, h.roll(len(h) // 2 or 1, 0)):
            torch.random.set_rng_state(seed)
            losses.append(float(flow_matching(head, data, head.condition(states, past, level), draws)))
    return losses[0], losses[1]
