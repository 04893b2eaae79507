"""The shipped parts of a system, each held against its preset before it is used."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from legato import artifacts, presets
from legato.errors import BadInput, ChecksumMismatch
from legato.pocket import shelf
from legato.pocket.ear import Ear
from legato.pocket.language import Language

if TYPE_CHECKING:
    import torch

    from legato.listen.shelf import Stored
    from legato.pocket.listener import PocketListener
    from legato.presets import Pinned

NAMES = tuple(field.name for field in fields(presets.Artifacts))


def stored(preset: str, *names: str) -> dict[str, Stored]:
    """Tensors and manifest of each named part.

    Raises:
        ChecksumMismatch: a weight file or a manifest is not the one that the preset pins.
        ArtifactError: one is missing or damaged.
    """
    pins = presets.read(preset).artifacts
    return {name: _checked(name, getattr(pins, name)) for name in names}


def spoken(preset: str, *names: str) -> dict[str, Stored]:
    """Tensors and manifest of parts of a preset's voice, by default of all. Raises as `stored` does; BadInput where it
    has no voice, or no head yet and one is wanted."""
    pins = presets.read(preset).speech
    if pins is None:
        raise BadInput(f"preset {preset!r} has no voice: it only listens; choose one that speaks.")
    wanted = {name: getattr(pins, name) for name in names or [field.name for field in fields(pins)]}
    if missing := [name for name, pinned in wanted.items() if pinned is None]:
        raise BadInput(f"preset {preset!r} has no {missing[0]} yet; train one with: legato speak train")
    return {name: _checked(name, pinned) for name, pinned in wanted.items()}


def _checked(name: str, pinned: Pinned) -> Stored:
    tensors, manifest = artifacts.load(shelf.WEIGHTS / pinned.folder)
    file = manifest.path("weights.safetensors").name
    if manifest.files[file] != pinned.weights:
        raise ChecksumMismatch(f"{name} ({file})", pinned.weights, manifest.files[file])
    if manifest.sha256 != pinned.identity:
        raise ChecksumMismatch(f"{name} ({artifacts.MANIFEST})", pinned.identity, manifest.sha256)
    return tensors, manifest


def weight_hash(part: Stored) -> str:
    """SHA-256 of a part's weight file."""
    manifest = part[1]
    return manifest.files[manifest.path("weights.safetensors").name]


def weight_files(preset: str) -> dict[str, Path]:
    """Where each part's weight file lies, by name. Raises ArtifactError when a manifest is missing."""
    pins = presets.read(preset).artifacts
    folders = {name: shelf.WEIGHTS / getattr(pins, name).folder for name in NAMES}
    return {name: artifacts.read_manifest(folder).path("weights.safetensors") for name, folder in folders.items()}


def pair(preset: str, found: dict[str, Stored], dtype: torch.dtype) -> tuple[PocketListener, PocketListener]:
    """The large and the small listener of a preset, from its stored parts; they doubt what they hear if "language" is
    among them."""
    ear = Ear.load(shelf.WEIGHTS / presets.read(preset).artifacts.ear.folder, dtype)
    language = Language.restore(*found["language"]) if "language" in found else None
    return shelf.load_pair(ear, found["large"], found["small"], dtype, language)
