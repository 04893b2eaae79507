"""Is what the ear heard spoken English, another language, or no speech at all? One matrix on the mean of its features.

Whoever asks a voice product something by mistake (a cough, the radio, a question in German) should be told so, and the
pocket models answer whatever they are given. The mean over a clip keeps what a language sounds like and forgets what
was said; what is much softer than the loudest is left out of it. It is no voice activity detector: it judges whole
clips, and one word of English in half a minute of music is music. How often it is wrong, on people it never heard: its
card, `weights/language/README.md`.

Shapes: S samples at 16 kHz, n audio tokens, F ear features a token (N frames of C numbers side by side), K classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from legato import artifacts
from legato.artifacts import Manifest, Source
from legato.errors import OrganMismatch

CLASSES = ("english", "other", "none")
KIND = "pocket-language"
HOP = 320  # samples of one ear frame
QUIET_DB = 20.0  # a frame so far below the loudest is the room: what is judged is the one who speaks
SURE = 60  # sounding frames (1.2 s) from which a verdict is taken at its word: a word or two have too few sounds
SHORTEST = 10  # frames (0.2 s) that must sound: a few clicks are no question, whatever they sound like
DOUBTS = {
    "other": "it sounds like another language than English, the only one understood here",
    "none": "it sounds like noise or music",
}


class Language(nn.Module):
    """Mean over sounding frames -> one of `CLASSES`.

    Args:
        width: C, of one encoder frame.
        least: below this probability of English there is doubt, in short clips below less.
    """

    def __init__(self, width: int = 512, least: float = 0.5) -> None:
        super().__init__()
        self.width, self.least = width, least
        self.classify = nn.Linear(width, len(CLASSES))

    def forward(self, means: Tensor) -> Tensor:
        """Means of frames (..., C) -> log probabilities (..., K), float32."""
        return self.classify(means.float()).log_softmax(-1)

    @torch.no_grad()
    def doubt(self, features: Tensor, wave: Tensor) -> str | None:
        """What to say of features (n, F) of wave (S,) that hardly are English, or None."""
        frames = int(sounding(wave, features.numel() // self.width).sum())
        if frames < SHORTEST:
            return DOUBTS["none"]
        shares = self(sounding_mean(features, wave, self.width)).exp()
        if float(shares[0]) >= self.least * min(1.0, frames / SURE):
            return None
        return DOUBTS["other" if shares[1] >= shares[2] else "none"]

    def save(self, folder: Path, *, recipe: str, sources: tuple[Source, ...]) -> Manifest:
        tensors = {name: tensor.float() for name, tensor in self.classify.state_dict().items()}
        config = {"classes": list(CLASSES), "width": self.width, "least": self.least}
        return artifacts.save(
            folder, tensors, name=KIND, kind=KIND, config=config, recipe=recipe, sources=sources
        )

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor], manifest: Manifest) -> Language:
        """From what `artifacts.load` gave. Raises: OrganMismatch for an artifact of another kind."""
        if manifest.kind != KIND or manifest.config["classes"] != list(CLASSES):
            raise OrganMismatch(f"{manifest.folder} holds a {manifest.kind}, but a {KIND} of {CLASSES} is wanted.")
        language = cls(manifest.config["width"], manifest.config["least"])
        language.classify.load_state_dict(dict(tensors))
        return language.requires_grad_(False).eval()


def sounding_mean(features: Tensor, wave: Tensor, width: int) -> Tensor:
    """Features (n, F) of wave (S,) -> (C,) float32: the mean encoder frame, quiet ones left out."""
    frames = features.float().view(-1, width)
    return frames[sounding(wave, len(frames)).to(frames.device)].mean(0)


def sounding(wave: Tensor, frames: int) -> Tensor:
    """Which frames of wave (S,) are loud enough to be the one who speaks, (N,) bool."""
    padded = nn.functional.pad(wave.float(), (0, frames * HOP - len(wave))).view(-1, HOP)
    energy = padded.square().mean(1)
    return energy >= energy.max() * 10 ** (-QUIET_DB / 10)
