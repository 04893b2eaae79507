"""Turning keys and turning them back: identities, invariances, and the frequencies of `transformers`."""

import pytest
import torch

from legato.rotary import Llama3Scaling, Rotary

# Llama 3.1 8B and Llama 3.2 1B, as their configs have it
LARGE = Rotary(128, 500000.0, Llama3Scaling(8.0))
SMALL = Rotary(64, 500000.0, Llama3Scaling(32.0))
PLAIN = Rotary(64, 10000.0)


def keys(rotary: Rotary, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(2, 3, 50, rotary.head_dim, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("rotary", [PLAIN, LARGE, SMALL], ids=["plain", "llama3-8", "llama3-32"])
@pytest.mark.parametrize("start", [0, 7000])
def test_lift_undoes_place(rotary, start):
    positions = torch.arange(start, start + 50)
    k = keys(rotary)
    placed = rotary.place(k, positions)
    assert (placed - k).abs().max() > 0.5  # it did turn something
    assert (rotary.lift(placed, positions) - k).abs().max() < 1e-6


@pytest.mark.parametrize("rotary", [PLAIN, LARGE, SMALL], ids=["plain", "llama3-8", "llama3-32"])
def test_in_bfloat16_only_the_roundings_of_the_storage_remain(rotary):
    positions = torch.arange(50)
    k = keys(rotary, torch.bfloat16)
    back = rotary.lift(rotary.place(k, positions), positions)
    assert back.dtype == torch.bfloat16
    error = (back.float() - k.float()).norm() / k.float().norm()
    assert error < 3e-3  # two roundings to 8 bits, each about 1.7e-3 of the norm


def test_tables_stay_float32_because_bfloat16_ones_cost_more():
    positions = torch.arange(200, 250)
    k = keys(SMALL, torch.bfloat16)
    ours = SMALL.place(k, positions).float()
    cos, sin = SMALL.tables(positions)
    assert cos.dtype == sin.dtype == torch.float32
    first, second = k.chunk(2, dim=-1)
    coarse = (k * cos.bfloat16() + torch.cat((-second, first), -1) * sin.bfloat16()).float()
    exact = SMALL.place(k.float(), positions)
    assert (ours - exact).norm() < 0.7 * (coarse - exact).norm()


@pytest.mark.parametrize("rotary", [PLAIN, LARGE], ids=["plain", "llama3"])
def test_products_depend_on_distance_alone(rotary):
    q, k = keys(rotary)[0, 0], keys(rotary)[1, 1]
    here, there = torch.arange(50), torch.arange(300, 350)
    products = rotary.place(q, here) @ rotary.place(k, here).T
    moved = rotary.place(q, there) @ rotary.place(k, there).T
    assert (products - moved).abs().max() < 1e-3 * products.abs().max()
    assert torch.allclose(rotary.place(k, there).norm(dim=-1), k.norm(dim=-1), rtol=1e-5)


def test_position_zero_is_content():
    k = keys(PLAIN)[..., :1, :]
    assert torch.equal(PLAIN.place(k, torch.zeros(1, dtype=torch.long)), k)


@pytest.mark.parametrize(
    ("rotary", "bands", "last"), [(LARGE, (29, 6, 29), 3.0689e-07), (SMALL, (15, 3, 14), 9.4183e-08)],
)
def test_llama3_bands(rotary, bands, last):
    """Wavelengths under 2048 are kept, over 8192 stretched by the factor, and blended between."""
    plain = Rotary(rotary.head_dim, rotary.theta).inverse_frequencies()
    scaled = rotary.inverse_frequencies()
    kept, stretched = scaled == plain, torch.isclose(scaled, plain / rotary.scaling.factor, rtol=1e-6)
    assert (int(kept.sum()), int((~kept & ~stretched).sum()), int(stretched.sum())) == bands
    assert scaled[-1].item() == pytest.approx(last, rel=1e-4)


@pytest.mark.parametrize("rotary", [LARGE, SMALL])
def test_frequencies_are_those_of_transformers(rotary):
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    s = rotary.scaling
    config = transformers.LlamaConfig(
        hidden_size=2 * rotary.head_dim, num_attention_heads=2, head_dim=rotary.head_dim, rope_parameters={
            "rope_type": "llama3", "rope_theta": rotary.theta, "factor": s.factor, "low_freq_factor": s.low_freq_factor,
            "high_freq_factor": s.high_freq_factor, "original_max_position_embeddings": s.original_positions})
    theirs, scale = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    assert scale == 1.0
    assert torch.allclose(rotary.inverse_frequencies(), theirs, rtol=1e-6, atol=0)
