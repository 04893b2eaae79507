"""Ridge regression from running sums: exact, one pass, rows in any order, any subset of inputs and outputs afterwards.

Rows may come in classes that share one matrix but have means of their own (the positions of a prompt's tail).
Because the sums of a superset contain those of every subset, one pass over paired caches serves every choice of
source layers, and held-out error needs no second pass. Everything is float64: caches have means far larger than what
varies about them, and directions ten million times weaker than others, where float32 products (in 0.6 of the time)
leave noise as large as any useful ridge.

Shapes: R rows, K classes, F inputs, G outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NOISE = 1e-12  # of a raw second moment: what centring in float64 may leave of something constant


@dataclass
class RidgeSums:
    """Counts, sums and second moments of paired rows."""

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
        """Add rows x (R, F) and y (R, G) of the given classes (R,) int64, all of class 0 by default."""
        x, y = x.double(), y.double()
        if classes is None:
            classes = torch.zeros(len(x), dtype=torch.int64)
        self.n += torch.bincount(classes, minlength=len(self.n))
        self.x.index_add_(0, classes, x)
        self.y.index_add_(0, classes, y)
        self.xx.addmm_(x.T, x)
        self.xy.addmm_(x.T, y)
        self.yy += y.square().sum(0)

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
        """Sum of squares of each output about its class means, (G,); above 0 unless all outputs were 0."""
        about = self.yy - (self.y.square() / self.n.clamp_min(1)[:, None]).sum(0)
        return about.maximum(NOISE * self.yy)


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
        return 1 - self.errors(held) / held.variation()


def solve(sums: RidgeSums, lam: float) -> RidgeFit:
    """Closed form: (X'X + lam * mean diagonal * I) W = X'Y on sums centred by class.

    Args:
        lam: relative to the mean of X'X's diagonal, so that one value means the same at every layer; > 0.
    """
    assert lam > 0, lam
    mx, my = sums.means()
    xx, xy, _ = sums.about(mx, my)
    # Inputs that never vary (the first layer's at a fixed token) leave rounding alone, which must not be fitted.
    penalty = lam * xx.diagonal().mean().clamp_min(0) + NOISE * sums.xx.diagonal().mean()
    xx.diagonal().add_(penalty.clamp_min(torch.finfo(torch.float64).tiny))
    return RidgeFit(torch.cholesky_solve(xy, torch.linalg.cholesky(xx)), mx, my)
