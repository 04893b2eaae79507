"""One token at a time: equal to whole sequences, allocation-free, guarded, and faithful to the n - 1 rule."""

import gc

import pytest
import torch
import torch.nn.functional as F

from legato.cache import Cache, Geometry, Space
from legato.errors import OrganMismatch, SpaceError
from legato.rotary import Llama3Scaling
from legato.stepper import _COPIES, Stepper
from legato.transformer import Transformer, TransformerConfig

CONFIG = TransformerConfig(layers=3, width=48, heads=6, kv_heads=2, head_dim=12, ffn=80, vocab=90, max_positions=64,
                           rope_scaling=Llama3Scaling(8.0, original_positions=32), tied=False)
IDS = torch.randint(0, 90, (20,), generator=torch.Generator().manual_seed(3)).tolist()


def make(dtype: torch.dtype = torch.float32, config: TransformerConfig = CONFIG) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(config).eval().requires_grad_(False)
    for block in model.blocks:  # as initialised, attention hardly says a word
        block.qkv.weight.mul_(3)
        block.out.weight.mul_(3)
    return model.to(dtype)


@pytest.fixture(scope="module")
def model() -> Transformer:
    return make()


def prefix(model: Transformer, length: int, space: Space = Space.PLACED, capacity: int = 40) -> Cache:
    return model.prefill(model.embed(torch.tensor([IDS[:length]])), space=space, capacity=capacity)[0]


def whole(model: Transformer, ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model.logits(model(model.embed(torch.tensor([ids]))))[0]


def continuation(model: Transformer, cache: Cache, first: int, count: int = 12) -> list[int]:
    stepper, ids = Stepper(model, cache), [first]
    for _ in range(count):
        ids.append(int(stepper.step(ids[-1]).argmax()))
    return ids[1:]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_steps_equal_a_whole_run(dtype, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model = make(dtype)
        stepper = Stepper(model, prefix(model, 7))
        steps = torch.stack([stepper.step(token).clone() for token in IDS[7:]])
    finally:
        torch.set_num_threads(before)
    assert steps.dtype == torch.float32
    in_dtype = whole(model, IDS)[7:].float()
    if dtype == torch.float32:
        assert (steps - in_dtype).abs().max() < 1e-5 * in_dtype.abs().max()
    else:  # judged by what the weights mean: a step is nearer to that than a whole run in half precision
        exact = whole(model.float(), IDS)[7:]
        assert (steps - exact).norm() < (in_dtype - exact).norm() < 3e-2 * exact.norm()


def test_a_step_from_an_empty_cache(model):
    cache = Cache.allocate(CONFIG.geometry, 4, space=Space.PLACED)
    assert torch.allclose(Stepper(model, cache).step(IDS[0]), whole(model, IDS[:1])[0], atol=1e-4)
    assert cache.length == 1


def test_the_cache_a_step_leaves_is_the_one_prefill_makes(model):
    cache = prefix(model, 7)
    stepper = Stepper(model, cache)
    for token in IDS[7:]:
        stepper.step(token)
    expected = prefix(model, 20)
    assert cache.length == 20
    for ours, theirs in zip(cache.filled(), expected.filled(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)


def test_content_placed_again_continues_as_the_native_cache(model):
    native = continuation(model, prefix(model, 19), IDS[19])
    content = prefix(model, 19, Space.CONTENT)
    for start in (0, 3, 20):
        assert continuation(model, content.place(CONFIG.rotary, start=start, capacity=40), IDS[19]) == native
    moved = prefix(model, 19).lift(CONFIG.rotary).place(CONFIG.rotary, start=11, capacity=40)
    assert continuation(model, moved, IDS[19]) == native


def test_the_last_prefix_token_runs_through_the_decoder(model):
    """On a memory of n - 1 tokens the n-th gives the native logits; on a memory of all n it would be heard twice."""
    native = whole(model, IDS)[-1]
    n = len(IDS)
    right = Stepper(model, prefix(model, n - 1)).step(IDS[-1])
    assert torch.allclose(right, native, atol=1e-4)
    doubled = Stepper(model, prefix(model, n)).step(IDS[-1])
    assert torch.allclose(doubled, whole(model, [*IDS, IDS[-1]])[-1], atol=1e-4)
    assert not torch.allclose(doubled, native, atol=1e-1)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the profiler's own
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_steady_loop_makes_no_tensor(dtype):
    model = make(dtype)
    stepper = Stepper(model, prefix(model, 7))
    stepper.step(1)

    def bytes_taken(work) -> int:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            for _ in range(5):
                work()
        return sum(abs(event.self_cpu_memory_usage) for event in profile.events())

    row = torch.randn(1, 48)
    weight = torch.randn(48, 48)
    assert bytes_taken(lambda: F.linear(row, weight)) > 0  # the instrument sees one small tensor
    assert bytes_taken(lambda: stepper.step(2)) == 0


def test_a_full_cache_says_so_and_stays_as_it_was(model):
    cache = prefix(model, 7, capacity=9)
    stepper = Stepper(model, cache)
    stepper.step(1)
    stepper.step(2)
    with pytest.raises(OrganMismatch, match="the cache is full: it has room for 9 tokens and holds 9"):
        stepper.step(3)
    assert cache.length == 9


def test_the_models_positions_bound_the_room(model):
    cache = prefix(model, 7, Space.CONTENT).place(CONFIG.rotary, start=56, capacity=40)
    stepper = Stepper(model, cache)
    stepper.step(1)
    with pytest.raises(OrganMismatch, match="room for 8 tokens"):
        stepper.step(2)


def test_what_cannot_be_stepped_on_is_refused(model):
    with pytest.raises(SpaceError, match="a decode step needs placed keys, but this cache holds content keys"):
        Stepper(model, prefix(model, 7, Space.CONTENT))
    with pytest.raises(OrganMismatch, match="needs a cache of 3 layers x 2 heads x 12, but this one has 2 layers"):
        Stepper(model, Cache.allocate(Geometry(2, 2, 12), 9, space=Space.PLACED))
    with pytest.raises(OrganMismatch, match="this cache holds 2"):
        Stepper(model, Cache.allocate(CONFIG.geometry, 9, batch=2, space=Space.PLACED))
    with pytest.raises(OrganMismatch, match="convert it with cache.to"):
        Stepper(model, prefix(model, 7).to(torch.bfloat16))


def test_changed_weights_are_seen_and_forgotten_models_are_freed():
    model = make()
    Stepper(model, prefix(model, 7)).step(1)
    with torch.no_grad():
        model.blocks[1].down.weight.mul_(0.5)
        model.head.weight.add_(0.01)
    assert torch.allclose(Stepper(model, prefix(model, 7)).step(IDS[7]), whole(model, IDS[:8])[-1], atol=1e-4)

    gc.collect()
    held = len(_COPIES)
    del model
    gc.collect()
    assert len(_COPIES) == held - 4 * CONFIG.layers - 1
