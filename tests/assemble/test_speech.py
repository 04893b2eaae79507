"""A voice from its files: text to sound, and every file that is not the pinned one refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from legato import artifacts, presets
from legato.assemble.speech import Front, load_speaker
from legato.errors import BadInput, ChecksumMismatch, OrganMismatch
from legato.pocket import shelf
from legato.pocket.codec import FRAME, Codec, CodecConfig
from legato.pocket.phonemes import sentence_phonemes
from legato.pocket.quantiser import SplitQuantiserConfig
from legato.pocket.script import learn, pieces
from legato.pocket.voice import TEXTS, Voice, VoiceConfig
from legato.pocket.voice_shelf import codebooks, save_codec, save_voice
from legato.speak.entrance import Statistics
from legato.speak.harness import Sampling
from legato.speak.head import Head, HeadConfig
from legato.speak.shelf import save_head
from legato.transformer import TransformerConfig

SHA = "0" * 64
PARTS = ("codec", "voice", "head")
CODEC = CodecConfig(
    latent=64, encoder_fast=32, encoder_slow=40, decoder_slow=40, decoder_fast=32, fast_blocks=1, slow_blocks=1,
    quantiser=SplitQuantiserConfig(books=3, entries=12, projected=32),
)
VOICE = VoiceConfig(
    backbone=TransformerConfig(2, 48, 4, 2, 12, 96, TEXTS), depth=TransformerConfig(1, 32, 2, 2, 16, 64, TEXTS),
    books=3, entries=12, projected=32, lead=3, delay=1, window=40,
)
SAID = ["hello", "there", "the", "capital", "of", "france", "is", "paris."]


def save_all(folder):
    torch.manual_seed(0)
    codec = Codec(CODEC)
    for part in (codec.quantiser.first, codec.quantiser.rest):
        for book in part.books:
            book.entries.normal_()
    codec_sha = weights(save_codec(folder / "codec", codec, recipe="a test", sources=()))
    tokenizer = learn(sentence_phonemes(SAID), TEXTS)
    voice = Voice(VOICE, codebooks(codec))
    voice_sha = weights(save_voice(folder / "voice", voice, tokenizer, codec=codec_sha, recipe="a test", sources=()))
    head = Head(HeadConfig(64, 48, 32, 2, 3))
    statistics = Statistics(torch.zeros(64), torch.ones(64))
    save_head(folder / "head", head, statistics, steps=2, recipe="a test",
              made_from={"voice": voice_sha, "codec": codec_sha})
    return tokenizer


def weights(manifest):
    return manifest.files[manifest.path("weights.safetensors").name]


def pinned(folder):
    text = 'name = "pocket"\nabout = "random"\n'
    for part in ("ear", "language", "large", "small", "mapper", "residual", "control"):
        text += f'[artifacts.{part}]\nfolder = "{part}"\nweights = "{SHA}"\nidentity = "{SHA}"\n'
    for part in PARTS:
        manifest = artifacts.read_manifest(folder / part)
        text += f'[speech.{part}]\nfolder = "{part}"\nweights = "{weights(manifest)}"\nidentity = "{manifest.sha256}"\n'
    return text


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    monkeypatch.setattr(shelf, "WEIGHTS", tmp_path / "weights")
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    tokenizer = save_all(tmp_path / "weights")
    (tmp_path / "pocket.toml").write_text(pinned(tmp_path / "weights"))
    return tmp_path, tokenizer


def test_text_becomes_sound_by_head_and_by_depth(shipped):
    speaker = load_speaker(sampling=Sampling(longest=200), threads=1)
    for render in ("head", "depth"):
        chunks = list(speaker.speak("Hello there.", render))
        assert len(chunks) > 3 and all(c.shape == (FRAME,) for c in chunks)
        assert np.isfinite(np.concatenate(chunks)).all()
    assert [word for word, _ in speaker.harness.lead.spoken] == ["Hello", "there."]


def test_words_reach_the_voice_as_their_sounds(shipped):
    _, tokenizer = shipped
    words = list(Front(tokenizer)(["The capital ", "of France is Par", "is."]))
    assert [w.text for w in words] == ["The", "capital", "of", "France", "is", "Paris."]
    spoken = sentence_phonemes(["The", "capital", "of", "France", "is", "Paris."])
    assert [list(w.pieces) for w in words] == [pieces(tokenizer, sound) for sound in spoken]


@pytest.mark.parametrize("part", PARTS)
def test_a_changed_byte_is_refused_by_name(shipped, part):
    folder, _ = shipped
    path = artifacts.read_manifest(folder / "weights" / part).path("weights.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ChecksumMismatch, match=path.name):
        load_speaker()


def test_a_head_of_another_voice_is_refused_even_when_it_is_pinned(shipped):
    folder, _ = shipped
    save_head(folder / "weights/head", Head(HeadConfig(64, 48, 32, 2, 3)), Statistics(torch.zeros(64), torch.ones(64)),
              steps=2, recipe="a test", made_from={"voice": "another", "codec": "another"})
    (folder / "pocket.toml").write_text(pinned(folder / "weights"))
    with pytest.raises(OrganMismatch, match="this head was trained on"):
        load_speaker()


def test_a_preset_without_a_voice_says_so(shipped):
    folder, _ = shipped
    (folder / "pocket.toml").write_text(pinned(folder / "weights").split("[speech.codec]")[0])
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
