"""The pocket codec: 24 kHz speech to 12.5 frames a second and back, at Mimi's interface, sized for two cores.

    audio --log-mel, encoder--> latent e --input projections--> u --16 codebooks--> codes
    codes --sums--> u^ --output projections--> z --decoder, ISTFT--> audio

`z` is what the decoder reads. `unproject(project(e))` makes it from `e` with the projections kept and only the
discretisation left out, the second entrance; in training that path is taken half of the time (Moshi, Defossez et al.
2024), or the decoder would never have met it. Everything is causal but for a look-ahead of 784 samples (33 ms) in the
encoder, which covers what the decoder's overlapping windows reach into the next frame: the decoder answers every latent
with exactly one frame of finished samples. The encoder is light (log-mel in, no waveform convolutions) and the decoder
is Vocos' idea (Siuzdak 2023): ConvNeXt blocks at the rate of an inverse short-time Fourier transform, magnitude and
phase out.

It does not know any language, and it was trained on one voice: it is no codec for other sounds.

Shapes: B batch, S samples, F codec frames (12.5/s), T spectral frames (100/s), C latent width, P projected width,
K codebooks, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.mel import mel_filters
from legato.pocket.quantiser import SplitQuantiser, SplitQuantiserConfig

RATE = 24_000  # Hz
FRAME = 1920  # samples of one codec frame
HOP = 240  # samples between spectral frames
STEPS = FRAME // HOP  # spectral frames of one codec frame
WINDOW_IN, WINDOW_OUT = 1024, 960  # samples under one window of the log-mel spectrum, of the inverse transform
LOOKAHEAD = WINDOW_IN - HOP  # samples behind a frame's end that its latent has heard
MELS = 80
LOUDEST = 100.0  # magnitudes are cut here, as in Vocos: early in training they explode


@dataclass(frozen=True)
class CodecConfig:
    """Sizes. Widths at 12.5 and 100 frames a second may differ: most of the work is done at 100."""

    latent: int = 256
    encoder_fast: int = 192
    encoder_slow: int = 384
    decoder_slow: int = 512
    decoder_fast: int = 320
    fast_blocks: int = 8
    slow_blocks: int = 2
    quantiser: SplitQuantiserConfig = field(default_factory=SplitQuantiserConfig)


class CausalConv(nn.Module):
    """Depthwise convolution over time that looks back only, (B, T, D) -> (B, T, D)."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.weight = nn.Parameter(torch.randn(width, 1, kernel) * kernel**-0.5)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """past: (B, kernel - 1, D), the frames before x; zeros at the beginning. It is moved on in place."""
        if past is None:
            joined = F.pad(x, (0, 0, self.kernel - 1, 0))
        else:
            joined = torch.cat((past, x), dim=1)
            past.copy_(joined[:, -past.shape[1] :])
        return F.conv1d(joined.transpose(1, 2), self.weight, self.bias, groups=x.shape[2]).transpose(1, 2)


class Block(nn.Module):
    """ConvNeXt: depthwise convolution, norm, wide feed-forward, scaled residual (Liu et al. 2022), (B, T, D)."""

    def __init__(self, width: int, kernel: int = 7, scale: float = 0.125) -> None:
        super().__init__()
        self.conv = CausalConv(width, kernel)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)
        self.scale = nn.Parameter(torch.full((width,), scale))

    def forward(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        return x + self.scale * self.down(F.gelu(self.up(self.norm(self.conv(x, past)))))


class Encoder(nn.Module):
    """(B, S) -> e (B, C, F): log-mel at 100 frames a second, 50, 12.5."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        fast, slow = config.encoder_fast, config.encoder_slow
        self.spectrum = LogMel()
        self.first = nn.Linear(2 * MELS, fast)  # two spectral frames: 50 a second
        self.fast = nn.ModuleList(Block(fast) for _ in range(2))
        self.merge = nn.Linear(4 * fast, slow)
        self.slow = nn.ModuleList(Block(slow, 5) for _ in range(4))
        self.norm = nn.LayerNorm(slow)
        self.out = nn.Linear(slow, config.latent)

    def forward(self, audio: Tensor) -> Tensor:
        x = self.spectrum(audio)  # (B, T, M)
        x = self.first(x.reshape(x.shape[0], -1, 2 * MELS))
        for block in self.fast:
            x = block(x)
        x = self.merge(x.reshape(x.shape[0], -1, 4 * x.shape[2]))
        for block in self.slow:
            x = block(x)
        return self.out(self.norm(x)).transpose(1, 2)


class LogMel(nn.Module):
    """Natural log of mel energies, (B, S) -> (B, T, M), S a whole number of frames.

    Window i begins at sample 240 i, so the last ones of a frame look `LOOKAHEAD` samples ahead; behind the end are
    zeros.
    """

    def __init__(self) -> None:
        super().__init__()
        filters = torch.from_numpy(mel_filters(MELS, WINDOW_IN // 2 + 1, RATE))
        self.register_buffer("filters", filters, persistent=False)  # (M, bins)
        self.register_buffer("window", torch.hann_window(WINDOW_IN), persistent=False)

    def forward(self, audio: Tensor) -> Tensor:
        audio = F.pad(audio.float(), (0, LOOKAHEAD))
        spectrum = torch.stft(audio, WINDOW_IN, HOP, window=self.window, center=False, return_complex=True)
        energy = torch.matmul(self.filters, spectrum.abs().square())  # (B, M, T)
        return energy.clamp_min(1e-5).log().transpose(1, 2)


class Decoder(nn.Module):
    """z (B, C, F) -> audio (B, S)."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        slow, fast = config.decoder_slow, config.decoder_fast
        self.first = nn.Linear(config.latent, slow)
        self.slow = nn.ModuleList(Block(slow, 5) for _ in range(config.slow_blocks))
        self.split = nn.Linear(slow, STEPS * fast)
        self.fast = nn.ModuleList(Block(fast) for _ in range(config.fast_blocks))
        self.norm = nn.LayerNorm(fast)
        self.out = nn.Linear(fast, WINDOW_OUT + 2)
        self.overlap = Overlap()

    def forward(self, z: Tensor) -> Tensor:
        return self.overlap(self.spectrum(z))

    def spectrum(self, z: Tensor, pasts: list[Tensor] | None = None) -> Tensor:
        """z (B, C, F) -> (B, T, bins) complex. pasts: one for each block, moved on in place."""
        memory = iter(pasts) if pasts is not None else None
        x = self.first(z.transpose(1, 2))
        for block in self.slow:
            x = block(x, memory and next(memory))
        x = self.split(x).reshape(x.shape[0], -1, self.norm.normalized_shape[0])
        for block in self.fast:
            x = block(x, memory and next(memory))
        size, angle = self.out(self.norm(x)).float().chunk(2, dim=-1)
        return torch.polar(size.exp().clamp_max(LOUDEST), angle)

    def pasts(self, batch: int = 1) -> list[Tensor]:
        """What each block remembers, at the beginning."""
        return [
            torch.zeros(batch, block.conv.kernel - 1, block.scale.numel(), dtype=self.out.weight.dtype)
            for block in (*self.slow, *self.fast)
        ]


class Overlap(nn.Module):
    """Inverse STFT by overlap-add. Window i begins at sample 240 i; (B, T, bins) complex -> (B, 240 T).

    Each output sample is divided by the squared windows that cover it. At the beginning fewer do, and the first samples
    have almost none: those are faded in instead of divided by next to nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        window = torch.hann_window(WINDOW_OUT)
        self.register_buffer("window", window, persistent=False)
        cover = window.square().view(-1, HOP).sum(0)  # (HOP,): what four windows give, everywhere the same
        self.register_buffer("cover", cover, persistent=False)

    def windows(self, spectrum: Tensor) -> Tensor:
        """(B, T, bins) -> (B, T, W) windowed, divided by the cover of the steady state."""
        frames = torch.fft.irfft(spectrum, n=WINDOW_OUT, dim=-1) * self.window
        return frames / self.cover.repeat(WINDOW_OUT // HOP)

    def forward(self, spectrum: Tensor) -> Tensor:
        parts = self.windows(spectrum).unflatten(2, (-1, HOP))  # (B, T, 4, HOP)
        out = parts[:, :, 0]
        for n in range(1, parts.shape[2]):
            out = out + F.pad(parts[:, :-n, n], (0, 0, n, 0))
        return out.flatten(1)


class Codec(nn.Module):
    """Encoder, quantiser and decoder; `Codec` of `legato.organs`."""

    rate, frame = RATE, FRAME

    def __init__(self, config: CodecConfig | None = None) -> None:
        super().__init__()
        self.config = config or CodecConfig()
        self.encoder = Encoder(self.config)
        self.quantiser = SplitQuantiser(self.config.latent, self.config.quantiser)
        self.decoder = Decoder(self.config)

    @property
    def books(self) -> int:
        return self.config.quantiser.books

    @property
    def width(self) -> int:
        """C, of the latent that the decoder reads."""
        return self.config.latent

    @property
    def projected(self) -> int:
        """U, of what stands between the projections: both parts side by side."""
        return 2 * self.config.quantiser.projected

    def latent(self, audio: Tensor) -> Tensor:
        """Audio (B, S) -> e (B, C, F), the encoder's own space. The last frame is filled up with zeros."""
        return self.encoder(F.pad(audio, (0, -audio.shape[-1] % FRAME)))

    def encode(self, audio: Tensor) -> Tensor:
        """Audio (B, S) -> codes (B, K, F)."""
        return self.quantiser.encode(self.latent(audio))

    def project(self, e: Tensor) -> Tensor:
        """e (B, C, F) -> u (B, 2P, F): the continuous latent, before any discretisation."""
        return self.quantiser.project(e)

    def unproject(self, u: Tensor) -> Tensor:
        """u (B, 2P, F) -> z (B, C, F)."""
        return self.quantiser.unproject(u)

    def lookup(self, codes: Tensor) -> Tensor:
        """Codes (B, k, F), the first k of K books -> z (B, C, F)."""
        return self.quantiser.decode(codes)

    def decode(self, z: Tensor) -> Tensor:
        """z (B, C, F) -> audio (B, 1920 F)."""
        return self.decoder(z)

    def stream(self, batch: int = 1) -> DecoderStream:
        """A decoder that is fed frame by frame."""
        return DecoderStream(self.decoder, batch)


class DecoderStream:
    """The decoder with what it remembers between calls: fed in any pieces, it says what `Codec.decode` says."""

    def __init__(self, decoder: Decoder, batch: int = 1) -> None:
        self.decoder = decoder
        self.pasts = decoder.pasts(batch)
        self.rest = torch.zeros(batch, WINDOW_OUT - HOP)  # of windows that reach beyond what was given out

    @torch.inference_mode()
    def __call__(self, z: Tensor) -> Tensor:
        """z (B, C, F) -> audio (B, 1920 F), finished."""
        windows = self.decoder.overlap.windows(self.decoder.spectrum(z, self.pasts))
        out = F.pad(self.rest, (0, HOP * windows.shape[1]))
        for i in range(windows.shape[1]):
            out[:, HOP * i : HOP * i + WINDOW_OUT] += windows[:, i]
        self.rest = out[:, HOP * windows.shape[1] :]
        return out[:, : HOP * windows.shape[1]]
