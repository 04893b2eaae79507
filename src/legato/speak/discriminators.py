"""Judges of waveforms for adversarial training, sized for two cores.

`MultiPeriod` folds the wave at prime periods and looks along them (HiFi-GAN, Kong et al. 2020), an eighth as wide as
there; `MultiScale` looks at complex spectra of several window sizes (Encodec, Defossez et al. 2022), with 16 channels
and small kernels. Speech is some 20 dB below full scale, so the wave is raised by as much. A second of 24 kHz audio
costs about 0.5 and 1.3 GFLOP forward; full-sized judges cost 35.

Shapes: B batch, S samples.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

Verdict = tuple[list[Tensor], list[Tensor]]  # logits of each judge, features of all their layers
PERIODS = (2, 3, 5, 7, 11)
WINDOWS = (512, 1024, 2048)
SLOPE = 0.1
GAIN = 10.0


class MultiPeriod(nn.Module):
    """Audio (B, S) -> a verdict of five judges."""

    def __init__(self, channels: tuple[int, ...] = (4, 16, 64, 128, 128)) -> None:
        super().__init__()
        self.judges = nn.ModuleList(_Folded(period, channels) for period in PERIODS)

    def forward(self, audio: Tensor) -> Verdict:
        return _all(self.judges, audio)


class MultiScale(nn.Module):
    """Audio (B, S) -> a verdict of three judges."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.judges = nn.ModuleList(_Spectral(window, channels) for window in WINDOWS)

    def forward(self, audio: Tensor) -> Verdict:
        return _all(self.judges, audio)


class _Folded(nn.Module):
    """Columns are the period, convolutions run down them."""

    def __init__(self, period: int, channels: tuple[int, ...]) -> None:
        super().__init__()
        self.period = period
        widths = (1, *channels)
        last = len(channels) - 1
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, (5, 1), (1 if i == last else 3, 1), (2, 0)))
            for i, (a, b) in enumerate(zip(widths, widths[1:], strict=False))
        )
        self.out = weight_norm(nn.Conv2d(channels[-1], 1, (3, 1), 1, (1, 0)))

    def forward(self, audio: Tensor) -> tuple[Tensor, list[Tensor]]:
        x = F.pad(audio, (0, -audio.shape[1] % self.period), mode="reflect")
        return _through(self.layers, self.out, x.unflatten(1, (-1, self.period))[:, None])


class _Spectral(nn.Module):
    """Real and imaginary part as two channels, (B, 2, frames, bins)."""

    def __init__(self, window: int, channels: int) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(window), persistent=False)
        self.layers = nn.ModuleList((
            weight_norm(nn.Conv2d(2, channels, (3, 7), padding=(1, 3))),
            *(
                weight_norm(nn.Conv2d(channels, channels, (3, 5), (1, 2), (d, 2), dilation=(d, 1))) for d in (1, 2, 4)
            ),
            weight_norm(nn.Conv2d(channels, channels, (3, 3), padding=(1, 1))),
        ))
        self.out = weight_norm(nn.Conv2d(channels, 1, (3, 3), padding=(1, 1)))

    def forward(self, audio: Tensor) -> tuple[Tensor, list[Tensor]]:
        size = len(self.window)
        # Windows of unit energy, so that one size of signal has one size of spectrum at all scales.
        spectrum = torch.stft(
            audio.float(), size, size // 4, window=self.window / self.window.square().sum().sqrt(), return_complex=True
        )
        return _through(self.layers, self.out, torch.view_as_real(spectrum).permute(0, 3, 2, 1))


def _through(layers: nn.ModuleList, out: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    features = []
    for layer in layers:
        x = F.leaky_relu(layer(x), SLOPE)
        features.append(x)
    return out(x), features


def _all(judges: nn.ModuleList, audio: Tensor) -> Verdict:
    verdicts = [judge(GAIN * audio) for judge in judges]
    return [logits for logits, _ in verdicts], [feature for _, features in verdicts for feature in features]
