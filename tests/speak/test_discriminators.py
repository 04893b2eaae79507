"""The judges: shapes, sizes, what their gradient reaches, and that they can learn to tell."""

import pytest
import torch

from legato.speak.discriminators import PERIODS, WINDOWS, MultiPeriod, MultiScale
from legato.speak.objectives import hinge_discriminator


@pytest.mark.parametrize(("judge", "count"), [(MultiPeriod(), len(PERIODS)), (MultiScale(), len(WINDOWS))])
def test_every_judge_gives_a_verdict_and_its_features(judge, count):
    logits, features = judge(torch.randn(2, 4801))
    assert len(logits) == count and len(features) == 5 * count
    assert all(len(x) == 2 for x in (*logits, *features))


def test_they_are_as_small_as_said():
    assert sum(p.numel() for p in MultiPeriod().parameters()) < 0.8e6
    assert sum(p.numel() for p in MultiScale().parameters()) < 0.1e6


@pytest.mark.parametrize("judge", [MultiPeriod(), MultiScale()])
def test_the_gradient_reaches_every_sample(judge):
    audio = torch.randn(1, 6000, requires_grad=True)
    sum(x.sum() for x in judge(audio)[0]).backward()
    assert (audio.grad != 0).float().mean() > 0.99


@pytest.mark.parametrize("judge", [MultiPeriod, MultiScale])
def test_they_learn_to_tell_a_tone_from_noise_in_half_precision_too(judge):
    torch.manual_seed(0)
    judge = judge()
    optimiser = torch.optim.Adam(judge.parameters(), 2e-3)
    t = torch.arange(4800) / 24_000
    lost = []
    for _ in range(30):
        real = torch.sin(2 * torch.pi * (200 + 200 * torch.rand(2, 1)) * t)
        made = 0.7 * torch.randn(2, 4800)
        with torch.autocast("cpu", torch.bfloat16):
            loss = hinge_discriminator(judge(real)[0], judge(made)[0])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        lost.append(float(loss.detach()))
    assert lost[-1] < 0.5 < 1.5 < lost[0]
