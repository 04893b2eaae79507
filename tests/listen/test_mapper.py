"""The mapper: what it copies, what it multiplies, what it refuses."""

import pytest
import torch

from legato.cache import Cache, Geometry, Space
from legato.errors import OrganMismatch, SpaceError
from legato.listen.batch import answers
from legato.listen.mapper import CacheMapper, MapConfig, flatten, nearest, unflatten
from legato.organs import Heard
from legato.pocket.prompt import HEADER, START, TAIL
from legato.pocket.tiny import sound, tiny_listener

SOURCE, TARGET = Geometry(4, 2, 4), Geometry(2, 1, 6)


def drawn(config: MapConfig, seed: int = 0) -> CacheMapper:
    """A mapper of random numbers everywhere."""
    mapper, draw = CacheMapper(config), torch.Generator().manual_seed(seed)
    for buffer in mapper.buffers():
        buffer.copy_(torch.randn(buffer.shape, generator=draw))
    return mapper


@pytest.fixture
def config():
    return MapConfig(SOURCE, TARGET, ((1,), (0, 3)), header=2, tail=3)


def test_nearest_layers_by_relative_depth():
    assert nearest(Geometry(30, 1, 2), Geometry(4, 1, 2)) == ((0,), (10,), (19,), (29,))
    assert nearest(Geometry(5, 1, 2), Geometry(5, 3, 4)) == ((0,), (1,), (2,), (3,), (4,))
    assert nearest(Geometry(5, 1, 2), Geometry(3, 1, 2), width=2) == ((0, 1), (1, 2), (3, 4))
    assert nearest(Geometry(7, 1, 2), Geometry(1, 1, 2)) == ((0,),)


@pytest.mark.parametrize("reads", (((0,),), ((0,), (4,)), ((0,), (-1,)), ((0,), ()), ((0,), (1,), (2,))))
def test_reads_must_name_layers_that_exist(reads):
    with pytest.raises(OrganMismatch, match=r"source layers 0\.\.3 for each of 2 target layers"):
        MapConfig(SOURCE, TARGET, reads, 2, 3)


def test_flat_rows_hold_keys_then_values_of_all_heads():
    keys, values = torch.randn(2, 4, 1, 2, 5, 4).unbind()
    flat = flatten(Cache(keys, values, 3, Space.CONTENT))  # of 5 tokens there is room for, 3 are there
    assert flat.shape == (1, 3, 4, 16)
    torch.testing.assert_close(flat[0, 1, 2], torch.cat((keys[2, 0, 0, 1], keys[2, 0, 1, 1],
                                                         values[2, 0, 0, 1], values[2, 0, 1, 1])), rtol=0, atol=0)
    back = unflatten(flat, SOURCE)
    assert torch.equal(back[0], keys[..., :3, :]) and torch.equal(back[1], values[..., :3, :])
    chosen = flatten(Cache(keys, values, 3, Space.CONTENT), (3, 1))
    assert torch.equal(chosen, flat[:, :, [3, 1]])


def test_every_token_is_mapped_by_its_parts_matrix_about_its_own_means(config, planted):
    mapper, x = drawn(config), torch.randn(1, 2 + 4 + 3, 4, 16)
    memory = Cache(*unflatten(x, SOURCE), 9, Space.CONTENT)
    prompt = planted(SOURCE).pair(0).large.prompt
    got = flatten(mapper(Heard(prompt, memory)))
    assert config.used == (0, 1, 3)
    for t in range(9):
        for layer, reads in enumerate(config.reads):
            if t < 2:
                wanted = mapper.header[t, layer]
            else:
                row = max(0, t - 5)  # 0 for the question's, 1.. for the tail's
                centred = torch.cat([x[0, t, s] - mapper.source_mean[row, config.used.index(s)] for s in reads])
                weight = getattr(mapper, f"{'tail' if row else 'question'}_{layer}")
                wanted = centred @ weight + mapper.target_mean[row, layer]
            torch.testing.assert_close(got[0, t, layer], wanted, rtol=1e-5, atol=1e-5)
    assert torch.equal(got[0, :2], mapper.header)


def identity(listener) -> CacheMapper:
    """The map between a model and itself, written down."""
    geometry = listener.geometry
    mapper = CacheMapper(MapConfig(geometry, geometry, nearest(geometry, geometry), len(HEADER), len(TAIL)))
    for part in ("question", "tail"):
        for layer in range(geometry.layers):
            getattr(mapper, f"{part}_{layer}").copy_(torch.eye(2 * geometry.features))
    mapper.header.copy_(flatten(listener.listen(sound()).memory)[0, : len(HEADER)])
    return mapper


def test_identity_between_equal_models_gives_the_same_memory_and_the_same_answer():
    listener = tiny_listener(seed=5)
    mapper = identity(listener)
    for seconds in (0.5, 2.0):
        heard = listener.listen(sound(seconds, seed=3))
        mapped = mapper(heard)
        for a, b in zip(mapped.filled(), heard.memory.filled(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
        said = [answers(listener.model, [m], START, 8, listener.end_ids) for m in (mapped, heard.memory)]
        assert said[0] == said[1] and len(said[0][0]) > 1


def test_several_at_once_are_each_alone(config):
    mapper, x = drawn(config), torch.randn(5, 8, 3, 16)
    together = mapper.map(x, 3)
    for i in range(5):
        torch.testing.assert_close(together[i], mapper.map(x[i : i + 1], 3)[0], rtol=1e-6, atol=1e-5)


def test_it_answers_in_the_dtype_of_what_it_reads(config, planted):
    heard = planted(SOURCE).pair(0).large
    half = Heard(heard.prompt, heard.memory.to(torch.bfloat16))
    exact, rounded = drawn(config)(heard), drawn(config).to(torch.bfloat16)(half)
    assert (exact.keys.dtype, rounded.keys.dtype) == (torch.float32, torch.bfloat16)
    assert torch.equal(rounded.keys, drawn(config)(half).keys)  # converted once or at every call
    assert (exact.keys - rounded.keys).abs().max() < 0.05 * exact.keys.abs().max()


def test_another_geometry_or_prompt_shape_is_refused_by_name(config, planted):
    mapper = drawn(config)
    with pytest.raises(OrganMismatch, match="this mapper needs a cache of 4 layers .* this one has 3 layers"):
        mapper(planted(Geometry(3, 2, 4), Geometry(2, 1, 6)).pair(0).large)
    with pytest.raises(OrganMismatch, match="2 header and 3 tail tokens in the memory, but this one has 3 and 3"):
        mapper(planted(SOURCE, header=3).pair(0).large)
    with pytest.raises(OrganMismatch, match="2 header and 3 tail tokens in the memory, but this one has 2 and 4"):
        mapper(planted(SOURCE, tail=4).pair(0).large)


def test_placed_keys_are_refused(config, planted):
    heard = planted(SOURCE).pair(0).large
    placed = Cache(heard.memory.keys, heard.memory.values, heard.memory.length, Space.PLACED, 0)
    with pytest.raises(SpaceError, match="mapping needs content keys"):
        drawn(config)(Heard(heard.prompt, placed))


def test_nothing_in_it_is_trained(config):
    assert list(CacheMapper(config).parameters()) == []
