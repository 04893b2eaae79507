"""Ridge from running sums against the same regression written out with all rows in hand."""

import numpy as np
import pytest
import torch

from legato.listen.ridge import RidgeSums, solve


def rows(n=400, inputs=12, outputs=5, classes=3, *, noise=0.1, offset=1.0, seed=0):
    """Rows of one planted matrix and class means of their own: x, y (float32), classes, matrix."""
    draw = torch.Generator().manual_seed(seed)
    of = torch.arange(n) % classes
    weight = torch.randn(inputs, outputs, generator=draw)
    x = torch.randn(n, inputs, generator=draw)
    y = x @ weight + noise * torch.randn(n, outputs, generator=draw)
    x = x + offset * torch.randn(classes, inputs, generator=draw)[of]
    y = y + offset * torch.randn(classes, outputs, generator=draw)[of]
    return x, y, of, weight


def gathered(x, y, of, classes=3, chunks=1):
    sums = RidgeSums.empty(x.shape[1], y.shape[1], classes)
    for some in zip(*(t.chunk(chunks) for t in (x, y, of)), strict=True):
        sums.add(*some)
    return sums


def centred(x, y, of):
    """Class means taken off, by hand, in float64."""
    x, y = x.double().clone(), y.double().clone()
    for c in of.unique():
        x[of == c] -= x[of == c].mean(0)
        y[of == c] -= y[of == c].mean(0)
    return x, y


def assert_same_sums(a, b):
    for name in ("n", "x", "y", "xx", "xy", "yy"):
        one, other = getattr(a, name), getattr(b, name)
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13 * float(other.abs().max()))


def test_a_planted_relation_is_recovered():
    x, y, of, weight = rows(noise=0)
    fit = solve(gathered(x[:300], y[:300], of[:300]), 1e-9)
    torch.testing.assert_close(fit.weight, weight.double(), atol=1e-5, rtol=0)
    assert fit.explained(gathered(x[300:], y[300:], of[300:])).min() > 0.999


@pytest.mark.parametrize("lam", (1e-4, 1e-2, 1.0))
def test_it_is_the_closed_form_and_least_squares_with_a_penalty(lam):
    x, y, of, _ = rows()
    weight = solve(gathered(x, y, of), lam).weight.numpy()
    cx, cy = (t.numpy() for t in centred(x, y, of))
    penalty = lam * np.diag(cx.T @ cx).mean()
    closed = np.linalg.solve(cx.T @ cx + penalty * np.eye(12), cx.T @ cy)
    np.testing.assert_allclose(weight, closed, rtol=1e-9)
    longer = np.vstack((cx, np.sqrt(penalty) * np.eye(12))), np.vstack((cy, np.zeros((12, 5))))
    np.testing.assert_allclose(weight, np.linalg.lstsq(*longer)[0], rtol=1e-9)


def test_neither_order_nor_chunks_matter():
    x, y, of, _ = rows()
    whole = gathered(x, y, of)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    assert_same_sums(gathered(x[order], y[order], of[order]), whole)
    assert_same_sums(gathered(x, y, of, chunks=7), whole)
    assert_same_sums(gathered(x, y, of, chunks=len(x)), whole)  # row by row: most classes are absent each time


def test_class_means_far_larger_than_what_varies_cost_nothing():
    """As keys have them. Sums of float32 products are off by more than the whole variation here."""
    x, y, of, weight = rows(offset=3000.0, noise=0)
    sums = gathered(x, y, of, chunks=4)
    cx, cy = centred(x, y, of)
    xx, xy, yy = sums.about(*sums.means())
    close = {"rtol": 1e-6, "atol": 1e-4}  # of entries up to 400
    torch.testing.assert_close(xx, cx.T @ cx, **close)
    torch.testing.assert_close(xy, cx.T @ cy, **close)
    torch.testing.assert_close(yy, cy.square().sum(0), **close)
    torch.testing.assert_close(solve(sums, 1e-9).weight, torch.linalg.lstsq(cx, cy).solution, rtol=1e-4, atol=1e-4)


def test_a_part_is_what_would_have_been_gathered_from_these_columns():
    x, y, of, _ = rows()
    inputs, outputs = torch.tensor([7, 1, 4]), torch.tensor([3, 0])
    part = gathered(x, y, of).part(inputs, outputs)
    assert_same_sums(part, gathered(x[:, inputs], y[:, outputs], of))


def test_held_out_error_from_sums_is_the_error_of_the_rows():
    x, y, of, _ = rows(600)
    fit = solve(gathered(x[:300], y[:300], of[:300]), 1e-2)
    x, y, of = x[300:].double(), y[300:].double(), of[300:]
    guess = (x - fit.source_mean[of]) @ fit.weight + fit.target_mean[of]
    error = (y - guess).square().sum(0)
    held = gathered(x.float(), y.float(), of)
    torch.testing.assert_close(fit.errors(held), error, rtol=1e-9, atol=0)
    _, cy = centred(x, y, of)
    torch.testing.assert_close(held.variation(), cy.square().sum(0), rtol=1e-9, atol=0)
    torch.testing.assert_close(fit.explained(held), 1 - error / cy.square().sum(0), rtol=1e-9, atol=0)
    assert (fit.explained(held) < fit.explained(gathered(*rows(600)[:3]))).any()  # seen rows are among the latter


def test_inputs_of_low_rank_are_solved_at_any_strength():
    """Products in float32 would not be positive definite here, or would be fitted where they are noise."""
    x, y, of, _ = rows(400, inputs=6, noise=0)
    wide = x @ torch.randn(6, 40, generator=torch.Generator().manual_seed(5))
    sums = gathered(wide, y, of)
    for lam in (1e-9, 1e-6, 1e-3):
        fit = solve(sums, lam)
        assert fit.weight.norm() < 3 and fit.explained(sums).max() <= 1
        assert fit.explained(sums).min() > 0.99


def test_constant_inputs_and_empty_classes_have_nothing_to_say():
    x, y, of, _ = rows(classes=2)
    x[:, 0] = 5.1
    fit = solve(gathered(x, y, of, classes=3), 1e-6)
    assert fit.weight[0].abs().max() < 1e-3 < fit.weight[1].abs().max()
    assert (fit.source_mean[2] == 0).all() and (fit.target_mean[2] == 0).all()
    for size in (3.1, 1e3 / 3, 1e-3 / 3):
        nothing = solve(gathered(torch.full_like(x, size), y, of), 1e-3)
        assert nothing.weight.abs().max() < 1e-3 * y.norm() / size
        constant = gathered(x, torch.full_like(y, size), of)
        assert solve(constant, 1e-3).weight.abs().max() < 1e-9 * size
        assert (solve(constant, 1e-3).explained(constant) > 0.9).all()
    assert solve(gathered(0 * x, y, of), 1e-3).weight.abs().max() == 0
