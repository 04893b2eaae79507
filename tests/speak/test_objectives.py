"""Objectives against numbers worked out by hand."""

import math

import pytest
import torch

from legato.speak.objectives import feature_matching, hinge_discriminator, hinge_generator, log_mel_distance


def test_twice_as_loud_is_the_logarithm_of_two_at_every_scale():
    audio = torch.randn(1, 24_000, generator=torch.Generator().manual_seed(0))
    for scale in (((512, 80),), ((2048, 320),), ((128, 20), (1024, 160))):
        assert float(log_mel_distance(2 * audio, audio, scale)) == pytest.approx(math.log(2), abs=1e-3)
    assert float(log_mel_distance(audio, audio)) == 0


def test_only_what_was_made_gets_a_gradient_also_from_silence():
    made, real = torch.zeros(1, 9600, requires_grad=True), torch.randn(1, 9600, requires_grad=True)
    log_mel_distance(made, real).backward()
    assert real.grad is None and torch.isfinite(made.grad).all()


def test_a_step_down_the_gradient_brings_the_sounds_closer():
    torch.manual_seed(0)
    made, real = torch.randn(1, 9600, requires_grad=True), 0.3 * torch.randn(1, 9600)
    before = log_mel_distance(made, real)
    before.backward()
    assert log_mel_distance((made - 2 * made.grad / made.grad.norm()).detach(), real) < before


def test_hinges():
    real, made = [torch.tensor([2.0, 0.0])], [torch.tensor([-3.0, 0.5])]
    assert float(hinge_discriminator(real, made)) == pytest.approx((0 + 1) / 2 + (0 + 1.5) / 2)
    assert float(hinge_generator(made)) == pytest.approx((4 + 0.5) / 2)
    assert float(hinge_generator([torch.tensor([7.0])])) == 0  # no more than being taken for real


def test_features_are_compared_as_shares_of_their_size():
    real = [torch.tensor([2.0, -2.0]), torch.tensor([100.0])]
    made = [torch.tensor([1.0, -2.0], requires_grad=True), torch.tensor([90.0])]
    found = feature_matching(real, made)
    assert float(found.detach()) == pytest.approx((0.25 + 0.1) / 2)
    found.backward()
    assert made[0].grad is not None
