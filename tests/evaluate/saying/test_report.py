"""Figures from records by closed forms, floors, and what a promotion asks for."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from legato import audio
from legato.errors import BadInput, NotPromoted, SealError
from legato.evaluate import ledger
from legato.evaluate.audit import audit
from legato.evaluate.listening import votes
from legato.evaluate.listening.make import make
from legato.evaluate.saying import final, gates, promotion, record, report
from legato.evaluate.saying.record import Record, Sound
from legato.evaluate.saying.run import ceilings

OWN = {"hnr_db": 20.0, "wobble_cents": 10.0, "clicks": 0, "static_s": 0.0, "cut": False, "words_per_s": 3.0,
       "pauses": 0, "pause_s": 0.0}  # fmt: skip
AGAINST = {"warble_cents": 4.0, "noise_deficit_db": 0.0, "level_offset_db": 0.5, "level_spread_db": 1.0,
           "level_worst_db": 2.0, "pacing_s": 0.0, "rendering_s": 0.0, "filled_s": 0.0}  # fmt: skip


def sound(wrong: int = 0, failure: str | None = None, **changes) -> Sound:
    heard = " ".join(["x"] * wrong + ["a"] * (10 - wrong))
    return replace(Sound("0" * 64, 3.0, 38, heard, heard, wrong, 0, 0, wrong, failure, **OWN), **changes)


def failed(how: str | None) -> Sound:
    """A sound that failed so, or a good one."""
    if how in ("broke", "nothing heard"):
        return sound(0, how, heard="", deletions=10, character_errors=19)
    return sound(10, how) if how else sound()


def planted(i: int, head: Sound, depth: Sound, **more: Sound) -> Record:
    sounds = {"head": replace(head, **{k: v for k, v in AGAINST.items() if getattr(head, k) is None}), "depth": depth}
    kind = "short" if i % 2 else "plain"
    return Record("r", None, f"s{i}", kind, "t", "c", " ".join(["a"] * 10), 10, 19, i, None,
                  {"name": "stub", "sha256": "0"}, {}, {}, sounds | more)  # fmt: skip


def test_figures_are_those_of_counting_by_hand():
    found = [planted(i, sound(2 if i < 4 else 0), sound(1 if i < 2 else 0)) for i in range(20)]
    f = report.summarise(found)
    head, depth, v = f["arms"]["head"], f["arms"]["depth"], f["head_vs_depth"]
    assert head["score"]["value"] == pytest.approx(1 - 8 / 200) and depth["score"]["value"] == pytest.approx(0.99)
    assert head["score"]["ci95"][0] < 0.96 < head["score"]["ci95"][1]
    assert (head["substitutions"], head["insertions"], head["words"], head["n"]) == (8, 0, 200, 20)
    assert v["wer"]["value"] == pytest.approx(6 / 200) and (v["worse"], v["better"]) == (4, 0)
    assert v["p"] == pytest.approx(2 / 2**4, abs=0.01)  # four differences of one sign, two-sided
    assert head["failures"]["n"] == 0 and f["by_kind"]["short"]["n"] == 10
    assert head["hnr_db"] == {"n": 20, "value": 20.0, "ci95": [20.0, 20.0]}
    assert head["hnr_deficit_db"] is None and "ceiling" not in f["arms"]


def test_a_failure_has_all_its_words_wrong_and_stays_in_the_mean():
    lost = sound(0, "nothing heard", heard="", deletions=10, character_errors=19, hnr_db=None)
    found = [planted(0, lost, sound()), *(planted(i, sound(), sound()) for i in range(1, 5))]
    f = report.summarise(found)
    assert f["arms"]["head"]["score"]["value"] == pytest.approx(0.8)
    assert f["arms"]["head"]["failures"] | {"ci95": 0} == {
        "n": 1, "value": 0.2, "ci95": 0, "broke": 0, "nothing heard": 1, "all wrong": 0, "own": 1
    }  # fmt: skip
    assert f["arms"]["head"]["hnr_db"]["n"] == 4
    assert (f["head_vs_depth"]["failures_new"], f["head_vs_depth"]["failures_fixed"]) == (1, 0)


@pytest.mark.parametrize(
    ("failure", "recording", "own"),
    [("all wrong", "all wrong", 0), ("all wrong", None, 1), ("nothing heard", "all wrong", 1), ("broke", "broke", 1)],
)
def test_a_name_that_no_recording_gets_across_is_no_failure_of_the_voice(failure, recording, own):
    found = [planted(i, sound(), sound()) for i in range(4)]
    sounds = {"head": failed(failure), "depth": sound(), "ceiling": failed(recording)}
    head = report.summarise([*found, replace(found[0], id="4", sounds=sounds)])["arms"]["head"]
    assert (head["failures"]["n"], head["failures"]["own"]) == (1, own)


def good(**changes):
    return report.summarise([planted(i, sound(hnr_deficit_db=1.0, **changes), sound()) for i in range(20)])


def test_a_good_voice_clears_every_floor():
    assert gates.missed(gates.gates(good())) is None
    assert "let it be heard" in gates.table(gates.gates(good()))


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"hnr_deficit_db": 3.5}, "HNR deficit"),
        ({"hnr_deficit_db": None}, "HNR deficit to the codec's ceiling, dB is not measured"),
        ({"wrong": 2}, "score of the head"),
        ({"wrong": 1}, "word error"),
        ({"wobble_cents": 13.5}, "wobble"),
        ({"level_offset_db": -4.0}, "level"),
        ({"rendering_s": 0.1}, "silence"),
        ({"clicks": 1}, "clicks"),
        ({"static_s": 0.5}, "static"),
        ({"cut": True}, "cut off"),
        ({"failure": "all wrong"}, "failures"),
    ],
)
def test_each_floor_is_missed_by_its_own_fault(changes, missed):
    made = {"hnr_deficit_db": 1.0} | changes
    f = report.summarise([planted(i, sound(**made), sound()) for i in range(20)])
    low = [gate.name for gate in gates.gates(f) if not gate.cleared]
    assert any(missed.split(" is not")[0] in name for name in low)
    assert missed in gates.missed(gates.gates(f)) and "not to be heard yet" in gates.table(gates.gates(f))
    assert len(low) <= 2  # a wrong word shows in the score as well


def test_pictures_and_tables_hold_what_there_is(desk, tmp_path):
    desk.say.refuse = desk.sentences[0].text
    desk.measure()
    found = record.read(desk.path("trial"))
    report.plot(found, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 10_000
    text = report.table(report.summarise(found))
    assert "1 of 6" in text and "no sealed final" in text
    assert json.dumps(report.summarise(found)) == json.dumps(report.summarise(found))


@pytest.fixture
def judged(desk, tmp_path, monkeypatch):
    """A finished final that clears every floor but those which a buzz cannot, and its sounds."""
    monkeypatch.setattr(gates, "DEFICIT", 100.0)
    desk.seal()
    desk.freeze()
    ceiling = tmp_path / "ceiling"
    ceiling.mkdir()
    for s in desk.sentences:
        audio.write(ceiling / f"{s.id}.wav", desk.say(s.text, s.seed)["head"])
    ear = desk.recogniser()
    known = {audio.read(ceiling / f"{s.id}.wav").sha256: s.text for s in desk.sentences}
    hear = ear.hear
    object.__setattr__(ear, "hear", lambda a: known[a.sha256] if a.sha256 in known else hear(a))
    desk.recogniser = lambda: ear
    settings = final.settings_of(desk.voice(), ear, ceilings(ceiling, desk.sentences))
    desk.finish(desk.open(settings=settings), ceiling=ceiling, keep=tmp_path / "kept")
    return desk, tmp_path


def sheet_of(folder, prefer: str | None, systems=("head", "depth")):
    sheet = make(folder / "sheet", *(folder / "kept" / name for name in systems), catch=0, repeat=0)
    key = sheet.key()
    called = {"a": key.a, "b": key.b}
    for trial in sheet.trials if prefer else ():
        secret = key.trials[trial.id]
        side = next(side for side in ("left", "right") if called[getattr(secret, side)] == prefer)
        votes.cast(sheet, {"trial": trial.id, "choice": side, "tags": [], "plays": {"left": 1, "right": 1},
                           "heard_s": {"left": 5.0, "right": 5.0}, "switches": 1, "took_s": 9.0})  # fmt: skip
    return folder / "sheet"


def promote(desk, sheet):
    return promotion.promote_voice(desk.records, "voice-1", seal="first", sheet=sheet)


def test_a_voice_that_was_measured_and_preferred_is_promoted_and_the_audit_agrees(judged):
    desk, folder = judged
    with pytest.raises(NotPromoted, match="no listening verdict exists yet; make a sheet"):
        promote(desk, None)
    unheard = sheet_of(folder, None)
    with pytest.raises(NotPromoted, match="no listening verdict exists yet: 6 of 6 trials have no vote"):
        promote(desk, unheard)
    shutil.rmtree(unheard)
    body = promote(desk, sheet_of(folder, "head"))
    assert body["listening"]["verdict"] == "head" and body["listening"]["wins"] == {"head": 6, "depth": 0}
    assert body["listening"]["metric"] == "overruled"  # the metric saw no difference, the ear did
    log = (desk.records / "listening" / "metric_and_ear.jsonl").read_text()
    assert json.loads(log)["metric_said"] == "none"
    assert audit(desk.records).faults == []
    with pytest.raises(BadInput, match="is in the ledger already"):
        promote(desk, folder / "sheet")
    path = desk.records / "say" / "promotions" / "voice-1.json"
    path.write_text(path.read_text().replace('"wins"', '"WINS"'))
    assert any("was changed after it was written" in fault for fault in audit(desk.records).faults)


def test_the_ear_has_the_last_word(judged):
    desk, folder = judged
    with pytest.raises(NotPromoted, match="the ear preferred the depth path.*listening overruled the metric"):
        promote(desk, sheet_of(folder, "depth"))
    assert ledger.last(ledger.verify(desk.records).entries, "promoted") is None


def test_a_sheet_of_something_else_is_refused(judged):
    desk, folder = judged
    shutil.copytree(folder / "kept" / "head", folder / "kept" / "other")
    for path in (folder / "kept" / "other").iterdir():
        heard = audio.read(path)
        audio.write(path, audio.Audio(np.roll(heard.samples, 99, axis=1), heard.rate))
    with pytest.raises(SealError, match="the sheet compares 'head' with 'other'"):
        promote(desk, sheet_of(folder, "head", ("head", "other")))
    shutil.rmtree(folder / "sheet")
    strange = desk.sentences[0].id
    for name in ("head", "depth"):
        (folder / "kept" / name / f"{strange}.wav").rename(folder / "kept" / name / "strange.wav")
    with pytest.raises(SealError, match="plays strange, which is no sentence of this final"):
        promote(desk, sheet_of(folder, "head"))


def test_a_floor_that_was_missed_is_named(judged, monkeypatch):
    desk, folder = judged
    monkeypatch.setattr(gates, "SCORE", 1.5)
    with pytest.raises(NotPromoted, match="is not fit to be heard: score of the depth path is 1, score of the head"):
        promote(desk, sheet_of(folder, "head"))
