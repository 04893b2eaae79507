"""Rows into examples into batches: what is scored, where tokens stand, where audio lands."""

import random

import pytest
import torch

from legato.corpora.identity import normalise
from legato.corpora.world import draw
from legato.pocket.examples import batches, collate, encode, key_span
from legato.pocket.prompt import END, HEADER, SLOTS, START, prompt_ids


@pytest.mark.parametrize(("answer", "accepted", "key"), (
    ("Paris is the capital of France.", ("paris",), " Paris"),
    ("Twenty-one.", ("twenty one", "21"), " Twenty-one"),
    ("21 is the sum.", ("twenty one", "21"), " 21"),
    ("C, A, T.", ("c a t", "cat"), " C, A, T"),
    ("O'Neill wrote it.", ("oneill",), " O'Neill"),
    ("St. John's is the capital.", ("st johns",), " St. John's"),
    ("Ten, not nine.", ("nine", "ten"), " Ten, not nine"),  # the first accepted string, wherever it stands
    ("Someone has one.", ("one",), " Someone has one"),  # no part of another word
    ("The bag.", ("bag", "the bag"), " The bag"),
    ("In the bag, the keys are in the bag.", ("in the bag",), " In the bag"),
    ("Côte d'Ivoire is there.", ("c te divoire",), " Côte d'Ivoire"),  # as `normalise` has it
    ("I am fine.", ("well",), " I am fine."),  # none occurs: all of it is scored
))  # fmt: skip
def test_the_key_ends_with_the_accepted_answer(row, answer, accepted, key):
    made = row("What?", answer, *accepted)
    assert (" " + answer)[: key_span(made)] == key


def test_the_key_of_real_rows_is_the_answer_and_not_a_token_more(tokenizer):
    rows = draw(120, seed=3, split="select")
    assert len({r.kind for r in rows}) > 20
    for r in rows:
        e = encode(r, tokenizer)
        said = normalise(tokenizer.decode(list(e.answer[: e.key])))
        least = normalise(tokenizer.decode(list(e.answer[: e.key - 1])))
        assert any(f" {a} " in f" {said} " for a in r.accepted), (r.answer, said)
        first = next(a for a in r.accepted if f" {a} " in f" {normalise(r.answer)} ")
        assert f" {first} " not in f" {least} ", (r.answer, least)
        assert tokenizer.decode(list(e.answer[:-1])) == " " + r.answer and e.answer[-1] == END
        assert tokenizer.decode(list(e.question)) == r.question and e.audio is None


def test_a_heard_question_has_no_words(row, tokenizer):
    made = row("Where?", "Oslo.")
    heard = encode(made, tokenizer, audio="clip")
    assert heard.question == () and heard.audio == "clip" and heard.answer == encode(made, tokenizer).answer


@pytest.fixture(scope="module")
def examples(row, tokenizer):
    """A read and a heard question, of different lengths, and one whose answer is longer than the slots."""
    return [encode(row("What is the capital of France?", "Paris is the capital.", "paris"), tokenizer),
            encode(row("Where are the keys?", "In the bag.", "in the bag"), tokenizer, audio="one"),
            encode(row("Say it.", "Seventeen plus four is twenty-one, and it is.", "seventeen"), tokenizer),
            encode(row("Spell cat.", "C, A, T.", "c a t"), tokenizer, audio="two")]


FEATURES = {"one": torch.randn(6, 5, generator=torch.Generator().manual_seed(1)),
            "two": torch.randn(3, 5, generator=torch.Generator().manual_seed(2))}


def test_ids_and_places_of_a_batch(examples):
    batch = collate(examples, FEATURES)
    sizes = (len(examples[0].question), 6, len(examples[2].question), 3)
    assert len(examples[2].answer) > len(SLOTS)
    for b, (e, n, layout) in enumerate(zip(examples, sizes, batch.layouts, strict=True)):
        words = e.question or (0,) * n
        whole = (*prompt_ids(words), *e.answer[:-1])
        assert batch.ids[b].tolist() == [*whole, *[0] * (batch.ids.shape[1] - len(whole))]
        mine = batch.answer_rows[0] == b
        columns = batch.answer_rows[1][mine].tolist()
        assert columns == list(range(layout.prompt - 1, layout.prompt - 1 + len(e.answer)))
        assert batch.ids[b, columns[0]] == START  # the start mark predicts the first token
        assert batch.answer_ids[mine].tolist() == list(e.answer)
        assert batch.key[mine].tolist() == [i < e.key for i in range(len(e.answer))]
        slots = batch.slot_rows[1][batch.slot_rows[0] == b].tolist()
        told = batch.slot_ids[batch.slot_rows[0] == b].tolist()
        assert batch.ids[b, slots].tolist() == list(SLOTS[: len(e.answer)])
        assert told == list(e.answer[: len(SLOTS)])
    assert torch.equal(batch.owner, batch.answer_rows[0])
    assert batch.mask.shape == (4, 1, batch.ids.shape[1], batch.ids.shape[1])


def test_audio_lands_on_its_question_and_nowhere_else(examples, model, projector):
    batch = collate(examples, FEATURES)
    x = batch.embed(model, projector)
    words = model.embed(batch.ids)
    at = len(HEADER)
    for b, name, n in ((1, "one", 6), (3, "two", 3)):
        torch.testing.assert_close(x[b, at : at + n], projector(FEATURES[name]), rtol=1e-5, atol=1e-6)
        x[b, at : at + n] = words[b, at : at + n]
    assert torch.equal(x, words)


def test_a_batch_gives_the_logits_of_each_row_alone(examples, model, projector):
    together = collate(examples, FEATURES, [False, True, True, False])
    states = model(together.embed(model, projector), mask=together.mask)
    for b, e in enumerate(examples):
        alone = collate([e], FEATURES, [b in (1, 2)])
        wanted = model(alone.embed(model, projector), mask=alone.mask)[alone.answer_rows]
        got = states[together.answer_rows][together.owner == b]
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_batches_hold_everyone_once_and_rows_of_like_length(row, tokenizer):
    examples = [encode(row(f"{'Where ' * (i % 13)}?", f"Answer {i}."), tokenizer) for i in range(203)]
    grouped = batches(examples, 8, random.Random(0))
    assert sorted(e.row.id for part in grouped for e in part) == sorted(e.row.id for e in examples)
    assert max(len(part) for part in grouped) == 8 and sum(len(part) < 8 for part in grouped) <= 2
    spans = [max(map(size, part)) - min(map(size, part)) for part in grouped]
    assert sum(spans) / len(spans) < 2 < max(map(size, examples)) - min(map(size, examples))
    assert grouped == batches(examples, 8, random.Random(0)) != batches(examples, 8, random.Random(1))
    by_id = batches(examples, 8, random.Random(0), lambda e: int(e.row.id[:4], 16))
    firsts = [[int(e.row.id[:4], 16) for e in part] for part in by_id]
    assert all(part == sorted(part) for part in firsts)


def size(e) -> int:
    return len(e.question) + len(e.answer)
