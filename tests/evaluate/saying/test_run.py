"""A measured run: what a record holds, that nothing is said twice, and that a kill loses nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from legato.audio import Audio, read, write
from legato.errors import BadInput, SealError
from legato.evaluate.saying import record
from legato.evaluate.saying.run import ceilings
from legato.evaluate.saying.sentences import Sentence
from legato.evaluate.saying.sentences import read as read_sentences


def test_every_sentence_is_said_once_with_its_own_seed_and_both_renderings_are_measured(desk):
    desk.measure()
    assert desk.say.asked == [(s.text, s.seed) for s in desk.sentences]
    assert len({s.seed for s in desk.sentences}) == len(desk.sentences)
    found = record.read(desk.path("trial"))
    for r, s in zip(found, desk.sentences, strict=True):
        assert (r.id, r.kind, r.text, r.seed, r.seal, r.broke) == (s.id, s.kind, s.text, s.seed, None, None)
        for sound in r.sounds.values():
            assert sound.frames == 8 and sound.seconds == pytest.approx(0.64)
            assert sound.failure is None and sound.heard == r.said
        head, depth = r.sounds["head"], r.sounds["depth"]
        assert head.hnr_db > depth.hnr_db + 3  # it hisses less
        assert head.noise_deficit_db == pytest.approx(depth.hnr_db - head.hnr_db, abs=1)
        assert head.warble_cents < 3 and depth.warble_cents is None
        assert abs(head.level_offset_db) < 0.5 and head.clicks == depth.clicks == 0
        assert head.hnr_deficit_db is None  # no ceiling, so none is guessed
    assert desk.say(desk.sentences[0].text, found[0].seed)["head"].sha256 == found[0].sounds["head"].audio_sha256


def test_both_sides_are_read_by_the_front_end(desk):
    desk.wrong["It costs $3.50."] = "it costs 3 dollars and 50 cents"
    desk.wrong["Mr. Brown lives in Oslo."] = "Mister Brown leaves in Oslo"
    desk.measure()
    found = {r.text: r.sounds["head"] for r in record.read(desk.path("trial"))}
    assert found["It costs $3.50."].substitutions == 0
    assert found["Mr. Brown lives in Oslo."].substitutions == 1
    assert found["Mr. Brown lives in Oslo."].transcript == "Mister Brown leaves in Oslo"


def test_failures_are_recorded_and_never_tried_again(desk):
    desk.say.refuse, desk.say.silent = desk.sentences[1].text, desk.sentences[2].text
    desk.wrong[desk.sentences[3].text] = "we are all dead now"
    desk.measure()
    found = record.read(desk.path("trial"))
    assert [r.sounds["head"].failure for r in found] == [None, "broke", "nothing heard", "all wrong", None, None]
    assert [r.sounds["depth"].failure for r in found] == [None, "broke", None, "all wrong", None, None]
    assert found[1].broke.startswith("the text was not finished") and found[1].sounds["head"].audio_sha256 is None
    assert found[1].sounds["head"].deletions == found[1].words == 7
    assert found[2].sounds["head"].transcript == "" and found[2].sounds["head"].hnr_db is None
    asked, heard = len(desk.say.asked), len(desk.heard)
    assert heard == 2 * 4 + 1  # silence is not put to the recogniser, which would invent words
    assert desk.measure().said == 0
    assert (len(desk.say.asked), len(desk.heard)) == (asked, heard)


@pytest.mark.parametrize("torn", [False, True])
def test_a_killed_run_goes_on_and_ends_as_one_that_was_not_killed(desk, torn):
    desk.measure("whole")
    whole = [json.loads(line) for line in desk.path("whole").read_text().splitlines()]
    desk.say.asked.clear()
    desk.say.kill_at = 3
    with pytest.raises(KeyboardInterrupt):
        desk.measure("killed")
    if torn:
        with desk.path("killed").open("ab") as file:
            file.write(b'{"run":"kil')
    desk.say.kill_at = None
    done = desk.measure("killed")
    assert (done.kept, done.said) == (3, 3) and (done.repaired is not None) == torn
    assert len(desk.say.asked) == 6
    killed = [json.loads(line) for line in desk.path("killed").read_text().splitlines()]
    assert killed == [{**line, "run": "killed"} for line in whole]


def test_the_ceiling_gives_the_deficit_where_it_is_and_only_there(desk, tmp_path):
    first, second = desk.sentences[:2]
    (tmp_path / "ceiling").mkdir()
    clean = desk.say(first.text, first.seed)["head"]
    write(tmp_path / "ceiling" / f"{first.id}.wav", clean)
    clean = read(tmp_path / "ceiling" / f"{first.id}.wav")  # 16 bit
    stub = desk.recogniser()
    hear = stub.hear
    object.__setattr__(stub, "hear", lambda audio: "Rosa." if audio.sha256 == clean.sha256 else hear(audio))
    desk.recogniser = lambda: stub
    desk.measure(ceiling=ceilings(tmp_path / "ceiling", desk.sentences))
    found = record.read(desk.path("trial"))
    assert set(found[0].sounds) == {"head", "depth", "ceiling"} and set(found[1].sounds) == {"head", "depth"}
    assert found[0].sounds["head"].hnr_deficit_db == pytest.approx(0, abs=0.1)
    assert found[0].sounds["depth"].hnr_deficit_db > 3
    assert found[1].sounds["depth"].hnr_deficit_db is None
    with pytest.raises(BadInput, match="holds no <id>.wav of these sentences"):
        ceilings(tmp_path, desk.sentences)


def test_kept_sounds_are_the_measured_ones(desk, tmp_path):
    desk.measure(keep=tmp_path / "kept")
    for r in record.read(desk.path("trial")):
        for renderer in ("head", "depth"):
            assert read(tmp_path / "kept" / renderer / f"{r.id}.wav").sha256 == r.sounds[renderer].audio_sha256


def test_a_run_of_other_words_files_settings_or_ears_is_refused(desk):
    desk.measure()
    with pytest.raises(BadInput, match="which is not part of run 'trial'"):
        desk.measure(seal="first")
    files = dict(desk.files)
    desk.files["head"].write_bytes(b"another head")
    with pytest.raises(SealError, match="was said by other files"):
        desk.measure()
    files["head"].write_bytes(b"head")
    ear = desk.recogniser()
    object.__setattr__(ear, "sha256", "0" * 64)
    desk.recogniser = lambda: ear
    with pytest.raises(SealError, match="heard by another recogniser"):
        desk.measure()
    first = desk.sentences[0]
    desk.sentences = (Sentence(first.id, "Rose.", first.kind), *desk.sentences[1:])
    with pytest.raises(SealError, match="in other words"):
        desk.measure()


def test_a_voice_of_another_rate_is_refused(desk):
    desk.say = lambda text, seed: dict.fromkeys(("head", "depth"), Audio(np.zeros((1, 1600), np.float32), 16_000))
    with pytest.raises(BadInput, match="head renders 16,000 samples a second"):
        desk.measure()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"id": "a", "text": "b"}', "a sentence has id, text and kind"),
        ('{"id": "a", "text": "", "kind": "c"}', "none of them empty"),
        ('{"id": "../a", "text": "b", "kind": "c"}', "cannot name a record"),
        ('{"id": "x", "text": "b", "kind": "c"}\n{"id": "x", "text": "d", "kind": "c"}', "share their id"),
        ('{"id": "x", "text": "One.", "kind": "c"}\n{"id": "y", "text": "one", "kind": "c"}', "share their text"),
        ("not json", "is not JSON"),
        ("", "holds no sentence"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_sentences_is_refused(tmp_path, line, complaint):
    (tmp_path / "s.jsonl").write_text(line)
    with pytest.raises(BadInput, match=complaint):
        read_sentences(tmp_path / "s.jsonl")


def test_a_damaged_record_is_refused_by_its_line(desk):
    desk.sentences = desk.sentences[:2]
    desk.measure()
    first, second = desk.path("trial").read_text().splitlines()
    for change in (
        {"seed": "1"},
        {"seed": True},
        {"more": 1},
        {"sounds": {"head": {}}},
        {"words": 1.5},
        {"sounds": [3]},
    ):
        damaged = json.dumps(json.loads(second) | change)
        desk.path("trial").write_text(f"{first}\n{damaged}\n")
        with pytest.raises(BadInput, match="trial.jsonl line 2"):
            record.read(desk.path("trial"))
    desk.path("trial").write_text(f"{first}\n{first}\n")
    with pytest.raises(BadInput, match=r"line 2 says sentence \w+ again after line 1"):
        record.read(desk.path("trial"))
