"""The losses: teacher forcing on a memory is running the whole sequence, and padding does not exist."""

import math

import pytest
import torch

from legato.listen.objectives import answer_logits, answer_loss, guard, pad
from legato.pocket.prompt import START
from legato.transformer import Trace

ANSWERS = [[30, 31, 32, 2], [40, 2], [50]]
B, T = 3, 7


@pytest.fixture(scope="module")
def model(pair):
    return pair[1].model


@pytest.fixture(scope="module")
def prefix():
    return torch.randint(20, 9000, (B, T), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def memory(model, prefix):
    trace = Trace()
    model(model.embed(prefix), trace=trace)
    return torch.stack(trace.keys), torch.stack(trace.values)


def test_on_a_memory_it_is_the_whole_sequence(model, prefix, memory):
    logits = answer_logits(model, *memory, START, pad(ANSWERS))
    at = 0
    for row, answer in zip(prefix.tolist(), ANSWERS, strict=True):
        whole = model.logits(model(model.embed(torch.tensor([[*row, START, *answer[:-1]]]))))[0, T:]
        torch.testing.assert_close(logits[at : at + len(answer)], whole, atol=1e-4, rtol=1e-4)
        at += len(answer)
    assert at == len(logits) == 7


def test_the_loss_is_the_mean_over_label_tokens(model, memory):
    answers = pad(ANSWERS)
    logits = answer_logits(model, *memory, START, answers)
    wanted = -sum(row.log_softmax(-1)[token] for row, token in zip(logits, sum(ANSWERS, []), strict=True)) / 7
    torch.testing.assert_close(answer_loss(logits, answers), wanted)


def test_more_padding_changes_nothing(model, memory):
    answers = pad(ANSWERS)
    wider = torch.nn.functional.pad(answers, (0, 3), value=-100)
    one, other = (answer_logits(model, *memory, START, a) for a in (answers, wider))
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(answer_loss(one, answers), answer_loss(other, wider))


def test_padding_is_on_the_right():
    assert pad([[1, 2], [3]]).tolist() == [[1, 2], [3, -100]]


def test_the_guard_is_the_divergence_from_the_native_model():
    draw = torch.Generator().manual_seed(2)
    native, logits = (torch.randn(4, 10, generator=draw) for _ in range(2))
    p, q = native.softmax(-1), logits.softmax(-1)
    torch.testing.assert_close(guard(logits, native), (p * (p / q).log()).sum(1).mean())
    assert guard(logits, native) > 0.1
    assert guard(native, native) == 0
    torch.testing.assert_close(guard(native + 5, native), torch.tensor(0.0), atol=1e-6, rtol=0)  # no such logits matter
    one = torch.tensor([[0.0, math.log(3)]])
    torch.testing.assert_close(guard(one, torch.zeros(1, 2)), torch.tensor(0.5 * math.log(4 / 3)))


def test_a_guard_over_nothing_is_zero():
    assert guard(torch.zeros(0, 5), torch.zeros(0, 5)) == 0
