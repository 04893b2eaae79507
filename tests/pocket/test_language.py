"""The language classifier: its rule on hand-made weights, and its file."""

import pytest
import torch

from legato import artifacts
from legato.errors import OrganMismatch
from legato.pocket.language import DOUBTS, HOP, SURE, Language, sounding_mean


@pytest.fixture
def language():
    """Frames of four numbers: the first speaks for English, the second for another language, the third for none."""
    made = Language(width=4, least=0.3)
    with torch.no_grad():
        made.classify.weight.copy_(torch.eye(3, 4))
        made.classify.bias.zero_()
    return made


def features(*mean: float, frames: int = 12) -> torch.Tensor:
    """Two frames a token around a mean, (frames / 2, 8)."""
    noise = torch.randn(frames, 4, generator=torch.Generator().manual_seed(0))
    return (torch.tensor(mean) + noise - noise.mean(0)).view(-1, 8)


def loud(frames: int = 12) -> torch.Tensor:
    """A wave in which every frame sounds."""
    return torch.ones(frames * HOP)


def test_the_mean_is_over_frames_not_tokens():
    x = features(1.0, 2.0, 3.0, 4.0)
    torch.testing.assert_close(sounding_mean(x, loud(), 4), torch.tensor([1.0, 2.0, 3.0, 4.0]))
    torch.testing.assert_close(sounding_mean(x.flip(0), loud(), 4), sounding_mean(x, loud(), 4))


def test_quiet_frames_are_left_out_and_so_is_what_was_filled_up():
    """Frames 2, 3 and 7 sound, one 18 dB softer; frame 5 is 22 dB softer; the wave ends before the frames do."""
    wave = torch.zeros(7 * HOP + 40)
    for frame, level in ((2, 1.0), (3, 10 ** (-18 / 20)), (5, 10 ** (-22 / 20)), (7, 1.0)):
        wave[frame * HOP : (frame + 1) * HOP] = level
    x = torch.arange(32.0).view(4, 8)
    wanted = x.view(8, 4)[[2, 3, 7]].mean(0)
    torch.testing.assert_close(sounding_mean(x, wave, 4), wanted)


def test_silence_around_a_clip_changes_nothing():
    x, quiet = features(1.0, 2.0, 3.0, 4.0), torch.full((3, 8), 99.0)
    padded = torch.cat((torch.zeros(6 * HOP), loud(), torch.zeros(6 * HOP)))
    around = torch.cat((quiet, x, quiet))
    torch.testing.assert_close(sounding_mean(around, padded, 4), sounding_mean(x, loud(), 4))


def test_doubt_begins_below_the_least_probability(language):
    """Softmax of (a, 0, 0) is e^a / (e^a + 2): p at a = ln(2 p / (1 - p))."""
    edge = float(torch.tensor(0.3 * 2 / 0.7).log())
    assert language.doubt(features(edge + 0.01, 0, 0, 9, frames=SURE), loud(SURE)) is None
    assert language.doubt(features(edge - 0.01, 0, 0, 9, frames=SURE), loud(SURE)) is not None


def test_short_clips_are_doubted_below_less(language):
    """A third of the frames that make sure: below a third of the least probability, .1."""
    edge, frames = float(torch.tensor(0.1 * 2 / 0.9).log()), SURE // 3
    assert language.doubt(features(edge + 0.01, 0, 0, 9, frames=frames), loud(frames)) is None
    assert language.doubt(features(edge - 0.01, 0, 0, 9, frames=frames), loud(frames)) is not None


@pytest.mark.parametrize(("mean", "doubt"), [((3, 0, 0, 0), None), ((0, 5, 0, 0), "other"), ((0, 0, 5, 0), "none")])
def test_the_likelier_of_the_others_is_told(language, mean, doubt):
    assert language.doubt(features(*mean), loud()) == (doubt and DOUBTS[doubt])
    assert language.doubt(features(*mean).bfloat16(), loud()) == (doubt and DOUBTS[doubt])


def test_a_few_clicks_are_no_question_whatever_they_sound_like(language):
    clicks = torch.zeros(12 * HOP)
    clicks[::HOP] = 1.0
    assert language.doubt(features(9.0, 0, 0, 0), clicks) is None  # one in every frame is a buzz
    clicks[9 * HOP :] = 0
    assert language.doubt(features(9.0, 0, 0, 0), clicks) == DOUBTS["none"]


def test_it_comes_back_from_its_file_as_it_was(language, tmp_path):
    language.save(tmp_path, recipe="a test", sources=())
    again = Language.restore(*artifacts.load(tmp_path))
    x = torch.randn(3, 4)
    assert torch.equal(again(x), language(x)) and again.least == 0.3


def test_another_kind_of_artifact_is_refused(tmp_path):
    weight = {"weight": torch.zeros(1)}
    artifacts.save(tmp_path, weight, name="x", kind="residual", config={}, recipe="a test", sources=())
    with pytest.raises(OrganMismatch, match="holds a residual, but a pocket-language"):
        Language.restore(*artifacts.load(tmp_path))
