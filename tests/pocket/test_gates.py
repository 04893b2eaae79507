"""The gates on models that pass them or fail them by construction."""

import dataclasses

import pytest
import torch

from legato.pocket.examples import collate, encode
from legato.pocket.gates import at_slots, prefix_memory, read_out, told_oracle
from legato.pocket.prompt import SLOTS, START, TAIL
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


def test_what_stands_at_the_slots_is_the_memory_that_is_handed_over(examples, projector):
    model = tiny_listener(seed=31, layers=3).model
    memory, states = at_slots(model, projector, examples, FEATURES, (0, 2))
    assert memory.shape == (5, len(SLOTS), 2 * 2 * 2 * 12) and memory.dtype == torch.float32
    for i, e in enumerate(examples):
        keys, values = prefix_memory(model, projector, e, FEATURES)  # (L, 1, H, n - 1, D)
        for j, layer in enumerate((0, 2)):
            both = [part[layer, 0, :, -len(SLOTS) :].transpose(0, 1).flatten(1) for part in (keys, values)]
            torch.testing.assert_close(memory[i, :, j * 48 :][:, :48], torch.cat(both, 1), rtol=1e-4, atol=1e-4)
        begins = model(model.embed(torch.tensor([[START]])), memory=(keys, values))[0, 0]
        torch.testing.assert_close(states[i], begins, rtol=1e-4, atol=1e-4)


def test_the_lens_reads_what_the_model_will_say_behind_attention_only(examples, projector, row, tokenizer):
    """Two questions in three forms each. The first layer's keys and values are those of fixed tokens."""
    model = tiny_listener(seed=31, layers=2).model
    made = [encode(row(f"{'Oslo' if i % 2 else 'the keys'} {'please ' * (i % 3)}", f"{i}."), tokenizer)
            for i in range(120)]
    _, states = at_slots(model, projector, made, {}, (1,))
    says = model.logits(states).argmax(-1).tolist()
    made = [dataclasses.replace(e, answer=(says[i], *e.answer[1:])) for i, e in enumerate(made)]
    deep, said = read_out(model, projector, made[:90], made[90:], {}, (1,))
    assert said == 30 and len(deep) == len(SLOTS) and min(deep) >= 25
    commonest = max(says[90:].count(token) for token in says[90:])
    shallow, _ = read_out(model, projector, made[:90], made[90:], {}, (0,))
    assert max(shallow) <= commonest < min(deep)
