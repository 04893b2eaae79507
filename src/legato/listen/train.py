"""Train the residual through the frozen small decoder. Nothing else moves, and fingerprints before and after say so.

Labels are answers as token ids: the large model's own (distillation, no gold needed) or the reference ones. The
control is the same call with `control=True`: source and base are the small model's own cache and no large model is
seen, so its gain is what mere tuning gives.

Batches hold prompts of one length, so no padding ever stands in a memory.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from legato.errors import ArtifactError
from legato.listen.capture import Capture, Entry
from legato.listen.mapper import CacheMapper, unflatten
from legato.listen.objectives import PADDING, answer_logits, answer_loss, guard, pad
from legato.listen.replay import memories, reader
from legato.listen.residual import CacheResidual
from legato.optim import Journal, Masters, checkpoint, cosine
from legato.transformer import Transformer

LOG_EVERY = 50  # steps
SCALED_ON = 2000  # entries from which the residual's input scale is taken


@dataclass(frozen=True)
class ResidualTraining:
    """How long, how fast, and how much the guard weighs."""

    steps: int
    batch: int = 32
    learning_rate: float = 1e-3
    warmup: int = 50
    guard: float = 0.5
    weight_decay: float = 0.01
    seed: int = 0


def train_residual(
    residual: CacheResidual, mapper: CacheMapper | None, decoder: Transformer, last_id: int, capture: Capture,
    entries: Sequence[Entry], labels: Mapping[str, Sequence[int]], config: ResidualTraining, folder: Path, *,
    control: bool = False, every: int = 200, evaluate: Callable[[CacheResidual], dict[str, Any]] | None = None,
    report: Callable[[dict[str, Any]], None] = lambda line: None,
) -> None:
    """Run to `config.steps`, resuming from `folder/state.pt`: a resumed run ends bit for bit where a whole one does.

    Args:
        mapper: makes the base that is corrected; None, or for the control, the base is the small model's own memory.
        decoder: the frozen small model, which requires no gradient.
        last_id: the prompt's last token, which the decoder runs itself.
        labels: entry id -> answer ids, end mark included.
        every: steps between checkpoints.
        evaluate: called with the residual before each checkpoint; its dict goes into `folder/log.jsonl`.
        report: called with each line of that log.

    Raises: ArtifactError when the folder holds a run with other settings or data.
    """
    assert not any(p.requires_grad for p in decoder.parameters()), "the decoder is not frozen"
    guests = {"decoder": decoder} if mapper is None else {"decoder": decoder, "mapper": mapper}
    frozen = {name: fingerprint(guest) for name, guest in guests.items()}
    folder.mkdir(parents=True, exist_ok=True)
    state, settings = folder / "state.pt", frozen | _settings(residual, entries, labels, config, control)
    settle_scale(residual, capture, entries[:SCALED_ON], control)
    masters = Masters([(residual.parameters(), config.learning_rate)], config.weight_decay)
    step = 0
    if state.exists():
        saved = torch.load(state, weights_only=True)
        _require_same(folder, saved["settings"], settings)
        masters.load(saved["masters"])
        step = saved["step"]
    stream = by_length(entries, config.batch, random.Random(config.seed))
    for _ in range(step):
        next(stream)
    journal = Journal(folder / "log.jsonl", step)
    while step < config.steps:
        batch = next(stream)
        answers = pad([labels[e.id] for e in batch])
        given = memories(residual, mapper, capture, batch, control, decoder.dtype)
        logits = answer_logits(decoder, *given, last_id, answers)
        loss = answer_loss(logits, answers)
        keep = logits.new_zeros(())
        if config.guard:
            agreed = torch.tensor([tuple(e.own) == tuple(labels[e.id]) for e in batch])
            keep = kept(logits, decoder, last_id, capture, batch, answers, agreed)
        (loss + config.guard * keep).backward()
        masters.step(cosine(step, config.steps, config.warmup))
        journal.note(len(batch), loss=loss.item(), guard=keep.item())
        step += 1
        due = step % every == 0 or step == config.steps
        if due or step % LOG_EVERY == 0:
            line = journal.line(step)
            if due and evaluate is not None:
                line["evaluation"] = evaluate(residual)
            journal.write(line)
            report(line)
        if due:
            checkpoint(state, {"masters": masters.state(), "step": step, "settings": settings})
    assert frozen == {name: fingerprint(guest) for name, guest in guests.items()}, "something frozen moved"


def kept(logits: Tensor, decoder: Transformer, last_id: int, capture: Capture, batch: Sequence[Entry],
         answers: Tensor, agreed: Tensor) -> Tensor:
    """The guard over the questions of a batch that the small model answers by itself as it should; `agreed` (B,) bool.

    logits (N, V) of answers (B, A), as from `answer_logits`.
    """
    if not agreed.any():
        return logits.new_zeros(())
    mine = torch.stack([capture.small(e) for e, same in zip(batch, agreed.tolist(), strict=True) if same])
    with torch.no_grad():
        own = unflatten(mine.to(decoder.dtype), decoder.config.geometry)
        native = answer_logits(decoder, *own, last_id, answers[agreed])
    rows = agreed[:, None].expand_as(answers)[answers != PADDING]
    return guard(logits[rows], native)


def by_length(entries: Sequence[Entry], batch: int, rng: random.Random) -> Iterator[list[Entry]]:
    """Endless batches of entries of one length; within an epoch every entry comes once."""
    buckets: dict[int, list[Entry]] = {}
    for e in entries:
        buckets.setdefault(e.length, []).append(e)
    while True:
        groups = []
        for bucket in buckets.values():
            order = rng.sample(bucket, len(bucket))
            groups += [order[i : i + batch] for i in range(0, len(order), batch)]
        rng.shuffle(groups)
        yield from groups


@torch.no_grad()
def settle_scale(residual: CacheResidual, capture: Capture, entries: Sequence[Entry], control: bool) -> None:
    """Set the residual's input mean (per position) and deviation (per part and feature) from captured rows."""
    c = residual.config.map
    read = reader(capture, c, control)
    total, squares = (torch.zeros(residual.mean.shape, dtype=torch.float64) for _ in range(2))
    count = torch.zeros(1 + c.tail, 1, 1)
    for e in entries:
        x, rows = read(e)[c.header :].double(), c.rows(e.question)
        total.index_add_(0, rows, x)
        squares.index_add_(0, rows, x.square())
        count.index_add_(0, rows, torch.ones(len(rows), 1, 1))
    mean = total / count
    variance = squares / count - mean.square()
    residual.mean.copy_(mean)
    parts = torch.stack((variance[0], variance[1:].mean(0)))
    residual.deviation.copy_(parts.clamp_min(1e-6).sqrt())


def fingerprint(module: nn.Module) -> str:
    """SHA-256 over the names and bytes of everything that a module holds."""
    total = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        total.update(name.encode())
        total.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy())
    return total.hexdigest()


def _settings(
    residual: CacheResidual, entries: Sequence[Entry], labels: Mapping[str, Sequence[int]], config: ResidualTraining,
    control: bool,
) -> dict[str, Any]:
    """What must be the same for a run to be resumed; `steps` may be raised."""
    data = json.dumps([[e.id, list(labels[e.id])] for e in entries])
    how = {key: value for key, value in asdict(config).items() if key != "steps"}
    return {**how, "control": control, "rank": residual.config.rank, "reads": str(residual.config.map.reads),
            "data": hashlib.sha256(data.encode()).hexdigest()}


def _require_same(folder: Path, saved: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        if saved[key] != value:
            raise ArtifactError(f"{folder} holds a training with {key} {saved[key]}, not {value}; choose a new folder.")
