"""The head as an artifact, with the statistics of the latent that it renders.

Matrices are float16: it is small, and everything that is heard goes through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from torch import Tensor

from legato import artifacts
from legato.artifacts import Manifest
from legato.errors import OrganMismatch
from legato.speak.entrance import Statistics
from legato.speak.head import Head, HeadConfig

HEAD = "head"  # kind of artifact
Stored = tuple[Mapping[str, Tensor], Manifest]  # what `artifacts.load` gives


def save_head(
    folder: Path, head: Head, statistics: Statistics, *, steps: int, recipe: str, made_from: Mapping[str, str]
) -> Manifest:
    """steps: of the flow that it was made for. made_from: voice and codec, by name and SHA-256."""
    tensors = {name: tensor.half() for name, tensor in head.state_dict().items()}
    tensors |= {"latent.mean": statistics.mean.float(), "latent.deviation": statistics.deviation.float()}
    config = asdict(head.config) | {"steps": steps, "made_from": dict(made_from)}
    return artifacts.save(folder, tensors, name="head", kind=HEAD, config=config, recipe=recipe)


def load_head(stored: Stored, made_from: Mapping[str, str]) -> tuple[Head, Statistics, int]:
    """Frozen, float32; the statistics and the steps of its flow.

    Raises: OrganMismatch when the artifact is something else or was made for another voice or codec.
    """
    tensors, manifest = stored
    if manifest.kind != HEAD:
        raise OrganMismatch(f"{manifest.folder} holds a {manifest.kind}, but a {HEAD} is wanted; give another folder.")
    config = dict(manifest.config)
    trained, steps = config.pop("made_from"), config.pop("steps")
    if trained != dict(made_from):
        raise OrganMismatch(f"this head was trained on {trained}, and here are {dict(made_from)}; use those it knows.")
    head = Head(HeadConfig(**config))
    rest = {name: tensor.float() for name, tensor in tensors.items()}
    statistics = Statistics(rest.pop("latent.mean"), rest.pop("latent.deviation"))
    head.load_state_dict(rest)
    return head.requires_grad_(False).eval(), statistics, steps
