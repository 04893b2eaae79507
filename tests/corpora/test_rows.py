"""Rows, their identity, and the hash rule."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from legato.corpora.identity import audit, normalise
from legato.corpora.rows import Row, read_rows, row_id, write_rows
from legato.corpora.splits import HELD_FACTS, deal, held_wordings, share_of, split_of
from legato.errors import BadInput


def _row(question: str = "What is the capital of France?", fact: str = "capital:France") -> Row:
    answer = "Paris is the capital of France."
    identity = row_id("capital", question, answer)
    return Row(identity, "facts", "capital", fact, "capital/0", question, answer, ("paris",), False, False)


def test_rows_survive_the_disk(tmp_path: Path) -> None:
    rows = [_row(), _row("Tell me the capital of France.")]
    assert write_rows(tmp_path / "rows.jsonl", rows) == 2
    assert read_rows(tmp_path / "rows.jsonl") == rows


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"extra": 1}, "line 2 has the unknown key 'extra'"),
        ({"accepted": None}, "line 2 lacks the key 'accepted'"),
        ({"fact_held": "no"}, "line 2 key 'fact_held' is a str"),
        ({"accepted": []}, "line 2 key 'accepted'"),
        ({"domain": "jokes"}, "line 2 key 'domain'"),
        ({"question": "What is it?"}, "line 2 key 'id'"),
    ],
)
def test_wrong_rows_are_refused_by_line_and_key(tmp_path: Path, change: dict, said: str) -> None:
    good = asdict(_row())
    bad = {k: v for k, v in (good | change).items() if v is not None}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(good) + "\n" + json.dumps(bad) + "\n")
    with pytest.raises(BadInput, match=said):
        read_rows(path)


@pytest.mark.parametrize("text", ["not json\n", "[1]\n", "[" * 100_000, "1" * 5000])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(BadInput, match="line 1"):
        read_rows(tmp_path / "x")
    with pytest.raises(BadInput, match="missing"):
        read_rows(tmp_path / "missing")


@pytest.mark.parametrize("key", ["question", "answer", "fact", "accepted"])
def test_half_a_surrogate_pair_is_refused(tmp_path: Path, key: str) -> None:
    row = asdict(_row())
    row[key] = ["\ud800"] if key == "accepted" else "\ud800"
    (tmp_path / "x").write_text(json.dumps(row))
    with pytest.raises(BadInput, match="line 1 is not JSON .*surrogates not allowed"):
        read_rows(tmp_path / "x")


def test_normalise() -> None:
    assert normalise("  It's: A, B -- twenty-one!\n") == "its a b twenty one"
    assert normalise("C, A, T.") == normalise("c a t")
    assert normalise(normalise("Port-au-Prince.")) == "port au prince"


def test_audit_finds_what_was_planted() -> None:
    one, other = _row(), _row("Name the capital of Spain.", "capital:Spain")
    assert not audit([one], [other])
    planted = replace(one, id="f" * 16, question="what is THE capital of France", fact="x")
    found = audit([one], [other, planted])
    assert found and found.text == ((one.id, planted.id),) and not found.audio and not found.fact
    heard = audit([one], [other], first_audio={one.id: "aa"}, second_audio={other.id: "aa"})
    assert heard.audio == ((one.id, other.id),) and not heard.text
    assert audit([one], [replace(other, fact=one.fact)]).fact == ((one.id, other.id),)


def test_deal_is_fixed_and_even() -> None:
    assert deal("capital:France", "held fact") == pytest.approx(0.48623940269377997, abs=1e-15)
    dealt = [deal(str(i), "evenness") for i in range(4000)]
    assert all(0 <= x < 1 for x in dealt) and abs(sum(dealt) / 4000 - 0.5) < 0.02
    held = sum(share_of(f"fact:{i}") != "seen" for i in range(4000)) / 4000
    assert abs(held - HELD_FACTS) < 0.02


def test_held_wordings_are_a_quarter_and_at_least_one_of_three() -> None:
    wordings = [f"wording {i}" for i in range(12)]
    assert [len(held_wordings("k", wordings[:n])) for n in (1, 2, 3, 4, 8, 12)] == [0, 0, 1, 1, 2, 3]


def test_held_questions_never_go_to_training() -> None:
    assert {split_of(f"q {i}", held=True) for i in range(200)} == {"select", "final"}
    free = [split_of(f"q {i}", held=False) for i in range(4000)]
    assert abs(free.count("train") / 4000 - 0.8) < 0.03 and {"select", "final"} <= set(free)
