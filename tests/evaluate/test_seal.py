import json
from dataclasses import replace
from hashlib import sha256

import pytest

from legato.audio import Audio, write
from legato.errors import BadInput, ChecksumMismatch, SealError
from legato.evaluate import ledger, promote, seal
from legato.evaluate import run as running
from legato.evaluate.identities import Identities


@pytest.fixture
def ready(desk):
    desk.seal()
    desk.freeze()
    return desk


def test_the_lowest_hashes_are_sealed_whatever_the_order(desk, tmp_path):
    sealed = desk.seal()
    keys = {q.id: sha256(f"s|tests/1|{q.id}|{q.audio_sha256}".encode()).hexdigest() for q in desk.questions}
    assert [r.id for r in sealed.rows] == sorted(keys, key=keys.__getitem__)[:8]
    again = seal.seal(tmp_path / "other", "first", desk.questions[::-1], salt="s", source="tests/1", n=8)
    assert again.rows == sealed.rows
    other = seal.seal(tmp_path / "third", "first", desk.questions, salt="t", source="tests/1", n=8)
    assert other.rows != sealed.rows
    assert seal.read(desk.records, "first") == sealed


def test_a_later_seal_leaves_out_rows_of_an_earlier_one_and_counts_them(desk):
    first, second = desk.seal(n=8), desk.seal("second", n=4)
    assert second.left_out == {"first": 8}
    assert not {r.id for r in first.rows} & {r.id for r in second.rows}
    with pytest.raises(BadInput, match="pool holds 0 fresh ones"):
        desk.seal("third", n=1)


def test_a_pool_with_twins_or_a_taken_name_is_refused(desk):
    twin = replace(desk.questions[0], id="twin")
    with pytest.raises(BadInput, match="share their text_sha256"):
        seal.seal(desk.records, "x", [*desk.questions, twin], salt="s", source="t", n=2)
    with pytest.raises(BadInput, match="share their id"):
        seal.seal(desk.records, "x", [*desk.questions, desk.questions[0]], salt="s", source="t", n=2)
    desk.seal()
    with pytest.raises(BadInput, match="in the ledger already"):
        desk.seal()
    with pytest.raises(BadInput, match="cannot name a record"):
        desk.seal("../up")


def test_a_final_opens_once_and_a_second_opening_refuses(ready, arms):
    opened = ready.open()
    assert not opened.resumed
    running.final(ready.records, opened, arms, progress=False)
    for attempt in ({}, {"run": "other"}):
        with pytest.raises(SealError, match="a final opens once"):
            ready.open(**attempt)
    ready.weights["mapper"].write_bytes(b"better")
    ready.freeze("second")
    with pytest.raises(SealError, match="a final opens once"):
        ready.open(run="other", candidate="second")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"run": "other"}, "not by 'other'"),
        ({"settings": {"max_tokens": 9}}, "with settings {.*}, not {.*}"),
        ({"arms": ["small"]}, "with arms .*, not .*"),
    ],
)
def test_after_a_crash_only_the_same_run_may_go_on(ready, changes, says):
    ready.open()
    with pytest.raises(SealError, match=f"opened by run 'run', {says}; a final opens once"):
        ready.open(**changes)
    assert ready.open().resumed


def test_a_crashed_run_cannot_go_on_with_another_candidate(ready):
    ready.open()
    ready.weights["mapper"].write_bytes(b"better")
    ready.freeze("second")
    with pytest.raises(SealError, match="with candidate 'candidate', not 'second'"):
        ready.open(candidate="second")
    with pytest.raises(ChecksumMismatch, match="mapper of candidate 'candidate'"):
        ready.open()


def test_without_a_frozen_candidate_nothing_opens(desk):
    desk.seal()
    with pytest.raises(SealError, match="no frozen candidate 'candidate'"):
        desk.open()
    desk.freeze()
    with pytest.raises(SealError, match="no seal 'nothing'"):
        desk.open(name="nothing")


def test_a_seal_must_be_older_than_the_candidate(desk):
    desk.freeze()
    desk.seal()
    with pytest.raises(SealError, match="frozen before 'first' was sealed"):
        desk.open()


def test_changed_weights_are_refused_by_name_with_both_hashes(ready):
    before = ready.weights["residual"].read_bytes()
    ready.weights["residual"].write_bytes(b"changed")
    with pytest.raises(ChecksumMismatch, match="residual") as caught:
        ready.open()
    assert sha256(before).hexdigest() in str(caught.value)
    assert sha256(b"changed").hexdigest() in str(caught.value)
    ready.weights["residual"].unlink()
    with pytest.raises(BadInput, match="residual.bin"):
        ready.open()


@pytest.mark.parametrize("kind", ["seals/first", "candidates/candidate"])
def test_a_changed_seal_or_candidate_file_is_refused_by_name(ready, kind):
    path = ready.records / f"{kind}.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps(body | {"created": "2020-01-01"}))
    with pytest.raises(SealError, match=f"{kind.split('/')[1]}' was changed"):
        ready.open()
    from legato.evaluate import layout

    path.write_text(json.dumps(layout.signed(body | {"created": "2020-01-01"})))  # a careful forger signs anew
    with pytest.raises(SealError, match="not the one that the ledger holds"):
        ready.open()


def test_rows_swapped_by_a_forger_do_not_follow_the_rule(ready):
    from legato.evaluate import layout

    path = ready.records / "seals/first.json"
    body = json.loads(path.read_text())
    body["rows"] = body["rows"][1:] + body["rows"][:1]
    path.write_text(json.dumps(layout.signed(body)))
    with pytest.raises(SealError, match="order of its own rule"):
        ready.open()


def test_changed_or_missing_audio_is_refused_by_row(ready, audio_folder):
    row = seal.read(ready.records, "first").rows[3].id
    path = audio_folder / f"{row}.wav"
    path.rename(path.with_suffix(".away"))
    with pytest.raises(SealError, match=f"audio of sealed row {row} cannot be read"):
        ready.open()
    path.with_suffix(".away").rename(path)
    sound = ready.questions[[q.id for q in ready.questions].index(row)].audio()
    write(path, Audio(-sound.samples, sound.rate))
    with pytest.raises(SealError, match=f"audio of sealed row {row} was changed"):
        ready.open()


@pytest.mark.parametrize(
    ("change", "says"),
    [({"text": "Another?"}, "words"), ({"accepted": ("rome",)}, "answer key"), ({"kind": "x"}, "answer key")],
)
def test_changed_words_or_keys_are_refused(ready, change, says):
    row = seal.read(ready.records, "first").rows[0].id
    ready.questions = [replace(q, **change) if q.id == row else q for q in ready.questions]
    with pytest.raises(SealError, match=f"the {says} of sealed row {row}"):
        ready.open()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"sha256": NaN}', "{"])
def test_a_seal_that_is_no_json_of_ours_is_refused(ready, text):
    (ready.records / "seals/first.json").write_text(text)
    with pytest.raises(SealError, match="the seal 'first' cannot be read .*restore the file"):
        ready.open()


def test_an_opening_under_another_run_id_is_refused_in_a_clear_sentence(ready):
    ready.open(run="r1")
    with pytest.raises(SealError) as caught:
        ready.open(run="r2")
    assert str(caught.value) == (
        "final 'first' was opened by run 'r1', not by 'r2'; "
        "a final opens once, resume that run as it was or seal a new final."
    )


def test_a_missing_row_is_refused(ready):
    row = seal.read(ready.records, "first").rows[0].id
    ready.questions = [q for q in ready.questions if q.id != row]
    with pytest.raises(SealError, match=f"row {row} of final 'first' is missing"):
        ready.open()


@pytest.mark.parametrize("which", ["train", "select"])
@pytest.mark.parametrize("what", ["text", "audio", "fact"])
def test_an_overlap_with_a_declared_set_is_refused(desk, rows, which, what):
    sealed = desk.seal()
    q = next(q for q in desk.questions if q.id in {r.id for r in sealed.rows} and q.fact_held)
    row = next(r for r in rows if r.id == q.id)
    full = Identities.of([row], [q.audio_sha256])
    replace(Identities(), **{what: getattr(full, what)}).write(desk.sets[which])
    desk.freeze()
    with pytest.raises(SealError, match=f"1 clashes.*row {q.id} .*\\[{which}\\]"):
        desk.open()


def test_a_held_wording_may_be_selected_on_but_not_trained_on(desk, rows):
    q = replace(desk.questions[0], wording_held=True)
    seen = Identities(wording=Identities.of([rows[0]]).wording)
    assert seen.clashes([q], trained=False) == []
    assert "unseen wording" in seen.clashes([q], trained=True)[0]


def test_a_seen_fact_may_be_asked_in_another_question(desk, rows):
    shared = Identities(fact=Identities.of(rows).fact)
    assert shared.clashes([q for q in desk.questions if not q.fact_held], trained=True) == []
    assert len(shared.clashes(desk.questions, trained=True)) == sum(q.fact_held for q in desk.questions)


def test_a_candidate_must_declare_its_sets(desk):
    del desk.sets["select"]
    with pytest.raises(BadInput, match="wanted train, select"):
        desk.freeze()


def test_identities_read_what_they_wrote_and_nothing_else(tmp_path, rows):
    mine = Identities.of(rows, ["b" * 64])
    mine.write(tmp_path / "set.txt")
    assert Identities.read(tmp_path / "set.txt") == mine
    (tmp_path / "set.txt").write_text("text zz\n")
    with pytest.raises(BadInput, match="line 1"):
        Identities.read(tmp_path / "set.txt")


def test_cutting_the_opening_off_the_ledger_does_not_open_again(ready, arms):
    running.final(ready.records, ready.open(), arms, progress=False)
    path = ready.records / "ledger.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))  # sealed, frozen
    with pytest.raises(SealError, match="the ledger knows no"):
        ready.open()
    with pytest.raises(SealError, match="the ledger knows no opening"):
        ready.open(run="other")


def test_records_lost_between_two_resumptions_are_noticed(ready, arms):
    opened = ready.open()
    arms["large"].fail_at, arms["large"].error = 2, RuntimeError("boom")
    with pytest.raises(RuntimeError, match="boom"):
        running.final(ready.records, opened, arms, progress=False)
    ready.open()
    path = ready.records / "runs/run.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(SealError, match="when it was last resumed"):
        ready.open()


def test_a_run_that_lacks_answers_cannot_be_closed(ready, arms):
    opened = ready.open()
    arms["large"].fail_at, arms["large"].error = 2, RuntimeError("boom")
    with pytest.raises(RuntimeError, match="boom"):
        running.final(ready.records, opened, arms, progress=False)
    with pytest.raises(SealError, match=r"run 'run' lacks \d+ answers, first row"):
        seal.close_final(ready.records, opened)


def test_the_opening_is_in_the_ledger_before_any_arm_is_asked(ready):
    ready.open()
    entry = ledger.verify(ready.records).entries[-1]
    assert entry.event == "opened"
    assert entry.data["overlap"] == 0
    assert entry.data["candidate_sha256"] == promote.read(ready.records, "candidate").sha256
