"""A voice from its files: text to sound, and every file that is not the pinned one refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from legato import artifacts, presets
from legato.assemble.speech import Front, load_speaker
from legato.errors import BadInput, ChecksumMismatch, OrganMismatch
from legato.pocket.codec import FRAME
from legato.pocket.phonemes import sentence_phonemes
from legato.pocket.script import pieces
from legato.speak.entrance import Statistics
from legato.speak.harness import Sampling
from legato.speak.head import Head, HeadConfig
from legato.speak.shelf import save_head

PARTS = ("codec", "voice", "head")
SIZES, PLAIN = HeadConfig(64, 48, 32, 2, 3), Statistics(torch.zeros(64), torch.ones(64))


def test_text_becomes_sound_by_head_and_by_depth(shipped):
    speaker = load_speaker(sampling=Sampling(longest=200), threads=1)
    for render in ("head", "depth"):
        chunks = list(speaker.speak("Hello there.", render))
        assert len(chunks) > 3 and all(c.shape == (FRAME,) for c in chunks)
        assert np.isfinite(np.concatenate(chunks)).all()
    assert [word for word, _ in speaker.harness.lead.spoken] == ["Hello", "there."]


def test_words_reach_the_voice_as_their_sounds(shipped):
    tokenizer = load_speaker().front.tokenizer
    words = list(Front(tokenizer)(["The capital ", "of France is Par", "is."]))
    assert [w.text for w in words] == ["The", "capital", "of", "France", "is", "Paris."]
    spoken = sentence_phonemes(["The", "capital", "of", "France", "is", "Paris."])
    assert [list(w.pieces) for w in words] == [pieces(tokenizer, sound) for sound in spoken]


@pytest.mark.parametrize("part", PARTS)
def test_a_changed_byte_is_refused_by_name(shipped, part):
    path = artifacts.read_manifest(shipped.root / "weights" / part).path("weights.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ChecksumMismatch, match=path.name):
        load_speaker()


def test_a_head_of_another_voice_is_refused_even_when_it_is_pinned(shipped):
    other = {"voice": "another", "codec": "another"}
    save_head(shipped.root / "weights/head", Head(SIZES), PLAIN, steps=2, recipe="a test", made_from=other)
    shipped.pin(*PARTS)
    with pytest.raises(OrganMismatch, match="this head was trained on"):
        load_speaker()


def test_a_preset_without_a_voice_says_so(shipped):
    shipped.pin()
    with pytest.raises(BadInput, match="preset 'pocket' has no voice"):
        load_speaker()


def test_an_engine_that_does_not_exist_is_refused_before_anything_is_read(monkeypatch):
    monkeypatch.setattr(presets, "FOLDER", None)
    with pytest.raises(BadInput, match="no engine 'gguf'; choose one of torch, onnx"):
        load_speaker(engine="gguf")


@pytest.mark.slow
def test_both_engines_make_the_same_sound(shipped, tmp_path):
    """And the port is kept: the second time nothing is written."""
    by_torch = load_speaker(sampling=Sampling(longest=200), threads=1)
    for _ in range(2):
        by_onnx = load_speaker(sampling=Sampling(longest=200), threads=1, engine="onnx", port_folder=tmp_path / "port")
        written = {path: path.stat().st_mtime_ns for path in (tmp_path / "port").iterdir()}
    assert len(written) == 4 and {path: path.stat().st_mtime_ns for path in written} == written
    for render in ("head", "depth"):
        wanted, found = (np.concatenate(list(s.speak("Hello there.", render))) for s in (by_torch, by_onnx))
        np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=0)
