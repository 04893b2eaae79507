"""Laws of the decoder itself: causality, masks, memory, content keys (equality with others: test_checkpoints)."""

from dataclasses import replace

import pytest
import torch

from legato.cache import Space
from legato.errors import OrganMismatch
from legato.rotary import Llama3Scaling
from legato.transformer import Trace, Transformer, TransformerConfig

CONFIG = TransformerConfig(layers=3, width=48, heads=6, kv_heads=2, head_dim=12, ffn=80, vocab=90, max_positions=64,
                           rope_scaling=Llama3Scaling(8.0, original_positions=32))


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(0)
    model = Transformer(CONFIG).eval().requires_grad_(False)
    for block in model.blocks:  # as initialised, attention hardly says a word
        block.qkv.weight.mul_(3)
        block.out.weight.mul_(3)
    return model


def words(count: int, batch: int = 1, seed: int = 3) -> torch.Tensor:
    return torch.randint(0, CONFIG.vocab, (batch, count), generator=torch.Generator().manual_seed(seed))


def test_a_later_token_changes_nothing_earlier(model):
    ids = words(12)
    changed = ids.clone()
    changed[0, 8] = (changed[0, 8] + 1) % CONFIG.vocab
    a, b = model(model.embed(ids)), model(model.embed(changed))
    assert torch.allclose(a[:, :8], b[:, :8], atol=1e-5)
    assert not torch.allclose(a[:, 8:], b[:, 8:], atol=1e-2)


def test_the_default_mask_is_the_causal_one(model):
    x = model.embed(words(12))
    assert torch.allclose(model(x), model(x, mask=torch.ones(12, 12, dtype=torch.bool).tril()), atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_of_unequal_lengths_equals_single_runs(model, side):
    lengths, T = (11, 6, 1), 11
    ids, positions = torch.zeros(3, T, dtype=torch.long), torch.zeros(3, T, dtype=torch.long)
    real = torch.zeros(3, T, dtype=torch.bool)
    singles = [words(n, seed=n) for n in lengths]
    for row, n in enumerate(lengths):
        span = slice(T - n, T) if side == "left" else slice(0, n)
        ids[row, span], positions[row, span], real[row, span] = singles[row][0], torch.arange(n), True
    # padding looks at itself, so that no row of the softmax is empty
    mask = (torch.ones(T, T, dtype=torch.bool).tril() & real[:, None, :] | torch.eye(T, dtype=torch.bool))[:, None]
    together = model(model.embed(ids), positions=positions, mask=mask)
    for row, single in enumerate(singles):
        assert torch.allclose(together[row, real[row]], model(model.embed(single))[0], atol=1e-5)


def test_a_memory_stands_for_its_tokens(model):
    ids = words(12, batch=2)
    whole = model(model.embed(ids))
    cache, _ = model.prefill(model.embed(ids[:, :7]), space=Space.CONTENT, capacity=20)
    rest = model(model.embed(ids[:, 7:]), memory=cache.filled())
    assert torch.allclose(rest, whole[:, 7:], atol=1e-4)


def test_gradients_flow_through_the_frozen_decoder_into_a_memory(model):
    x = model.embed(words(5))
    generator = torch.Generator().manual_seed(1)
    keys, values = (torch.randn(3, 1, 2, 7, 12, generator=generator).requires_grad_() for _ in range(2))

    def loss() -> torch.Tensor:
        return model.logits(model(x, memory=(keys, values)))[0, -1].log_softmax(-1)[4]

    gradients = torch.autograd.grad(loss(), (keys, values))
    assert all(p.grad is None for p in model.parameters())
    for tensor, gradient in zip((keys, values), gradients, strict=True):
        assert (gradient.abs().amax(dim=(1, 2, 3, 4)) > 0).all()  # every layer is reached
        direction, step = gradient / gradient.norm(), 1e-2
        with torch.no_grad():
            tensor += step * direction
            up = loss()
            tensor -= 2 * step * direction
            down = loss()
            tensor += step * direction
        assert ((up - down) / (2 * step)).item() == pytest.approx(gradient.norm().item(), rel=2e-2)


def test_content_keys_taken_before_rotation_are_the_placed_ones_lifted(model):
    x = model.embed(words(20, batch=2))
    content, state = model.prefill(x, space=Space.CONTENT)
    placed, same_state = model.prefill(x, space=Space.PLACED, capacity=30)
    assert placed.start == 0 and placed.capacity == 30 and content.length == placed.length == 20
    lifted = placed.lift(CONFIG.rotary)
    assert torch.allclose(lifted.filled()[0], content.filled()[0], atol=1e-5)
    assert torch.equal(lifted.filled()[1], content.filled()[1])
    assert torch.equal(state, same_state)
    assert torch.allclose(state, model(x)[:, -1], atol=1e-5)


def test_a_trace_hands_out_content_keys_values_and_layer_inputs(model):
    x = model.embed(words(9))
    trace = Trace()
    model(x, trace=trace)
    content, _ = model.prefill(x, space=Space.CONTENT)
    assert torch.allclose(torch.stack(trace.keys), content.filled()[0], atol=1e-5)
    assert torch.allclose(torch.stack(trace.values), content.filled()[1], atol=1e-5)
    assert torch.equal(trace.states[0], x) and len(trace.states) == 3


def test_a_prefix_beyond_the_positions_is_refused(model):
    with pytest.raises(OrganMismatch, match="a prefix of 65 tokens was given, but this model has 64 positions"):
        model.prefill(model.embed(words(65)), space=Space.CONTENT)


def test_an_untied_head_is_its_own():
    torch.manual_seed(0)
    untied = Transformer(replace(CONFIG, tied=False))
    states = torch.randn(2, CONFIG.width)
    assert torch.allclose(untied.logits(states), states @ untied.head.weight.T, atol=1e-5)
    assert not torch.allclose(untied.logits(states), states @ untied.embedding.weight.T, atol=1e-1)
