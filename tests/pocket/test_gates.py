"""The gates on models that pass them or fail them by construction."""

import dataclasses

import pytest
import torch

from legato.pocket import gates
from legato.pocket.examples import collate, encode
from legato.pocket.gates import first_token, prefix_memory, states_at_tail, told_oracle
from legato.pocket.prompt import START, TAIL
from legato.pocket.tiny import tiny_listener

FEATURES = {"clip": torch.randn(4, 5, generator=torch.Generator().manual_seed(1))}
SAY = "Say {answer}"


@pytest.fixture(scope="module")
def examples(row, tokenizer):
    words = ("Oslo", "Paris", "the bag", "twenty", "Monday")
    return [encode(row(f"Where is {w}{'?' * (i + 1)}", f"{w} is it."), tokenizer, "clip" if i == 3 else None)
            for i, w in enumerate(words)]


def test_a_prefix_memory_is_that_of_the_prompt_without_its_last_token(examples, model, projector):
    for e in (examples[0], examples[3]):
        keys, values = prefix_memory(model, projector, e, FEATURES)
        batch = collate([e], FEATURES)
        n = batch.layouts[0].prompt
        assert keys.shape == values.shape == (2, 1, 2, n - 1, 12)
        whole = model(batch.embed(model, projector)[:, :n])[:, -1]
        torch.testing.assert_close(model(model.embed(torch.tensor([[START]])), memory=(keys, values))[:, 0], whole,
                                   rtol=1e-4, atol=1e-4)


def spoken(model, memory, n) -> tuple[int, ...]:
    tokens = []
    while len(tokens) < n:
        states = model(model.embed(torch.tensor([[START, *tokens]])), memory=memory)
        tokens.append(int(model.logits(states[0, -1]).argmax()))
    return tuple(tokens)


def test_the_oracle_counts_what_a_told_tail_makes_the_model_say(examples, model, projector, tokenizer):
    """Three of five examples are given the answer that their told tail leads to behind their own question."""
    made = []
    for i, e in enumerate(examples):
        words = tuple(tokenizer.encode(SAY.format(answer=e.row.answer)).ids)
        own = prefix_memory(model, projector, e, FEATURES)
        told = prefix_memory(model, projector, dataclasses.replace(e, question=words, audio=None), FEATURES)
        spliced = tuple(torch.cat((a[..., : -len(TAIL), :], b[..., -len(TAIL) :, :]), dim=3)
                        for a, b in zip(own, told, strict=True))
        said = spoken(model, spliced, e.key)
        assert said != spoken(model, own, e.key)  # it is the tail that says so
        made.append(dataclasses.replace(e, answer=(*said, *e.answer[e.key :])) if i < 3 else e)
    assert told_oracle(model, projector, made, FEATURES, tokenizer) == pytest.approx(3 / 5)
    other = told_oracle(model, projector, made, FEATURES, tokenizer, tell="Now speak of {answer}, please.")
    assert other < 3 / 5


def test_a_model_that_copies_its_tail_passes_the_oracle(examples, model, projector, tokenizer):
    """Told by the question itself, own and told tail are one."""
    said = {e.row.id: spoken(model, prefix_memory(model, projector, e, FEATURES), e.key) for e in examples[:3]}
    asked = [dataclasses.replace(e, answer=(*said[e.row.id], 2)) for e in examples[:3]]
    for e in asked:
        assert told_oracle(model, projector, [e], FEATURES, tokenizer, tell=e.row.question) == 1


def test_states_are_those_of_tail_and_start_mark(examples, projector):
    model = tiny_listener(seed=31, layers=3).model
    states = states_at_tail(model, projector, examples, FEATURES)
    assert states.shape == (5, 3, len(TAIL) + 1, 48) and states.dtype == torch.float32
    marks = model.embed(torch.tensor([*TAIL, START]))
    for row in states:
        assert torch.equal(row[0], marks)  # nothing but the tokens enters the first layer
    assert (states[0, 1:] != states[1, 1:]).any()
    [alone] = states_at_tail(model, projector, examples[2:3], FEATURES)
    torch.testing.assert_close(states[2], alone, rtol=1e-4, atol=1e-4)


def test_the_probe_finds_the_question_in_deeper_layers_only(examples, projector, row, tokenizer):
    """Two questions, many endings of a few tokens: what was asked can be read where it has passed through attention."""
    model = tiny_listener(seed=31, layers=2).model
    made = [encode(row(f"{'Oslo' if i % 2 else 'the keys'} {'please ' * (i % 3)}{i}", f"{i}."), tokenizer)
            for i in range(80)]
    first = torch.tensor([40 + i % 2 for i in range(80)])
    accuracy = gates.probe(states_at_tail(model, projector, made, {}), first, model.embedding.weight, 60)
    assert accuracy.shape == (2, len(TAIL) + 1)
    assert accuracy[0].max() <= 0.6 and accuracy[1, :-1].min() > 0.85


def test_first_tokens_are_counted_where_they_stand(examples, model, projector):
    """Answers made of what the model itself says at the first slot (three of five) and at the start mark (two)."""
    made = []
    for i, e in enumerate(examples):
        batch = collate([e], FEATURES)
        n = batch.layouts[0].prompt
        states = model(batch.embed(model, projector)[:, :n])[0]
        says = model.logits(states[[n - 9, n - 1]]).argmax(-1).tolist()  # the first of eight slots; the start mark
        assert says[0] != says[1]
        made.append(dataclasses.replace(e, answer=(says[0 if i < 3 else 1], *e.answer[1:])))
    assert first_token(model, projector, made, FEATURES) == (3, 2)
