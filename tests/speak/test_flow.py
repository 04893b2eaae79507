"""The path and its sampler against closed forms."""

import math

import pytest
import torch

from legato.speak.flow import between, draw_times, sample


def test_the_path_ends_at_noise_and_data():
    noise, data = torch.randn(5, 3), torch.randn(5, 3)
    assert torch.equal(between(noise, data, torch.zeros(5)), noise)
    assert torch.equal(between(noise, data, torch.ones(5)), data)


def test_straight_paths_are_walked_in_one_step():
    noise, data = torch.randn(5, 3), torch.randn(5, 3)
    for steps in (1, 2, 7):
        torch.testing.assert_close(sample(lambda x, s, t: data - noise, noise, steps), data)


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_a_linear_field_gives_eulers_closed_form(steps):
    x = torch.randn(4, 2)
    torch.testing.assert_close(sample(lambda x, s, t: -0.7 * x, x, steps), x * (1 - 0.7 / steps) ** steps)


def test_the_velocity_of_gaussian_data_gives_its_mean_and_deviation():
    """For data N(m, d) the best velocity is known: E[x1 - x0 | x_t]."""
    m, d = 3.0, 0.5

    def velocity(x, s, t):
        time = s[:, None]
        spread = (1 - time) ** 2 + (time * d) ** 2
        return m + (time * d**2 - (1 - time)) / spread * (x - time * m)

    made = sample(velocity, torch.randn(20_000, 1, generator=torch.Generator().manual_seed(0)), 64)
    assert float(made.mean()) == pytest.approx(m, abs=0.02) and float(made.std()) == pytest.approx(d, abs=0.02)


def test_a_flow_map_is_told_where_it_lands():
    asked = []
    sample(lambda x, s, t: asked.append((float(s[0]), float(t[0]))) or 0 * x, torch.zeros(1, 1), 2)
    assert asked == [(0.0, 0.5), (0.5, 1.0)]


def test_times_are_logit_normal():
    t = draw_times(20_000, torch.Generator().manual_seed(0))
    assert float(t.min()) > 0 and float(t.max()) < 1
    logits = torch.log(t / (1 - t))
    assert float(logits.mean()) == pytest.approx(0.4, abs=0.03) and float(logits.std()) == pytest.approx(1, abs=0.03)
    assert math.isclose(float(t.median()), 1 / (1 + math.exp(-0.4)), abs_tol=0.01)


def test_gradients_pass_through_all_steps():
    weight = torch.tensor(0.3, requires_grad=True)
    sample(lambda x, s, t: weight * x, torch.ones(1, 1), 2).sum().backward()
    assert float(weight.grad) == pytest.approx(2 * (1 + 0.15) * 0.5)
