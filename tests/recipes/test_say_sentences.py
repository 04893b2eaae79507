"""The sentences of a voice's final: enough of each kind, the same each time, and none of them ever trained on."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))

import say_sentences
from legato.corpora.identity import normalise
from legato.evaluate.saying.sentences import read
from say_sentences import FINAL, SELECT, Avoided, sentences

RECORDS = Path(__file__).parents[2] / "records" / "say"
SENTENCES = sentences(Avoided([]), seed=3)


def kinds(rows):
    return {kind: [row["text"] for row in rows if row["kind"] == kind] for kind in FINAL}


def test_there_are_enough_of_each_kind():
    final, select = SENTENCES
    assert len(final) >= 240 and len(select) == 60
    for rows, wanted in ((final, FINAL), (select, SELECT)):
        found = kinds(rows)
        assert {kind: len(texts) for kind, texts in found.items()} == wanted
        assert all(len(text.split()) <= 2 for text in found["short"])
        assert all(len(text.split()) >= 20 for text in found["long"])
        assert all(any(c.isdigit() for c in text) for text in found["number"])
        assert all(text.endswith(("?", ".")) and text[0].isupper() for texts in found.values() for text in texts)
    assert FINAL["short"] >= 24 and FINAL["number"] >= 30 and FINAL["name"] >= 30
    texts = " ".join(kinds(final)["number"])
    assert all(mark in texts for mark in ("$", " kg", " km", "°C", "%", ", 19", ":"))


def test_no_words_are_twice_and_the_seed_decides():
    final, select = SENTENCES
    said = [normalise(row["text"]) for row in (*final, *select)]
    assert len(set(said)) == len(said)
    assert sentences(Avoided([]), seed=3) == SENTENCES
    assert sentences(Avoided([]), seed=4)[0][0] not in final


def test_nothing_that_was_trained_on_is_in_them():
    final, select = SENTENCES
    short, question = kinds(final)["short"][0], kinds(final)["question"][3]
    trained = [short.upper(), f"He said: {question} And left.", kinds(select)["plain"][0]]
    again = sentences(Avoided(trained), seed=3)
    texts = {row["text"] for rows in again for row in rows}
    assert not texts & {short, question, kinds(select)["plain"][0]}
    assert (
        short in kinds(sentences(Avoided([f"{short} And more."]), seed=3)[0])["short"]
    )  # a name alone may be in a text


def test_the_committed_sets_are_what_the_recipe_makes_but_for_what_was_trained_on():
    final, select = (read(RECORDS / f"{name}.jsonl") for name in ("final", "select"))
    assert len(final) == sum(FINAL.values()) and len(select) == sum(SELECT.values())
    made = {row["id"] for rows in SENTENCES for row in rows}
    assert sum(s.id in made for s in (*final, *select)) > 250


def test_the_command_reads_texts_that_are_still_being_written(tmp_path, monkeypatch):
    first = SENTENCES[0][0]["text"]
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": first}) + '\n{"te')
    monkeypatch.setattr(sys, "argv", ["say", str(tmp_path / "out"), "--avoid", str(tmp_path / "t.jsonl")])
    say_sentences.main()
    assert first not in {s.text for s in read(tmp_path / "out" / "final.jsonl")}


@pytest.mark.parametrize(
    ("text", "held"), [("A b.", True), ("b c d", True), ("c d", False), ("bc d", False), ("!", True)]
)
def test_what_counts_as_seen(text, held):
    assert (text in Avoided(["A, b", "a b c d e"])) == held
