"""Linear probes on states whose content is known."""

import pytest
import torch

from legato.probe import lens, probe


@pytest.fixture
def draw():
    return torch.Generator().manual_seed(0)


def test_a_planted_code_is_read_and_noise_is_at_chance(draw):
    """8 tokens written linearly, with noise of their own size, at one of 2 x 3 places; noise everywhere else."""
    N, train = 600, 450
    tokens = torch.randint(0, 8, (N,), generator=draw) * 7 + 3
    embedding = torch.randn(70, 16, generator=draw) + 2
    states = torch.randn(N, 2, 3, 24, generator=draw) + 5
    states[:, 1, 2] += embedding[tokens] @ torch.randn(16, 24, generator=draw)
    accuracy = probe(states, tokens, embedding, train)
    assert accuracy.shape == (2, 3) and accuracy[1, 2] > 0.98
    accuracy[1, 2] = 0
    assert accuracy.max() < 0.25


def test_it_is_the_ridge_written_out(draw):
    tokens = torch.randint(0, 4, (40,), generator=draw)
    embedding, states = torch.randn(4, 6, generator=draw), torch.randn(40, 1, 1, 5, generator=draw)
    states[:, 0, 0, :3] += embedding[tokens][:, :3]
    x = states[:, 0, 0].double()
    x = x - x[:30].mean(0)
    targets = embedding.double() - embedding.double().mean(0)
    targets = targets / targets.norm(dim=1, keepdim=True)
    gram = x[:30].T @ x[:30]
    weight = torch.linalg.inv(gram + 0.5 * gram.diagonal().mean() * torch.eye(5)) @ x[:30].T @ targets[tokens[:30]]
    right = ((x[30:] @ weight @ targets.T).argmax(1) == tokens[30:]).float().mean()
    assert probe(states, tokens, embedding, 30, lam=0.5)[0, 0] == right and 0 < right < 1


def test_states_that_never_vary_say_nothing(draw):
    """As what enters the first layer at a fixed token does; it has no inverse."""
    tokens = torch.arange(40) % 4
    states = torch.full((40, 1, 1, 5), 3.25)
    assert probe(states, tokens, torch.randn(4, 6, generator=draw), 30)[0, 0] <= 0.5


def test_half_precision_states_are_probed_as_they_are(draw):
    tokens = torch.randint(0, 4, (80,), generator=draw)
    embedding = torch.randn(4, 6, generator=draw)
    states = (embedding[tokens] + 0.01 * torch.randn(80, 6, generator=draw))[:, None, None].bfloat16()
    assert probe(states, tokens, embedding.bfloat16(), 60)[0, 0] == 1


def test_a_lens_recovers_a_linear_relation_and_keeps_its_mean(draw):
    x = torch.randn(300, 6, generator=draw) * torch.tensor([1e-3, 1, 1, 10, 1, 1e3]) + 4
    states = x @ torch.randn(6, 9, generator=draw) + 7
    guess = lens(x, states, 200, lam=1e-6)
    assert guess.shape == (100, 9)
    assert ((guess - states[200:]).norm(dim=0) < 1e-3 * states.std(0) * 10).all()
    unrelated = torch.randn(300, 6, generator=draw)
    flat = lens(unrelated, states, 200, lam=1e4)
    torch.testing.assert_close(flat, states[:200].mean(0).expand(100, 9), rtol=1e-2, atol=0.05 * states.std().item())


def test_a_lens_is_the_ridge_written_out(draw):
    x, states = torch.randn(40, 5, generator=draw).double() * 3 + 1, torch.randn(40, 4, generator=draw).double()
    a = (x - x[:30].mean(0)) / x[:30].std(0)
    gram = a[:30].T @ a[:30]
    mean = states[:30].mean(0)
    weight = torch.linalg.inv(gram + 0.5 * gram.diagonal().mean() * torch.eye(5)) @ a[:30].T @ (states[:30] - mean)
    torch.testing.assert_close(lens(x, states, 30, lam=0.5).double(), a[30:] @ weight + mean, rtol=1e-4, atol=1e-5)


def test_inputs_that_never_vary_blow_nothing_up(draw):
    x = torch.cat((torch.full((40, 2), 3.25), torch.randn(40, 1, generator=draw)), dim=1)
    assert lens(x, x[:, 2:], 30).abs().max() < 10
