"""The laws of the spoken questions: same seed same clip, a killed run continues, conditions are what they say they are.

A made-up engine (a buzzing vowel) stands in for the voices; the real ones are tried where they are installed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))
import speak_questions as sq
from voices import conditions
from voices.catalogue import VOICES, order_voices, voices_of
from voices.engines import Festival, MissingVoice
from voices.shards import ClipWriter, file_name, read_clip, read_entries

RATE = 16_000
SLOW = ("hibari", "kokoro", "piper", "rhvoice")  # a second or more to load, or a process a call
ROWS = [{"id": f"row/{n}", "question": f"What is {n} plus {n}?"} for n in range(6)]
CLEAN = conditions.Condition("clean", None, None, None, None, None, None, -24.0, 100.0, 50.0)


class Buzz:
    """A voice whose length follows the text and the speed, and whose pitch follows pitch."""

    bends_speed = bends_pitch = True

    def say(self, text: str, speed: float, pitch: float) -> tuple[np.ndarray, int]:
        t = np.arange(int(1000 * len(text) / speed)) / 22_050
        sound = sum(np.sin(2 * np.pi * 110 * pitch * k * t) / k for k in range(1, 20))
        return (0.2 * sound * (1 + 0.3 * np.sin(2 * np.pi * 5 * t))).astype(np.float32), 22_050


@pytest.fixture
def buzz(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sq, "engine", lambda name: Buzz())
    sq._crowd.cache_clear()
    yield
    sq._crowd.cache_clear()


def shas(folder: Path) -> dict[str, str]:
    return {entry["id"]: entry["sha256"] for entry in read_entries(folder)}


def vowel(seconds: float = 1.0, pitch: float = 120.0) -> np.ndarray:
    t = np.arange(int(seconds * RATE)) / RATE
    return (0.2 * sum(np.sin(2 * np.pi * pitch * k * t) / k for k in range(1, 25))).astype(np.float32)


def pitch_of(x: np.ndarray) -> float:
    """Fundamental in Hz from the autocorrelation of the middle of x."""
    piece = x[len(x) // 2 - 2048 : len(x) // 2 + 2048].astype(float)
    spectrum = np.abs(np.fft.rfft(piece, 16_384)) ** 2
    lags = np.fft.irfft(spectrum)
    low, high = RATE // 400, RATE // 60
    return RATE / (low + int(np.argmax(lags[low:high])))


def share_above(x: np.ndarray, hertz: float) -> float:
    power = np.abs(np.fft.rfft(x.astype(float))) ** 2
    return float(power[np.fft.rfftfreq(len(x), 1 / RATE) > hertz].sum() / power.sum())


# ---- the set -------------------------------------------------------------------------------------------------------


def test_a_clip_depends_on_row_take_and_seed_alone(buzz, tmp_path):
    sq.build(ROWS, "train", tmp_path / "all", seed=3, takes=2)
    sq.build(ROWS[::-1][:3], "train", tmp_path / "some", seed=3, takes=2)
    every, some = shas(tmp_path / "all"), shas(tmp_path / "some")
    assert len(every) == 12 and len(set(every.values())) == 12
    assert some == {key: every[key] for key in some} and len(some) == 6
    sq.build(ROWS, "train", tmp_path / "other", seed=4, takes=2)
    assert not set(shas(tmp_path / "other").values()) & set(every.values())


def test_takes_of_a_row_have_different_voices(buzz):
    voices = [sq.speak_one(ROWS[0], "held", 0, take).record["voice"] for take in range(len(voices_of("held")))]
    assert set(voices) == {voice.name for voice in voices_of("held")}


def test_samples_read_back_are_the_ones_recorded(buzz, tmp_path):
    sq.build(ROWS, "held", tmp_path, seed=0)
    for entry in read_entries(tmp_path):
        samples = read_clip(tmp_path, entry)
        assert samples.dtype == np.dtype("<i2") and len(samples) == entry["samples"]
        assert entry["seconds"] == pytest.approx(len(samples) / RATE, abs=1e-4)
        assert hashlib.sha256(samples.tobytes()).hexdigest() == entry["sha256"]


def test_flac_files_hold_the_same_samples_as_shards(buzz, tmp_path):
    sq.build(ROWS, "held", tmp_path / "shards", seed=0)
    sq.build(ROWS, "held", tmp_path / "files", seed=0, flac=True)
    assert shas(tmp_path / "files") == shas(tmp_path / "shards")
    for entry in read_entries(tmp_path / "files"):
        assert hashlib.sha256(read_clip(tmp_path / "files", entry).tobytes()).hexdigest() == entry["sha256"]
    assert not list((tmp_path / "files").glob("*.part"))
    # `legato eval` looks for one file a row, by the row's own id
    assert {e["file"] for e in read_entries(tmp_path / "files")} == {f"{file_name(row['id'])}.flac" for row in ROWS}


@pytest.mark.parametrize("damage", ["torn line", "lost samples", "samples without a line", "middle line"])
def test_a_killed_run_continues_to_the_same_set(buzz, tmp_path, damage):
    sq.build(ROWS, "train", tmp_path / "whole", seed=1)
    sq.build(ROWS, "train", tmp_path / "killed", seed=1)
    index, shard = tmp_path / "killed/clips.jsonl", tmp_path / "killed/shard-0000.i16"
    lines = index.read_bytes().splitlines(keepends=True)
    if damage == "torn line":
        index.write_bytes(b"".join(lines[:4]) + lines[4][:40])
    elif damage == "lost samples":
        shard.write_bytes(shard.read_bytes()[: 2 * json.loads(lines[3])["offset"] + 101])
    elif damage == "samples without a line":
        index.write_bytes(b"".join(lines[:4]))
        with open(shard, "ab") as file:
            file.write(b"xyz")
    else:
        index.write_bytes(b"".join([*lines[:2], b"{\n", *lines[3:]]))
    assert sq.build(ROWS, "train", tmp_path / "killed", seed=1) == 6
    assert shas(tmp_path / "killed") == shas(tmp_path / "whole")
    assert shard.read_bytes() == (tmp_path / "whole/shard-0000.i16").read_bytes()


def test_two_workers_write_what_one_writes(buzz, tmp_path):
    sq.build(ROWS, "train", tmp_path / "one", seed=1)
    sq.build(ROWS, "train", tmp_path / "two", seed=1, workers=2)
    assert (tmp_path / "two/clips.jsonl").read_text() == (tmp_path / "one/clips.jsonl").read_text()


def test_shards_roll_over(tmp_path, monkeypatch):
    monkeypatch.setattr("voices.shards.CLIPS_PER_SHARD", 3)
    clips = [np.arange(n, n + 50, dtype=np.int16) for n in range(7)]
    for part in (clips[:4], clips[4:]):
        writer = ClipWriter(tmp_path)
        for clip in part:
            writer.add(clip, {"id": str(clip[0])})
        writer.close()
    entries = read_entries(tmp_path)
    assert [entry["shard"] for entry in entries] == ["shard-0000.i16"] * 3 + ["shard-0001.i16"] * 3 + ["shard-0002.i16"]
    assert all(np.array_equal(read_clip(tmp_path, entry), clip) for entry, clip in zip(entries, clips, strict=True))


def test_a_folder_made_otherwise_is_refused(buzz, tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS[:2]))
    arguments = ["--rows", str(rows), "--out", str(tmp_path / "out")]
    assert sq.main([*arguments, "--split", "train"]) == 0
    assert sq.main([*arguments, "--split", "train"]) == 0
    assert sq.main([*arguments, "--split", "held"]) == 2
    assert "choose another --out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"id": "a"}\n', "line 1"),
        ('{"id": "a", "question": "Q?"}\n' * 2, "same id"),
        ("[1]\n", "not a row"),
        ("x\n", ""),
    ],
)
def test_a_bad_rows_file_is_one_sentence(tmp_path, capsys, text, words):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(text)
    assert sq.main(["--rows", str(rows), "--split", "train", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_flac_names_are_plain_and_distinct():
    assert file_name("a1.0") == "a1.0"
    assert file_name("a/1.0") != file_name("a_1.0") and "/" not in file_name("a/1.0")


# ---- the voices ----------------------------------------------------------------------------------------------------


def test_held_voices_rooms_and_noises_are_unheard_in_training():
    held, train = voices_of("held"), voices_of("train")
    assert {"joe", "awb", "jm_kumo", "jf_gongitsune"} == {voice.name for voice in held}
    assert not {voice.name for voice in held} & {voice.name for voice in train}
    assert not set(conditions.HELD_NOISES) & set(conditions.TRAIN_NOISES)
    for split, names in sq.CROWD_VOICES.items():
        assert all(VOICES[name].split == split for name in names)
    rng = np.random.default_rng(0)
    rooms = {s: [conditions.draw_condition(rng, s).room_ms or 0 for _ in range(500)] for s in sq.SPLITS}
    assert max(rooms["train"]) <= 600 <= min(room for room in rooms["held"] if room)


def test_voices_come_by_their_shares():
    rng, draws = np.random.default_rng(0), 4000
    first = [order_voices(rng, "train")[0].name for _ in range(draws)]
    total = sum(voice.share for voice in voices_of("train"))
    for voice in voices_of("train"):
        wanted = voice.share / total
        assert first.count(voice.name) / draws == pytest.approx(wanted, abs=4 * np.sqrt(wanted / draws))
    kokoro = sum(voice.share for voice in voices_of("train") if voice.engine == "kokoro")
    assert kokoro / total <= 0.03


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if voice.engine in SLOW else []) for name, voice in VOICES.items()],
)
def test_an_installed_voice_says_the_same_thing_twice(name):
    try:
        voice = VOICES[name].make()
    except MissingVoice as missing:
        pytest.skip(str(missing))
    first, rate = voice.say("Say the words ear salad.", 1.0, 1.0)
    voice.say("Where are the keys?", 1.2, 1.1)
    again, _ = voice.say("Say the words ear salad.", 1.0, 1.0)
    assert np.array_equal(first, again)
    assert 0.7 < len(first) / rate < 4 and 0.02 < np.abs(first).max() <= 1.0
    if voice.bends_speed:
        assert len(voice.say("Say the words ear salad.", 1.3, 1.0)[0]) < 0.9 * len(first)


def test_festival_survives_a_voice_that_is_missing():
    try:
        good = Festival("ked_diphone", 105.0)
        first, _ = good.say("Hello there.", 1.0, 1.0)
    except MissingVoice as missing:
        pytest.skip(str(missing))
    with pytest.raises(MissingVoice, match="nobody could not say 'Hello.'"):
        Festival("nobody", 105.0).say("Hello.", 1.0, 1.0)
    assert np.array_equal(good.say("Hello there.", 1.0, 1.0)[0], first)


# ---- the conditions ------------------------------------------------------------------------------------------------


def test_about_a_quarter_of_training_is_clean_and_the_rest_is_not():
    rng = np.random.default_rng(0)
    drawn = [conditions.draw_condition(rng, "train") for _ in range(4000)]
    clean = [c for c in drawn if c.kind == "clean"]
    assert 0.25 <= len(clean) / 4000 <= 0.30
    assert all(c.room_ms is None and c.noise is None and c.band is None and c.clip is None for c in clean)
    assert {c.noise for c in drawn} == {None, *conditions.TRAIN_NOISES}
    assert {c.band for c in drawn} == {None, *conditions.BANDS}
    assert all(7 <= c.snr_db <= 30 for c in drawn if c.noise)


@pytest.mark.parametrize("factor", [0.85, 1.18])
def test_warp_moves_pitch_and_length(factor):
    x = conditions.warp(vowel(), RATE, factor)
    assert len(x) == pytest.approx(RATE / factor, abs=2)
    assert pitch_of(x) == pytest.approx(120 * factor, rel=0.02)


@pytest.mark.parametrize("speed", [0.8, 1.25])
def test_stretch_moves_length_and_not_pitch(speed):
    x = conditions.stretch(vowel(2.0), speed)
    assert len(x) == pytest.approx(2 * RATE / speed, rel=0.04)
    assert pitch_of(x) == pytest.approx(120, rel=0.01)
    assert conditions.active_rms(x) == pytest.approx(conditions.active_rms(vowel()), rel=0.05)


def test_trim_leaves_forty_milliseconds():
    x = np.concatenate([np.zeros(8000), vowel(), np.zeros(4800)])
    assert len(conditions.trim(x)) == pytest.approx(RATE + 2 * 640, abs=160)


def test_a_room_starts_with_the_direct_sound_and_decays_by_its_rt60():
    response = conditions.room_response(np.random.default_rng(0), 400.0, 6.0)
    assert len(response) == 6400 and response[0] == np.abs(response).max() == pytest.approx(1.0)
    tail = response[1:].astype(float)
    assert 10 * np.log10(1 / (tail**2).sum()) == pytest.approx(6.0, abs=0.01)
    level = [10 * np.log10((response[a : a + 800] ** 2).mean()) for a in (1600, 4800)]
    assert level[0] - level[1] == pytest.approx(60 * 3200 / 6400, abs=3)


@pytest.mark.parametrize("kind", conditions.TRAIN_NOISES + conditions.HELD_NOISES)
def test_noise_stands_at_its_snr(kind):
    speech = vowel(2.0)
    crowd = [np.random.default_rng(n).standard_normal(RATE) for n in range(3)]
    condition = dataclasses.replace(CLEAN, kind="noise", noise=kind, snr_db=10.0, lead_ms=0.0, tail_ms=0.0)
    clip = conditions.apply_condition(speech, condition, np.random.default_rng(1), crowd).astype(float)
    gain = clip @ speech / (speech @ speech)
    snr = 10 * np.log10((speech**2).mean() * gain**2 / ((clip - gain * speech) ** 2).mean())
    assert snr == pytest.approx(10, abs=1.0)


@pytest.mark.parametrize(("band", "edge"), [("telephone", 3700), ("narrow", 4100), ("muffled", 5000)])
def test_bands_end_where_they_end(band, edge):
    hiss = np.random.default_rng(0).standard_normal(2 * RATE)
    assert share_above(hiss, edge) > 0.3
    assert share_above(conditions.limit_band(np.random.default_rng(1), hiss, band), edge) < 0.03


def test_mulaw_is_close_and_coarse():
    x = vowel(0.2)
    coded = conditions.mulaw(x)
    error = 10 * np.log10((x**2).mean() / ((coded - x) ** 2).mean())
    assert 25 < error < 45 and len(np.unique(coded)) <= 255


def test_clean_clips_have_their_level_and_silence():
    clip = conditions.apply_condition(vowel(), CLEAN, np.random.default_rng(0), [])
    assert len(clip) == RATE + 1600 + 800 and clip.dtype == np.dtype("<i2")
    assert not clip[:1600].any() and not clip[-800:].any()
    assert 20 * np.log10(conditions.active_rms(clip / 32768.0)) == pytest.approx(-24, abs=0.1)


def test_clipping_flattens_and_loud_clips_never_wrap():
    condition = dataclasses.replace(CLEAN, kind="clip", clip=0.5, level_dbfs=-3.0)
    clip = conditions.apply_condition(vowel(), condition, np.random.default_rng(0), [])
    peak = np.abs(clip.astype(int)).max()
    assert peak <= 0.981 * 32767
    assert (np.abs(clip.astype(int)) >= peak - 1).mean() > 0.03
