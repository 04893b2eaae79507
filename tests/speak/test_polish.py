"""The adversarial round on a codec made of matrices: windows, pasts, gradients, and that it goes on after a kill."""

import pytest
import torch

from legato.errors import BadInput
from legato.speak.entrance import Entrance, Statistics
from legato.speak.flow import sample
from legato.speak.head import Head, HeadConfig
from legato.speak.history import bucket
from legato.speak.polish import (
    EARLIER,
    NUDGE,
    OWN_LEVEL,
    Polish,
    balanced,
    beginnings,
    polish,
    render,
    sound,
    speak,
    steadiness,
)
from legato.speak.train import Tapped

CONFIG = HeadConfig(latent=4, state=6, width=24, layers=1, history=3)
HOW = Polish(steps=3, windows=2, frames=5, judges_first=1)


class Matrices:
    """Each latent of 4 is 480 samples."""

    rate, frame, books, width, projected = 24_000, 480, 1, 4, 4

    def __init__(self):
        self.say = torch.randn(480, 4, generator=torch.Generator().manual_seed(0)) / 20

    def unproject(self, u):
        return u

    def decode(self, z):
        return (self.say @ z.float()).mT.flatten(1)


@pytest.fixture
def entrance():
    return Entrance(Matrices(), Statistics(torch.zeros(4), torch.ones(4)))


@pytest.fixture
def tapped():
    draw = torch.Generator().manual_seed(1)
    firsts = torch.arange(120) % 40 == 0
    return Tapped(torch.randn(120, 6, generator=draw), torch.randn(120, 4, generator=draw), firsts)


def lively():
    torch.manual_seed(0)
    head = Head(CONFIG)
    for p in head.parameters():
        torch.nn.init.normal_(p, std=0.2)
    return head


def test_windows_lie_in_one_utterance_with_what_the_codec_must_have_heard(tapped):
    starts = beginnings(tapped, 5)
    wanted = [s for u in range(3) for s in range(40 * u + EARLIER, 40 * u + 40 - 5 + 1)]
    assert starts.tolist() == [s for s in wanted if s + 5 < 120]


def test_sound_is_of_the_window_alone(entrance, tapped):
    at = torch.tensor([10, 60])
    latents = torch.randn(2, 5, 4)
    with torch.no_grad():
        heard = sound(entrance, tapped, at, latents)
    wanted = entrance.codec.decode(latents.transpose(1, 2))
    assert heard.shape == (2, 5 * 480)
    torch.testing.assert_close(heard, wanted, atol=2e-2, rtol=2e-2)


def test_gradients_pass_through_the_sampler_and_the_codec_to_the_head_alone(entrance, tapped):
    head = lively()
    rendered, _, truth = render(head, tapped, torch.tensor([10, 60]), HOW, torch.Generator().manual_seed(0))
    assert rendered.shape == truth.shape == (2, 5, 4)
    sound(entrance, tapped, torch.tensor([10, 60]), rendered).square().mean().backward()
    reached = {name: p.grad is not None and bool(p.grad.abs().sum() > 0) for name, p in head.named_parameters()}
    assert all(reached.values()), reached
    assert not tapped.latents.requires_grad


def test_speaking_on_its_own_past_is_frame_after_frame(tapped):
    head, draw = lively().requires_grad_(False), torch.Generator()
    past, states, noise = tapped.past(torch.tensor([20]), 3), tapped.states[20:25][None], torch.randn(1, 5, 4)
    found = speak(head, past, states, noise, HOW, draw.manual_seed(3))
    level = torch.tensor([OWN_LEVEL])
    draw.manual_seed(3)
    for i in range(5):
        seen = (1 - OWN_LEVEL**2) ** 0.5 * past + OWN_LEVEL * torch.randn(past.shape, generator=draw)
        y = head.condition(states[:, i], seen, bucket(level))
        x = sample(lambda x, s, t, y=y: head(x, s, t, y), noise[:, i], HOW.flow_steps)
        torch.testing.assert_close(found[:, i], x)
        past = torch.cat((past[:, 1:], x[:, None]), 1)


def test_judges_learn_first_and_a_killed_round_goes_on(entrance, tapped, tmp_path):
    head = lively()
    before = [p.clone() for p in head.parameters()]
    polish(head, entrance, tapped, Polish(steps=1, windows=2, frames=5, judges_first=1), tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(before, head.parameters(), strict=True))
    kept = polish(lively(), entrance, tapped, HOW, tmp_path)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert state["step"] == 3
    names = dict(head.named_parameters())
    assert any(not torch.equal(a, state["head"][name]) for a, name in zip(before, names, strict=True))
    assert all(torch.equal(value, state["mean"][name]) for name, value in kept.state_dict().items())


def test_what_judges_ask_is_brought_to_the_size_of_what_spectra_ask():
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    for scale in (1e-3, 1.0, 1e3):  # of the judges' own losses
        asked, weight = balanced(10 * x[0], scale * x[1], x, 0.5)
        assert asked.tolist() == pytest.approx([10.0, 5.0]) and float(weight) == pytest.approx(5 / scale)
    asked, _ = balanced(10 * x[0], 0 * x[1], x, 0.5)  # judges that are fooled already
    assert asked.tolist() == [10.0, 0.0]


def test_a_judge_is_steady_when_noise_does_not_change_its_mind():
    class Judge(torch.nn.Module):
        def __init__(self, slope):
            super().__init__()
            self.slope = slope

        def forward(self, audio):
            return [self.slope * audio], []

    audio = torch.randn(2, 50_000, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    assert float(steadiness(Judge(0.0), audio)) == 0
    assert float(steadiness(Judge(3.0), audio)) == pytest.approx((3 * NUDGE) ** 2, rel=0.02)


def test_lsd_moves_the_head_without_codec_or_judges(tapped, tmp_path):
    head, lines = lively(), []
    before = [p.clone() for p in head.parameters()]
    how = Polish(steps=150, windows=4, frames=5, judges_first=5, rate=1e-3, objective="lsd")
    kept = polish(head, None, tapped, how, tmp_path, lines.append)  # there is no codec to be asked
    assert any(not torch.equal(a, b) for a, b in zip(before, kept.parameters(), strict=True))
    assert [set(line) for line in lines] == [{"step", "flow", "distilled", "examples_per_s"}] * 3
    assert lines[-1]["distilled"] + lines[-1]["flow"] < lines[0]["distilled"] + lines[0]["flow"]


def test_what_cannot_be_polished_is_refused(entrance, tapped, tmp_path):
    with pytest.raises(BadInput, match="no objective 'gan'; choose one of unrolled, lsd"):
        Polish(objective="gan")
    with pytest.raises(BadInput, match="no recording has the 48 frames that a window needs"):
        polish(lively(), entrance, tapped, Polish(frames=40), tmp_path)
    assert not (tmp_path / "state.pt").exists()
