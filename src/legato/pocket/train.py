"""Train one pocket listener: a decoder (by LoRA, or all of its layers) together with its projector.

A run is a loop that can be killed at any step: checkpoints hold weights, optimiser and step, and the data order
follows from the seed, so a resumed run sees what the whole run would have seen.

Objective: cross-entropy of the answer tokens, plus `slot_weight` times that of answer token i predicted at slot i;
in a part `tail_only` of the rows the answering positions may not see the question (see `prompt`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.optim import Journal, Masters, checkpoint, cosine
from legato.pocket.augment import Perturbed
from legato.pocket.examples import Example, collate
from legato.transformer import Transformer

LOG_EVERY = 50  # steps
LISTS = 32  # clips a step that are only spelt
RIVALS = 2000  # tokens that compete in a step's spelling beside those said


@dataclass(frozen=True)
class TrainConfig:
    """How long, how fast, and how much the tail weighs."""

    steps: int
    learning_rate: float
    projector_rate: float = 1e-3
    warmup: int = 100
    tail_only: float = 0.5
    slot_weight: float = 0.3
    hearing_weight: float = 0.3
    weight_decay: float = 0.0
    perturb: bool = False  # hear another utterance each time (`augment`)
    seed: int = 0


def losses(model: Transformer, projector: nn.Module, examples: list[Example], features: Mapping[str, Tensor],
           tail_only: list[bool], said: Mapping[str, Sequence[int]] | None = None, also: Sequence[str] = (),
           rivals: Sequence[int] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Answer, slot and spelling loss of one batch, means over tokens; the last is 0 where nothing is spelt.

    Args:
        projector: a `Hearing` where `said` is given.
        said: see `train`. also: clips that are only spelt. rivals: see `Spelling.loss`.
    """
    batch = collate(examples, features, tail_only)
    states = model(batch.embed(model, projector), mask=batch.mask)
    hearing = states.new_zeros(())
    clips = [*(examples[b].audio for b, _, _ in batch.audio), *also]
    if said is not None and clips:
        given = [*(heard for _, _, heard in batch.audio), *(features[clip] for clip in also)]
        hearing = projector.loss(given, [said[clip] for clip in clips], rivals)
    answer = F.cross_entropy(model.logits(states[batch.answer_rows]).float(), batch.answer_ids)
    slots = F.cross_entropy(model.logits(states[batch.slot_rows]).float(), batch.slot_ids)
    return answer, slots, hearing


def train(
    model: Transformer, projector: nn.Module, groups: list[tuple[list[nn.Parameter], float]],
    data: Callable[[int], Iterator[list[Example]]], features: Mapping[str, Tensor], config: TrainConfig, folder: Path,
    evaluate: Callable[[int], dict[str, Any]] | None = None, every: int = 500,
    said: Mapping[str, Sequence[int]] | None = None, lists: Sequence[str] = (),
) -> None:
    """Run to `config.steps`, resuming from `folder/state.pt` when it is there. Prints each line of `folder/log.jsonl`.

    Args:
        groups: trainable parameters with their peak learning rates.
        data: step -> iterator over batches from that step on.
        evaluate: called with the step before each checkpoint; its result goes into the log.
        every: steps between checkpoints.
        said: the audible ids of each clip; the projector, a `Hearing`, is kept spelling what it hears.
        lists: clips without an answer; every step spells some of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    masters = Masters(groups, config.weight_decay)
    step, state = 0, folder / "state.pt"
    if state.exists():
        saved = torch.load(state, weights_only=True)
        masters.load(saved["masters"])
        step = saved["step"]
    journal = Journal(folder / "log.jsonl", step)
    stream = data(step)
    while step < config.steps:
        examples = next(stream)
        rng = random.Random(f"{config.seed}:{step}")
        tail_only = [rng.random() < config.tail_only for _ in examples]
        heard = Perturbed(features, random.Random(f"{config.seed}:{step}:heard")) if config.perturb else features
        also = rng.sample(lists, min(LISTS, len(lists)))
        words = 0 if said is None else len(projector.spelling.ids)
        rivals = rng.sample(range(words), min(RIVALS, words))
        answer, slots, hearing = losses(model, projector, examples, heard, tail_only, said, also, rivals)
        (answer + config.slot_weight * slots + config.hearing_weight * hearing).backward()
        norm = masters.step(cosine(step, config.steps, config.warmup))
        journal.note(len(examples), answer=answer.item(), slots=slots.item(), hearing=hearing.item(), norm=norm)
        step += 1
        due = step % every == 0 or step == config.steps
        if due or step % LOG_EVERY == 0:
            line = journal.line(step)
            if due and evaluate is not None:
                line["evaluation"] = evaluate(step)
            journal.write(line)
            print(json.dumps(line), flush=True)
        if due:
            checkpoint(state, {"masters": masters.state(), "step": step})


@torch.no_grad()
def key_accuracy(model: Transformer, projector: nn.Module, examples: list[Example], features: Mapping[str, Tensor], *,
                 tail_only: bool = False, tail_hidden: bool = False, batch: int = 32) -> dict[str, tuple[int, int]]:
    """Greedy key accuracy, as (right, n), in all and by domain and by whether the fact was ever trained."""
    order = sorted(examples, key=lambda e: len(e.question) + len(e.answer))
    counts: dict[str, list[int]] = {}
    for at in range(0, len(order), batch):
        part = order[at : at + batch]
        b = collate(part, features, [tail_only] * len(part), [tail_hidden] * len(part))
        states = model(b.embed(model, projector), mask=b.mask)
        wrong = (model.logits(states[b.answer_rows]).argmax(-1) != b.answer_ids) & b.key
        missed = set(b.owner[wrong].tolist())
        for i, e in enumerate(part):
            for name in ("all", e.row.domain, f"{e.row.domain}/{'held' if e.row.fact_held else 'seen'}"):
                tally = counts.setdefault(name, [0, 0])
                tally[0] += i not in missed
                tally[1] += 1
    return {name: (right, n) for name, (right, n) in sorted(counts.items())}
