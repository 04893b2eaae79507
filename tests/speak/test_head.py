"""The head: what reaches it and how, its derivatives, and objectives that find what is known."""

import pytest
import torch

from legato.speak.head import Head, HeadConfig
from legato.speak.history import DROPPED, LEVELS
from legato.speak.objectives import flow_matching, self_distillation, shuffle_gap

CONFIG = HeadConfig(latent=6, state=10, width=32, layers=2, history=3)


def lively(config=CONFIG, seed=0):
    torch.manual_seed(seed)
    head = Head(config)
    for p in head.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return head


def inputs(n=5, seed=1):
    draw = torch.Generator().manual_seed(seed)
    h, past = torch.randn(n, 10, generator=draw), torch.randn(n, 3, 6, generator=draw)
    return h, past, torch.randint(0, LEVELS, (n,), generator=draw)


def test_a_fresh_head_says_nothing():
    head = Head(CONFIG)
    t = torch.rand(5)
    assert (head(torch.randn(5, 6), t, t, head.condition(*inputs())) == 0).all()


@pytest.mark.parametrize("config", [CONFIG, HeadConfig(6, 10, 32, 2, 3, modulated=False)])
def test_every_input_reaches_the_output(config):
    head, (h, past, level), x, t = lively(config), inputs(), torch.randn(5, 6), torch.full((5,), 0.5)
    plain = head(x, t, t, head.condition(h, past, level))
    others = [
        head(x + 1, t, t, head.condition(h, past, level)),
        head(x, t - 0.2, t, head.condition(h, past, level)),
        head(x, t, t + 0.2, head.condition(h, past, level)),
        head(x, t, t, head.condition(h.roll(1, 1), past, level)),
        head(x, t, t, head.condition(h, past + 1, level)),
        head(x, t, t, head.condition(h, past, (level + 1) % LEVELS)),
    ]
    assert all(not torch.allclose(plain, other, atol=1e-3) for other in others)


def test_rows_do_not_see_each_other():
    head, (h, past, level), x, t = lively(), inputs(), torch.randn(5, 6), torch.rand(5)
    whole = head(x, t, t, head.condition(h, past, level))
    alone = head(x[2:3], t[2:3], t[2:3], head.condition(h[2:3], past[2:3], level[2:3]))
    torch.testing.assert_close(whole[2:3], alone, atol=1e-5, rtol=1e-4)


def test_an_unannounced_level_is_not_seen():
    head, (h, past, _) = lively(HeadConfig(6, 10, 32, 2, 3, announced=False)), inputs()
    assert torch.equal(*(head.condition(h, past, torch.full((5,), level)) for level in (0, DROPPED)))


def test_the_derivative_in_time_is_that_of_finite_differences():
    head = lively().double()
    h, past, level = inputs()
    y, x = head.condition(h.double(), past.double(), level), torch.randn(5, 6).double()
    s, t = torch.rand(2, 5).double()
    _, slope = torch.func.jvp(lambda time: head(x, s, time, y), (t,), (torch.ones_like(t),))
    e = 1e-8  # the fastest wave has a thousand radians
    torch.testing.assert_close(slope, (head(x, s, t + e, y) - head(x, s, t - e, y)) / (2 * e), atol=1e-5, rtol=1e-5)


def test_half_precision_is_close():
    head, (h, past, level), x, t = lively(), inputs(), torch.randn(5, 6), torch.rand(5)
    plain = head(x, t, t, head.condition(h, past, level))
    with torch.autocast("cpu", torch.bfloat16):
        half = head(x, t, t, head.condition(h, past, level))
    assert (half.float() - plain).norm() < 0.05 * plain.norm()


def teach(head, steps=300):
    """Data that the state says exactly: a fixed map of it."""
    torch.manual_seed(2)
    said = torch.randn(10, 6) / 3
    optimiser = torch.optim.Adam(head.parameters(), 3e-3)
    for _ in range(steps):
        h = torch.randn(64, 10)
        level = torch.full((64,), DROPPED)
        loss = flow_matching(head, h @ said, head.condition(h, torch.zeros(64, 3, 6), level))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return said


def test_a_head_that_listens_loses_by_another_rows_state_and_one_that_was_not_taught_does_not():
    head = Head(CONFIG)
    said = teach(head)
    h, level = torch.randn(256, 10), torch.full((256,), DROPPED)
    own, other = shuffle_gap(head, h @ said, h, torch.zeros(256, 3, 6), level)
    assert other > 1.5 * own
    own, other = shuffle_gap(Head(CONFIG), h @ said, h, torch.zeros(256, 3, 6), level)
    assert own == pytest.approx(other)


def test_flow_matching_of_a_silent_head_is_the_size_of_the_velocity():
    """With v = 0 the loss is E |data - noise|^2 / U = |data|^2 / U + 1."""
    head, data = Head(CONFIG), 2 * torch.ones(4000, 6)
    loss = flow_matching(head, data, torch.zeros(4000, 32), draws=1)
    assert float(loss.detach()) == pytest.approx(5, abs=0.1)


def test_self_distillation_is_nothing_for_a_map_that_follows_its_velocity():
    """A head whose velocity does not depend on anything maps in straight lines: consistent by itself."""
    head = Head(CONFIG)
    with torch.no_grad():
        head.leave.bias.fill_(0.7)
    assert float(self_distillation(head, torch.randn(50, 6), torch.zeros(50, 32)).detach()) < 1e-8
    other = lively()
    loss = self_distillation(other, torch.randn(50, 6), other.condition(*inputs(50)))
    loss.backward()
    assert float(loss.detach()) > 1e-3 and other.leave.weight.grad.abs().sum() > 0


def test_its_size_is_the_sum_of_its_parts():
    assert Head(HeadConfig(128, 320)).size < 0.74e6  # a fifth of the pocket depth model
