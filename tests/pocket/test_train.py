"""Training a pocket listener: it learns from words and sound, resumes bit for bit, and is scored as it would speak."""

import dataclasses
import itertools
import json

import pytest
import torch

from legato.pocket import train as training
from legato.pocket.examples import collate, encode
from legato.pocket.hearing import Hearing, Spelling
from legato.pocket.lowrank import attach
from legato.pocket.prompt import END
from legato.pocket.tiny import tiny_listener
from legato.pocket.train import TrainConfig, key_accuracy, losses, train

CONFIG = TrainConfig(steps=6, learning_rate=3e-3, projector_rate=3e-3, warmup=2, seed=5)
FEATURES = {"clip": torch.randn(4, 5, generator=torch.Generator().manual_seed(1))}


@pytest.fixture(scope="module")
def examples(row, tokenizer):
    """Read and heard ones, of two domains, some about facts that no training sees."""
    words = ("Oslo", "Paris", "the bag", "twenty", "Monday", "C, A, T")
    return [encode(row(f"Where is {w}?", f"{w} is it.", domain=("facts", "stories")[i % 2], held=i == 2), tokenizer,
                   audio="clip" if i == 3 else None) for i, w in enumerate(words)]


def data(examples):
    """step -> batches of three, another one at each step."""

    def stream(step):
        for at in itertools.count(step):
            yield [examples[(at + i) % len(examples)] for i in range(3)]

    return stream


def trained(examples, folder, seed=0, **changes):
    """A LoRA run with a projector; what is trained, and the log."""
    model = tiny_listener(seed=31, layers=2).model
    torch.manual_seed(seed)
    weights, projector = attach(model, 2), torch.nn.Linear(5, model.config.width)
    given = {"config": CONFIG, "every": 2, **changes}
    config = given.pop("config")
    groups = [(weights, config.learning_rate), (list(projector.parameters()), config.projector_rate)]
    train(model, projector, groups, data(examples), FEATURES, config, folder, **given)
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return model, [*weights, *projector.parameters()], lines


def test_losses_are_means_over_tokens(examples, model, projector):
    tail_only = [True, False, True]
    answer, slots, hearing = losses(model, projector, examples[2:5], FEATURES, tail_only)
    found = {"answer": [], "slots": []}
    for e, only in zip(examples[2:5], tail_only, strict=True):
        b = collate([e], FEATURES, [only])
        states = model(b.embed(model, projector), mask=b.mask)[0]
        start = b.layouts[0].prompt - 1
        for i, token in enumerate(e.answer):
            found["answer"].append(-model.logits(states[start + i]).log_softmax(-1)[token])
            if i < 8:
                found["slots"].append(-model.logits(states[start - 8 + i]).log_softmax(-1)[token])
    torch.testing.assert_close(answer, torch.stack(found["answer"]).mean())
    torch.testing.assert_close(slots, torch.stack(found["slots"]).mean())
    assert hearing == 0


def test_the_projector_is_kept_spelling_what_it_hears(examples, model, projector):
    """The third loss is that of the heard questions alone, and it reaches the projector."""
    torch.manual_seed(0)
    hearing = Hearing(projector, Spelling(model.embedding.weight, [40, 41, 42]), model.embedding.weight[3])
    said = {"clip": [41, 40]}
    _, _, loss = losses(model, hearing, examples[2:5], FEATURES, [False] * 3, said)
    torch.testing.assert_close(loss, hearing.loss([FEATURES["clip"]], [said["clip"]]))
    loss.backward()
    assert (projector.weight.grad != 0).any()
    _, _, nothing = losses(model, hearing, examples[:3], FEATURES, [False] * 3, said)
    assert nothing == 0 and loss > 0
    _, _, also = losses(model, hearing, examples[:3], FEATURES, [False] * 3, said, ["clip"])
    torch.testing.assert_close(also, loss)


def test_it_learns_and_moves_only_what_it_may(examples, tmp_path, capsys):
    frozen = {name: p.clone() for name, p in tiny_listener(seed=31, layers=2).model.named_parameters()}
    config = TrainConfig(steps=30, learning_rate=0.05, projector_rate=0.05, warmup=3, seed=5)
    model, _, log = trained(examples, tmp_path, config=config, every=10)
    assert log[-1]["answer"] < 0.6 * log[0]["answer"]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == log
    for name, p in model.named_parameters():
        if not name.endswith((".a", ".b")):
            assert torch.equal(p, frozen[name.replace(".base.", ".")]), name


@pytest.mark.parametrize("died_at", (1, 2, 5))
def test_a_killed_run_ends_bit_for_bit_where_a_whole_one_does(examples, tmp_path, monkeypatch, died_at):
    _, whole, wanted = trained(examples, tmp_path / "whole")
    steps, step = itertools.count(), training.Masters.step

    def dying(self, scale):
        if next(steps) == died_at:
            raise KeyboardInterrupt
        return step(self, scale)

    monkeypatch.setattr(training.Masters, "step", dying)
    with pytest.raises(KeyboardInterrupt):
        trained(examples, tmp_path / "killed")
    monkeypatch.undo()
    assert (tmp_path / "killed/state.pt").exists() == (died_at > 1)
    _, resumed, log = trained(examples, tmp_path / "killed", seed=99 if died_at > 1 else 0)
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))
    timeless = [[{k: v for k, v in line.items() if k != "examples_per_s"} for line in lines] for lines in (log, wanted)]
    assert timeless[0] == timeless[1]


def test_the_log_and_the_checks(examples, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "LOG_EVERY", 3)
    _, _, log = trained(examples, tmp_path, every=4, evaluate=lambda step: {"at": step})
    assert [line["step"] for line in log] == [3, 4, 6]
    assert [line.get("evaluation") for line in log] == [None, {"at": 4}, {"at": 6}]
    assert set(log[0]) == {"step", "answer", "slots", "hearing", "norm", "examples_per_s"}


def spoken(model, projector, e, tail_only, tail_hidden) -> list[int]:
    """What the model says when it runs free, one token at a time; as many tokens as are scored."""
    tokens = []
    while len(tokens) < e.key:
        b = collate([dataclasses.replace(e, answer=(*tokens, END))], FEATURES, [tail_only], [tail_hidden])
        tokens.append(int(model.logits(model(b.embed(model, projector), mask=b.mask)[0, -1]).argmax()))
    return tokens


@pytest.mark.parametrize(("tail_only", "tail_hidden"), ((False, False), (True, False), (False, True)))
def test_teacher_forced_key_accuracy_is_the_free_running_one(examples, model, projector, tail_only, tail_hidden):
    """Half of the keys are made what the model says, so that both verdicts occur."""
    made = []
    for i, e in enumerate(examples):
        said = spoken(model, projector, e, tail_only, tail_hidden)
        made.append(dataclasses.replace(e, answer=(*said, *e.answer[e.key :])) if i % 2 else e)
    right = [spoken(model, projector, e, tail_only, tail_hidden) == list(e.answer[: e.key]) for e in made]
    assert 3 <= sum(right) < 6
    counts = key_accuracy(model, projector, made, FEATURES, tail_only=tail_only, tail_hidden=tail_hidden, batch=4)
    assert counts["all"] == (sum(right), 6)
    for domain, at in (("facts", (0, 2, 4)), ("stories", (1, 3, 5))):
        assert counts[domain] == (sum(right[i] for i in at), 3)
    assert counts["facts/held"] == (right[2], 1) and counts["facts/seen"] == (right[0] + right[4], 2)
    assert "stories/held" not in counts


def test_a_wrong_token_behind_the_key_does_not_count(examples, model, projector):
    e = examples[0]
    said = spoken(model, projector, e, False, False)
    made = dataclasses.replace(e, answer=(*said, 3, 3, END))
    assert key_accuracy(model, projector, [made], FEATURES)["all"] == (1, 1)
    assert key_accuracy(model, projector, [dataclasses.replace(made, key=e.key + 2)], FEATURES)["all"] == (0, 1)
