"""Linear probes: can a token, or a state, be read off other states by one matrix, and where?

Measuring devices, not models: ridges fitted on some questions and tried on others. They say what is there to be read,
not that anything reads it.

Shapes: N questions, L layers, P positions, F numbers per state, C model width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def probe(states: Tensor, tokens: Tensor, embedding: Tensor, train: int, lam: float = 1e-2) -> Tensor:
    """How often a question's token is read right from each (layer, position), (L, P).

    A ridge from each state to the unit embedding of the token, fitted on the first `train` questions; one of the rest
    counts when the nearest embedding among all tokens that occur is its own.

    Args:
        states: (N, L, P, F). tokens: (N,) ids. embedding: (vocab, C).
        lam: ridge strength relative to the mean input variance.
    """
    candidates, labels = tokens.unique(return_inverse=True)
    targets = normalize(embedding[candidates].float() - embedding.float().mean(0), dim=-1)  # (K, C)
    accuracy = torch.zeros(states.shape[1:3])
    for layer in range(states.shape[1]):
        x = states[:, layer].transpose(0, 1).float()  # (P, N, F)
        x = x - x[:, :train].mean(1, keepdim=True)
        gram = x[:, :train].mT @ x[:, :train]  # (P, F, F)
        diagonal = gram.diagonal(dim1=1, dim2=2)
        # A state that never varies (an embedding of one and the same token) has nothing to say, and no inverse.
        diagonal += (lam * diagonal.mean(1, keepdim=True)).clamp_min(1e-6)
        weight = torch.linalg.solve(gram, x[:, :train].mT @ targets[labels[:train]])  # (P, F, C)
        guess = (x[:, train:] @ weight @ targets.T).argmax(-1)  # (P, N - train)
        accuracy[layer] = (guess == labels[train:]).float().mean(1)
    return accuracy


def lens(x: Tensor, states: Tensor, train: int, lam: float = 1e-2) -> Tensor:
    """A linear guess at a model's states from something earlier (a tuned lens, Belrose et al., arXiv 2303.08112).

    A ridge on standardised inputs, fitted on the first `train` questions; the guesses for the rest, (N - train, C).

    Args:
        x: (N, F). states: (N, C).
        lam: ridge strength relative to the mean input variance.
    """
    x, states = x.float(), states.float()
    mean = states[:train].mean(0)
    # What never varies has nothing to say: it stays near zero instead of being blown up.
    x = (x - x[:train].mean(0)) / x[:train].std(0).clamp_min(1e-6)
    gram = x[:train].mT @ x[:train]
    gram.diagonal().add_(lam * gram.diagonal().mean().clamp_min(1e-6))
    return x[train:] @ torch.linalg.solve(gram, x[:train].mT @ (states[:train] - mean)) + mean
