"""The pocket voice: streams laid beside each other, whole sequences against single steps, and what depends on what."""

import dataclasses

import pytest
import torch

from legato.organs import Layout
from legato.pocket.ring import Ring
from legato.pocket.speaking import PocketVoice
from legato.pocket.voice import BLANK, NONE, PAD, WORD, Voice, VoiceConfig
from legato.speak.tap import shifted
from legato.transformer import TransformerConfig

CONFIG = VoiceConfig(
    backbone=TransformerConfig(3, 48, 4, 2, 12, 96, 40), depth=TransformerConfig(2, 32, 2, 2, 16, 64, 40),
    books=4, entries=10, projected=6, lead=3, delay=2, window=7,
)

LAYOUT = Layout(CONFIG.delays, PAD, WORD)


@pytest.fixture(scope="module")
def voice():
    torch.manual_seed(3)
    return Voice(CONFIG, torch.randn(4, 10, 6)).eval()


def streams(steps: int, seed: int = 0):
    draw = torch.Generator().manual_seed(seed)
    text = torch.randint(0, 40, (steps,), generator=draw)
    return text, shifted(torch.randint(0, 10, (4, steps), generator=draw), steps, LAYOUT)


def test_each_book_is_moved_back_by_its_delay():
    codes = torch.arange(8).view(2, 4)
    assert shifted(codes, 6, Layout((1, 3), PAD, WORD)).T.tolist() == [[-1, 0, 1, 2, 3, -1], [-1, -1, -1, 4, 5, 6]]
    assert CONFIG.delays == (3, 5, 5, 5)


def test_a_code_that_is_not_there_adds_nothing(voice):
    none, some = torch.full((1, 1, 4), NONE), torch.tensor([[[3, NONE, NONE, NONE]]])
    text = torch.tensor([[5]])
    assert torch.equal(voice.embed(text, none), voice.backbone.embed(text))
    assert not torch.allclose(voice.embed(text, some), voice.embed(text, none))


def test_steps_are_the_whole_sequence_and_the_ring_forgets_what_the_window_does(voice):
    """20 steps through a ring of 7: what lies further back than the window must not count."""
    text, codes = streams(20)
    with torch.inference_mode():
        whole = voice.states(text[None], codes[None])[0]
    state = PocketVoice(voice).start(guided=False)
    for step in range(20):
        h, action = state.step(int(text[step]), codes[step])
        torch.testing.assert_close(h[0], whole[step], atol=1e-5, rtol=1e-4)
        with torch.inference_mode():
            torch.testing.assert_close(action, voice.action(whole[step]), atol=1e-5, rtol=1e-4)


def test_guided_rows_are_two_runs(voice):
    text, codes = streams(12)
    blank = torch.full_like(text, BLANK)
    with torch.inference_mode():
        read, blanked = (voice.states(t[None], codes[None])[0] for t in (text, blank))
    state = PocketVoice(voice).start(guided=True)
    for step in range(12):
        h, _ = state.step(int(text[step]), codes[step])
        torch.testing.assert_close(h, torch.stack((read[step], blanked[step])), atol=1e-5, rtol=1e-4)


def test_depth_stages_are_all_stages_at_once(voice):
    codes = torch.tensor([[1, 2, 3, 4]])
    state = PocketVoice(voice).start(guided=False)
    h, _ = state.step(7, torch.full((4,), NONE))
    with torch.inference_mode():
        wanted = voice.depth_logits(h, torch.tensor([9]), codes)[0]
    depth = state.depth(9)
    for k in range(4):
        torch.testing.assert_close(depth.logits(k)[0], wanted[k], atol=1e-5, rtol=1e-4)
        depth.take(k, int(codes[0, k]))


def test_a_stage_sees_the_codes_before_it_and_no_other(voice):
    h, text = torch.randn(1, 48), torch.tensor([4])
    with torch.inference_mode():
        a = voice.depth_logits(h, text, torch.tensor([[1, 2, 3, 4]]))
        b = voice.depth_logits(h, text, torch.tensor([[1, 2, 7, 4]]))
    same = [torch.allclose(x, y) for x, y in zip(a[0], b[0], strict=True)]
    assert same == [True, True, True, False]


def test_a_second_utterance_does_not_remember_the_first(voice):
    text, codes = streams(9)
    model, said = PocketVoice(voice), []
    for _ in range(2):
        state = model.start(guided=False)
        said.append(torch.stack([state.step(int(text[i]), codes[i])[0][0].clone() for i in range(9)]))
    assert torch.equal(*said)


def test_sizes_of_the_shipped_voice():
    """The head's share is measured against the depth model; both counts are the ones that the cards state."""
    whole = Voice(VoiceConfig(), torch.randn(16, 512, 64))
    depth = sum(p.numel() for name, p in whole.named_parameters() if name.split(".")[0] in
                ("depth", "hand_down", "stage", "read_code", "heads"))
    assert 3.5e6 < depth < 4e6 and PAD != WORD
    assert dataclasses.replace(VoiceConfig(), lead=1).delays[0] == 1
    assert Ring(whole.depth, 1, 16).keys.shape == (4, 3, 16, 64)
