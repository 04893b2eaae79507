"""The final of a voice: sealed, frozen, opened once, resumed, closed; what was edited is found out."""

from __future__ import annotations

import json

import pytest

from legato.errors import BadInput, ChecksumMismatch, SealError
from legato.evaluate import layout, ledger
from legato.evaluate.audit import audit
from legato.evaluate.identities import Identities
from legato.evaluate.questions import text_sha256
from legato.evaluate.saying import final, report
from legato.evaluate.saying.sentences import Sentence


def events(desk):
    return [e.event for e in ledger.verify(desk.records).entries]


def test_a_final_goes_through_the_ledger_once_and_the_audit_finds_nothing(desk):
    desk.seal()
    desk.freeze()
    done = desk.finish(desk.open())
    assert (done.said, done.kept) == (6, 0)
    assert events(desk) == ["sealed", "frozen", "opened", "closed"]
    found = audit(desk.records)
    assert found.faults == [] and found.checked["voice seals"] == 1 and found.checked["records"] == 6
    for run in ("once", "twice"):
        with pytest.raises(SealError, match="opened and finished by run 'once'; a final opens once"):
            desk.open(run)
    assert events(desk) == ["sealed", "frozen", "opened", "closed"]


def test_a_killed_final_is_resumed_by_its_run_and_nothing_else(desk):
    desk.seal()
    desk.freeze()
    desk.say.kill_at = 4
    with pytest.raises(KeyboardInterrupt):
        desk.finish(desk.open())
    assert report.report(desk.records) == {
        "finals": [],
        "unfinished": [{"run": "once", "seal": "first", "missing": 2}],
    }
    with pytest.raises(SealError, match="run 'once' is not finished"):
        report.of_run(desk.records, "once")
    with pytest.raises(SealError, match="was opened by run 'once', not by 'other'"):
        desk.open("other")
    warmer = final.settings_of(desk.voice(), desk.recogniser()) | {"voice": {"temperature": 0.9}}
    with pytest.raises(SealError, match="with settings .* not"):
        desk.open(settings=warmer)
    desk.say.kill_at = None
    opened = desk.open()
    assert opened.resumed
    done = desk.finish(opened)
    assert (done.said, done.kept) == (2, 4) and len(desk.say.asked) == 6
    found = audit(desk.records)
    assert found.faults == [] and any("was resumed after 4" in remark for remark in found.remarks)


def test_records_that_went_missing_between_two_resumptions_are_noticed(desk):
    desk.seal()
    desk.freeze()
    desk.say.kill_at = 2
    with pytest.raises(KeyboardInterrupt):
        desk.finish(desk.open())
    desk.open()
    lines = desk.path("once").read_text().splitlines(keepends=True)
    desk.path("once").write_text(lines[0])
    with pytest.raises(SealError, match="held 2 records when it was last resumed and holds 1"):
        desk.open()


def test_a_candidate_is_frozen_after_the_seal_and_from_these_very_files(desk):
    desk.freeze()
    desk.seal()
    with pytest.raises(SealError, match="frozen before 'first' was sealed"):
        desk.open()
    desk.freeze("voice-2")
    opened = desk.open(candidate="voice-2")
    desk.files["head"].write_bytes(b"polished after the freeze")
    with pytest.raises(ChecksumMismatch, match="head of candidate 'voice-2'"):
        desk.finish(opened)
    with pytest.raises(ChecksumMismatch, match="head of candidate 'voice-2'"):
        desk.open(candidate="voice-2")


def test_a_final_that_was_trained_or_chosen_on_is_not_opened(desk):
    desk.seal()
    Identities(text=frozenset({text_sha256("it costs 3 50")[:16]})).write(desk.sets["select"])
    desk.freeze()
    with pytest.raises(SealError, match=r"\(1 clashes\): .* is a text of the set .* \[select\]"):
        desk.open()
    assert events(desk) == ["sealed", "frozen"]


def test_sentences_are_handed_in_as_they_were_sealed(desk):
    desk.seal()
    desk.freeze()
    with pytest.raises(SealError, match="is missing; hand in the sealed sentences"):
        desk.open(sentences=desk.sentences[1:])
    first = desk.sentences[0]
    with pytest.raises(SealError, match="the words of sealed sentence"):
        desk.open(sentences=[Sentence(first.id, "Rosa!", first.kind), *desk.sentences[1:]])


def test_no_sentence_is_in_two_finals_and_no_name_is_used_twice(desk):
    desk.seal()
    with pytest.raises(BadInput, match=r"stands in final 'first' already \(6 do\)"):
        desk.seal("second")
    with pytest.raises(BadInput, match="is in the ledger already"):
        desk.seal()
    with pytest.raises(SealError, match=r"stands in the sealed final 'first' \(6 do\)"):
        final.refuse_sealed(desk.records, desk.sentences)
    final.refuse_sealed(desk.records, [Sentence("x", "Something else.", "plain")])


def test_a_first_opening_finds_no_answers_lying_there(desk):
    desk.seal()
    desk.freeze()
    everything, desk.sentences = desk.sentences, desk.sentences[:1]
    desk.measure("once", seal="first")
    with pytest.raises(SealError, match="the ledger knows no such run"):
        desk.open(sentences=everything)
    with pytest.raises(SealError, match="the ledger knows no opening"):
        desk.open("another", sentences=everything)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"transcript": "x"}, "was changed after run 'once' was closed"),
        ({"substitutions": 5}, "do not follow from what was heard"),
        ({"heard": "rosa rosa"}, "do not follow from what was heard"),
    ],
)
def test_an_edited_record_is_a_fault(desk, change, fault):
    desk.sentences = desk.sentences[:1]
    desk.seal()
    desk.freeze()
    desk.finish(desk.open())
    r = json.loads(desk.path("once").read_text())
    r["sounds"]["head"] |= change
    desk.path("once").write_text(json.dumps(r) + "\n")
    assert any(fault in f for f in audit(desk.records).faults)
    with pytest.raises(SealError, match="was changed after run 'once' was closed"):
        report.report(desk.records)


def test_an_edited_seal_or_text_and_a_missing_seal_are_faults(desk):
    desk.sentences = desk.sentences[:1]
    desk.seal()
    desk.freeze()
    desk.finish(desk.open())
    whole = desk.path("once").read_text()
    r = json.loads(whole)
    desk.path("once").write_text(json.dumps(r | {"text": "Rose."}) + "\n")
    assert any("the words or the seed" in f for f in audit(desk.records).faults)
    desk.path("once").write_text(whole)
    assert audit(desk.records).faults == []
    path = layout.seal(layout.say(desk.records), "first")
    body = json.loads(path.read_text())
    path.write_text(json.dumps(body | {"source": "another"}))
    assert any("was changed after it was written" in f for f in audit(desk.records).faults)
    path.unlink()
    assert any("its file is missing" in f for f in audit(desk.records).faults)
