"""Files that lie about themselves: each case is a real file made by a real encoder and then bent."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
import soundfile

from legato import audio, containers
from legato.errors import BadInput

RATE = 16000
TONE = (0.3 * np.sin(2 * np.pi * 440 * np.arange(2 * RATE) / RATE)).astype(np.float32)  # 2 s


def encode(kind: str, subtype: str | None = None, wave: np.ndarray = TONE, rate: int = RATE, **how) -> bytes:
    buffer = io.BytesIO()
    channels = 1 if wave.ndim == 1 else wave.shape[1]
    with soundfile.SoundFile(buffer, "w", rate, channels, subtype, format=kind, **how) as file:
        file.write(wave)
    return buffer.getvalue()


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def wav_sizes(riff: int | None = None, data: int | None = None) -> bytes:
    wav = encode("WAV", "PCM_16")
    if riff is not None:
        wav = patched(wav, 4, struct.pack("<I", riff))
    return wav if data is None else patched(wav, wav.index(b"data") + 4, struct.pack("<I", data))


def refusal(data: bytes, **how) -> str:
    with pytest.raises(BadInput) as caught:
        audio.read(data, **how)
    sentence = str(caught.value)
    assert sentence.endswith((".", ".wav")) and "\n" not in sentence
    return sentence


@pytest.mark.parametrize("riff", [0, 1000, 10**8, 0xFFFFFFFF])
def test_a_wrong_riff_size_does_no_harm(riff):
    assert audio.read(wav_sizes(riff=riff)).seconds == 2


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000], ids=["ffmpeg", "arecord", "sox"])
def test_streamed_wavs_are_read_to_their_end(size):
    assert audio.read(wav_sizes(0xFFFFFFFF, size)).seconds == 2


def test_a_recording_whose_sizes_were_never_filled_in_is_read_to_its_end():
    whole = audio.read(wav_sizes())
    np.testing.assert_array_equal(audio.read(wav_sizes(0, 0)).samples, whole.samples)


def test_zero_bytes_of_data_before_a_proper_chunk_are_zero_samples():
    empty = encode("WAV", "PCM_16", TONE[:0])
    assert "0 samples" in refusal(empty + b"LIST" + struct.pack("<I", 200) + b"x" * 200)


def test_a_data_size_beyond_the_file_is_a_cut_file():
    assert "promises 100,000,000 bytes of audio and holds 64,000" in refusal(wav_sizes(data=10**8))


def test_a_data_size_that_leaves_audio_unexplained_is_a_lie():
    assert "says 1,000 bytes of audio and 63,000 unexplained bytes follow" in refusal(wav_sizes(data=1000))


@pytest.mark.parametrize("more", [b"LIST\x04\0\0\0abcd", bytes(3000), b"TAG" + b" " * 125, b"ID3\x04" + b"\1" * 300])
def test_chunks_tags_and_padding_after_the_audio_are_no_lie(more):
    assert audio.read(wav_sizes() + more).seconds == 2


def test_a_slip_of_a_header_length_is_forgiven():
    assert audio.read(wav_sizes(data=64000 + 44)).seconds == 2


@pytest.mark.parametrize(
    ("kind", "subtype"),
    [
        ("WAV", "PCM_U8"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("WAV", "ULAW"), ("WAVEX", "PCM_16"),
        ("RF64", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("part", [0.02, 0.3, 0.5, 0.9])
def test_no_format_passes_off_a_part_as_the_whole(kind, subtype, part):
    data = encode(kind, subtype)
    refusal(data[: int(part * len(data))])


@pytest.mark.parametrize("length", [1, 4, 12, 20, 36, 43, 44, 45])
def test_a_wav_cut_inside_its_header_is_one_sentence(length):
    refusal(encode("WAV", "PCM_16")[:length])


def flac_says(frames: int) -> bytes:
    data = encode("FLAC", "PCM_16")
    return patched(data, 21, bytes([data[21] & 0xF0 | frames >> 32]) + struct.pack(">I", frames & 0xFFFFFFFF))


def test_flac_lengths_are_counted_not_believed():
    whole = audio.read(encode("FLAC", "PCM_16"))
    np.testing.assert_array_equal(audio.read(flac_says(0)).samples, whole.samples)  # 0 means unknown
    assert "says 0.01 s of audio and 2.00 s are there" in refusal(flac_says(100))
    assert "promises 3.00 s of audio and holds 2.00 s" in refusal(flac_says(48000))
    assert "over 1,024 MiB" in refusal(flac_says(2**36 - 1))
    assert "at most 30 s" in refusal(flac_says(2**36 - 1), max_seconds=30)


def test_a_flac_behind_an_id3_tag_is_read():
    assert audio.read(b"ID3\x04\0\0\0\0\0\x0a" + bytes(10) + encode("FLAC", "PCM_16")).seconds == 2


@pytest.mark.parametrize(("kind", "subtype"), [("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS")])
def test_one_flipped_byte_is_found(kind, subtype):
    data = encode(kind, subtype)
    middle = len(data) // 2
    assert "damaged" in refusal(patched(data, middle, bytes([data[middle] ^ 0xFF])))


def test_the_ogg_checksum_is_the_bitwise_one_of_the_standard():
    page = bytearray(encode("OGG", "VORBIS")[:58])  # the first page
    stored = struct.unpack_from("<I", page, 22)[0]
    page[22:26] = bytes(4)
    crc = 0
    for byte in page:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc & 1 << 31 else 0)) & 0xFFFFFFFF
    assert crc == stored != zlib.crc32(page)


def test_ogg_endings():
    vorbis = encode("OGG", "VORBIS")
    assert "several recordings" in refusal(vorbis + vorbis)
    assert audio.read(vorbis + b"appended by somebody " * 10).seconds == 2
    last = vorbis.rindex(b"OggS")
    if vorbis.count(b"OggS") > 3:  # a stream stopped between two pages promises no more than it has
        assert 0 < audio.read(vorbis[:last]).seconds < 2


def mp3(**how) -> bytes:
    return encode("MP3", "MPEG_LAYER_III", **how)


def without_tag(data: bytes) -> bytes:
    return data[containers._mp3_frame(data, 0)[0] :]


def test_mp3_lengths_are_counted_not_believed():
    data = mp3()
    assert audio.read(data).seconds == 2
    assert "says 2.0" in refusal(data + data)  # libsndfile would return the first and keep quiet
    tag = data.index(b"Xing")
    assert "promises 36.00 s of audio and holds 2." in refusal(patched(data, tag + 8, struct.pack(">I", 1000)))
    assert "lying header" in refusal(patched(data, tag + 8, struct.pack(">I", 10)))


def test_an_mp3_of_changing_bit_rate_without_a_tag_is_read_to_its_end():
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, RATE).astype(np.float32)
    wave = np.concatenate([noise, np.zeros(8 * RATE, np.float32), TONE])
    for shape in (wave, np.stack([wave, wave[::-1]], axis=1)):
        for rate in (16000, 44100):
            data = mp3(wave=shape, rate=rate, bitrate_mode="VARIABLE", compression_level=0.5)
            seconds = len(wave) / rate
            assert audio.read(data).seconds == pytest.approx(seconds, abs=1e-3)
            assert audio.read(without_tag(data)).seconds == pytest.approx(seconds, abs=0.2)


def test_an_mp3_of_constant_bit_rate_needs_no_tag_and_may_wear_tags_at_both_ends():
    data = without_tag(mp3(bitrate_mode="CONSTANT", compression_level=0.5))
    assert audio.read(data).seconds == pytest.approx(2, abs=0.15)
    worn = b"ID3\x04\0\0\0\0\x10\0" + bytes(2048) + bytes(64) + data + b"TAG" + b" " * 125
    assert audio.read(worn).seconds == pytest.approx(2, abs=0.15)


def test_a_hole_in_an_mp3_is_found():
    data = mp3()
    assert "no MP3 frame there" in refusal(patched(data, len(data) // 2, bytes(500)))


@pytest.mark.parametrize(
    ("version", "size", "samples", "rate"),
    [
        (b"\xff\xfb\x90\x00", 417, 1152, 44100),
        (b"\xff\xfb\x92\x00", 418, 1152, 44100),
        (b"\xff\xf3\x88\xc4", 288, 576, 16000),
    ],
)
def test_mp3_frame_headers_by_the_book(version, size, samples, rate):
    assert containers._mp3_frame(version, 0) == (size, samples, rate)


@pytest.mark.parametrize(
    "data",
    [
        b"hello world, not audio\n" * 100, b'{"a": 1}', b"\x89PNG\r\n\x1a\n" + bytes(300), bytes(5000), b"\x00", b"R",
        b"RIFF\0\0\0\0AVI LIST", b"\xff\xfe" + "text".encode("utf-16-le"), b"\xff\xf1\x50\x80" + bytes(900), b"OggS",
        b"fLaC", b"fLaC" + bytes(100), b"ID3", b"ID3\x04\0\0\0\0\0\x10" + b"\xff\xfb" * 500, b"%PDF-1.7\n" * 40,
        np.random.default_rng(0).bytes(20000), b"RIFF\xff\xff\xff\xffWAVEdata",
    ],
    ids=lambda data: repr(data[:8]),
)  # fmt: skip
def test_what_is_not_audio_is_one_sentence(data):
    refusal(data)


def test_bent_headers_never_escape_as_anything_else():
    rng = np.random.default_rng(7)
    outcomes = {"read": 0, "refused": 0}
    for kind, subtype in [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")]:
        whole = encode(kind, subtype, TONE[:4000])
        for _ in range(150):
            data = bytearray(whole)
            for at in rng.integers(0, min(len(data), 120), size=rng.integers(1, 4)):
                data[at] = rng.integers(0, 256)
            try:
                assert audio.read(bytes(data), max_seconds=10_000).samples.size
                outcomes["read"] += 1
            except BadInput as error:
                assert "\n" not in str(error)
                outcomes["refused"] += 1
    assert min(outcomes.values()) > 50
