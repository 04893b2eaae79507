"""The prompt's layout and who may look where."""

import pytest
import torch

from legato.organs import Prompt
from legato.pocket.prompt import END, HEADER, SLOTS, START, TAIL, Layout, attention_masks, audio_prompt, prompt_ids
from legato.pocket.tiny import tiny_listener
from legato.transformer import Trace


def test_a_prompt_is_header_question_tail_and_start_mark():
    ids = prompt_ids((70, 71))
    assert ids == (*HEADER, 70, 71, *TAIL, START) and TAIL[-len(SLOTS) :] == SLOTS and TAIL[0] == END
    assert len(set(SLOTS) | {START, END}) == len(SLOTS) + 2  # slots and marks are distinct tokens


def test_a_heard_question_stands_where_a_read_one_would():
    prompt = audio_prompt(4)
    assert prompt.ids == prompt_ids((Prompt.AUDIO,) * 4)
    assert prompt.ids[prompt.audio] == (Prompt.AUDIO,) * 4 and prompt.ids.count(Prompt.AUDIO) == 4


def test_a_layout_points_at_the_parts():
    layout = Layout.of(3, 2)
    ids = (*prompt_ids((70, 71, 72)), 80)  # of two answer tokens the last, the end mark, is never an input
    assert ids[layout.question] == (70, 71, 72) and ids[layout.slots] == SLOTS
    assert ids[: layout.prompt] == prompt_ids((70, 71, 72)) and layout.total == len(ids)


@pytest.fixture(scope="module")
def masks():
    """Rows of three kinds, of different lengths: free, tail only, tail hidden."""
    layouts = [Layout.of(5, 3), Layout.of(2, 4), Layout.of(3, 2)]
    return layouts, attention_masks(layouts, [False, True, False], [False, False, True])[:, 0]


def test_nobody_sees_the_future_or_anything_beyond_its_row(masks):
    layouts, seen = masks
    assert seen.shape == (3, layouts[0].total, layouts[0].total)
    assert not seen.triu(1).any()
    for mask, layout in zip(seen, layouts, strict=True):
        assert not mask[: layout.total, layout.total :].any()
        assert mask.diagonal().all()


def test_a_free_row_is_causal_and_nothing_else(masks):
    _, seen = masks
    assert torch.equal(seen[0], torch.ones_like(seen[0]).tril())


@pytest.mark.parametrize("row", (1, 2))
def test_only_answering_positions_are_denied_and_only_what_is_named(masks, row):
    layouts, seen = masks
    layout = layouts[row]
    denied = torch.ones_like(seen[row]).tril() & ~seen[row]
    answering = range(layout.prompt - 1, seen.shape[1])
    hidden = range(layout.question.start, layout.question.stop)
    if row == 2:
        hidden = range(layout.question.stop, layout.prompt - 1)  # the tail, without the start mark
    wanted = torch.zeros_like(denied)
    wanted[answering.start :, hidden.start : hidden.stop] = True
    assert torch.equal(denied, wanted.tril())


def gradient(layers: int, tail_only: bool) -> torch.Tensor:
    """How much the answer's logits depend on each token's embedding, (T,)."""
    layout = Layout.of(4, 3)
    model = tiny_listener(seed=3, layers=layers).model
    x = model.embed(torch.tensor([(*prompt_ids((70, 71, 72, 73)), 80, 81)])).clone().requires_grad_()
    states = model(x, mask=attention_masks([layout], [tail_only]))
    weights = torch.randn(model.config.vocab, generator=torch.Generator().manual_seed(0))
    (model.logits(states[0, layout.prompt - 1 :]) @ weights).sum().backward()
    return x.grad[0].abs().sum(1)


def test_a_tail_only_answer_knows_the_question_through_the_tail_alone():
    """In one layer nothing can pass through the tail, so the question cannot matter at all; in two it does."""
    question, slots = Layout.of(4, 3).question, Layout.of(4, 3).slots
    assert (gradient(1, tail_only=False)[question] > 1e-3).all()
    one = gradient(1, tail_only=True)
    assert (one[question] == 0).all() and (one[slots] > 1e-3).all()
    assert (gradient(2, tail_only=True)[question] > 1e-3).all()


def test_another_question_behind_the_same_tail_gives_the_same_answer():
    """The tail's memory is put in place by hand: then the question's tokens change nothing, to the last bit."""
    model = tiny_listener(seed=3, layers=3).model
    layout = Layout.of(4, 3)
    free = attention_masks([layout], [False])
    mask = attention_masks([layout], [True])[:, :, layout.prompt - 1 :]
    memories, n, tail = [], layout.prompt - 1, slice(layout.question.stop, None)
    for question in ((70, 71, 72, 73), (90, 91, 92, 93)):
        trace = Trace()
        model(model.embed(torch.tensor([prompt_ids(question)[:-1]])), mask=free[:, :, :n, :n], trace=trace)
        memories.append((torch.stack(trace.keys), torch.stack(trace.values)))
    inputs = model.embed(torch.tensor([(START, 80, 81)]))
    before = [model.logits(model(inputs, memory=memory, mask=mask)) for memory in memories]
    for one, other in zip(*memories, strict=True):
        other[..., tail, :] = one[..., tail, :]
    after = model.logits(model(inputs, memory=memories[1], mask=mask))
    assert torch.equal(after, before[0]) and not torch.equal(before[1], before[0])
