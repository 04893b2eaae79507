"""Training the residual: it learns, nothing else moves, a kill costs nothing, the control sees no large model."""

import json
import random
import shutil
import statistics

import numpy as np
import pytest
import torch

from legato.errors import ArtifactError
from legato.listen import train as training
from legato.listen.capture import Capture, capture
from legato.listen.mapper import CacheMapper, MapConfig, nearest
from legato.listen.residual import CacheResidual, ResidualConfig
from legato.listen.train import ResidualTraining, by_length, fingerprint, kept, settle_scale, train_residual
from legato.pocket.prompt import END, HEADER, START, TAIL

SHORT = ResidualTraining(steps=8, batch=4, learning_rate=0.01, warmup=2)


@pytest.fixture(scope="module")
def mapper(pair):
    large, small = pair
    reads = nearest(large.geometry, small.geometry)
    mapper = CacheMapper(MapConfig(large.geometry, small.geometry, reads, len(HEADER), len(TAIL)))
    draw = torch.Generator().manual_seed(6)
    for buffer in mapper.buffers():
        buffer.copy_(0.3 * torch.randn(buffer.shape, generator=draw))
    return mapper


def fresh(pair, rank=4, control=False, seed=0) -> CacheResidual:
    large, small = pair
    source = small.geometry if control else large.geometry
    torch.manual_seed(seed)
    config = MapConfig(source, small.geometry, nearest(source, small.geometry), len(HEADER), len(TAIL))
    return CacheResidual(ResidualConfig(config, rank))


@pytest.fixture
def run(pair, mapper, captured, tmp_path):
    """Train on the tiny pair; whatever is given replaces the usual."""

    def run(folder="run", residual=None, control=False, **changes):
        residual = residual or fresh(pair, control=control)
        given = {"mapper": None if control else mapper, "capture": captured, "entries": captured.entries,
                 "config": SHORT, "every": 3, **changes}
        labels = given.pop("labels", {e.id: e.answer for e in captured.entries})
        train_residual(residual, given.pop("mapper"), pair[1].model, START, given.pop("capture"), given.pop("entries"),
                       labels, given.pop("config"), tmp_path / folder, control=control, **given)
        return residual, [json.loads(line) for line in (tmp_path / folder / "log.jsonl").read_text().splitlines()]

    return run


def test_a_planted_answer_is_learnt_and_nothing_frozen_moves(pair, mapper, captured, run):
    """One token or another, by whether a number in the large model's tail is above its median."""
    number = {e.id: float(captured.large(e)[-1, 2, 5]) for e in captured.entries}
    middle = statistics.median(number.values())
    labels = {id_: (100 if value > middle else 200, END) for id_, value in number.items()}
    assert sum(answer[0] == 100 for answer in labels.values()) == len(labels) // 2
    before = fingerprint(pair[1].model), fingerprint(mapper)
    config = ResidualTraining(steps=40, batch=8, learning_rate=0.05, warmup=5)
    _, log = run(labels=labels, config=config, every=10)
    assert log[0]["loss"] > 6 and log[-1]["step"] == 40 and log[-1]["loss"] < 0.5 * log[0]["loss"]
    assert (fingerprint(pair[1].model), fingerprint(mapper)) == before
    assert all(p.grad is None for p in pair[1].model.parameters())


@pytest.mark.parametrize("control", (False, True))
@pytest.mark.parametrize("died_at", (2, 3, 5, 6))
def test_a_killed_run_ends_bit_for_bit_where_a_whole_one_does(pair, run, tmp_path, monkeypatch, control, died_at):
    whole, wanted = run("whole", control=control)
    steps = iter(range(1, 100))
    step = training.Masters.step

    def dying(self, scale):
        if next(steps) > died_at:
            raise KeyboardInterrupt
        return step(self, scale)

    monkeypatch.setattr(training.Masters, "step", dying)
    with pytest.raises(KeyboardInterrupt):
        run("killed", control=control)
    monkeypatch.undo()
    assert (tmp_path / "killed/state.pt").exists() == (died_at >= 3)
    resumed, log = run("killed", fresh(pair, control=control, seed=99), control) if died_at >= 3 else run(
        "killed", control=control)
    assert fingerprint(resumed) == fingerprint(whole)
    timeless = [[{k: v for k, v in line.items() if k != "examples_per_s"} for line in lines] for lines in (log, wanted)]
    assert timeless[0] == timeless[1]


def test_a_finished_run_is_left_as_it_is(pair, run, tmp_path):
    whole, log = run("run")
    state = (tmp_path / "run/state.pt").read_bytes()
    again, same_log = run("run", fresh(pair, seed=99))
    assert fingerprint(again) == fingerprint(whole) and log == same_log
    assert (tmp_path / "run/state.pt").read_bytes() == state


def test_a_folder_with_another_training_is_refused(pair, mapper, captured, run):
    run()
    moved = CacheMapper(mapper.config)
    other = {e.id: (7, END) for e in captured.entries}
    for changes, message in (
        ({"residual": fresh(pair, rank=2)}, "holds a training with rank 4, not 2; choose a new folder"),
        ({"config": ResidualTraining(steps=8, batch=4, learning_rate=0.1, warmup=2)}, "learning_rate 0.01, not 0.1"),
        ({"control": True}, "control False, not True"),
        ({"labels": other}, "with data"),
        ({"entries": captured.entries[1:]}, "with data"),
        ({"mapper": moved}, f"with mapper {fingerprint(mapper)}, not {fingerprint(moved)}"),
    ):
        with pytest.raises(ArtifactError, match=message):
            run(**changes)
    longer = ResidualTraining(steps=10, batch=4, learning_rate=0.01, warmup=2)
    assert run(config=longer)[1][-1]["step"] == 10  # more steps are no other training


def test_the_control_never_reads_the_large_model(pair, captured, run, tmp_path):
    """Its numbers are poisoned; the control trains to the same weights, and a real residual notices at once."""
    clean, _ = run("clean", control=True)
    shutil.copytree(captured.folder, tmp_path / "poisoned")
    numbers = np.memmap(tmp_path / "poisoned/large.f16", np.float16, "r+")
    numbers[:] = np.nan
    numbers.flush()
    poisoned = Capture(tmp_path / "poisoned")
    again, log = run("control", control=True, capture=poisoned)
    assert fingerprint(again) == fingerprint(clean)
    assert all(np.isfinite(line["loss"]) for line in log)
    residual, _ = run("transfer", capture=poisoned)
    assert any(p.isnan().any() for p in residual.parameters())


def test_the_journal_and_the_checks(pair, run, monkeypatch):
    monkeypatch.setattr(training, "LOG_EVERY", 2)
    seen, told = [], []
    residual = fresh(pair)
    _, log = run(residual=residual, evaluate=lambda now: seen.append(now) or {"n": len(seen)}, report=told.append)
    assert [line["step"] for line in log] == [2, 3, 4, 6, 8]
    assert [line.get("evaluation") for line in log] == [None, {"n": 1}, None, {"n": 2}, {"n": 3}]
    assert told == log and all(one is residual for one in seen)
    assert set(log[0]) == {"step", "loss", "guard", "examples_per_s"}


def test_the_guard_watches_what_the_small_model_knew(pair, captured, run):
    own = {e.id: e.own for e in captured.entries}
    assert run("a", labels=own)[1][-1]["guard"] > 0
    none = {e.id: (3333, END) for e in captured.entries}
    assert run("b", labels=none)[1][-1]["guard"] == 0
    config = ResidualTraining(steps=8, batch=4, learning_rate=0.01, warmup=2, guard=0)
    assert run("c", labels=own, config=config)[1][-1]["guard"] == 0


def test_the_guard_is_zero_on_the_native_memory(pair, captured):
    """And is taken over exactly those questions that the small model answers as it should."""
    small = pair[1]
    batch = [e for e in captured.entries if e.question == 3]
    answers = training.pad([e.own for e in batch])
    own = training.unflatten(torch.stack([captured.small(e) for e in batch]), small.geometry)
    logits = training.answer_logits(small.model, *own, START, answers)
    agreed = torch.arange(len(batch)) % 2 == 0
    assert kept(logits, small.model, START, captured, batch, answers, agreed).abs() < 1e-5
    away = logits + torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
    rows = torch.cat([torch.full((len(e.own),), bool(a)) for e, a in zip(batch, agreed, strict=True)])
    mixed = torch.where(rows[:, None], logits, away)
    assert kept(mixed, small.model, START, captured, batch, answers, agreed).abs() < 1e-5
    assert kept(mixed, small.model, START, captured, batch, answers, ~agreed) > 0.1
    assert kept(away, small.model, START, captured, batch, answers, torch.zeros(len(batch), dtype=torch.bool)) == 0


def test_batches_are_of_one_length_and_an_epoch_has_everyone_once(captured):
    stream = by_length(captured.entries, 5, random.Random(0))
    for _ in range(2):
        epoch = [next(stream) for _ in range(6)]  # 8 entries of each of three lengths: 5 + 3 each
        assert sorted(e.id for batch in epoch for e in batch) == sorted(e.id for e in captured.entries)
        assert all(len({e.length for e in batch}) == 1 and len(batch) <= 5 for batch in epoch)


@pytest.mark.parametrize("control", (False, True))
def test_scaled_inputs_have_no_mean_and_unit_size(planted, tmp_path, control):
    world = planted()
    found = world.capture(tmp_path, 30)
    source = world.target if control else world.source
    reads = ((0,), (1,), (2,)) if control else world.reads
    residual = CacheResidual(ResidualConfig(MapConfig(source, world.target, reads, 2, 3), 2))
    settle_scale(residual, found, found.entries, control)
    used = list(residual.config.map.used)
    x = [(found.small(e) if control else found.large(e))[2:, used] for e in found.entries]
    question = torch.cat([rows[: e.question] for rows, e in zip(x, found.entries, strict=True)])
    tail = torch.stack([rows[e.question :] for rows, e in zip(x, found.entries, strict=True)])  # (30, 3, used, F)
    close = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(residual.mean[0], question.mean(0), **close)
    torch.testing.assert_close(residual.mean[1:], tail.mean(0), **close)
    torch.testing.assert_close(residual.deviation[0], question.std(0, correction=0), **close)
    scaled = (tail - residual.mean[1:]) / residual.deviation[1]
    torch.testing.assert_close(scaled.square().mean((0, 1)), torch.ones_like(scaled[0, 0]), **close)


def test_fingerprints_tell_any_change(pair):
    residual = fresh(pair)
    before = fingerprint(residual)
    assert before == fingerprint(fresh(pair)) and before != fingerprint(fresh(pair, seed=1))
    residual.mean[3, 0, 0] += 1e-7
    assert fingerprint(residual) != before
    half = fresh(pair).to(torch.bfloat16)
    assert fingerprint(half) != before and len(before) == 64


def test_a_decoder_that_could_move_is_not_accepted(pair, captured, run, monkeypatch):
    monkeypatch.setattr(pair[1].model.norm.weight, "requires_grad", True)
    with pytest.raises(AssertionError, match="not frozen"):
        run()


def test_words_train_as_well(pair, paired, run, tmp_path):
    capture(paired(6), tmp_path / "words", tuple(range(5)), {})
    found = Capture(tmp_path / "words")
    run("w", capture=found, entries=found.entries, labels={e.id: (9, END) for e in found.entries})
