"""The codec on random weights: whole against streamed, causal but for its look-ahead, and its two entrances."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.mel import mel_filters
from legato.pocket.codec import FRAME, HOP, LOOKAHEAD, WINDOW_OUT, Codec, CodecConfig, LogMel, Overlap
from legato.pocket.quantiser import SplitQuantiserConfig

CONFIG = CodecConfig(
    latent=24, encoder_fast=16, encoder_slow=20, decoder_slow=20, decoder_fast=12, fast_blocks=3, slow_blocks=2,
    quantiser=SplitQuantiserConfig(books=4, entries=16, projected=8),
)


@pytest.fixture(scope="module")
def codec():
    torch.manual_seed(1)
    made = Codec(CONFIG).requires_grad_(False).eval()
    for part in (made.quantiser.first, made.quantiser.rest):
        for book in part.books:
            book.entries.normal_()
    return made


def noise(frames: float, seed: int = 0) -> torch.Tensor:
    return 0.1 * torch.randn(1, int(frames * FRAME), generator=torch.Generator().manual_seed(seed))


def test_every_latent_is_one_frame_of_sound(codec):
    e = codec.latent(noise(3.2))
    assert e.shape == (1, 24, 4)  # the last one filled up
    assert codec.decode(codec.unproject(codec.project(e))).shape == (1, 4 * FRAME)
    assert codec.encode(noise(3)).shape == (1, 4, 3)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
@settings(max_examples=10, deadline=None)
def test_streamed_in_any_pieces_it_is_the_whole(codec, pieces):
    z = torch.randn(1, 24, sum(pieces), generator=torch.Generator().manual_seed(len(pieces)))
    stream = codec.stream()
    parts = [stream(piece) for piece in z.split(pieces, dim=2)]
    assert [p.shape[1] for p in parts] == [FRAME * n for n in pieces]
    torch.testing.assert_close(torch.cat(parts, 1), codec.decode(z), atol=1e-5, rtol=0)


def test_two_rows_are_streamed_as_each_alone(codec):
    z = torch.randn(2, 24, 3)
    stream = codec.stream(batch=2)
    both = torch.cat([stream(z[:, :, i : i + 1]) for i in range(3)], 1)
    torch.testing.assert_close(both, codec.decode(z), atol=1e-5, rtol=0)


def test_what_comes_later_changes_nothing_before(codec):
    z, other = torch.randn(1, 24, 5), None
    other = z.clone()
    other[:, :, 3:] += 1
    a, b = codec.decode(z), codec.decode(other)
    assert torch.equal(a[:, : 3 * FRAME], b[:, : 3 * FRAME]) and not torch.allclose(a, b)


def test_a_latent_hears_its_look_ahead_and_no_further(codec):
    audio = noise(5)
    end = 2 * FRAME + LOOKAHEAD  # of what the second frame hears
    near, far = audio.clone(), audio.clone()
    near[:, end - 64 : end] += 0.5
    far[:, end:] += 0.5
    second = codec.latent(audio)[:, :, 1]
    assert torch.equal(codec.latent(far)[:, :, 1], second)
    assert not torch.equal(codec.latent(near)[:, :, 1], second)


def test_the_look_ahead_covers_what_the_decoder_reaches_into():
    assert LOOKAHEAD >= WINDOW_OUT - HOP


def test_the_inverse_transform_gives_a_signal_back_behind_the_fade_in():
    """Frames cut by hand with the same window: divided by the windows' squares they sum to the signal."""
    overlap, audio = Overlap(), torch.randn(1, 12 * HOP)
    padded = torch.nn.functional.pad(audio, (0, WINDOW_OUT - HOP))
    frames = padded.unfold(1, WINDOW_OUT, HOP) * overlap.window
    back = overlap(torch.fft.rfft(frames))
    torch.testing.assert_close(back[:, WINDOW_OUT - HOP :], audio[:, WINDOW_OUT - HOP :], atol=1e-5, rtol=0)
    cover = back[:, 1 : WINDOW_OUT - HOP] / audio[:, 1 : WINDOW_OUT - HOP]
    assert cover[0, 0] < 1e-3 and (cover.diff() > -1e-3).all()  # a monotone fade, no step


def test_log_mel_of_a_tone_is_loudest_in_its_band():
    tone = 0.5 * torch.sin(2 * np.pi * 1000 * torch.arange(4 * FRAME) / 24_000)[None]
    loudest = LogMel()(tone)[0, 2:-6].argmax(1)
    assert len(loudest.unique()) == 1
    band = mel_filters(80, 513, 24_000)[int(loudest[0])]
    assert band[round(1000 / 24_000 * 1024)] > 0


def test_the_second_entrance_is_the_first_without_the_cutting_up(codec):
    """Where every residual is zero both say the same; elsewhere they differ by what the books leave over."""
    e = codec.latent(noise(4))
    u = codec.project(e)
    sums = u.clone()
    for part, half in ((codec.quantiser.first, slice(0, 8)), (codec.quantiser.rest, slice(8, 16))):
        flat = u[0, half].T
        sums[0, half] = part.sums(part.encode(flat)).T
    torch.testing.assert_close(codec.lookup(codec.encode(noise(4))), codec.unproject(sums), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(codec.unproject(u), codec.unproject(sums))
    assert codec.projected == 16 and codec.books == 4 and codec.width == 24
