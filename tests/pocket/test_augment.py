"""Perturbed features: still the same words in the same order, never the same numbers, and repeatable."""

import random

import torch

from legato.pocket.augment import GAP, LOST, STACK, Perturbed, perturb

C = 512


def ramp(n: int) -> torch.Tensor:
    """Features whose every frame says when it was: 1 at the start, 2 at the end."""
    when = torch.linspace(1, 2, n * STACK)
    return when[:, None].expand(-1, C).reshape(n, STACK * C)


def frames(features: torch.Tensor) -> torch.Tensor:
    return features.view(len(features) * STACK, -1)


def test_time_still_runs_forward_from_the_first_frame_to_the_last():
    for seed in range(20):
        heard = frames(perturb(ramp(30), random.Random(seed))).median(1).values  # noise and lost channels averaged out
        sound = heard[heard.abs() > 0.5]  # neither a gap nor padding
        assert len(sound) > 0.5 * len(heard)
        assert abs(sound[0] - 1) < 0.2 and sound.max() > 1.8
        assert (sound.diff() > -0.06).all()


def test_length_gaps_and_channels_stay_within_their_bounds():
    lengths, lost = [], []
    for seed in range(60):
        heard = frames(perturb(torch.ones(40, STACK * C), random.Random(seed)))  # without noise: it has no deviation
        lengths.append(len(heard) / (40 * STACK))
        lost.append((heard == 0).all(0).float().mean().item())
        silent = (heard == 0).all(1)
        runs = "".join("x" if s else " " for s in silent.tolist()).rstrip().split()
        assert len(runs) <= 1 + len(heard) // 50
        assert all(GAP[0] <= len(run) for run in runs[:-1])  # the last may run into the end
    assert min(lengths) > 0.85 and max(lengths) < 1.2 and max(lengths) - min(lengths) > 0.2
    assert abs(sum(lost) / len(lost) - LOST) < 0.02


def test_the_cut_into_stacks_moves():
    starts = {int((frames(perturb(ramp(30), random.Random(seed))).median(1).values < 1.01).sum()) for seed in range(40)}
    assert len(starts) > 4


def test_the_same_seed_gives_the_same_and_each_hearing_another():
    features = {"a": torch.randn(20, STACK * C, generator=torch.Generator().manual_seed(0)).bfloat16()}
    first, second = (Perturbed(features, random.Random(3)) for _ in range(2))
    once, again = first["a"], second["a"]
    assert once.dtype == torch.bfloat16 and torch.equal(once, again)
    assert "a" in first and "b" not in first
    other = first["a"]
    assert other.shape != once.shape or not torch.equal(other, once)


def test_very_short_clips_survive():
    for seed in range(50):
        heard = perturb(torch.randn(1, STACK * C), random.Random(seed))
        assert 1 <= len(heard) <= 3 and heard.isfinite().all()
