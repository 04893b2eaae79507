"""The transfer on the shipped pair, one step a function: capture, fit, train, diagnose. A killed step is resumed.

What is fitted here becomes an artifact in a folder of its own; serving it is another matter (freeze, final, preset).
Sweeps are in `recipes/transfer.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from legato import artifacts, runtime
from legato.assemble import hear, parts
from legato.corpora.rows import Row
from legato.errors import BadInput
from legato.listen import diagnose, replay, shelf
from legato.listen.batch import answers
from legato.listen.capture import TELL, Capture, Entry, Pair, capture, pair, read_entry, whole_lines
from legato.listen.fit import FitReport, PairSums, Trial, choose
from legato.listen.mapper import CacheMapper, MapConfig
from legato.listen.residual import CacheResidual, ResidualConfig
from legato.listen.train import ResidualTraining, fingerprint, train_residual
from legato.organs import Heard
from legato.pocket.examples import encode
from legato.pocket.listener import PocketListener
from legato.pocket.pair import KEPT, READ
from legato.pocket.prompt import END, START

LIMIT = 24  # answer tokens; the longest reference answer has fewer
BATCH = 32  # questions at a time
CHECKED = 256  # held questions by which a training is watched
READS = ("nearest", "late", "all")


def load_pair(preset: str = "pocket") -> tuple[PocketListener, PocketListener, dict[str, str]]:
    """The large and the small listener, and the hashes of what they were built from."""
    found = parts.stored(preset, "ear", "large", "small")
    chosen = runtime.choose("cpu").apply()
    large, small = parts.pair(preset, found, chosen.dtype)
    return large, small, {name: parts.weight_hash(part) for name, part in found.items()}


def capture_rows(
    folder: Path,
    rows: Sequence[Row],
    audio: Mapping[str, Path] | None,
    *,
    every_layer: bool = False,
    progress: bool = True,
) -> int:
    """Capture what both models remember of `rows`, spoken in `audio` (row id -> file) or, without it, read as words.

    every_layer: keep all of the large model's layers, as a diagnosis of it needs; else those that a map may read.
    Returns how many questions were new.
    """
    large, small, hashes = load_pair()
    about = {f"{name}_model": sha for name, sha in hashes.items()} | {"tell": TELL}
    done = {read_entry(line).id for line in whole_lines(folder / "index.jsonl")}
    due = [row for row in rows if row.id not in done]
    layers = tuple(range(large.geometry.layers)) if every_layer else READ
    with tqdm(total=len(rows), initial=len(rows) - len(due), disable=not progress, unit="question") as bar:
        return capture(_pairs(large, small, due, audio, bar), folder, layers, about)


def _pairs(
    large: PocketListener, small: PocketListener, rows: Sequence[Row], audio: Mapping[str, Path] | None, bar: tqdm
) -> Iterator[Pair]:
    for at in range(0, len(rows), BATCH):
        part = rows[at : at + BATCH]
        if audio is None:
            heard, own = ([model.read(row.question) for row in part] for model in (large, small))
        else:
            clips = [large.features(hear(audio[row.id])) for row in part]  # one ear serves both
            heard, own = large.hear(clips), small.hear(clips)
        for row, a, b, said, mine in zip(part, heard, own, _said(large, heard), _said(small, own), strict=True):
            yield pair(large, small, row.id, a, b, said, mine)
            bar.update()


def _said(model: PocketListener, heard: Sequence[Heard]) -> list[list[int]]:
    """Greedy answers to many memories, with the end mark where the model stopped by itself."""
    said = answers(model.model, [h.memory for h in heard], START, LIMIT, model.end_ids)
    return [[*ids, END] if len(ids) < LIMIT else ids for ids in said]


def split(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Entries to fit on, and one in twenty held out, by the hash that names the row."""
    held = [e for e in entries if int(e.id[:4], 16) % 20 == 0]
    return [e for e in entries if int(e.id[:4], 16) % 20], held


def reads(which: str) -> tuple[tuple[int, ...], ...]:
    """The large model's layers that each small layer reads: the one it was cut from, that and the late ones, or all."""
    return {
        "nearest": tuple((layer,) for layer in KEPT),
        "late": tuple(tuple(sorted({layer, *READ[-4:]})) for layer in KEPT),
        "all": (READ,) * len(KEPT),
    }[which]


@dataclass(frozen=True)
class Sums:
    """A capture summed once, for as many fits as are wanted: one question in twenty is held out."""

    source: Capture
    large: PocketListener
    small: PocketListener
    hashes: dict[str, str]
    train: PairSums
    unseen: PairSums
    held: list[Entry]
    questions: int  # fitted on

    @classmethod
    def gather(cls, captured: Path, which: Sequence[str], progress: bool = True) -> Sums:
        """One pass over a capture, for the readings `which` of `reads`.

        Raises: BadInput when nothing can be held out, or for another pair's capture.
        """
        source = Capture(captured)
        large, small, hashes = load_pair()
        _same_models(source, hashes)
        train, held = split(source.entries)
        if not held:
            raise BadInput(
                f"{captured} holds {len(source.entries)} questions, too few to hold any out; capture some hundreds."
            )
        layers = {layer for name in which for read in reads(name) for layer in read}
        sums = (PairSums.gather(source, part, "summing" if progress else None, layers) for part in (train, held))
        return cls(source, large, small, hashes, *sums, held, len(train))


def fit_mapper(
    captured: Path | Sums,
    out: Path,
    *,
    target: str = "told",
    which: Sequence[str] = ("nearest",),
    lams: Sequence[float] = (0.1,),
    int8: bool = False,
    progress: bool = True,
) -> tuple[artifacts.Manifest, FitReport, list[Trial]]:
    """Fit a mapper on a capture (or its sums) and save it.

    Of several readings or strengths the one is chosen on top of which the small model says most often what the large
    one said, over questions that were held out (`fit.choose`); the trials come back too.
    """
    sums = captured if isinstance(captured, Sums) else Sums.gather(captured, which, progress)
    large, small = sums.large, sums.small
    checked = sums.held[:CHECKED]

    def score(mapper: CacheMapper) -> float:
        replies = replay.said(
            small.model, sums.source, checked, None, mapper, last_id=START, end_ids=small.end_ids, max_tokens=LIMIT
        )
        return replay.agreement(replies, checked, small.end_ids)

    mapper, report, trials = choose(
        sums.source, sums.train, sums.unseen, {name: reads(name) for name in which}, lams, score, target=target,
        source=large.geometry, small=small.geometry,
    )
    chosen = next(name for name in which if reads(name) == mapper.config.reads)
    recipe = f"legato listen fit --target {target} --reads {chosen} --lam {report.lam:g}, {sums.questions} questions"
    return shelf.save_mapper(out, mapper, recipe=recipe, made_from=sums.hashes, int8=int8), report, trials


@dataclass(frozen=True)
class Training:
    """One residual to train."""

    rank: int | None = 16  # None: a full trained linear map
    questions: int | None = None  # the first so many of the capture; None: all
    control: bool = False  # source and base are the small model's own memory, and no large model is seen
    which: str = "nearest"
    only: frozenset[str] | None = None  # ids of the rows that may be trained on, say of one domain; None: all

    def chosen(self, captured: Capture) -> list[Entry]:
        """What is trained on. Raises: BadInput when that is nothing."""
        fit_on, _ = split(captured.entries)
        if self.only is not None:
            fit_on = [e for e in fit_on if e.id.split(".")[0] in self.only]
        if not fit_on:
            raise BadInput(f"{captured.folder} holds none of the questions to train on; give the rows it was made of.")
        return fit_on[: self.questions]


def train(
    captured: Path,
    out: Path,
    mapper: Path | None,
    training: Training,
    how: ResidualTraining,
    gold: Sequence[Row] | None = None,
    *,
    int8: bool = False,
    tell: Callable[[str], None] = print,
) -> artifacts.Manifest:
    """Train a residual (or a control) through the frozen small model and save it.

    Args:
        mapper: folder of the mapper that it corrects; None for a control, and only then.
        gold: rows whose reference answers are trained on, instead of the large model's own answers.
        tell: told how the training stands, a line a check.
    """
    if training.control != (mapper is None):
        raise BadInput("a residual corrects a mapper and a control has none: give either --mapper or --control.")
    stored = None if mapper is None else artifacts.load(mapper)
    fitted = None if stored is None else shelf.load_mapper(stored)
    source = Capture(captured)
    large, small, hashes = load_pair()
    _same_models(source, hashes)
    made_from = dict(hashes)
    if stored is not None:
        made_from["mapper"] = parts.weight_hash(stored)
    fit_on, (_, held) = training.chosen(source), split(source.entries)
    labels = {e.id: e.answer for e in fit_on} if gold is None else _references(fit_on, gold, small)
    torch.manual_seed(how.seed)
    residual = CacheResidual(ResidualConfig(_layout(source, large, small, training), training.rank))
    made_from["decoder before and after"] = fingerprint(small.model)  # training asserts that it did not move

    def evaluate(now: CacheResidual) -> dict[str, Any]:
        checked = held[:CHECKED]
        if not checked:
            return {"agreement": None}  # a capture too small to hold any question out
        replies = replay.said(
            small.model, source, checked, now, fitted, last_id=START, end_ids=small.end_ids, max_tokens=LIMIT,
            control=training.control,
        )
        agreed = replay.agreement(replies, checked, small.end_ids)
        tell(f"says what the large model says: {agreed:.1%} of {len(checked)} held questions")
        return {"agreement": round(agreed, 4)}

    train_residual(
        residual,
        fitted,
        small.model,
        START,
        source,
        fit_on,
        labels,
        how,
        out,
        control=training.control,
        evaluate=evaluate,
    )
    kind = "control" if training.control else "residual"
    rank = "full" if training.rank is None else training.rank
    recipe = f"legato listen train, {kind} of rank {rank}, {len(fit_on)} questions, {how.steps} steps"
    return shelf.save_residual(out, residual, recipe=recipe, made_from=made_from, int8=int8)


def _references(entries: Sequence[Entry], rows: Sequence[Row], small: PocketListener) -> dict[str, tuple[int, ...]]:
    """The reference answer of each entry as token ids. Entries are named by their row, with or without a take."""
    known = {row.id: row for row in rows}
    if missing := [e.id for e in entries if e.id.split(".")[0] not in known]:
        raise BadInput(f"the rows hold no answer to captured question {missing[0]}; give the rows that were captured.")
    return {e.id: encode(known[e.id.split(".")[0]], small.tokenizer).answer for e in entries}


def _layout(source: Capture, large: PocketListener, small: PocketListener, training: Training) -> MapConfig:
    header, tail, own = source.config["header"], source.config["tail"], small.geometry
    if training.control:
        layers = (
            tuple((i,) for i in range(own.layers))
            if training.which == "nearest"
            else (tuple(range(own.layers)),) * own.layers
        )
        return MapConfig(own, own, layers, header, tail)
    return MapConfig(large.geometry, own, reads(training.which), header, tail)


def _same_models(source: Capture, hashes: Mapping[str, str]) -> None:
    for name, sha in hashes.items():
        if (then := source.config.get(f"{name}_model")) != sha:
            raise BadInput(f"{source.folder} was captured with another {name} ({then}, now {sha}); capture anew.")


def diagnose_pair(captured: Path, limit: int, plot: Path | None) -> dict[str, Any]:
    """Where each model holds its answer and where it looks for it; needs a capture of the large model's every layer."""
    source = Capture(captured)
    large, small, hashes = load_pair()
    _same_models(source, hashes)
    chosen = source.entries[:limit]
    views, probes = {}, {}
    for model in (large, small):
        views[model.name] = diagnose.hidden(model.model, source, model.name, chosen, START)
        labels = {e.id: diagnose.said(e, model.name)[0] for e in chosen}
        probes[model.name] = diagnose.probe(source, model.name, chosen, labels, model.model.embedding.weight.detach())
    if plot is not None:
        diagnose.plot(probes, views, plot)
    last = {name: round(float(found.accuracy[:, -1].max()), 4) for name, found in probes.items()}
    return {
        "questions": len(chosen),
        "views": views,
        "probe_at_last_position": last,
        "told_oracle": diagnose.oracle(small.model, source, chosen, START),
    }


def curve(folder: Path) -> list[dict[str, Any]]:
    """The log of a training, a dict a line."""
    return [json.loads(line) for line in whole_lines(folder / "log.jsonl")]
