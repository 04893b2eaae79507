"""Fit the mapper on paired caches: one pass of sums, then every choice is a solve.

Two targets for the tail, measured against each other: *own* is the small model's tail on the same question (which
teaches its own ignorance), *told* is its tail after it was told the large model's answer in words. The question part
always aims at the small model's own cache, and the header is copied.

What a map explains of its rows is not what it lets the small model say: `choose` asks both.

Shapes: T tokens, L layers, F and G numbers per token and layer (source, target).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from statistics import fmean

import torch
from torch import Tensor
from tqdm import tqdm

from legato.cache import Geometry
from legato.errors import BadInput
from legato.listen.capture import Capture, Entry
from legato.listen.mapper import PARTS, CacheMapper, MapConfig
from legato.listen.ridge import RidgeFit, RidgeSums, solve

TARGETS = ("own", "told")
QUESTIONS_AT_ONCE = 128  # a few thousand rows


@dataclass(frozen=True)
class PairSums:
    """Sums over paired caches for both parts of a prompt. Tail outputs: the own tail's, then the told tail's."""

    question: RidgeSums
    tail: RidgeSums
    header: Tensor  # (header, L, G): the small model's constant header
    layers: tuple[int, ...]  # of the large model, that were summed

    @classmethod
    def gather(
        cls,
        capture: Capture,
        entries: Iterable[Entry],
        progress: str | None = None,
        layers: Collection[int] | None = None,
    ) -> PairSums:
        """One pass over `entries`, a few thousand rows at a time; `progress` names the bar, if one is wanted.

        Its work grows with the square of how many `layers` are summed; all that were captured by default.

        Questions that were read as words stand where no audio ever will: they count for the tail, and for the
        question only if none was heard.

        Raises: BadInput when there are no entries.
        """
        entries = list(entries)
        if not entries:
            raise BadInput(f"there is no question of {capture.folder} to sum over; capture more.")
        header, tail = capture.config["header"], capture.config["tail"]
        kept = [layer for layer in capture.layers if layers is None or layer in layers]
        columns = [capture.layers.index(layer) for layer in kept]
        source, target = len(kept) * capture.config["large"][1], prod(capture.config["small"])
        question = RidgeSums.empty(source, target)
        tails = RidgeSums.empty(source, 2 * target, classes=tail)
        any_heard = any(e.heard for e in entries)
        bar = tqdm(total=len(entries), desc=progress, disable=progress is None, unit="question")
        for at in range(0, len(entries), QUESTIONS_AT_ONCE):
            some = entries[at : at + QUESTIONS_AT_ONCE]
            words, ends = [], []
            for e in some:
                x, y, end = capture.large(e)[:, columns].flatten(1), capture.small(e).flatten(1), header + e.question
                if e.heard or not any_heard:
                    words.append((x[header:end], y[header:end]))
                ends.append((x[end:], torch.cat((y[end:], capture.told(e).flatten(1)), dim=1)))
            if words:
                question.add(*(torch.cat(rows) for rows in zip(*words, strict=True)))
            positions = torch.arange(tail).repeat(len(ends))
            tails.add(*(torch.cat(rows) for rows in zip(*ends, strict=True)), positions)
            bar.update(len(some))
        bar.close()
        return cls(question, tails, capture.small(entries[0])[:header], tuple(kept))


@dataclass(frozen=True)
class FitReport:
    """What a fit explains on held rows: R2 per target layer for keys and values, in each part."""

    lam: float
    target: str
    r2: dict[str, list[tuple[float, float]]]  # part -> per target layer (keys, values)

    @property
    def mean(self) -> float:
        """Mean R2 over parts, layers, keys and values."""
        return fmean(value for layers in self.r2.values() for both in layers for value in both)


def fit(capture: Capture, train: PairSums, held: PairSums, reads: tuple[tuple[int, ...], ...], *, lam: float,
        target: str, source: Geometry, small: Geometry) -> tuple[CacheMapper, FitReport]:
    """Solve every layer of one mapper.

    Args:
        reads: for each target layer the large model's layers it reads; all must have been captured.
        lam: ridge strength relative to the mean input variance, > 0.
        target: "own" or "told", for the tail.
        source, small: geometries of the two models.

    Raises: BadInput for another target or strength or for layers that were not captured.
    """
    if target not in TARGETS:
        raise BadInput(f"target is {target}, but it must be one of {', '.join(TARGETS)}.")
    if not lam > 0:
        raise BadInput(f"lambda is {lam}, but it must be above 0.")
    config = MapConfig(source, small, reads, capture.config["header"], capture.config["tail"])
    missing = set(config.used) - set(train.layers)
    if missing:
        raise BadInput(
            f"layers {sorted(missing)} of the large model were not captured; captured are {list(train.layers)}."
        )
    mapper = CacheMapper(config)
    mapper.header.copy_(train.header)
    F, G = capture.config["large"][1], capture.config["small"][1]
    at = {layer: torch.arange(i * F, (i + 1) * F) for i, layer in enumerate(train.layers)}
    readers: dict[tuple[int, ...], list[int]] = {}
    for layer, layers in enumerate(reads):
        readers.setdefault(layers, []).append(layer)
    r2: dict[str, list[tuple[float, float]]] = {part: [(0.0, 0.0)] * small.layers for part in PARTS}
    for part, rows in zip(PARTS, (slice(0, 1), slice(1, None)), strict=True):
        sums, unseen = (getattr(s, part) for s in (train, held))
        first = small.layers if part == "tail" and target == "told" else 0
        used = torch.cat([at[s] for s in config.used])
        mapper.source_mean[rows] = sums.means()[0][:, used].unflatten(1, (-1, F)).float()
        for layers, targets in readers.items():  # layers that read the same share one factorisation
            inputs = torch.cat([at[s] for s in layers])
            outputs = torch.cat([torch.arange((first + t) * G, (first + t + 1) * G) for t in targets])
            found = solve(sums.part(inputs, outputs), lam)
            explained = _explained(found, unseen.part(inputs, outputs), G // 2)
            for i, layer in enumerate(targets):
                getattr(mapper, f"{part}_{layer}").copy_(found.weight[:, i * G : (i + 1) * G])
                mapper.target_mean[rows, layer] = found.target_mean[:, i * G : (i + 1) * G].float()
                r2[part][layer] = (explained[2 * i], explained[2 * i + 1])
    return mapper, FitReport(lam, target, r2)


def _explained(found: RidgeFit, unseen: RidgeSums, width: int) -> list[float]:
    """R2 of each run of `width` outputs taken together: their errors summed against their variation summed."""
    error, variation = (t.unflatten(0, (-1, width)).sum(1) for t in (found.errors(unseen), unseen.variation()))
    return (1 - error / variation).tolist()


@dataclass(frozen=True)
class Trial:
    """One candidate of a choice; `score` is None where its rows already spoke against it."""

    reads: str
    lam: float
    r2: float  # mean over everything held out
    score: float | None


def choose(
    capture: Capture, train: PairSums, held: PairSums, reads: Mapping[str, tuple[tuple[int, ...], ...]],
    lams: Sequence[float], score: Callable[[CacheMapper], float], *, target: str, source: Geometry, small: Geometry,
    finalists: int = 3,
) -> tuple[CacheMapper, FitReport, list[Trial]]:
    """The best map over several readings and ridge strengths: held rows propose, generations decide.

    Of each reading, the `finalists` strengths that explain most of the held rows are scored; the best score wins, and
    among equals the one that explains more. Only one target at a time: R2 towards two targets cannot be compared.

    Args:
        reads: readings by name (see `fit`).
        score: a mapper -> how good the answers are that the small model gives on top of it; higher is better. To be
            asked about questions that were neither fitted on nor are any final's.

    Returns: the chosen mapper, its report, and every trial in the order in which it was made.
    """
    assert reads and lams and finalists > 0
    trials: list[Trial] = []
    best: tuple[float, float] | None = None
    for name, layers in reads.items():
        tried = [fit(capture, train, held, layers, lam=lam, target=target, source=source, small=small) for lam in lams]
        order = sorted(range(len(tried)), key=lambda i, tried=tried: -tried[i][1].mean)
        for rank, i in enumerate(order):
            mapper, report = tried[i]
            scored = score(mapper) if rank < finalists else None
            trials.append(Trial(name, report.lam, report.mean, scored))
            if scored is not None and (best is None or (scored, report.mean) > best):
                best, chosen = (scored, report.mean), (mapper, report)
    return *chosen, trials
