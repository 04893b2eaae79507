"""The corrupted past: its variance, what is announced, and frames streamed against frames at once."""

import pytest
import torch

from legato.speak.history import BUCKETS, DROPPED, WORST, History, bucket, corrupt, draw_history, windows


def test_corruption_keeps_the_variance_and_takes_the_share_it_says():
    past = torch.randn(4000, 2, 5)
    for level in (0.0, 0.3, WORST):
        found = corrupt(past, torch.full((4000,), level))
        assert float(found.std()) == pytest.approx(1, abs=0.02)
        kept = float((found * past).mean())
        assert kept == pytest.approx((1 - level**2) ** 0.5, abs=0.02)
    assert torch.equal(corrupt(past, torch.zeros(4000)), past)


def test_levels_have_their_buckets():
    edges = torch.tensor([0.0, WORST / BUCKETS - 1e-4, WORST / BUCKETS + 1e-4, WORST])
    assert bucket(edges).tolist() == [0, 0, 1, BUCKETS - 1]


def test_what_is_announced_is_what_was_done():
    past = torch.randn(6000, 1, 8)
    found, level = draw_history(past, 0.2, torch.Generator().manual_seed(1))
    gone = level == DROPPED
    assert float(gone.float().mean()) == pytest.approx(0.2, abs=0.02)
    assert (found[gone] == 0).all()
    apart = [float((found[level == b] - past[level == b]).square().mean()) for b in range(BUCKETS)]
    assert apart == sorted(apart) and apart[0] < 0.01 < 0.4 < apart[-1]


def test_windows_are_the_frames_before_and_a_stream_sees_the_same():
    latents = torch.randn(7, 3)
    whole = windows(latents, 4)
    assert whole.shape == (7, 4, 3) and (whole[0] == 0).all() and torch.equal(whole[5], latents[1:5])
    history = History(4, 3)
    for i in range(7):
        assert torch.equal(history.past[0], whole[i])
        history.push(latents[i : i + 1])
