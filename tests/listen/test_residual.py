"""The correction: nothing at the start, the written formula afterwards, and gradients nowhere else."""

import pytest
import torch
import torch.nn.functional as F

from legato.cache import Cache, Geometry, Space
from legato.errors import OrganMismatch, SpaceError
from legato.listen.mapper import MapConfig, flatten, nearest, unflatten
from legato.listen.objectives import answer_logits
from legato.listen.residual import CacheResidual, ResidualConfig
from legato.listen.train import fingerprint
from legato.pocket.prompt import START
from legato.pocket.tiny import tiny_listener

SOURCE, TARGET = Geometry(4, 2, 4), Geometry(2, 1, 6)
HEADER, TAIL = 2, 3
RANKS = (1, 5, None)


def config(rank, source=SOURCE, reads=((1,), (0, 3))) -> ResidualConfig:
    return ResidualConfig(MapConfig(source, TARGET, reads, HEADER, TAIL), rank)


def drawn(rank) -> CacheResidual:
    """A residual with random numbers everywhere, as after training."""
    residual, draw = CacheResidual(config(rank)), torch.Generator().manual_seed(4)
    with torch.no_grad():
        for p in (*residual.parameters(), residual.mean):
            p.copy_(torch.randn(p.shape, generator=draw))
        residual.deviation.uniform_(0.5, 2, generator=draw)
    return residual


def content(geometry, tokens=9, seed=0) -> Cache:
    shape = (2, geometry.layers, 1, geometry.kv_heads, tokens, geometry.head_dim)
    keys, values = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).unbind()
    return Cache(keys, values, tokens, Space.CONTENT)


@pytest.mark.parametrize("rank", RANKS)
def test_a_fresh_one_corrects_nothing(rank):
    mapped = content(TARGET, seed=1)
    got = CacheResidual(config(rank))(content(SOURCE), mapped)
    assert torch.equal(got.keys, mapped.keys) and torch.equal(got.values, mapped.values)
    assert got.space is Space.CONTENT and got.length == mapped.length


@pytest.mark.parametrize("rank", RANKS)
def test_every_token_is_corrected_by_the_formula_and_the_header_never(rank):
    residual = drawn(rank)
    source, mapped = content(SOURCE), content(TARGET, seed=1)
    x, before, after = flatten(source)[0], flatten(mapped)[0], flatten(residual(source, mapped))[0]
    assert torch.equal(after[:HEADER], before[:HEADER])
    used = residual.config.map.used
    for t in range(HEADER, 9):
        row = max(0, t - 5)  # 0 for the four question tokens, 1.. for the tail's
        part = "tail" if row else "question"
        for layer, reads in enumerate(residual.config.map.reads):
            z = torch.cat([(x[t, s] - residual.mean[row, used.index(s)])
                           / residual.deviation[int(row > 0), used.index(s)] for s in reads])
            p = {name.rsplit("_", 1)[1]: value for name, value in residual.named_parameters()
                 if name.startswith(f"{part}_{layer}_")}
            if rank is None:
                change = z @ p["full"]
            else:
                change = F.silu(z @ p["first"] + p["bias"][max(0, row - 1)]) @ p["second"]
            torch.testing.assert_close(after[t, layer] - before[t, layer], change, rtol=1e-4, atol=1e-4)


def test_without_a_rank_it_is_a_linear_map():
    residual = drawn(None)
    with torch.no_grad():
        residual.mean.zero_()
    a, b = (torch.randn(1, 9, 3, 16) for _ in range(2))
    both = residual.correction(2 * a + b, 4)
    torch.testing.assert_close(both, 2 * residual.correction(a, 4) + residual.correction(b, 4), rtol=1e-4, atol=1e-4)
    curved = drawn(5)
    assert not torch.allclose(curved.correction(2 * a, 4), 2 * curved.correction(a, 4), atol=0.1)


def test_several_at_once_are_each_alone():
    residual, x = drawn(5), torch.randn(4, 9, 3, 16)
    together = residual.correction(x, 4)
    for i in range(4):
        torch.testing.assert_close(together[i], residual.correction(x[i : i + 1], 4)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rank", (5, None))
def test_gradients_reach_its_parameters_and_nothing_else(rank):
    """Through a decoder that is frozen, to every parameter but, at zero second matrices, the first ones."""
    small = tiny_listener(seed=22, layers=2, width=48)
    geometry = small.geometry
    maps = MapConfig(geometry, geometry, nearest(geometry, geometry), HEADER, TAIL)
    residual = CacheResidual(ResidualConfig(maps, rank))
    before = fingerprint(small.model)
    mapped = flatten(content(geometry, seed=1))
    memory = mapped + residual.correction(mapped, 4)
    logits = answer_logits(small.model, *unflatten(memory, geometry), START, torch.tensor([[30, 31]]))
    logits.square().mean().backward()
    for name, p in residual.named_parameters():
        reached = p.grad is not None and bool((p.grad != 0).any())
        assert reached == name.endswith(("_second", "_full")), name
    assert all(p.grad is None for p in small.model.parameters())
    assert fingerprint(small.model) == before


def test_what_does_not_fit_is_refused():
    residual = drawn(5)
    source, mapped = content(SOURCE), content(TARGET)
    with pytest.raises(OrganMismatch, match="needs a cache of 4 layers x 2 heads x 4, but this one has 2 layers"):
        residual(mapped, mapped)
    with pytest.raises(OrganMismatch, match="needs a cache of 2 layers x 1 heads x 6, but this one has 4 layers"):
        residual(source, source)
    with pytest.raises(OrganMismatch, match="of 9 tokens cannot be corrected from one of 8"):
        residual(source.prefix(8), mapped)
    with pytest.raises(OrganMismatch, match="of 4 tokens cannot be corrected from one of 4 .* 2 header and 3 tail"):
        residual(source.prefix(4), mapped.prefix(4))
    placed = Cache(mapped.keys, mapped.values, 9, Space.PLACED, 0)
    with pytest.raises(SpaceError, match="correcting needs content keys"):
        residual(source, placed)
