"""A blind sheet from folders of recordings to its verdict: fair, sealed, and sure of itself only when it may be."""

from __future__ import annotations

import json
import os
from collections import Counter

import numpy as np
import pytest

from legato.audio import Audio, loudness_dbfs, read, write
from legato.errors import BadInput, ChecksumMismatch, LegatoError, SealError
from legato.evaluate import lines

pytest.importorskip("pyloudnorm", reason="the serve extra is not installed")

from legato.evaluate.listening import exact, loudness, verdict, votes
from legato.evaluate.listening.make import make
from legato.evaluate.listening.sheet import open_sheet

RATE = 16_000


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """Hundreds of small files, each written durably: what a power cut would leave is not asked here."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def sine(hz: float, seconds: float = 1.0, level: float = 0.3, rate: int = RATE) -> Audio:
    t = np.arange(round(seconds * rate)) / rate
    return Audio((level * np.sin(2 * np.pi * hz * t)).astype(np.float32)[None], rate)


@pytest.fixture
def two(tmp_path):
    """Folders of ten pairs; b is quieter, an octave higher and a little longer."""
    for system, scale in (("depth", 1.0), ("head", 2.0)):
        (tmp_path / system).mkdir()
        for i in range(10):
            tone = sine(200 * scale + 10 * i, 0.5 + 0.02 * scale, 0.6 / scale**2)
            write(tmp_path / system / f"line{i}.{'wav' if i % 2 else 'flac'}", tone)
    return tmp_path / "depth", tmp_path / "head"


def vote(trial, choice="left", **changes):
    return {
        "trial": trial.id,
        "choice": choice,
        "tags": [],
        "plays": {"left": 1, "right": 1},
        "heard_s": {"left": 3.0, "right": 2.5},
        "switches": 1,
        "took_s": 8.25,
        **changes,
    }


def answer(sheet, system_of):
    """Vote on every trial as `system_of(secret)` ("a", "b" or "none") says."""
    key = sheet.key()
    for trial in sheet.trials:
        secret = key.trials[trial.id]
        wanted = system_of(secret)
        choice = "none" if wanted == "none" else "left" if secret.left == wanted else "right"
        votes.cast(sheet, vote(trial, choice, tags=["warble"] if wanted == "b" else []))


# Loudness


def test_loudness_is_that_of_the_standard():
    # BS.1770: a 997 Hz sine at full scale in one channel reads -3.01; ten times less is 20 dB less.
    assert loudness.lufs(sine(997, 3, 1.0, 48_000)) == pytest.approx(-3.01, abs=0.05)
    assert loudness.lufs(sine(997, 3, 0.1, 48_000)) == pytest.approx(-23.01, abs=0.05)
    assert loudness.lufs(sine(997, 0.1, 1.0, 48_000)) == pytest.approx(-3.01, abs=0.1)  # shorter than one block


def test_matched_recordings_are_equally_long_and_loud():
    first, second = loudness.match(sine(300, 1.2, 0.9), sine(700, 0.9, 0.01))
    assert first.samples.shape == second.samples.shape == (1, round(0.9 * RATE))
    assert loudness.lufs(first) == pytest.approx(loudness.lufs(second), abs=0.05)
    assert loudness.lufs(first) == pytest.approx(loudness.TARGET_LUFS, abs=0.1)
    assert abs(float(first.samples[0, -1])) < 1e-6  # the cut end is faded


def test_a_peak_that_would_clip_makes_both_quieter():
    click = np.zeros((1, RATE), np.float32)
    click[0, ::4000] = 1.0
    first, second = loudness.match(Audio(click, RATE), sine(300))
    assert max(np.abs(first.samples).max(), np.abs(second.samples).max()) == pytest.approx(loudness.PEAK, abs=1e-4)
    assert loudness.lufs(first) == pytest.approx(loudness.lufs(second), abs=0.1)


# The sheet


def test_a_sheet_is_balanced_sealed_and_names_nothing(two, tmp_path):
    sheet = make(tmp_path / "s", *two, catch=2, repeat=3, seed=7)
    key = sheet.key()
    kinds = Counter(secret.kind for secret in key.trials.values())
    assert kinds == {"pair": 10, "catch": 2, "repeat": 3} and len(sheet.trials) == 15
    pairs = [secret for secret in key.trials.values() if secret.kind == "pair"]
    assert Counter(secret.left for secret in pairs) == {"a": 5, "b": 5}
    assert {secret.item for secret in pairs} == {f"line{i}" for i in range(10)}
    order = [(key.trials[t.id].kind, key.trials[t.id].item) for t in sheet.trials]
    assert [item for kind, item in order if kind == "pair"] != sorted(item for kind, item in order if kind == "pair")
    by_item = {
        secret.item: (i, secret)
        for i, (_, secret) in enumerate((t, key.trials[t.id]) for t in sheet.trials)
        if secret.kind == "pair"
    }
    for i, trial in enumerate(sheet.trials):
        secret = key.trials[trial.id]
        if secret.kind == "repeat":
            before, original = by_item[secret.item]
            assert before + 1 < i and (secret.left, secret.right) == (original.right, original.left)
        same = sheet.audio(trial.id, "left").read_bytes() == sheet.audio(trial.id, "right").read_bytes()
        assert same == (secret.kind == "catch")
    public = (sheet.folder / "sheet.json").read_text() + " ".join(p.name for p in (sheet.folder / "audio").iterdir())
    assert not any(word in public for word in ("depth", "head", "line", "catch", "repeat", "nonce"))


def test_sides_play_what_the_key_says(two, tmp_path):
    sheet = make(tmp_path / "s", *two, catch=1, repeat=1)
    for trial in sheet.trials:
        secret = sheet.key().trials[trial.id]
        for side in ("left", "right"):
            wave = read(sheet.audio(trial.id, side)).samples[0]
            hz = np.fft.rfft(wave * np.hanning(len(wave))).__abs__().argmax() * RATE / len(wave)
            scale = 1 if getattr(secret, side) == "a" else 2
            assert hz == pytest.approx(200 * scale + 10 * int(secret.item[-1]), abs=3)


def test_the_seed_decides_and_the_nonce_hides(two, tmp_path):
    first, again, other = (make(tmp_path / name, *two, seed=seed) for name, seed in (("x", 1), ("y", 1), ("z", 2)))
    assert first.key() == again.key() and first.trials == again.trials
    assert first.key_sha256 != again.key_sha256
    assert list(first.key().trials.values()) != list(other.key().trials.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a, b: (b / "line3.wav").unlink(), "lacks 1 recordings that the other folder has .line3"),
        (lambda a, b: write(a / "extra.wav", sine(200)), "lacks 1 recordings that the other folder has .extra"),
        (lambda a, b: write(b / "line1.wav", sine(200, rate=8000)), "16,000 samples a second and .* has 8,000"),
        (lambda a, b: write(b / "line1.wav", sine(200, level=0.0)), "second cannot be made as loud.*it is silent"),
        (lambda a, b: (b / "line1.wav").write_bytes((a / "line1.wav").read_bytes()), "are the same recording"),
        (lambda a, b: (b / "line1.wav").write_bytes(b"RIFF"), "line1.wav"),
        (lambda a, b: write(b / "line1.flac", sine(200)), "holds line1 twice"),
        (lambda a, b: [p.unlink() for f in (a, b) for p in f.iterdir() if p.stem != "line0"], "at least 2 pairs"),
        (lambda a, b: (a.parent / "s").write_text("mine"), "is there already"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_leaves_nothing(two, tmp_path, change, said):
    change(*two)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BadInput, match=said):
        make(tmp_path / "s", *two, repeat=1)
    assert sorted(tmp_path.iterdir()) == before


def test_folders_and_counts_are_checked(two, tmp_path):
    with pytest.raises(BadInput, match="there is no folder"):
        make(tmp_path / "s", two[0], tmp_path / "nowhere")
    with pytest.raises(BadInput, match="give two"):
        make(tmp_path / "s", two[0], two[0])
    with pytest.raises(BadInput, match="11 repeat trials"):
        make(tmp_path / "s", *two, repeat=11)


def test_a_full_disk_leaves_no_half_sheet(two, tmp_path, monkeypatch):
    def full(path, value):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lines, "write_whole", full)
    with pytest.raises(OSError, match="No space"):
        make(tmp_path / "s", *two)
    assert {path.name for path in tmp_path.iterdir()} == {"depth", "head"}


def test_a_changed_sheet_key_or_recording_is_refused(two, tmp_path):
    sheet = make(tmp_path / "s", *two)
    for name, error in (
        ("key.json", ChecksumMismatch),
        ("sheet.json", SealError),
        (f"audio/{sheet.trials[0].id}-left.wav", ChecksumMismatch),
    ):
        path = sheet.folder / name
        kept = path.read_bytes()
        path.write_bytes(kept.replace(b"1", b"2", 1) if name.endswith("json") else kept[:-2] + b"xx")
        with pytest.raises(error):
            open_sheet(sheet.folder)
        path.unlink()
        with pytest.raises(LegatoError):
            open_sheet(sheet.folder)
        path.write_bytes(kept)
    assert open_sheet(sheet.folder) == sheet
    with pytest.raises(BadInput, match="no listening sheet in"):
        open_sheet(tmp_path)


# Votes


def test_votes_are_kept_in_order_with_their_circumstances(two, tmp_path):
    sheet = make(tmp_path / "s", *two, seed=9)
    votes.cast(sheet, vote(sheet.trials[0], "right", tags=["hiss", "tone"]))
    given = votes.read(sheet)
    [kept] = given.by_trial.values()
    assert (kept["choice"], kept["tags"], kept["seed"], kept["position"], kept["of"]) == (
        "right",
        ["hiss", "tone"],
        9,
        0,
        14,
    )
    assert kept["sheet"] == sheet.sha256 and kept["took_s"] == 8.25 and kept["voted"].startswith("20")
    assert votes.waiting(sheet, given) == (1, sheet.trials[1])
    with pytest.raises(votes.TakenVote):
        votes.cast(sheet, vote(sheet.trials[0], "left"))
    assert len(sheet.votes.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"trial": "ffffff"},
        {"trial": ["a"]},
        {"choice": "a"},
        {"choice": {}},
        {"tags": ["nice"]},
        {"tags": ["hiss", "hiss"]},
        {"tags": "hiss"},
        {"tags": [{}]},
        {"plays": {"left": 1}},
        {"plays": {"left": 1, "right": 1.5}},
        {"heard_s": {"left": 3.0, "right": 0.1}},
        {"heard_s": {"left": True, "right": 3.0}},
        {"heard_s": {"left": float("inf"), "right": 3.0}},
        {"switches": -1},
        {"took_s": None},
        {"listener": "me"},
    ],
)
def test_a_vote_that_is_none_is_refused(two, tmp_path, change):
    sheet = make(tmp_path / "s", *two, repeat=0)
    with pytest.raises(BadInput):
        votes.cast(sheet, vote(sheet.trials[0]) | change)
    assert votes.read(sheet).by_trial == {}


def test_a_torn_last_line_is_left_out_and_mended_by_the_next_vote(two, tmp_path):
    sheet = make(tmp_path / "s", *two)
    for trial in sheet.trials[:2]:
        votes.cast(sheet, vote(trial))
    whole = sheet.votes.read_bytes()
    sheet.votes.write_bytes(whole[:-20])
    torn = votes.read(sheet)
    assert len(torn.by_trial) == 1 and "torn by a kill" in torn.remark
    assert "torn by a kill" in verdict.report(sheet)["remark"]
    votes.cast(sheet, vote(sheet.trials[1]))
    assert len(votes.read(sheet).by_trial) == 2 and votes.read(sheet).remark is None
    sheet.votes.write_bytes(sheet.votes.read_bytes()[:-1])  # only the newline is lost: the vote is whole
    assert len(votes.read(sheet).by_trial) == 2 and votes.read(sheet).remark is None


def test_votes_of_another_sheet_or_twice_are_refused(two, tmp_path):
    sheet, other = make(tmp_path / "s", *two, seed=1), make(tmp_path / "t", *two, seed=2)
    votes.cast(sheet, vote(sheet.trials[0]))
    other.votes.write_bytes(sheet.votes.read_bytes())
    with pytest.raises(SealError, match="another sheet"):
        votes.read(other)
    sheet.votes.write_bytes(sheet.votes.read_bytes() * 2)
    with pytest.raises(SealError, match="second vote"):
        votes.read(sheet)


def test_no_vote_on_an_exchanged_key(two, tmp_path):
    sheet = make(tmp_path / "s", *two)
    (sheet.folder / "key.json").write_bytes(make(tmp_path / "t", *two).check_key())
    with pytest.raises(ChecksumMismatch):
        votes.cast(sheet, vote(sheet.trials[0]))
    assert not sheet.votes.exists()


def test_a_full_disk_loses_no_earlier_vote(two, tmp_path, monkeypatch):
    sheet = make(tmp_path / "s", *two)
    votes.cast(sheet, vote(sheet.trials[0]))
    real = os.write

    def half(file, data):
        real(file, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            votes.cast(sheet, vote(sheet.trials[1]))
    assert len(votes.read(sheet).by_trial) == 1
    votes.cast(sheet, vote(sheet.trials[1], "none"))
    assert [v["choice"] for v in votes.read(sheet).by_trial.values()] == ["left", "none"]


# The verdict


def test_a_clear_preference_is_a_verdict(two, tmp_path):
    sheet = make(tmp_path / "s", *two, catch=2, repeat=3)
    answer(sheet, lambda secret: "none" if secret.kind == "catch" else "b" if secret.item != "line4" else "a")
    found = verdict.report(sheet)
    assert found["verdict"] == "b" and found["systems"] == {"a": "depth", "b": "head"}
    assert found["wins"] == {"a": 1, "b": 9} and found["no_preference"] == 0 and found["finished"]
    assert found["p_two_sided"] == pytest.approx(22 / 1024)
    assert found["share_a"]["value"] == 0.1 and found["share_a"]["high"] == exact.clopper_pearson(1, 10).high
    assert found["catch"] == {"planned": 2, "n": 2, "fooled": 0}
    assert found["repeat"] == {"planned": 3, "n": 3, "same": 3, "reversed": 0}
    assert found["faults"] == {"a": {"warble": 9}, "b": {}, "both": {}}
    assert found["needed"][2] == {"preference": 0.8, "choices": exact.choices_needed(0.8), "more": 10}
    assert json.loads(json.dumps(found)) == found


def test_a_listener_who_always_takes_one_side_is_found_out(two, tmp_path):
    sheet = make(tmp_path / "s", *two, catch=2, repeat=3)
    for trial in sheet.trials:
        votes.cast(sheet, vote(trial, "left"))
    found = verdict.report(sheet)
    assert found["verdict"] == verdict.NONE and found["wins"] == {"a": 5, "b": 5}
    assert found["catch"]["fooled"] == 2 and found["repeat"]["reversed"] == 3 and found["repeat"]["same"] == 0
    assert found["left_chosen"] == {"n": 10, "left": 10, "p_two_sided": pytest.approx(2 / 1024)}


def test_there_is_no_verdict_before_the_end_or_without_preferences(two, tmp_path):
    sheet = make(tmp_path / "s", *two)
    empty = verdict.report(sheet)
    assert empty["verdict"] == verdict.YET and empty["p_two_sided"] is None and empty["share_a"]["value"] is None
    key = sheet.key()
    *early, last = sheet.trials
    for trial in early:
        votes.cast(sheet, vote(trial, "left" if key.trials[trial.id].left == "a" else "right"))
    found = verdict.report(sheet)
    assert found["p_two_sided"] < 0.05 and found["verdict"] == verdict.YET and "1 of 14" in found["why"]
    with pytest.raises(BadInput, match="no verdict yet"):
        verdict.compare(found, "wer", "a", tmp_path / "log.jsonl")
    assert not (tmp_path / "log.jsonl").exists()

    undecided = make(tmp_path / "t", *two)
    answer(undecided, lambda secret: "a" if secret.item in ("line0", "line1", "line2", "line3", "line4") else "none")
    found = verdict.report(undecided)
    assert found["verdict"] == verdict.YET and "only 5 votes" in found["why"]


def test_the_log_keeps_what_metric_and_ear_said(two, tmp_path):
    log = tmp_path / "records" / "log.jsonl"
    sheet = make(tmp_path / "s", *two)
    answer(sheet, lambda secret: "b")
    found = verdict.report(sheet)
    outcomes = [verdict.compare(found, "hnr", said, log)["outcome"] for said in ("a", "b", "none", "a")]
    assert outcomes == ["overruled", "agreed", "overruled", "overruled"]
    kept = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(k["metric"], k["metric_said"], k["ear_said"]) for k in kept] == [
        ("hnr", "a", "b"),
        ("hnr", "b", "b"),
        ("hnr", "none", "b"),
    ]  # the same note only once
    even = make(tmp_path / "t", *two)
    answer(even, lambda secret: "a" if int(secret.item[-1]) % 2 else "b")
    assert verdict.compare(verdict.report(even), "hnr", "a", log)["outcome"] == "not confirmed"


def test_quiet_recordings_come_up_to_the_level_of_loud_ones(two, tmp_path):
    sheet = make(tmp_path / "s", *two, catch=0, repeat=0)
    for trial in sheet.trials:
        left, right = (read(sheet.audio(trial.id, side)) for side in ("left", "right"))
        assert abs(loudness.lufs(left) - loudness.lufs(right)) < 0.1
        assert loudness_dbfs(left) > -30
