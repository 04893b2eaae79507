"""Residual vector quantisation as Mimi splits it: one codebook for what is said, fifteen for how it sounds.

Each part has its own projections into the space of its codebooks and out of it, without a bias; what the decoder reads
is the sum of both. Codebooks are running means of what falls to them (van den Oord et al. 2017, SoundStream), started
from data one after the other, and entries that nothing falls to are replaced by what has just been seen.

Shapes: B batch, C latent width, F frames, N vectors, P projected width, K codebooks, V entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

DECAY = 0.99
DEAD = 0.1  # of an even share of the vectors; below it an entry is replaced
CHECK_EVERY = 5  # steps
MEANS_ROUNDS = 20  # of k-means when a codebook starts


@dataclass(frozen=True)
class SplitQuantiserConfig:
    """Sizes."""

    books: int = 16
    entries: int = 512
    projected: int = 64


class Codebook(nn.Module):
    """V entries in P dimensions."""

    def __init__(self, entries: int, width: int) -> None:
        super().__init__()
        self.register_buffer("entries", torch.zeros(entries, width))
        self.register_buffer("counts", torch.zeros(entries))
        self.register_buffer("sums", torch.zeros(entries, width))
        self.register_buffer("started", torch.tensor(False))

    def nearest(self, x: Tensor) -> Tensor:
        """(N, P) -> (N,) indices."""
        return (x @ self.entries.T - 0.5 * self.entries.square().sum(1)).argmax(1)

    @torch.no_grad()
    def start(self, x: Tensor) -> None:
        """k-means on what is there."""
        V = len(self.entries)
        self.entries.copy_(x[torch.randint(len(x), (V,))])
        for _ in range(MEANS_ROUNDS):
            found = self.nearest(x)
            counts = torch.bincount(found, minlength=V).float()
            sums = torch.zeros_like(self.entries).index_add_(0, found, x)
            empty = counts == 0
            drawn = x[torch.randint(len(x), (V,))]
            self.entries.copy_(torch.where(empty[:, None], drawn, sums / counts.clamp_min(1)[:, None]))
        self.counts.fill_(len(x) / V)
        self.sums.copy_(self.entries * self.counts[:, None])
        self.started.fill_(True)

    @torch.no_grad()
    def learn(self, x: Tensor, found: Tensor, replace: bool) -> int:
        """Move the entries towards what fell to them; returns how many were dead and replaced."""
        V = len(self.entries)
        self.counts.mul_(DECAY).add_(torch.bincount(found, minlength=V), alpha=1 - DECAY)
        self.sums.mul_(DECAY).add_(torch.zeros_like(self.sums).index_add_(0, found, x), alpha=1 - DECAY)
        dead = self.counts < DEAD * self.counts.sum() / V
        if replace and (n := int(dead.sum())):
            even = float(self.counts.sum() / V)
            self.sums[dead] = x[torch.randint(len(x), (n,))] * even
            self.counts[dead] = even
        self.entries.copy_(self.sums / self.counts.clamp_min(1e-6)[:, None])
        return int(dead.sum()) if replace else 0


class Residual(nn.Module):
    """K codebooks, each for what the ones before left over, between two projections."""

    def __init__(self, latent: int, config: SplitQuantiserConfig, books: int) -> None:
        super().__init__()
        self.input = nn.Linear(latent, config.projected, bias=False)
        self.output = nn.Linear(config.projected, latent, bias=False)
        self.books = nn.ModuleList(Codebook(config.entries, config.projected) for _ in range(books))

    def encode(self, u: Tensor) -> Tensor:
        """(N, P) -> (N, K)."""
        codes, rest = [], u
        for book in self.books:
            found = book.nearest(rest)
            codes.append(found)
            rest = rest - book.entries[found]
        return torch.stack(codes, 1)

    def sums(self, codes: Tensor) -> Tensor:
        """(N, k) -> (N, P)."""
        return sum(book.entries[codes[:, i]] for i, book in zip(range(codes.shape[1]), self.books, strict=False))

    def train_step(self, u: Tensor, depth: Tensor, step: int) -> tuple[Tensor, Tensor, int]:
        """Quantise u (N, P) with the first `depth` (N,) books, straight through; commitment loss, entries replaced."""
        rest, quantised, lost, dead = u.detach(), torch.zeros_like(u), u.new_zeros(()), 0
        for i, book in enumerate(self.books):
            used = depth > i
            if not used.any():
                break
            if not book.started:
                book.start(rest[used])
                # The next one starts in a later step, on what this one leaves when it has settled a little.
                depth = depth.clamp_max(i + 1)
            found = book.nearest(rest)
            chosen = book.entries[found] * used[:, None]
            dead += book.learn(rest[used], found[used], step % CHECK_EVERY == 0)
            quantised = quantised + chosen
            lost = lost + ((u - quantised).square().mean(1) * used).mean()
            rest = rest - chosen
        return u + (quantised - u).detach(), lost / len(self.books), dead


class SplitQuantiser(nn.Module):
    """1 + (K - 1) codebooks. `first` is the semantic one."""

    def __init__(self, latent: int, config: SplitQuantiserConfig) -> None:
        super().__init__()
        self.config = config
        self.first = Residual(latent, config, 1)
        self.rest = Residual(latent, config, config.books - 1)

    def project(self, e: Tensor) -> Tensor:
        """e (B, C, F) -> [u1; u2] (B, 2P, F), the continuous latent before any discretisation."""
        e = e.transpose(1, 2)
        return torch.cat((self.first.input(e), self.rest.input(e)), dim=2).transpose(1, 2)

    def unproject(self, u: Tensor) -> Tensor:
        """[u1; u2] (B, 2P, F) -> z (B, C, F)."""
        one, two = u.transpose(1, 2).chunk(2, dim=2)
        return (self.first.output(one) + self.rest.output(two)).transpose(1, 2)

    def encode(self, e: Tensor) -> Tensor:
        """e (B, C, F) -> codes (B, K, F)."""
        one, two = self.project(e).transpose(1, 2).flatten(0, 1).chunk(2, dim=1)
        codes = torch.cat((self.first.encode(one), self.rest.encode(two)), dim=1)
        return codes.unflatten(0, (e.shape[0], -1)).transpose(1, 2)

    def decode(self, codes: Tensor) -> Tensor:
        """codes (B, k, F), k <= K -> z (B, C, F)."""
        flat = codes.transpose(1, 2).flatten(0, 1)
        z = self.first.output(self.first.sums(flat[:, :1]))
        if flat.shape[1] > 1:
            z = z + self.rest.output(self.rest.sums(flat[:, 1:]))
        return z.unflatten(0, (codes.shape[0], -1)).transpose(1, 2)

    def train_step(self, e: Tensor, whole: Tensor, depth: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor, int]:
        """For training: e (B, C, F) -> z (B, C, F), u1 quantised (B, F, P), commitment loss, entries replaced.

        Args:
            whole: (B,) bool, items that skip the discretisation. depth: (B,) books used by the others, 1 to K.
        """
        B, _, frames = e.shape
        u = self.project(e).float()
        one, two = u.transpose(1, 2).flatten(0, 1).chunk(2, dim=1)
        each = depth.repeat_interleave(frames)
        q1, lost1, dead1 = self.first.train_step(one, each.clamp_max(1), step)
        q2, lost2, dead2 = self.rest.train_step(two, each - 1, step)
        skipped = whole.repeat_interleave(frames)[:, None]
        mixed = torch.cat((torch.where(skipped, one, q1), torch.where(skipped, two, q2)), dim=1)
        z = self.unproject(mixed.unflatten(0, (B, frames)).transpose(1, 2))
        return z, q1.unflatten(0, (B, frames)), lost1 + lost2, dead1 + dead2


def usage(codes: Tensor, entries: int) -> Tensor:
    """Entropy of each book's codes as a share of log V, (K,): 1 when all are used alike. codes: (N, K)."""
    shares = torch.stack([torch.bincount(book, minlength=entries).float() for book in codes.T]) / len(codes)
    return -(shares * shares.clamp_min(1e-12).log()).sum(1) / torch.tensor(float(entries)).log()
