"""The generation loop on a voice with random weights: what depends on what, and against the arithmetic written out."""

import math

import pytest
import torch

from legato.errors import BadInput
from legato.pocket.speaking import PocketVoice
from legato.pocket.voice import BLANK, NONE, PAD, Voice, VoiceConfig
from legato.speak.harness import Harness, Sampling, pick
from legato.speak.lead import Word
from legato.transformer import TransformerConfig

CONFIG = VoiceConfig(
    backbone=TransformerConfig(2, 48, 4, 2, 12, 96, 40), depth=TransformerConfig(2, 32, 2, 2, 16, 64, 40),
    books=4, entries=10, projected=6, lead=3, delay=2, window=50,
)
WORDS = [Word((5, 6), "one"), Word((7,), "two"), Word((8, 9), "three")]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    voice = Voice(CONFIG, torch.randn(4, 10, 6)).requires_grad_(False)
    return PocketVoice(voice)


def speak(model, words=WORDS, **sampling):
    harness = Harness(model, Sampling(**sampling))
    return list(harness.frames(words)), harness


def test_frames_come_in_order_and_whole(model):
    frames, harness = speak(model)
    assert [f.index for f in frames] == list(range(len(frames)))
    assert all(((f.codes >= 0) & (f.codes < 10)).all() and f.state.shape == (48,) for f in frames)
    ended = harness.lead.ended
    assert len(frames) == ended + 4 + 1  # the frame at which the text ended, and four behind it
    assert [word for word, _ in harness.lead.spoken] == ["one", "two", "three"]


def test_a_seed_is_a_take_and_reading_the_states_changes_nothing(model):
    def codes(seed):
        return torch.stack([f.codes for f in speak(model, seed=seed)[0][:12]])

    assert torch.equal(codes(1), codes(1)) and not torch.equal(codes(1), codes(2))
    harness, taken = Harness(model, Sampling(seed=1)), []
    for frame in harness.frames(WORDS):
        torch.randn(100)  # a head would draw noise of its own
        with torch.inference_mode():
            frame.state.zero_()
        taken.append(frame.codes)
    assert torch.equal(torch.stack(taken[:12]), codes(1))


@pytest.mark.parametrize("stages", [1, 3])
def test_fewer_stages_leave_the_other_codes_out_and_feed_none_back(model, stages):
    frames, _ = speak(model, stages=stages, temperature=0.0)
    assert all((f.codes[stages:] == NONE).all() and (f.codes[:stages] >= 0).all() for f in frames)


def test_greedy_codes_are_the_guided_arithmetic_written_out(model):
    """The whole loop again, by whole sequences and without a cache."""
    voice, w = model.voice, 2.5
    frames, harness = speak(model, temperature=0.0, guidance=w, action_temperature=0.0)
    spoken = {step: word for word, step in harness.lead.spoken}
    steps = len(frames) + 5
    pieces = {word.text: word.pieces for word in WORDS}
    text = torch.full((steps,), PAD)
    for step, word in spoken.items():
        text[step] = 1
        text[step + 1 : step + 1 + len(pieces[word])] = torch.tensor(pieces[word])
    codes = torch.full((steps + 1, 4), NONE)  # row 0: before the first step
    before = torch.cat((torch.tensor([PAD]), text))
    with torch.inference_mode():
        for step in range(steps):
            h = torch.cat([voice.states(t[None, : step + 1], codes[None, : step + 1])[:, -1]
                           for t in (before, torch.full_like(before, BLANK))])
            due = sum(step >= delay for delay in CONFIG.delays)
            now = torch.stack((text[step], torch.tensor(BLANK)))
            for k in range(due):
                logits = voice.depth_logits(h, now, codes[step + 1].clamp_min(0).expand(2, 4))[:, k]
                codes[step + 1, k] = int((logits[1] + w * (logits[0] - logits[1])).argmax())
    for frame in frames:
        assert frame.codes[0] == codes[frame.index + 3 + 1, 0]
        assert torch.equal(frame.codes[1:], codes[frame.index + 5 + 1, 1:])


def test_without_guidance_the_text_is_read_once(model):
    assert model.start(guided=False).rows == 1
    a, _ = speak(model, temperature=0.0, guidance=1.0)
    b, _ = speak(model, temperature=0.0, guidance=3.0)
    n = min(len(a), len(b))
    assert any(not torch.equal(x.codes, y.codes) for x, y in zip(a[:n], b[:n], strict=True))


def test_breaks_are_kept(model):
    held = [Word((5,), "one", padding=9), Word((6,), "two")]
    _, harness = speak(model, held)
    (_, first), (_, second) = harness.lead.spoken
    assert second - first >= 2 + 9


@pytest.mark.parametrize("wrong", [{"stages": 0}, {"stages": 5}])
def test_stages_that_a_voice_has_not_are_refused(model, wrong):
    with pytest.raises(BadInput, match="depth stages were asked for; this voice has 1 to 4"):
        Harness(model, Sampling(**wrong))


def test_a_distilled_voice_is_not_guided_again(model):
    class Distilled(PocketVoice):
        def __init__(self, voice):
            super().__init__(voice)
            self.layout = type(self.layout)(self.layout.delays, 0, 1, distilled=True)

    with pytest.raises(BadInput, match="distilled"):
        Harness(Distilled(model.voice), Sampling(guidance=2.0))
    assert list(Harness(Distilled(model.voice), Sampling(guidance=1.0)).frames(WORDS))


@pytest.mark.parametrize("wrong", [{"temperature": -1.0}, {"top_k": 0}, {"guidance": 0.5}])
def test_senseless_sampling_is_refused(wrong):
    with pytest.raises(BadInput, match="sampling asks for"):
        Sampling(**wrong)


def test_picks_follow_their_probabilities():
    draw = torch.Generator().manual_seed(0)
    logits = torch.tensor([2.0, 0.0, 1.0, -9.0])
    assert pick(logits, 0.0, 3, draw) == 0
    taken = torch.bincount(torch.tensor([pick(logits, 1.0, 2, draw) for _ in range(4000)]), minlength=4) / 4000
    assert taken[1] == taken[3] == 0  # not among the two likeliest
    assert taken[0] == pytest.approx(1 / (1 + math.exp(-1.0)), abs=0.03)
