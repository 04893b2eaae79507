"""The fused steps against the plain sampler."""

import pytest
import torch

from legato.speak.flow import sample
from legato.speak.head import Head, HeadConfig
from legato.speak.history import DROPPED
from legato.speak.rendering import Rendering


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("announced", [True, False])
def test_it_is_the_sampler(steps, announced):
    torch.manual_seed(0)
    head = Head(HeadConfig(6, 10, 32, 3, 2, announced=announced)).requires_grad_(False)
    for p in head.parameters():
        torch.nn.init.normal_(p, std=0.3)
    rendering = Rendering(head, steps)
    for level in (0, 4, DROPPED):  # one object, frame after frame
        h, past, noise = torch.randn(10), torch.randn(1, 2, 6), torch.randn(1, 6)
        condition = head.condition(h[None], past, torch.tensor([level]))
        wanted = sample(lambda x, s, t, y=condition: head(x, s, t, y), noise, steps)
        torch.testing.assert_close(rendering(h, past, level, noise), wanted, atol=1e-4, rtol=1e-4)


def test_it_makes_nothing_on_the_way():
    """Buffers are written into: the same storage comes back, and the noise handed in is left alone."""
    head = Head(HeadConfig(6, 10, 32, 3, 2)).requires_grad_(False)
    rendering, noise = Rendering(head, 2), torch.randn(1, 6)
    kept = noise.clone()
    first = rendering(torch.randn(10), torch.zeros(1, 2, 6), 0, noise)
    assert rendering(torch.randn(10), torch.zeros(1, 2, 6), 0, noise).data_ptr() == first.data_ptr()
    assert torch.equal(noise, kept)
