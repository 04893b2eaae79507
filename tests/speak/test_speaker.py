"""Text to sound on random weights: both renderers behind one loop, frame by frame, as text comes."""

import numpy as np
import pytest
import torch

from legato.errors import BadInput
from legato.pocket.codec import FRAME, RATE, Codec, CodecConfig
from legato.pocket.quantiser import SplitQuantiserConfig
from legato.pocket.speaking import PocketVoice
from legato.pocket.voice import Voice, VoiceConfig
from legato.speak.entrance import Entrance, Statistics
from legato.speak.harness import Harness, Sampling
from legato.speak.head import Head, HeadConfig
from legato.speak.lead import Word
from legato.speak.render import DepthRenderer, HeadRenderer
from legato.speak.speaker import Speaker
from legato.transformer import TransformerConfig

VOICE = VoiceConfig(
    backbone=TransformerConfig(2, 48, 4, 2, 12, 96, 40), depth=TransformerConfig(2, 32, 2, 2, 16, 64, 40),
    books=4, entries=10, projected=6, lead=3, delay=2, window=50,
)
CODEC = CodecConfig(
    latent=24, encoder_fast=16, encoder_slow=20, decoder_slow=20, decoder_fast=12, fast_blocks=2, slow_blocks=1,
    quantiser=SplitQuantiserConfig(books=4, entries=10, projected=6),
)


def front(pieces):
    """Every space ends a word; its letters are its pieces."""
    word = ""
    for piece in pieces:
        for sign in piece:
            if sign == " ":
                yield Word(tuple(3 + ord(c) % 30 for c in word), word)
                word = ""
            else:
                word += sign
    if word:
        yield Word(tuple(3 + ord(c) % 30 for c in word), word)


@pytest.fixture(scope="module")
def parts():
    torch.manual_seed(5)
    codec = Codec(CODEC).requires_grad_(False).eval()
    for part in (codec.quantiser.first, codec.quantiser.rest):
        for book in part.books:
            book.entries.normal_()
    voice = PocketVoice(Voice(VOICE, torch.randn(4, 10, 6)).requires_grad_(False))
    head = Head(HeadConfig(12, 48, 32, 2, 3)).requires_grad_(False)
    for p in head.parameters():
        torch.nn.init.normal_(p, std=0.2)
    return codec, voice, head, Entrance(codec, Statistics(torch.zeros(12), torch.ones(12)))


def speaker(parts, **sampling):
    codec, voice, head, entrance = parts
    renderers = {"head": HeadRenderer(head, entrance), "depth": DepthRenderer(codec)}
    return Speaker(front, Harness(voice, Sampling(**sampling)), renderers, RATE)


def spoken_codes(parts, text, **sampling):
    """The codes of a run, and its sound by the depth renderer."""
    made = speaker(parts, **sampling)
    frames = list(made.harness.frames(front([text])))
    return torch.stack([f.codes for f in frames], 1)[None], np.concatenate(list(made.speak(text, "depth")))


@pytest.mark.parametrize("by", ["depth", "head"])
def test_every_chunk_is_one_frame_of_sound(parts, by):
    chunks = list(speaker(parts).speak("hello there you", by))
    assert all(c.shape == (FRAME,) and c.dtype == np.float32 and np.abs(c).max() <= 1 for c in chunks)
    assert np.concatenate(chunks).std() > 0


def test_rendered_together_each_is_what_it_is_alone(parts):
    """So codes and states cannot depend on who renders them."""
    made = speaker(parts, seed=4)
    pairs = list(made.rendered("one two three", ("head", "depth")))
    for i, by in enumerate(("head", "depth")):
        alone = list(made.speak("one two three", by))
        np.testing.assert_array_equal(np.concatenate([pair[i] for pair in pairs]), np.concatenate(alone))


@pytest.mark.parametrize("stages", [None, 2])
def test_the_depth_renderer_streams_what_the_codec_decodes_at_once(parts, stages):
    codes, heard = spoken_codes(parts, "one two", stages=stages)
    whole = parts[0].decode(parts[0].lookup(codes[:, :stages]))[0].clamp(-1, 1)
    np.testing.assert_allclose(heard, whole.numpy(), atol=1e-5)


def test_a_renderer_that_is_not_there_is_told(parts):
    with pytest.raises(BadInput, match="there is no renderer 'mouth'; choose one of head, depth"):
        next(speaker(parts).speak("one", "mouth"))


def test_an_utterance_starts_afresh(parts):
    voice = speaker(parts)
    one, two = (np.concatenate(list(voice.speak("same words"))) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_text_in_pieces_sounds_as_text_at_once(parts):
    whole = np.concatenate(list(speaker(parts).speak("good day sir")))
    pieces = np.concatenate(list(speaker(parts).speak(iter(["go", "od d", "ay ", "sir"]))))
    np.testing.assert_array_equal(whole, pieces)


def test_sound_comes_before_the_text_is_complete(parts):
    given = []

    def slowly():
        for piece in ("one ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight ", "nine ", "ten "):
            given.append(piece)
            yield piece

    next(speaker(parts).speak(slowly()))
    assert len(given) < 10
