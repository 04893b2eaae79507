"""Mapper and residual survive their shelf."""

from __future__ import annotations

import pytest
import torch

from legato import artifacts
from legato.cache import Geometry
from legato.errors import OrganMismatch
from legato.listen import shelf
from legato.listen.mapper import CacheMapper, MapConfig, nearest
from legato.listen.residual import CacheResidual, ResidualConfig

SOURCE, TARGET = Geometry(6, 2, 32), Geometry(3, 2, 16)
MAP = MapConfig(SOURCE, TARGET, nearest(SOURCE, TARGET, 2), header=3, tail=5)


def mapper() -> CacheMapper:
    torch.manual_seed(0)
    made = CacheMapper(MAP)
    made.load_state_dict({name: torch.randn_like(tensor) for name, tensor in made.state_dict().items()})
    return made


def residual(rank: int | None) -> CacheResidual:
    torch.manual_seed(1)
    made = CacheResidual(ResidualConfig(MAP, rank))
    made.load_state_dict({name: 0.2 * torch.randn_like(tensor) for name, tensor in made.state_dict().items()})
    made.deviation.copy_(0.5 + torch.rand_like(made.deviation))
    return made


def prefixes() -> torch.Tensor:
    return torch.randn(2, 3 + 4 + 5, len(MAP.used), 2 * SOURCE.features)


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).detach().norm() / b.detach().norm())


@pytest.mark.parametrize(("int8", "bound"), [(False, 1e-3), (True, 2e-2)])
def test_a_mapper_maps_as_before(tmp_path, int8, bound):
    shelf.save_mapper(tmp_path, mapper(), recipe="a test", made_from={"large": "0" * 64}, int8=int8)
    found = shelf.load_mapper(artifacts.load(tmp_path))
    x = prefixes()
    assert found.config == MAP
    assert distance(found.map(x, 4), mapper().map(x, 4)) < bound


@pytest.mark.parametrize("rank", [4, None])
@pytest.mark.parametrize(("int8", "bound"), [(False, 1e-3), (True, 2e-2)])
def test_a_residual_corrects_as_before(tmp_path, rank, int8, bound):
    shelf.save_residual(tmp_path, residual(rank), recipe="a test", made_from={}, int8=int8)
    found = shelf.load_residual(artifacts.load(tmp_path))
    x = prefixes()
    assert (found.config, any(p.requires_grad for p in found.parameters())) == (ResidualConfig(MAP, rank), False)
    assert distance(found.correction(x, 4), residual(rank).correction(x, 4)) < bound


def test_int8_is_about_half_the_size(tmp_path):
    sizes = []
    for int8 in (False, True):
        manifest = shelf.save_mapper(tmp_path / str(int8), mapper(), recipe="a test", made_from={}, int8=int8)
        sizes.append(manifest.path("weights.safetensors").stat().st_size)
    assert sizes[1] < 0.7 * sizes[0]


def test_what_it_was_made_from_is_kept_and_it_computes_in_the_dtype_asked(tmp_path):
    shelf.save_mapper(tmp_path, mapper(), recipe="a test", made_from={"large": "a" * 64})
    tensors, manifest = artifacts.load(tmp_path)
    assert manifest.config["made_from"] == {"large": "a" * 64}
    found = shelf.load_mapper((tensors, manifest), torch.bfloat16)
    assert found.map(prefixes().bfloat16(), 4).dtype == torch.bfloat16


def test_one_is_not_the_other(tmp_path):
    shelf.save_mapper(tmp_path / "m", mapper(), recipe="a test", made_from={})
    shelf.save_residual(tmp_path / "r", residual(4), recipe="a test", made_from={})
    with pytest.raises(OrganMismatch, match="holds a mapper, but a residual is wanted"):
        shelf.load_residual(artifacts.load(tmp_path / "m"))
    with pytest.raises(OrganMismatch, match="holds a residual, but a mapper is wanted"):
        shelf.load_mapper(artifacts.load(tmp_path / "r"))
