"""The pair survives its shelf: what is saved and loaded answers as what was trained."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from legato import artifacts
from legato.errors import OrganMismatch
from legato.pocket import lowrank, pair, shelf
from legato.pocket.ear import Ear, Projector
from legato.pocket.hearing import Hearing, Spelling
from legato.pocket.tiny import EAR
from legato.transformer import Transformer, TransformerConfig

CONFIG = TransformerConfig(layers=30, width=64, heads=4, kv_heads=2, head_dim=16, ffn=96, vocab=50)


def base() -> Transformer:
    torch.manual_seed(0)
    return Transformer(CONFIG).requires_grad_(False)


def hearing(words: torch.Tensor) -> Hearing:
    """Over some of the words, with vectors that are not those of a fresh one."""
    spelling = Spelling(words, [3, 7, 20, 41])
    torch.nn.init.constant_(spelling.sharpness, 2.0)
    return Hearing(Projector(CONFIG.width, hidden=pair.PROJECTOR_HIDDEN), spelling, torch.randn(CONFIG.width))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Both models after a pretended training, saved: folder, large with its matrices, small, what each hears with."""
    folder = tmp_path_factory.mktemp("weights")
    large, small = base(), pair.cut(base())
    torch.manual_seed(1)
    for p in lowrank.attach(large, pair.LARGE_RANK):
        p.data += 0.02 * torch.randn_like(p)
    for p in small.blocks.parameters():
        p.data += 0.02 * torch.randn_like(p)
    heard = [hearing(base().embedding.weight) for _ in range(2)]
    shelf.save_large(folder / "large", large, heard[0], recipe="a test")
    shelf.save_small(folder / "small", small, heard[1], recipe="a test")
    return SimpleNamespace(folder=folder, large=large, small=small, heard=heard)


@pytest.fixture
def loaded(saved, monkeypatch):
    monkeypatch.setattr(shelf, "load_base", lambda dtype: (base().to(dtype), "a tokenizer"))
    parts = (artifacts.load(saved.folder / name) for name in ("large", "small"))
    return shelf.load_pair(Ear(EAR), *parts)


def logits(model: Transformer) -> torch.Tensor:
    with torch.no_grad():
        return model.logits(model(model.embed(torch.arange(12)[None])))[0]


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).detach().norm() / b.detach().norm())


def test_the_large_model_comes_back_folded(saved, loaded):
    large, _ = loaded
    assert distance(logits(large.model), logits(saved.large)) < 2e-3  # float16 matrices
    assert distance(logits(large.model), logits(base())) > 0.05  # and it is not the base


def test_the_small_model_comes_back_within_int8(saved, loaded):
    _, small = loaded
    assert distance(logits(small.model), logits(saved.small)) < 0.03
    assert distance(logits(small.model), logits(pair.cut(base()))) > 0.1


def test_the_pair_shares_ear_and_embedding_and_is_frozen(loaded):
    large, small = loaded
    assert large.ear is small.ear
    assert large.model.embedding.weight.data_ptr() == small.model.embedding.weight.data_ptr()
    assert (large.geometry.layers, small.geometry.layers) == (30, len(pair.KEPT))
    assert not any(p.requires_grad for m in loaded for part in (m.model, m.projector) for p in part.parameters())


def test_hearing_comes_back(saved, loaded):
    features = torch.randn(1, 30, 4096)
    for listener, heard in zip(loaded, saved.heard, strict=True):
        assert distance(listener.projector(features), heard(features)) < 0.02  # int8 matrices
        assert listener.projector.spell(features[0]) == heard.spell(features[0])


def test_the_base_is_a_source_and_not_stored(saved):
    for name in ("large", "small"):
        tensors, manifest = artifacts.load(saved.folder / name)
        assert manifest.sources[0].sha256 == pair.BASE_SHA256
        assert not any("embedding" in tensor for tensor in tensors)


def test_other_artifacts_are_refused(saved, monkeypatch):
    monkeypatch.setattr(shelf, "load_base", lambda dtype: (base().to(dtype), "a tokenizer"))
    large, small = (artifacts.load(saved.folder / name) for name in ("large", "small"))
    with pytest.raises(OrganMismatch, match=r"holds a pocket-small with .*, but a pocket-large with"):
        shelf.load_pair(Ear(EAR), small, large)
    manifest = saved.folder / "small/manifest.json"
    text = manifest.read_text()
    try:
        manifest.write_text(json.dumps(json.loads(text) | {"config": {"kept": [0, 1], "projector": 512}}))
        with pytest.raises(OrganMismatch, match="train the pair again"):
            shelf.load_pair(Ear(EAR), large, artifacts.load(saved.folder / "small"))
    finally:
        manifest.write_text(text)
