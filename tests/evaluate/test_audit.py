import json

import pytest

from legato.evaluate import layout, ledger, lines, promote, record, seal
from legato.evaluate.audit import audit
from legato.evaluate.identities import Identities
from legato.evaluate.questions import file_sha256
from legato.evaluate.run import final

SEAL, CANDIDATE, PROMOTION = "seals/first.json", "candidates/candidate.json", "promotions/candidate.json"
RUN = "runs/run.jsonl"


@pytest.fixture
def promoted(desk, arms):
    desk.seal()
    desk.freeze()
    final(desk.records, desk.open(), arms, progress=False)
    promote.promote(desk.records, "candidate", seal="first")
    return desk


def resign(path, change):
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(layout.signed(body)))


def test_clean_evidence_has_no_fault(promoted):
    found = audit(promoted.records, questions=promoted.questions)
    assert found.faults == []
    assert found.remarks == []
    assert found.checked == {"seals": 1, "candidates": 1, "promotions": 1, "records": 24, "ledger lines": 5}


def test_without_the_questions_it_says_what_it_could_not_compare(promoted):
    found = audit(promoted.records)
    assert found.faults == []
    assert found.remarks == [
        "the rows and recordings of seal 'first' were not given, so words, keys and audio were not compared with it; "
        "to do so, give --rows and --audio."
    ]
    held = {row.id for row in seal.read(promoted.records, "first").rows}
    some = [q for q in promoted.questions if q.id in held][:3]
    (remark,) = audit(promoted.records, questions=some).remarks
    assert remark == "5 of the 8 rows of seal 'first' are not among those given, so not compared."


def edit_line(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (lambda d: edit_line(d.records / "ledger.jsonl", '"first"', '"fairst"'), "ledger line 1 is broken"),
        (lambda d: edit_line(d.records / SEAL, '"n": 8', '"n": 7'), "seal 'first' was changed"),
        (lambda d: resign(d.records / SEAL, lambda b: b.update(created="x")), "not the one in the ledger"),
        (lambda d: (d.records / SEAL).unlink(), "seal 'first' stands in the ledger"),
        (lambda d: edit_line(d.records / CANDIDATE, "mapper", "napper"), "candidate 'candidate' was changed"),
        (lambda d: d.weights["mapper"].write_bytes(b"x"), "mapper of candidate 'candidate'"),
        (lambda d: edit_line(d.records / RUN, "No idea.", "Paris."), "run.jsonl was changed after run 'run' was"),
        (lambda d: (d.records / RUN).unlink(), "the file is missing; restore the file."),
        (
            lambda d: (d.records / "runs/new.jsonl").write_bytes(
                (d.records / RUN).read_bytes().replace(b'"run":"run"', b'"run":"new"')
            ),
            "new.jsonl answers final 'first', which run 'new' never opened",
        ),
        (lambda d: edit_line(d.records / PROMOTION, "mapper", "napper"), "promotion of 'candidate' was changed"),
        (
            lambda d: resign(d.records / PROMOTION, lambda b: b.update(report_sha256="0")),
            "no longer re-derives",
        ),
    ],
)  # fmt: skip
def test_each_kind_of_tampering_is_a_sentence(promoted, tamper, says):
    tamper(promoted)
    faults = audit(promoted.records, questions=promoted.questions).faults
    assert any(says in fault for fault in faults), faults


@pytest.mark.parametrize(
    "tamper",
    [
        lambda d: edit_line(d.records / "ledger.jsonl", '"first"', '"fairst"'),
        lambda d: edit_line(d.records / SEAL, '"n": 8', '"n": 7'),
        lambda d: edit_line(d.records / RUN, "No idea.", "Paris."),
        lambda d: edit_line(d.records / CANDIDATE, "mapper", "napper"),
    ],
)
def test_a_fault_is_named_once_however_many_checks_find_it(promoted, tamper):
    tamper(promoted)
    faults = audit(promoted.records, questions=promoted.questions).faults
    assert faults
    assert len(set(faults)) == len(faults)
    assert len([fault for fault in faults if "ledger line" in fault]) <= 1


@pytest.mark.parametrize("keep", [0, -1, -2])
def test_a_closed_run_that_is_short_is_to_be_restored_never_resumed(promoted, keep):
    path = promoted.records / RUN
    path.write_bytes(path.read_bytes()[:keep])  # emptied, without its last newline, with a torn last line
    found = audit(promoted.records, questions=promoted.questions)
    assert any("run.jsonl was changed" in f and f.endswith("restore the file.") for f in found.faults), found.faults
    assert not any("resum" in said for said in found.faults + found.remarks)


def rechain(records, changes):
    """What a careful forger does: edit entries (by event) and hash the whole ledger anew."""
    old = ledger.verify(records).entries
    (records / "ledger.jsonl").unlink()
    with ledger.writing(records) as book:
        for entry in old:
            book.append(entry.event, **entry.data | changes.get(entry.event, {}))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"artifacts": {"mapper": "0" * 64}}, "from files that were not frozen"),
        ({"arm": "fifth"}, "by arm 'fifth', which was not opened"),
        ({"row": "0123456789abcdef"}, "answers row 0123456789abcdef, which seal 'first' does not hold"),
        ({"accepted": ["no idea"]}, "in other words, audio or key than sealed"),
        ({"question_sha256": "0"}, "in other words, audio or key than sealed"),
    ],
)
def test_a_forged_record_is_found_even_in_a_forged_ledger(promoted, change, says):
    path = promoted.records / RUN
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines.dumps(json.loads(first) | change) + b"\n" + b"".join(others))
    rechain(promoted.records, {"closed": {"sha256": file_sha256(path)}})
    faults = audit(promoted.records, questions=promoted.questions).faults
    assert any(says in fault for fault in faults), faults
    assert not any("run.jsonl was changed" in fault for fault in faults)


def test_a_row_in_two_finals_and_a_second_opening_are_found(promoted):
    body = json.loads((promoted.records / SEAL).read_text()) | {"name": "second"}
    lines.write_whole(promoted.records / "seals/second.json", layout.signed(body))
    opened = ledger.last(ledger.verify(promoted.records).entries, "opened")
    with ledger.writing(promoted.records) as book:
        book.append("sealed", name="second", n=8, sha256=layout.digest(body))
        book.append("opened", **opened.data)
        book.append("opened", **opened.data | {"seal": "second"})
    faults = audit(promoted.records).faults
    assert sum("stands in seal 'first' as well" in fault for fault in faults) == 8
    assert "final 'first' was opened twice, in ledger lines 3 and 7." in faults
    assert "final 'second' was not sealed, then candidate 'candidate' frozen, then opened." in faults


def test_an_overlap_that_the_opening_was_not_shown_is_found(desk, rows, planted):
    sealed, train = desk.seal(), desk.sets["train"]
    q = next(q for q in desk.questions if q.id == sealed.rows[0].id)
    Identities.of([r for r in rows if r.id == q.id]).write(train)
    candidate = desk.freeze()
    terms = {"seal": "first", "seal_sha256": sealed.sha256, "candidate_sha256": candidate.sha256, "arms": ["small"]}
    with ledger.writing(desk.records) as book:  # past `open_final`, which would refuse
        book.append("opened", **terms, run="run", candidate="candidate", code_sha256=sealed.code_sha256)
    with record.Writer(desk.records / RUN) as writer:
        writer.write(planted(q.id, "small", "x"))
    faults = audit(desk.records, questions=desk.questions).faults
    assert any(f"candidate 'candidate': row {q.id} asks a text of the set" in fault for fault in faults), faults


def test_changed_audio_and_keys_are_found(promoted, audio_folder):
    from dataclasses import replace

    held = {r["id"] for r in json.loads((promoted.records / "seals/first.json").read_text())["rows"]}
    a, b, *_ = [q for q in promoted.questions if q.id in held]
    (audio_folder / f"{a.id}.wav").write_bytes((audio_folder / f"{b.id}.wav").read_bytes())
    changed = [replace(q, accepted=("x",)) if q.id == b.id else q for q in promoted.questions]
    faults = audit(promoted.records, questions=changed).faults
    assert f"the recording of row {a.id} of seal 'first' was changed." in faults
    assert f"row {b.id} of seal 'first' differs from the question at hand." in faults


def test_an_unfinished_run_and_its_resumption_are_remarks(desk, arms):
    desk.seal()
    desk.freeze()
    desk.open()
    desk.open()
    found = audit(desk.records, questions=desk.questions)
    assert found.faults == []
    assert found.remarks == [
        "final 'first' was opened by run 'run', which is not finished.",
        "run 'run' was resumed after 0 answers.",
    ]


def test_an_empty_folder_is_clean(tmp_path):
    assert audit(tmp_path).faults == []
