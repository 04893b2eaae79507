"""The pocket ear: 16 kHz speech in, 6.25 features a second out, and the projector that a language model learns on top.

The ear is the encoder of Whisper base (MIT, OpenAI), frozen, written here in plain torch: log-mel, two convolutions,
six pre-norm layers, and eight encoder frames stacked into one vector, as Ultravox stacks them. Audio is not padded to
30 s: a clip of three seconds costs three seconds. Features of unpadded audio differ from those of padded audio, so a
projector must be trained on what this module gives.

It is not a recogniser (Whisper's decoder is not here) and it does not read files, resample or mix down: `legato.audio`
does.

Letters: B batch, S samples, M mel bins, T mel frames (100/s), N encoder frames (50/s), n tokens (6.25/s), C width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from legato import artifacts
from legato.errors import OrganMismatch
from legato.mel import mel_filters

RATE = 16_000  # Hz, the only rate the ear hears
HOP = 160  # samples between mel frames
WINDOW = 400  # samples under one mel frame
CHUNK = 3000  # mel frames the encoder has positions for: 30 s
WEIGHTS = Path(__file__).parent / "weights" / "ear"  # the shipped artifact
GROUP = 32  # weights that share one scale in it


@dataclass(frozen=True)
class EarConfig:
    """Geometry of a Whisper encoder and of the stacking. The defaults are Whisper base."""

    mels: int = 80
    width: int = 512
    layers: int = 6
    heads: int = 8
    stack: int = 8

    @property
    def features(self) -> int:
        """Width of one token: `stack` encoder frames side by side."""
        return self.stack * self.width


class LogMel:
    """Whisper's log-mel spectrum of audio as long as it is: (B, S) float32 at 16 kHz -> (B, M, S // 160) float32.

    S must be above 200, half a window, or there is nothing to mirror at the edges. Each row is scaled by its own peak.
    Not a module on purpose: casting an ear to bfloat16 must not touch it.
    """

    def __init__(self, mels: int = 80):
        self._filters = torch.from_numpy(mel_filters(mels, WINDOW // 2 + 1, RATE))  # (M, 201)
        self._window = torch.hann_window(WINDOW)

    def __call__(self, samples: Tensor) -> Tensor:
        window, filters = self._window.to(samples.device), self._filters.to(samples.device)
        spectrum = torch.stft(samples.float(), WINDOW, HOP, window=window, return_complex=True)  # (B, 201, T + 1)
        power = spectrum[..., :-1].abs().square()
        log = (filters @ power).clamp_min(1e-10).log10()
        floor = log.amax(dim=(-2, -1), keepdim=True) - 8.0  # 80 dB under the loudest
        return (torch.maximum(log, floor) + 4.0) / 4.0


def sinusoids(length: int, width: int) -> Tensor:
    """Whisper's positions, (length, width): sines in the first half, cosines in the second, periods 2 pi to 2e4 pi.

    Rounded to float16, as the published weights hold them: without that, near-silent frames move by a percent.
    """
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * (-np.log(10_000.0) / (half - 1)))
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angle.sin(), angle.cos()], dim=1).half().float()


class EncoderLayer(nn.Module):
    """Pre-norm self-attention and GELU feed-forward, (B, N, C) -> (B, N, C)."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_feed = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        B, N, C = x.shape
        q, k, v = self.qkv(self.norm_attention(x)).view(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        heard = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # (B, heads, N, C / heads)
        x = x + self.out(heard.transpose(1, 2).reshape(B, N, C))
        return x + self.down(F.gelu(self.up(self.norm_feed(x))))


class WhisperEncoder(nn.Module):
    """Whisper's encoder for any length up to 30 s, (B, M, T) -> (B, ceil(T / 2), C)."""

    def __init__(self, config: EarConfig):
        super().__init__()
        self.config = config
        self.conv1 = nn.Conv1d(config.mels, config.width, 3, padding=1)
        self.conv2 = nn.Conv1d(config.width, config.width, 3, stride=2, padding=1)
        self.layers = nn.ModuleList(EncoderLayer(config.width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.register_buffer("positions", sinusoids(CHUNK // 2, config.width), persistent=False)

    def forward(self, mel: Tensor, lengths: Tensor | None = None) -> Tensor:
        """mel (B, M, T <= 3000); lengths (B,) mel frames that are sound, where rows differ.

        With lengths, every row comes out as it would alone; frames past its end are zero.
        """
        T = mel.shape[-1]
        assert T <= CHUNK, f"{T} mel frames in one window of {CHUNK}"
        mask, inside = None, None
        x = mel.to(self.conv1.weight.dtype)
        if lengths is not None:
            # The second convolution looks one frame past the end, where a lone clip has zeros, not gelu(bias).
            inside = torch.arange(T, device=x.device) < lengths[:, None]  # (B, T)
            x = x * inside[:, None]
        x = F.gelu(self.conv1(x))
        if inside is not None:
            x = x * inside[:, None]
            inside = inside[:, ::2]  # (B, N): frame i stands on mel frame 2 i
            mask = inside[:, None, None, :]
        x = F.gelu(self.conv2(x)).transpose(1, 2)  # (B, N, C)
        x = x + self.positions[: x.shape[1]].to(x.dtype)
        for layer in self.layers:
            x = layer(x, mask)
        x = self.norm(x)
        return x if inside is None else x * inside[..., None]


def from_transformers(tensors: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Weights under the names of transformers' `WhisperEncoder` -> weights for ours (q, k, v fused; no bias on k)."""
    ours: dict[str, Tensor] = {}
    for part in ("weight", "bias"):
        for theirs, name in (("conv1", "conv1"), ("conv2", "conv2"), ("layer_norm", "norm")):
            ours[f"{name}.{part}"] = tensors[f"{theirs}.{part}"]
        for i in range(layers):
            there, here = f"layers.{i}.", f"layers.{i}."
            for theirs, name in (
                ("self_attn_layer_norm", "norm_attention"),
                ("self_attn.out_proj", "out"),
                ("final_layer_norm", "norm_feed"),
                ("fc1", "up"),
                ("fc2", "down"),
            ):
                ours[f"{here}{name}.{part}"] = tensors[f"{there}{theirs}.{part}"]
            q, v = (tensors[f"{there}self_attn.{name}_proj.{part}"] for name in "qv")
            k = tensors[f"{there}self_attn.k_proj.weight"] if part == "weight" else torch.zeros_like(q)
            ours[f"{here}qkv.{part}"] = torch.cat([q, k, v])
    return ours


def _pack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices and kernels as int8 with their shape's first axis as rows; vectors in float16."""
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.ndim == 1:
            packed[name] = tensor.half()
            continue
        parts = artifacts.pack_int8(tensor.flatten(1), GROUP)
        packed[f"{name}.q"] = parts["q"].view(tensor.shape)
        packed[f"{name}.scale"] = parts["scale"]
    return packed


def _unpack(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for key, tensor in packed.items():
        if key.endswith(".q"):
            name = key.removesuffix(".q")
            parts = {"q": tensor.flatten(1), "scale": packed[f"{name}.scale"]}
            tensors[name] = artifacts.unpack_int8(parts, GROUP).view(tensor.shape)
        elif not key.endswith(".scale"):
            tensors[key] = tensor
    return tensors


class Ear(nn.Module):
    """Speech to stacked features, frozen: (B, S) at 16 kHz -> (B, n, 4096), 6.25 vectors a second.

    The features come in the encoder's dtype, float32 or bfloat16. Nothing here is trained and nothing is kept between
    calls. `manifest` says which artifact it came from, None where it was made from tensors.
    """

    manifest: artifacts.Manifest | None = None

    def __init__(self, config: EarConfig | None = None):
        super().__init__()
        self.config = config or EarConfig()
        self.mel = LogMel(self.config.mels)
        self.encoder = WhisperEncoder(self.config).requires_grad_(False).eval()

    @classmethod
    def load(cls, folder: Path = WEIGHTS, dtype: torch.dtype = torch.float32) -> Ear:
        """The ear of a folder, by default the shipped one. Raises what `artifacts.load` raises, and OrganMismatch."""
        packed, manifest = artifacts.load(folder)
        if manifest.kind != "ear":
            raise OrganMismatch(f"{folder} holds a {manifest.kind}, and an ear is wanted; give the ear's folder.")
        ear = cls.from_tensors(_unpack(packed), EarConfig(**manifest.config), dtype)
        ear.manifest = manifest
        return ear

    def save(self, folder: Path, *, name: str, recipe: str = "", sources: tuple[artifacts.Source, ...] = ()) -> None:
        """Save as an artifact of int8 matrices; what `load` gives back differs by that rounding."""
        packed = _pack(self.encoder.state_dict())
        config = asdict(self.config)
        artifacts.save(folder, packed, name=name, kind="ear", config=config, recipe=recipe, sources=sources)

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, Tensor], config: EarConfig | None = None, dtype: torch.dtype = torch.float32
    ) -> Ear:
        """An ear from `WhisperEncoder` weights of any float dtype; every name must match."""
        ear = cls(config)
        ear.encoder.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        return ear.to(dtype)

    def frames(self, samples: int) -> int:
        """Mel frames that the ear makes of so many samples: whole hops, two at least."""
        return max(2, -(-samples // HOP))

    def tokens(self, samples: int) -> int:
        """Feature vectors that the ear makes of so many samples at 16 kHz. Every 30 s chunk rounds up on its own."""
        whole, rest = divmod(self.frames(samples), CHUNK)
        return whole * self._stacked(CHUNK) + self._stacked(rest)

    def _stacked(self, mel_frames: int) -> int:
        return -(-mel_frames // (2 * self.config.stack))

    def forward(self, samples: Tensor) -> Tensor:
        """samples (B, S) float in [-1, 1], all rows sound to the end -> (B, tokens(S), 4096)."""
        chunks = self._mel(samples).split(CHUNK, dim=-1)
        return torch.cat([self._stack(self._encode(chunk)) for chunk in chunks], dim=1)

    def features(self, clips: Sequence[Tensor], batch: int = 16) -> list[Tensor]:
        """Clips of any lengths, each (S_i,) -> one (tokens(S_i), 4096) each, in the order given.

        Clips of like length share a batch of at most `batch` chunks, padded and masked: the same as one at a time.
        """
        chunks = [
            (mel.shape[-1], clip, part, mel)
            for clip, samples in enumerate(clips)
            for part, mel in enumerate(self._mel(samples[None])[0].split(CHUNK, dim=-1))
        ]
        chunks.sort(key=lambda chunk: chunk[:3])
        heard: list[dict[int, Tensor]] = [{} for _ in clips]
        for start in range(0, len(chunks), batch):
            group = chunks[start : start + batch]
            sizes = [size for size, *_ in group]
            mel = torch.stack([F.pad(m, (0, sizes[-1] - size)) for size, _, _, m in group])
            lengths = torch.tensor(sizes, device=mel.device) if sizes[0] < sizes[-1] else None
            stacked = self._stack(self._encode(mel, lengths))
            for row, (size, clip, part, _) in enumerate(group):
                heard[clip][part] = stacked[row, : self._stacked(size)]
        return [torch.cat([parts[i] for i in range(len(parts))]) for parts in heard]

    def _mel(self, samples: Tensor) -> Tensor:
        short = self.frames(samples.shape[-1]) * HOP - samples.shape[-1]
        return self.mel(F.pad(samples, (0, short)))

    @torch.no_grad()
    def _encode(self, mel: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.encoder(mel, lengths)

    def _stack(self, frames: Tensor) -> Tensor:
        B, N, _ = frames.shape
        n = -(-N // self.config.stack)
        return F.pad(frames, (0, 0, 0, n * self.config.stack - N)).reshape(B, n, self.config.features)


class Projector(nn.Module):
    """From the ear's features to a language model's width, (B, n, 4096) -> (B, n, width).

    RMSNorm, up to 2 x hidden, SwiGLU, RMSNorm, down to width, as Ultravox v0.5 has it. Before `down` every token also
    takes in its neighbours, `REACH` on either side, because a word is longer than the 160 ms of one token; that part
    begins at nothing. Zeros after a clip are read as nothing, so clips of several lengths may stand side by side. Both
    norms of Ultravox start at 0.4, which keeps a new projector's output small beside the text embeddings.
    """

    REACH = 2  # tokens on either side: 0.8 s in all

    def __init__(self, width: int, hidden: int = 512, features: int = 4096):
        super().__init__()
        self.norm_in = nn.RMSNorm(features, eps=1e-6)
        self.up = nn.Linear(features, 2 * hidden, bias=False)
        self.norm_mid = nn.RMSNorm(hidden, eps=1e-6)
        self.norm_around = nn.RMSNorm(hidden, eps=1e-6)
        self.around = nn.Linear((2 * self.REACH + 1) * hidden, hidden // 2, bias=False)
        self.back = nn.Linear(hidden // 2, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        for norm in (self.norm_in, self.norm_mid):
            nn.init.constant_(norm.weight, 0.4)
        nn.init.zeros_(self.back.weight)

    def forward(self, features: Tensor) -> Tensor:
        if torch.is_grad_enabled() and not features.requires_grad:
            # The same product with the norm's weight folded into `up`: training then needs no gradient at the
            # features.
            scale = (features.float().square().mean(-1, keepdim=True) + self.norm_in.eps).rsqrt()
            up = F.linear(features, self.up.weight * self.norm_in.weight) * scale
        else:
            up = self.up(self.norm_in(features))
        value, gate = up.chunk(2, dim=-1)  # the gate is the second half
        x = self.norm_mid(F.silu(gate) * value)
        beside = F.pad(self.norm_around(x), (0, 0, self.REACH, self.REACH)).unfold(-2, 2 * self.REACH + 1, 1)
        x = x + self.back(F.silu(self.around(beside.transpose(-1, -2).flatten(-2))))
        return self.down(x)
