"""A tiny random codec and voice behind a preset of their own, and recordings with timed words to tap it on."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from legato import artifacts, audio, presets
from legato.assemble.campaign_shelf import held
from legato.audio import Audio
from legato.pocket import shelf
from legato.pocket.codec import Codec, CodecConfig
from legato.pocket.phonemes import sentence_phonemes
from legato.pocket.quantiser import SplitQuantiserConfig
from legato.pocket.script import learn
from legato.pocket.voice import TEXTS, Voice, VoiceConfig
from legato.pocket.voice_shelf import codebooks, save_codec, save_voice
from legato.speak.entrance import Statistics
from legato.speak.head import Head, HeadConfig
from legato.speak.shelf import save_head
from legato.transformer import TransformerConfig

SHA = "0" * 64
SAID = ["hello", "there", "the", "capital", "of", "france", "is", "paris.", "twelve", "dollars"]
CODEC = CodecConfig(
    latent=64, encoder_fast=32, encoder_slow=40, decoder_slow=40, decoder_fast=32, fast_blocks=1, slow_blocks=1,
    quantiser=SplitQuantiserConfig(books=3, entries=12, projected=32),
)
VOICE = VoiceConfig(
    backbone=TransformerConfig(2, 48, 4, 2, 12, 96, TEXTS), depth=TransformerConfig(1, 32, 2, 2, 16, 64, TEXTS),
    books=3, entries=12, projected=32, lead=3, delay=1, window=40,
)

HEAD = HeadConfig(64, 48, 32, 2, 3)


def build(folder, seed=0):
    """Codec and voice as artifacts; their SHA-256."""
    torch.manual_seed(seed)
    codec = Codec(CODEC)
    for part in (codec.quantiser.first, codec.quantiser.rest):
        for book in part.books:
            book.entries.normal_()
    stored = save_codec(folder / "codec", codec, recipe="a test", sources=())
    made = {"codec": weights(stored)}
    tokenizer = learn(sentence_phonemes(SAID), TEXTS)
    voice = Voice(VOICE, codebooks(codec))
    stored = save_voice(folder / "voice", voice, tokenizer, codec=made["codec"], recipe="a test", sources=())
    return made | {"voice": weights(stored)}


def weights(manifest):
    return manifest.files[manifest.path("weights.safetensors").name]


def pin(root, *parts):
    """Write the preset "pocket" with these parts of a voice."""
    text = 'name = "pocket"\nabout = "random"\n'
    for part in ("ear", "language", "large", "small", "mapper", "residual", "control"):
        text += f'[artifacts.{part}]\nfolder = "{part}"\nweights = "{SHA}"\nidentity = "{SHA}"\n'
    for part in parts:
        manifest = artifacts.read_manifest(root / "weights" / part)
        text += f'[speech.{part}]\nfolder = "{part}"\nweights = "{weights(manifest)}"\nidentity = "{manifest.sha256}"\n'
    (root / "pocket.toml").write_text(text)


@pytest.fixture
def speaking(tmp_path, monkeypatch):
    """A preset "pocket" that has codec and voice and no head yet: `root`, `hashes`, `rebuild(seed)`, `pin(*parts)`."""
    root = tmp_path / "shipped"
    monkeypatch.setattr(shelf, "WEIGHTS", root / "weights")
    monkeypatch.setattr(presets, "FOLDER", root)

    def rebuild(seed=0):
        hashes = build(root / "weights", seed)
        pin(root, "codec", "voice")
        return hashes

    return SimpleNamespace(root=root, hashes=rebuild(), rebuild=rebuild, pin=lambda *parts: pin(root, *parts))


@pytest.fixture
def shipped(speaking):
    """The same with a random head: whoever loads it hears something."""
    torch.manual_seed(0)
    folder, plain = speaking.root / "weights/head", Statistics(torch.zeros(64), torch.ones(64))
    save_head(folder, Head(HEAD), plain, steps=2, recipe="a test", made_from=speaking.hashes)
    speaking.pin("codec", "voice", "head")
    return speaking


def hum(seconds, seed, rate=24_000):
    """A voice of one vowel with a melody: harmonics of 110 to 180 Hz, in syllables."""
    draw = np.random.default_rng(seed)
    t = np.arange(round(seconds * rate)) / rate
    pitch = 140 + 30 * np.sin(2 * np.pi * 0.7 * t + draw.uniform(0, 6))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    wave = sum(np.sin(k * phase) / k for k in range(1, 12))
    wave *= 0.6 + 0.4 * np.sin(2 * np.pi * 3 * t)
    return (0.1 * wave + 0.001 * draw.standard_normal(len(t))).astype(np.float32)


def texts(trained, kept):
    """So many texts of words that the voice knows on the side of training, and so many on the held one."""
    sides = {False: [], True: []}
    for n in range(10_000):
        words = [SAID[(n // 10**k + k) % 7] for k in range(4)]
        sides[held(text := " ".join(words).capitalize() + " paris.")].append(text)
        if len(set(sides[False])) >= trained and len(set(sides[True])) >= kept:
            break
    return list(dict.fromkeys(sides[False]))[:trained] + list(dict.fromkeys(sides[True]))[:kept]


@pytest.fixture
def spoken(tmp_path):
    """A folder as `tap` wants it: eight recordings to train on, two held, 2.4 s each."""
    folder = tmp_path / "spoken"
    folder.mkdir()
    lines = []
    for n, text in enumerate(texts(8, 2)):
        name = f"{n}.{'flac' if n % 2 else 'wav'}"
        audio.write(folder / name, Audio(hum(2.4, n)[None], 24_000))
        words = [[word, round(0.1 + 0.35 * i, 3)] for i, word in enumerate(text.split())]
        lines.append({"audio": name, "text": text, "words": words})
    (folder / "spoken.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
