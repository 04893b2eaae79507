"""Audio: what is read is what was recorded, and what cannot be is refused in one sentence."""

from __future__ import annotations

import io
import math
import os
import threading

import numpy as np
import pytest
import soundfile

from legato import audio
from legato.audio import Audio
from legato.errors import BadInput

RATE = 16000


def tone(seconds: float = 1.0, rate: int = RATE, hz: float = 440.0, level: float = 0.3) -> np.ndarray:
    return (level * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def encode(wave: np.ndarray, kind: str = "WAV", subtype: str | None = None, rate: int = RATE) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, wave, rate, format=kind, subtype=subtype)
    return buffer.getvalue()


def refusal(source, **how) -> str:
    with pytest.raises(BadInput) as caught:
        audio.read(source, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Reading


@pytest.mark.parametrize(
    ("kind", "subtype", "error"),
    [
        ("WAV", "PCM_U8", 1 / 100), ("WAV", "PCM_16", 1 / 32000), ("WAV", "PCM_24", 1e-6), ("WAV", "PCM_32", 1e-7),
        ("WAV", "FLOAT", 0), ("WAV", "DOUBLE", 0), ("WAV", "ALAW", 0.02), ("WAV", "ULAW", 0.02), ("WAV", "GSM610", 0.2),
        ("WAV", "IMA_ADPCM", 0.1), ("WAVEX", "PCM_16", 1 / 32000), ("RF64", "PCM_16", 1 / 32000),
        ("FLAC", "PCM_16", 1 / 32000), ("FLAC", "PCM_24", 1e-6), ("OGG", "VORBIS", 0.05), ("OGG", "OPUS", 0.1),
        ("MP3", "MPEG_LAYER_III", 0.05),
    ],
)  # fmt: skip
def test_every_format_and_depth_gives_back_the_wave(kind, subtype, error):
    wave = tone()
    heard = audio.read(encode(wave, kind, subtype))
    assert heard.rate == RATE and heard.samples.dtype == np.float32
    inner = slice(1600, 14400)  # lossy codecs ring at the ends
    assert np.abs(heard.samples[0, inner] - wave[inner]).max() <= error


@pytest.mark.parametrize("rate", [1, 7, 8000, 11025, 44100, 192000, 384000])
def test_every_rate_is_read(rate):
    heard = audio.read(encode(tone(rate=RATE), rate=rate))
    assert heard.rate == rate and heard.seconds == RATE / rate


@pytest.mark.parametrize("channels", [1, 2, 6, 8, 64])
def test_every_channel_count_is_read_in_order(channels):
    wave = tone(0.1)[:, None] * np.linspace(0.1, 1, channels, dtype=np.float32)
    heard = audio.read(encode(wave, subtype="FLOAT"))
    np.testing.assert_array_equal(heard.samples, wave.T)


def test_paths_bytes_open_files_and_pipes_are_one_thing(tmp_path):
    data = encode(tone())
    path = tmp_path / "frage über alles.wav"
    path.write_bytes(data)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    with path.open("rb") as file:
        heard = [audio.read(source) for source in (path, str(path), data, io.BytesIO(data), file, pipe)]
    writer.join()
    assert len({one.sha256 for one in heard}) == 1


def test_files_that_cannot_be_opened_are_one_sentence(tmp_path, monkeypatch):
    assert "there is no file" in refusal(tmp_path / "nowhere.wav")
    assert "there is no file -" in refusal("-")
    assert "is a directory" in refusal(tmp_path)
    assert "cannot be opened" in refusal("a\0b.wav")
    assert "cannot be opened" in refusal("x" * 5000)
    monkeypatch.setattr(audio, "MAX_FILE_BYTES", 1 << 20)
    assert "larger than 1 MiB" in refusal("/dev/zero")  # endless
    empty = tmp_path / "empty.wav"
    empty.touch()
    assert "is empty (0 bytes)" in refusal(empty)

    def locked(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", locked)
    assert "may not be read by this user" in refusal(empty)


def test_too_much_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    ten_minutes = encode(np.zeros(600 * 8000, np.float32), "FLAC", rate=8000)  # a few kB that unpack to 19 MB
    assert len(ten_minutes) < 50_000
    monkeypatch.setattr(soundfile.SoundFile, "read", None)  # nothing may be decoded
    assert refusal(ten_minutes, max_seconds=30).endswith(
        "holds 600.0 s of audio; at most 30 s can be taken; cut it shorter."
    )


def test_a_bomb_without_a_length_is_stopped_on_the_way(monkeypatch):
    silent = bytearray(encode(np.zeros(600 * 8000, np.float32), "FLAC", rate=8000))
    silent[21:26] = bytes([silent[21] & 0xF0, 0, 0, 0, 0])  # length unknown
    assert "more audio than allowed; at most 30 s" in refusal(bytes(silent), max_seconds=30)
    monkeypatch.setattr(audio, "MAX_VALUES", 1 << 20)
    assert "over 4 MiB once decoded" in refusal(bytes(silent))


def test_large_files_many_channels_and_mad_rates_are_refused(monkeypatch):
    assert "65 channels" in refusal(encode(np.zeros((10, 65), np.float32)))
    assert "at 1,000,000 Hz" in refusal(encode(tone(), rate=1_000_000))
    monkeypatch.setattr(audio, "MAX_FILE_BYTES", 1 << 20)
    assert "larger than 1 MiB" in refusal(encode(tone(33)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_numbers_are_refused(bad):
    wave = tone()
    wave[7] = bad
    assert "NaN, infinite" in refusal(encode(wave, subtype="FLOAT"))
    assert "beyond 32-bit floats" in refusal(encode(tone().astype(np.float64) * 1e300, subtype="DOUBLE"))


def test_no_samples_are_refused_and_one_is_not():
    assert "0 samples" in refusal(encode(np.zeros(0, np.float32)))
    assert audio.read(encode(np.full(1, 0.5, np.float32))).samples.tolist() == [[0.5]]


@pytest.mark.parametrize("gain", [1.5, 1000.0, 32768.0, 2.0**31])
def test_float_files_over_full_scale_keep_their_shape(gain):
    heard = audio.read(encode(tone(level=1.0) * np.float32(gain), subtype="FLOAT"))
    np.testing.assert_allclose(heard.samples[0], tone(level=1.0) / np.abs(tone(level=1.0)).max(), atol=2e-7)


def test_a_sample_beyond_any_headroom_is_refused():
    wave = tone()
    wave[7] = -1e30
    assert "holds a sample of 1e+30, where full scale is 1" in refusal(encode(wave, subtype="FLOAT"))


def test_a_rate_too_low_for_speech_is_no_question():
    audio.check_question(Audio(tone(rate=4000)[None], 4000))
    with pytest.raises(BadInput, match="the audio has 3,999 samples a second, too few for speech"):
        audio.check_question(Audio(tone(rate=4000)[None], 3999))


# Audio itself


@pytest.mark.parametrize(
    ("samples", "rate", "complaint"),
    [
        (np.zeros(5, np.float32), 16000, r"float32 of shape \(5,\)"),
        (np.zeros((1, 5)), 16000, "float64"),
        ([[0.0]], 16000, "list"),
        (np.zeros((1, 0), np.float32), 16000, "no samples"),
        (np.zeros((1, 5), np.float32), 0, "rate 0"),
        (np.zeros((1, 5), np.float32), 16000.0, "rate 16000.0"),
        (np.zeros((1, 5), np.float32), 384001, "rate 384001"),
        (np.full((1, 5), np.nan, np.float32), 16000, "NaN"),
        (np.full((1, 5), 1.01, np.float32), 16000, "beyond -1..1"),
    ],
)
def test_audio_cannot_be_made_wrong(samples, rate, complaint):
    with pytest.raises(BadInput, match=complaint):
        Audio(samples, rate)


def test_mono_is_the_mean_unless_the_channels_cancel():
    voice, hum = tone(hz=440), tone(hz=100, level=0.1)
    np.testing.assert_allclose(Audio(np.stack([voice, hum]), RATE).mono().samples[0], (voice + hum) / 2, atol=1e-7)
    np.testing.assert_array_equal(Audio(np.stack([voice, -voice]), RATE).mono().samples[0], voice)  # a swapped wire
    np.testing.assert_array_equal(Audio(np.stack([-0.9 * voice, voice]), RATE).mono().samples[0], voice)
    surround = np.zeros((6, RATE), np.float32)
    surround[2] = voice  # five empty channels dilute, they do not cancel
    np.testing.assert_allclose(Audio(surround, RATE).mono().samples[0], voice / 6, atol=1e-7)
    silent = Audio(np.zeros((2, 10), np.float32), RATE)
    assert not silent.mono().samples.any()


def test_resampling_keeps_time_pitch_and_level():
    for rate in (8000, 11025, 44100, 48000):
        out = Audio(tone(rate=rate)[None], rate).resample(RATE)
        assert out.rate == RATE and abs(out.samples.shape[1] - RATE) <= 1
        inner = slice(800, 15200)
        np.testing.assert_allclose(out.samples[0, inner], tone()[inner], atol=1e-3)
    same = Audio(tone()[None], RATE)
    assert same.resample(RATE) is same


def test_resampling_removes_what_the_new_rate_cannot_hold():
    out = Audio(tone(rate=48000, hz=10_000)[None], 48000).resample(RATE)
    assert np.abs(out.samples[0, 800:-800]).max() < 1e-3


def test_resampling_a_square_wave_stays_in_range_and_extremes_are_sentences():
    square = np.sign(tone(rate=44100, hz=441.3)) + np.float32(0)
    assert np.abs(Audio(square[None], 44100).resample(RATE).samples).max() == 1.0
    with pytest.raises(BadInput, match="cannot resample to 0 Hz"):
        Audio(square[None], 44100).resample(0)
    with pytest.raises(BadInput, match="holds no samples"):
        Audio(np.zeros((1, 3), np.float32), 384000).resample(RATE)
    assert Audio(np.ones((1, 2), np.float32), 1).resample(RATE).samples.shape == (1, 32000)


def test_identity_is_of_the_content_not_of_the_container():
    wave = np.round(tone() * 32768).astype(np.int16)
    copies = [
        ("WAV", "PCM_16"),
        ("WAV", "PCM_24"),
        ("WAV", "PCM_32"),
        ("WAV", "FLOAT"),
        ("FLAC", "PCM_16"),
        ("RF64", "PCM_16"),
    ]
    exact = wave.astype(np.float32) / 32768
    identities = {audio.read(encode(exact if sub == "FLOAT" else wave, kind, sub)).sha256 for kind, sub in copies}
    stereo = audio.read(encode(np.stack([wave, wave], axis=1), subtype="PCM_16")).sha256
    # Written down, so that it can never drift: what was sealed must be found again.
    ramp = Audio((np.arange(-400, 400, dtype=np.float32) / 32768)[None], 8000)
    assert identities == {stereo}
    assert ramp.sha256 == "13c058a9e59e069cd994b22c6598da699e44b39cf2ad0782c0836a456d2195e5"
    assert Audio(ramp.samples, 16000).sha256 != ramp.sha256
    assert Audio(-ramp.samples, 8000).sha256 != ramp.sha256


# Writing


@pytest.mark.parametrize("ending", ["wav", "flac", "WAV"])
def test_sixteen_bit_material_comes_back_bit_for_bit(tmp_path, ending):
    whole = np.arange(-32768, 32768, dtype=np.float32).reshape(2, -1) / 32768  # every 16-bit value there is
    path = tmp_path / f"all.{ending}"
    audio.write(path, Audio(whole, 44100))
    back = audio.read(path)
    assert back.rate == 44100
    np.testing.assert_array_equal(back.samples, whole)


def test_writing_rounds_and_never_wraps(tmp_path):
    audio.write(tmp_path / "x.wav", Audio(np.array([[1.0, -1.0, 0.4 / 32768, 0.6 / 32768]], np.float32), RATE))
    assert (audio.read(tmp_path / "x.wav").samples * 32768).tolist() == [[32767, -32768, 0, 1]]


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "x.wav"
    audio.write(path, Audio(tone()[None], RATE))
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match="cannot write .*x.wav: No space left on device"):
        audio.write(path, Audio(tone(hz=100)[None], RATE))
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["x.wav"]


def test_what_cannot_be_written_is_one_sentence(tmp_path):
    one = Audio(tone()[None], RATE)
    for name, complaint in [
        ("x.mp3", "must end in .wav or .flac"),
        ("no/where.wav", "No such file"),
        ("x.flac", "cannot write"),
    ]:
        with pytest.raises(BadInput, match=complaint):
            audio.write(tmp_path / name, Audio(np.zeros((9, 9), np.float32), RATE) if name == "x.flac" else one)
    assert not list(tmp_path.iterdir())


# What the assistant can take


def test_loudness_of_known_waves():
    def level(wave: np.ndarray) -> float:
        return audio.loudness_dbfs(Audio(wave[None].astype(np.float32), RATE))

    assert level(np.sign(tone())) == pytest.approx(0, abs=0.01)
    assert level(tone(level=0.1)) == pytest.approx(-23.01, abs=0.01)  # 20 dB down, and 3.01 for a sine
    word = np.concatenate([np.zeros(10 * RATE), tone(0.4, level=0.1), np.zeros(10 * RATE)])
    assert level(word) == pytest.approx(-23.01, abs=0.01)
    assert level(np.zeros(RATE)) == level(np.full(RATE, 0.25)) == level(np.ones(1)) == -math.inf


def test_questions_are_long_enough_short_enough_and_audible():
    def complaint(wave: np.ndarray, **how) -> str:
        with pytest.raises(BadInput) as caught:
            audio.check_question(Audio(wave[None].astype(np.float32), RATE), **how)
        return str(caught.value)

    audio.check_question(Audio(tone()[None], RATE))
    audio.check_question(Audio(tone(30)[None], RATE))
    audio.check_question(Audio(tone(level=1e-3)[None], RATE))  # quiet, not silent
    assert "30.5 s of audio; at most 30 s" in complaint(tone(30.5))
    assert "0.100 s long, too short" in complaint(tone(0.1))
    assert complaint(np.zeros(RATE), name="q.wav").startswith("no speech found in q.wav: it is silent")
    hiss = np.random.default_rng(0).integers(-1, 2, RATE) / 32768
    assert "its loudest moment is 92 dB below full scale" in complaint(hiss)


def test_a_growing_file_is_the_one_written_at_once(tmp_path):
    samples = tone(seconds=0.5).reshape(-1)
    with audio.writing(tmp_path / "grown.wav", RATE) as put:
        for part in np.array_split(samples, 7):
            put(part)
        assert not (tmp_path / "grown.wav").exists()  # only whole
    audio.write(tmp_path / "whole.wav", Audio(samples[None], RATE))
    np.testing.assert_array_equal(*(audio.read(tmp_path / f"{name}.wav").samples for name in ("grown", "whole")))
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_an_interrupted_file_leaves_nothing_and_the_old_one_alone(tmp_path):
    path = tmp_path / "out.wav"
    audio.write(path, Audio(tone(seconds=0.1).reshape(1, -1), RATE))
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), audio.writing(path, RATE) as put:
        put(np.zeros(100, np.float32))
        raise KeyboardInterrupt
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    path = tmp_path / "out.wav"
    with pytest.raises(BadInput, match="out.wav: No space left on device"), audio.writing(path, RATE) as put:
        put(np.zeros(100, np.float32))
        monkeypatch.setattr("wave.Wave_write.writeframes", full)
        put(np.zeros(100, np.float32))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "why"), [("a.mp3", "must end in .wav"), ("no/where.wav", "No such file"), ("d.wav", "is a directory")]
)
def test_a_place_that_cannot_be_written_is_told_at_once(tmp_path, name, why):
    (tmp_path / "d.wav").mkdir()
    with pytest.raises(BadInput, match=why), audio.writing(tmp_path / name, RATE):
        raise AssertionError("must not be reached")
