"""Ridge regression from running sums: exact, one pass, rows in any order, any subset of inputs and outputs afterwards.

Rows may come in classes that share one matrix but have means of their own (the positions of a prompt's tail).
Products are float32 over a few thousand rows at a time, their sums float64, so that a million rows lose nothing.
Because the sums of a superset contain those of every subset, one pass over paired caches serves every choice of
source layers, and held-out error needs no second pass.

Shapes: R rows, K classes, F inputs, G outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

TINY = torch.finfo(torch.float64).tiny


@dataclass
class RidgeSums:
    """Counts, sums and second moments of paired rows; all float64."""

    n: Tensor  # (K,)
    x: Tensor  # (K, F)
    y: Tensor  # (K, G)
    xx: Tensor  # (F, F)
    xy: Tensor  # (F, G)
    yy: Tensor  # (G,) squares only: enough for the explained variance

    @classmethod
    def empty(cls, inputs: int, outputs: int, classes: int = 1) -> RidgeSums:
        """Sums of no rows."""
        shapes = ((classes,), (classes, inputs), (classes, outputs), (inputs, inputs), (inputs, outputs), (outputs,))
        return cls(*(torch.zeros(shape, dtype=torch.float64) for shape in shapes))

    def add(self, x: Tensor, y: Tensor, classes: Tensor | None = None) -> None:
        """Add rows x (R, F) and y (R, G) of the given classes (R,) int64, all of class 0 by default.

        Products are taken about the rows' own class means and moved back in float64: with means far larger than
        what varies (as keys have them), plain float32 products would lose the variation.
        """
        x, y = x.float(), y.float()
        if classes is None:
            classes = torch.zeros(len(x), dtype=torch.int64)
        n = torch.bincount(classes, minlength=len(self.n)).double()
        sx, sy = (s.new_zeros(s.shape).index_add_(0, classes, t.double()) for s, t in ((self.x, x), (self.y, y)))
        px, py = ((s / n.clamp_min(1)[:, None]).float() for s in (sx, sy))  # class means, rounded: any pivot is exact
        dx, dy = x - px[classes], y - py[classes]
        px, py = px.double(), py.double()
        rest = sx - n[:, None] * px  # (K, F), what rounding left of the rows' sums about their pivot
        self.n += n
        self.x += sx
        self.y += sy
        self.xx += dx.T @ dx
        self.xx.addmm_(px.T, sx).addmm_(rest.T, px)
        self.xy += dx.T @ dy
        self.xy.addmm_(px.T, sy).addmm_(rest.T, py)
        self.yy += y.double().square().sum(0)

    def part(self, inputs: Tensor, outputs: Tensor) -> RidgeSums:
        """The sums as if only these columns had been there; both are index tensors."""
        return RidgeSums(self.n, self.x[:, inputs], self.y[:, outputs], self.xx[inputs][:, inputs],
                         self.xy[inputs][:, outputs], self.yy[outputs])

    def means(self) -> tuple[Tensor, Tensor]:
        """Class means of x (K, F) and y (K, G); 0 for a class without rows."""
        n = self.n.clamp_min(1)[:, None]
        return self.x / n, self.y / n

    def about(self, mx: Tensor, my: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Second moments about class means mx (K, F), my (K, G): X'X (F, F), X'Y (F, G), Y'Y (G,)."""
        weighted = self.n[:, None] * mx
        cross = self.x.T @ mx
        xx = self.xx - cross - cross.T + weighted.T @ mx
        xy = self.xy - self.x.T @ my - mx.T @ self.y + weighted.T @ my
        yy = self.yy - (2 * self.y * my - self.n[:, None] * my.square()).sum(0)
        return xx, xy, yy

    def variation(self) -> Tensor:
        """Sum of squares of each output about its class means, (G,)."""
        return self.yy - (self.y.square() / self.n.clamp_min(1)[:, None]).sum(0)


@dataclass(frozen=True)
class RidgeFit:
    """y = (x - source_mean[class]) @ weight + target_mean[class]."""

    weight: Tensor  # (F, G) float64
    source_mean: Tensor  # (K, F)
    target_mean: Tensor  # (K, G)

    def errors(self, held: RidgeSums) -> Tensor:
        """Sum of squared errors of each output on other rows, (G,)."""
        xx, xy, yy = held.about(self.source_mean, self.target_mean)
        return yy - 2 * (self.weight * xy).sum(0) + (self.weight * (xx @ self.weight)).sum(0)

    def explained(self, held: RidgeSums) -> Tensor:
        """R2 of each output on other rows, (G,): 1 - squared error / variation about the held rows' own class means."""
        return 1 - self.errors(held) / held.variation().clamp_min(TINY)


def solve(sums: RidgeSums, lam: float) -> RidgeFit:
    """Closed form: (X'X + lam * mean diagonal * I) W = X'Y on sums centred by class.

    Args:
        lam: relative to the mean of X'X's diagonal, so that one value means the same at every layer; > 0.
    """
    assert lam > 0, lam
    mx, my = sums.means()
    xx, xy, _ = sums.about(mx, my)
    scale = xx.diagonal().mean().clamp_min(TINY)
    regular = xx.clone()
    regular.diagonal().add_(lam * scale)
    factor, failed = torch.linalg.cholesky_ex(regular)
    if failed:  # inputs of low rank: what float32 left of their zero eigenvalues can lie below zero, by more than lam
        values, vectors = torch.linalg.eigh(xx)
        weight = vectors @ (vectors.T @ xy / (values.clamp_min(0) + lam * scale)[:, None])
    else:
        weight = torch.cholesky_solve(xy, factor)
    return RidgeFit(weight, mx, my)
