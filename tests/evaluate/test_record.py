import json

import pytest

from legato.errors import BadInput
from legato.evaluate import record
from legato.evaluate.record import Timings, Writer, read, scan


def test_records_survive_the_round_trip(tmp_path, planted):
    path = tmp_path / "r.jsonl"
    records = [
        planted("1", "small", "Paris \u2028\ud800 é", timings=Timings(prefill_ms=1.5)),
        planted(
            "2", "small", "B", choices={"A": "x", "B": "y"}, letter="B", letter_logits={"A": 0.5, "B": 1.0}, seal=None
        ),
    ]
    with Writer(path) as writer:
        for r in records:
            writer.write(r)
    assert read(path) == records


@pytest.mark.parametrize("keep", [1, 40, -1])
def test_a_torn_last_line_is_repaired_and_said(tmp_path, planted, keep):
    path = tmp_path / "r.jsonl"
    with Writer(path) as writer:
        writer.write(planted("1", "small", "Paris."))
        writer.write(planted("2", "small", "Rome."))
        assert writer.repaired is None
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(first + b"\n" + (second[:keep] if keep > 0 else second))  # -1: only the newline is missing
    assert len(scan(path).records) == 1
    with pytest.raises(BadInput, match="torn line"):
        read(path)
    with Writer(path) as writer:
        assert writer.repaired is not None
        assert ("completed" if keep < 0 else "cut off") in writer.repaired
    assert [r.row for r in read(path)] == (["1", "2"] if keep < 0 else ["1"])


def change(**values):
    return lambda data: data.update(values)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (change(extra=1), "unknown key 'extra'"),
        (lambda data: data.pop("reply"), "lacks the key 'reply'"),
        (change(tokens="12"), "'tokens' is a str"),
        (change(tokens=[1.5]), "integer ids"),
        (change(finish="stop"), "'finish' is 'stop'"),
        (change(letter="A"), "'letter' must be one of 'choices'"),
        (change(fact_held=1), "'fact_held' is a int"),
        (lambda data: data["timings"].pop("map_ms"), "lacks the key 'map_ms'"),
        (lambda data: data["timings"].update(map_ms="3"), "finite numbers"),
    ],
)
def test_a_damaged_record_is_refused_with_its_line(tmp_path, planted, edit, says):
    path = tmp_path / "r.jsonl"
    good, bad = record.to_json(planted("1", "small", "x")), record.to_json(planted("2", "small", "y"))
    edit(bad)
    path.write_text(json.dumps(good) + "\n" + json.dumps(bad) + "\n")
    with pytest.raises(BadInput, match="r.jsonl line 2") as caught:
        read(path)
    assert says in str(caught.value)


@pytest.mark.parametrize("line", ["{not json}", "[1]", '{"x": NaN}', "", "[" * 100_000])
def test_damage_that_is_no_torn_end_raises(tmp_path, planted, line):
    path = tmp_path / "r.jsonl"
    with Writer(path) as writer:
        writer.write(planted("1", "small", "x"))
    path.write_text(line + "\n" + path.read_text())
    with pytest.raises(BadInput, match="line 1"):
        scan(path)


@pytest.mark.parametrize("depth", [20, 900, 990, 100_000])
def test_a_value_nested_deeper_than_ours_is_refused_at_any_depth(tmp_path, planted, depth):
    path = tmp_path / "r.jsonl"
    line = json.dumps(record.to_json(planted("1", "small", "x", choices={"A": "x"}, letter="A")))
    assert '"letter_logits": null' in line
    nested = '{"A": ' + "[" * depth + "]" * depth + "}"
    path.write_text(line.replace('"letter_logits": null', f'"letter_logits": {nested}') + "\n")
    with pytest.raises(BadInput, match="r.jsonl line 1 is not JSON .nested too deeply"):
        scan(path)


def test_a_question_answered_twice_is_refused(tmp_path, planted):
    path = tmp_path / "r.jsonl"
    with Writer(path) as writer:
        writer.write(planted("1", "small", "x"))
        writer.write(planted("1", "small", "a second look"))
    with pytest.raises(BadInput, match="lines 1 and 2 both answer row 1"):
        read(path)


def test_one_writer_at_a_time(tmp_path):
    with Writer(tmp_path / "r.jsonl"), pytest.raises(BadInput, match="written by another process"):
        Writer(tmp_path / "r.jsonl")
    Writer(tmp_path / "r.jsonl").close()


def test_a_missing_file_is_an_error_to_read_and_empty_to_scan(tmp_path):
    assert scan(tmp_path / "no.jsonl").records == []
    with pytest.raises(BadInput, match="not a file of raw records"):
        read(tmp_path / "no.jsonl")
