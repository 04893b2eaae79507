"""Codec, voice and head come back from their files, and nothing else is taken for them."""

import dataclasses

import pytest
import torch

from legato import artifacts
from legato.errors import ArtifactError, OrganMismatch
from legato.pocket.codec import FRAME, Codec, CodecConfig
from legato.pocket.quantiser import SplitQuantiserConfig
from legato.pocket.script import learn, pieces
from legato.pocket.voice import Voice, VoiceConfig
from legato.pocket.voice_shelf import codebooks, load_codec, load_voice, save_codec, save_voice
from legato.speak.entrance import Statistics
from legato.speak.head import Head, HeadConfig
from legato.speak.shelf import load_head, save_head
from legato.transformer import TransformerConfig

CODEC = CodecConfig(
    latent=64, encoder_fast=32, encoder_slow=40, decoder_slow=40, decoder_fast=32, fast_blocks=1, slow_blocks=1,
    quantiser=SplitQuantiserConfig(books=3, entries=12, projected=32),
)
VOICE = VoiceConfig(
    backbone=TransformerConfig(2, 48, 4, 2, 12, 96, 60), depth=TransformerConfig(1, 32, 2, 2, 16, 64, 60),
    books=3, entries=12, projected=32, lead=3, delay=1, window=20,
)


@pytest.fixture
def codec():
    torch.manual_seed(0)
    made = Codec(CODEC).requires_grad_(False).eval()
    for part in (made.quantiser.first, made.quantiser.rest):
        for book in part.books:
            book.entries.normal_()
            book.started.fill_(True)
    return made


def test_a_codec_comes_back_within_its_rounding(codec, tmp_path):
    save_codec(tmp_path, codec, recipe="a test", sources=())
    again = load_codec(artifacts.load(tmp_path))
    assert again.config == CODEC
    z = torch.randn(1, 64, 3)
    a, b = codec.decode(z), again.decode(z)
    assert a.shape == (1, 3 * FRAME) and (a - b).norm() < 0.05 * a.norm()
    assert all(bool(book.started) for book in again.quantiser.rest.books)


def test_a_voice_comes_back_with_its_words(codec, tmp_path):
    torch.manual_seed(1)
    voice = Voice(VOICE, codebooks(codec)).requires_grad_(False)
    made = learn(["hˈɛlO", "wˈɜɹld.", "wˈɜɹd"], 60)
    save_voice(tmp_path, voice, made, codec="abc", recipe="a test", sources=())
    again, words = load_voice(artifacts.load(tmp_path), codec, "abc")
    assert again.config == VOICE and pieces(words, "wˈɜɹld.") == pieces(made, "wˈɜɹld.") != []
    text, codes = torch.randint(0, 60, (1, 8)), torch.randint(0, 12, (1, 8, 3))
    a, b = voice.states(text, codes), again.states(text, codes)
    assert (a - b).norm() < 0.05 * a.norm()


def test_a_voice_on_another_codec_is_refused(codec, tmp_path):
    save_voice(tmp_path, Voice(VOICE, codebooks(codec)), learn(["a"], 10), codec="abc", recipe="a test", sources=())
    with pytest.raises(OrganMismatch, match="trained on the codes of codec abc, and the codec here is def"):
        load_voice(artifacts.load(tmp_path), codec, "def")


def test_kinds_are_not_mixed_up(codec, tmp_path):
    save_codec(tmp_path, codec, recipe="a test", sources=())
    stored = artifacts.load(tmp_path)
    with pytest.raises(OrganMismatch, match="holds a pocket-codec, but a pocket-voice is wanted"):
        load_voice(stored, codec, "abc")
    with pytest.raises(OrganMismatch, match="holds a pocket-codec, but a head is wanted"):
        load_head(stored, {})


def test_weights_of_another_size_are_refused(codec, tmp_path):
    other = Codec(dataclasses.replace(CODEC, decoder_fast=48))
    with pytest.raises(ArtifactError, match="hold no decoder.split.weight"):
        artifacts.fill_module(other, artifacts.pack_module(codec))


def test_a_head_comes_back_for_the_voice_it_knows(tmp_path):
    torch.manual_seed(2)
    head = Head(HeadConfig(6, 10, 32, 2, 3))
    for p in head.parameters():
        torch.nn.init.normal_(p, std=0.3)
    statistics = Statistics(torch.randn(6), torch.rand(6) + 0.5)
    known = {"voice": "abc", "codec": "def"}
    save_head(tmp_path, head, statistics, steps=2, recipe="a test", made_from=known)
    again, found, steps = load_head(artifacts.load(tmp_path), known)
    assert steps == 2 and torch.equal(found.mean, statistics.mean)
    assert torch.equal(found.deviation, statistics.deviation)
    x, t = torch.randn(4, 6), torch.rand(4)
    condition = head.condition(torch.randn(4, 10), torch.randn(4, 3, 6), torch.zeros(4, dtype=torch.int64))
    torch.testing.assert_close(again(x, t, t, condition), head(x, t, t, condition), atol=1e-2, rtol=1e-2)
    with pytest.raises(OrganMismatch, match="was trained on"):
        load_head(artifacts.load(tmp_path), known | {"voice": "another"})
