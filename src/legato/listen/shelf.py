"""The mapper and the residual as artifacts: saved when fitted or trained, loaded where they serve.

Matrices are float16, or int8 with a scale per 64 columns where that was measured to cost nothing; means, biases and
headers are float16. Which file is the promoted one is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from legato import artifacts
from legato.artifacts import Manifest
from legato.cache import Geometry
from legato.errors import OrganMismatch
from legato.listen.mapper import CacheMapper, MapConfig
from legato.listen.residual import CacheResidual, ResidualConfig

MAPPER, RESIDUAL = "mapper", "residual"  # kinds of artifact
Stored = tuple[Mapping[str, Tensor], Manifest]  # what `artifacts.load` gives
_PACKED = (".q", ".scale")
_Module = TypeVar("_Module", bound=nn.Module)


def save_mapper(
    folder: Path, mapper: CacheMapper, *, recipe: str, made_from: Mapping[str, str], int8: bool = False
) -> Manifest:
    """Save a fitted mapper. made_from: what it was fitted on and between, by name and SHA-256."""
    config = {"map": asdict(mapper.config), "made_from": dict(made_from)}
    return artifacts.save(folder, _stored(mapper, int8), name="mapper", kind=MAPPER, config=config, recipe=recipe)


def save_residual(
    folder: Path, residual: CacheResidual, *, recipe: str, made_from: Mapping[str, str], int8: bool = False
) -> Manifest:
    """Save a trained residual, or a control: the same thing, whose source is the small model itself."""
    c = residual.config
    config = {"map": asdict(c.map), "rank": c.rank, "made_from": dict(made_from)}
    return artifacts.save(folder, _stored(residual, int8), name="residual", kind=RESIDUAL, config=config, recipe=recipe)


def load_mapper(stored: Stored, dtype: torch.dtype = torch.float32) -> CacheMapper:
    """A mapper from what `artifacts.load` gave. Raises OrganMismatch when that is something else."""
    tensors, manifest = stored
    _require(manifest, MAPPER)
    return _filled(CacheMapper(_map_config(manifest.config["map"])), tensors, dtype)


def load_residual(stored: Stored, dtype: torch.dtype = torch.float32) -> CacheResidual:
    """A residual (or control) from what `artifacts.load` gave. Raises OrganMismatch when that is something else."""
    tensors, manifest = stored
    _require(manifest, RESIDUAL)
    config = ResidualConfig(_map_config(manifest.config["map"]), manifest.config["rank"])
    return _filled(CacheResidual(config), tensors, dtype)


def _require(manifest: Manifest, kind: str) -> None:
    if manifest.kind != kind:
        raise OrganMismatch(f"{manifest.folder} holds a {manifest.kind}, but a {kind} is wanted; give another folder.")


def _map_config(content: Mapping[str, Any]) -> MapConfig:
    reads = tuple(tuple(layers) for layers in content["reads"])
    source, target = Geometry(**content["source"]), Geometry(**content["target"])
    return MapConfig(source, target, reads, content["header"], content["tail"])


def _stored(module: nn.Module, int8: bool) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, tensor in module.state_dict().items():
        if int8 and tensor.dim() == 2 and tensor.shape[0] >= 64:  # a map, not the biases of a few positions
            tensors |= {f"{name}.{part}": value for part, value in artifacts.pack_int8(tensor).items()}
        else:
            tensors[name] = tensor.half()
    return tensors


def _filled(module: _Module, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> _Module:
    whole = {name: tensor for name, tensor in tensors.items() if not name.endswith(_PACKED)}
    for name in (name.removesuffix(".q") for name in tensors if name.endswith(".q")):
        whole[name] = artifacts.unpack_int8({part: tensors[f"{name}.{part}"] for part in ("q", "scale")})
    module.load_state_dict(whole)
    return module.to(dtype).requires_grad_(False).eval()
