"""The pocket codec and voice as artifacts: saved when trained, built again where they speak.

Matrices are int8 with a scale per 64 columns, everything else float16. The voice's codebooks are the codec's and are
not stored twice; its words' pieces are a file beside its weights. Which artifacts are the promoted ones is pinned by
the preset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from legato import artifacts
from legato.artifacts import Manifest, Source
from legato.errors import OrganMismatch
from legato.pocket.codec import Codec, CodecConfig
from legato.pocket.quantiser import SplitQuantiserConfig
from legato.pocket.voice import Voice, VoiceConfig
from legato.transformer import TransformerConfig

CODEC, VOICE = "pocket-codec", "pocket-voice"  # kinds of artifact
PIECES = "pieces.json"
Stored = tuple[Mapping[str, Tensor], Manifest]  # what `artifacts.load` gives


def save_codec(folder: Path, codec: Codec, *, recipe: str, sources: tuple[Source, ...]) -> Manifest:
    return artifacts.save(
        folder, artifacts.pack_module(codec), name=CODEC, kind=CODEC, config=asdict(codec.config), recipe=recipe,
        sources=sources,
    )


def load_codec(stored: Stored) -> Codec:
    """Frozen, float32. Raises: OrganMismatch or ArtifactError when the artifact is something else."""
    tensors, manifest = stored
    _require(manifest, CODEC)
    config = dict(manifest.config)
    codec = Codec(CodecConfig(**config | {"quantiser": SplitQuantiserConfig(**config["quantiser"])}))
    artifacts.fill_module(codec, tensors)
    return codec.requires_grad_(False).eval()


def save_voice(
    folder: Path, voice: Voice, pieces: Tokenizer, *, codec: str, recipe: str, sources: tuple[Source, ...]
) -> Manifest:
    """codec: SHA-256 of the weights whose codes the voice was trained on."""
    config: dict[str, Any] = asdict(voice.config) | {"codec": codec}
    return artifacts.save(
        folder, artifacts.pack_module(voice), name=VOICE, kind=VOICE, config=config, recipe=recipe, sources=sources,
        extra={PIECES: pieces.to_str().encode()},
    )


def load_voice(stored: Stored, codec: Codec, codec_sha256: str) -> tuple[Voice, Tokenizer]:
    """Frozen, float32, with the pieces of its words.

    Raises: OrganMismatch when the artifact is something else or the codec is not the one that the voice was trained on.
    """
    tensors, manifest = stored
    _require(manifest, VOICE)
    config = dict(manifest.config)
    if (trained_on := config.pop("codec")) != codec_sha256:
        raise OrganMismatch(
            f"this voice was trained on the codes of codec {trained_on}, and the codec here is {codec_sha256}; "
            "use the codec it belongs to."
        )
    for part in ("backbone", "depth"):
        config[part] = TransformerConfig(**config[part])
    voice = Voice(VoiceConfig(**config), codebooks(codec))
    artifacts.fill_module(voice, tensors)
    pieces = Tokenizer.from_str(manifest.path(PIECES).read_text(encoding="utf-8"))
    return voice.requires_grad_(False).eval(), pieces


def codebooks(codec: Codec) -> Tensor:
    """(K, V, P)."""
    return torch.stack([book.entries for part in (codec.quantiser.first, codec.quantiser.rest) for book in part.books])


def _require(manifest: Manifest, kind: str) -> None:
    if manifest.kind != kind:
        raise OrganMismatch(f"{manifest.folder} holds a {manifest.kind}, but a {kind} is wanted; give another folder.")
