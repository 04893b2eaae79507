"""The second entrance, on a codec made of matrices."""

import pytest
import torch

from legato.errors import BadInput, OrganMismatch
from legato.speak.entrance import Entrance, Statistics


class Matrices:
    """Latents of 4, projected to 3, read as 4; a frame is 2 samples."""

    rate, frame, books, width, projected = 24_000, 2, 1, 4, 3

    def __init__(self):
        draw = torch.Generator().manual_seed(0)
        self.listen, self.down, self.up, self.say = (
            torch.randn(a, b, generator=draw) for a, b in ((4, 2), (3, 4), (4, 3), (2, 4))
        )

    def latent(self, audio):
        return self.listen @ audio.unflatten(1, (-1, 2)).mT

    def project(self, e):
        return self.down @ e

    def unproject(self, u):
        return self.up @ u

    def decode(self, z):
        return (self.say @ z).mT.flatten(1)

    def stream(self, batch=1):
        return self.decode


def test_statistics_make_every_dimension_alike_and_come_back():
    u = torch.randn(3, 500) * torch.tensor([[1.0], [9.0], [0.1]]) + torch.tensor([[5.0], [0.0], [-2.0]])
    statistics = Statistics.of([u[:, :200], u[:, 200:]])
    x = statistics.normalise(u)
    torch.testing.assert_close(x.mean(1), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(1, correction=0), torch.ones(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(statistics.restore(x), u)


def test_a_dimension_that_never_varies_does_not_divide_by_nothing():
    assert torch.isfinite(Statistics.of([torch.ones(2, 5)]).normalise(torch.ones(2, 5))).all()


@pytest.mark.parametrize("frames", [0, 1])
def test_too_little_to_measure_is_refused(frames):
    with pytest.raises(BadInput, match=f"two frames or more, and {frames} were given"):
        Statistics.of([torch.ones(2, frames)])


def test_sound_goes_through_both_projections_and_nothing_else():
    codec, audio = Matrices(), torch.randn(1, 40)
    e = codec.latent(audio)
    entrance = Entrance(codec, Statistics.of([codec.project(e)[0]]))
    x = entrance.encode(audio)
    torch.testing.assert_close(entrance.decode(x), codec.decode(codec.up @ (codec.down @ e)), atol=1e-4, rtol=1e-4)
    wrong_space = codec.decode(e)
    assert not torch.allclose(entrance.decode(x), wrong_space, atol=1e-2)
    torch.testing.assert_close(entrance.stream()(x), entrance.decode(x))


def test_statistics_of_another_codec_are_refused():
    with pytest.raises(OrganMismatch, match="3 wide and the statistics are of 5"):
        Entrance(Matrices(), Statistics(torch.zeros(5), torch.ones(5)))
