"""What a WAV, FLAC, OGG or MP3 file promises, held against the bytes that are there.

libsndfile decodes well and trusts too much: a cut WAV or OGG is read as a shorter one, a FLAC whose header says 100
samples yields 100, an MP3 without a length tag is read up to an estimate, and none of it is reported. Half a question
must not be answered as if it were the whole, so the containers are walked here before anything is decoded. This module
decodes nothing and knows no sample values.

Rules, one for all formats: what stops short of its own promise is refused; what goes on well past it is refused; a
header that promises nothing (a stream, a recorder that was stopped) is taken for what is there.
Sources: the RIFF/RF64, FLAC (RFC 9639), Ogg (RFC 3533) and MPEG audio frame formats.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from legato.errors import BadInput

SLIP_BYTES = 64  # sloppy writers are off by a header; 64 bytes are 8 ms of 8 kHz telephone audio, no word
STREAMED = 0x7FFF0000  # data sizes from here up are the "not known yet" of ffmpeg, sox and arecord when they pipe
READABLE = "WAV, FLAC, OGG (Vorbis, Opus) and MP3"


@dataclass(frozen=True)
class Claim:
    """What to decode, and how many frames must come out of it.

    data: the file's bytes, its header made harmless; frames: per channel, None when the container does not say;
    slack: frames that may be missing (codec delay).
    """

    data: bytes
    frames: int | None = None
    slack: int = 0


def inspect(data: bytes, name: str) -> Claim:
    """Walk the container; raise BadInput naming `name` when it is none of ours, cut short, damaged or lying."""
    if not data:
        raise BadInput(f"{name} is empty (0 bytes); give a recording in one of {READABLE}.")
    start = _after_id3(data)
    if data[:4] in (b"RIFF", b"RIFX", b"RF64") and data[8:12] == b"WAVE":
        return _wav(data, name)
    if data[start : start + 4] == b"fLaC":
        return _flac(data, start, name)
    if data[:4] == b"OggS":
        return _ogg(data, name)
    if start or _mp3_frame(data, 0):
        return _mp3(data, start, name)
    raise BadInput(
        f"{name} is not audio that Legato can read ({READABLE}); convert it first, "
        "for example with: ffmpeg -i INPUT question.wav"
    )


def cut_short(name: str, promised: str, there: str) -> BadInput:
    """The wording for files that end before their own promise."""
    return BadInput(
        f"{name} is cut short or damaged: it promises {promised} and holds {there}; copy or record it again."
    )


def runs_on(name: str, promised: str, there: str) -> BadInput:
    """The wording for files that go on after their own promise."""
    return BadInput(
        f"{name} has a lying header: it says {promised} and {there}; save it again, "
        "for example with: ffmpeg -i INPUT question.wav"
    )


def _wav(data: bytes, name: str) -> Claim:
    """Find the data chunk and compare its size with the file's."""
    order = ">" if data[:4] == b"RIFX" else "<"
    long_size = None  # RF64 keeps the true 64-bit data size in a chunk of its own
    at = 12
    while at + 8 <= len(data):
        mark, size = data[at : at + 4], struct.unpack_from(order + "I", data, at + 4)[0]
        if mark == b"data":
            break
        if mark == b"ds64" and at + 24 <= len(data):
            long_size = struct.unpack_from(order + "Q", data, at + 16)[0]
        at += 8 + size + size % 2
    else:
        raise BadInput(f"{name} has a WAV header but no audio data; copy or record it again.")
    if size == 0xFFFFFFFF and long_size is not None:
        size = long_size
    begin, there = at + 8, len(data) - at - 8
    if size >= STREAMED and size > there:
        return Claim(data)  # libsndfile takes what is there, and nobody promised more
    if size == 0 and there > SLIP_BYTES and not _chunks_follow(data, begin, order):
        # A recorder that never came back to fill in its sizes: everything to the end is audio.
        return Claim(data[: at + 4] + struct.pack(order + "I", there) + data[begin:])
    if size > there + SLIP_BYTES:
        raise cut_short(name, f"{size:,} bytes of audio", f"{there:,}")
    after = begin + size + size % 2
    if not _chunks_follow(data, after, order):
        raise runs_on(name, f"{size:,} bytes of audio", f"{len(data) - after:,} unexplained bytes follow")
    return Claim(data)


def _chunks_follow(data: bytes, at: int, order: str) -> bool:
    """Whether everything from `at` is well-formed RIFF chunks, tags, zero padding or a slip of a few bytes."""
    while len(data) - at > SLIP_BYTES:
        mark, size = data[at : at + 4], struct.unpack_from(order + "I", data, at + 4)[0]
        if mark[:3] in (b"ID3", b"TAG"):
            return True
        if not (mark.isascii() and mark.decode().isprintable()) or at + 8 + size > len(data) + SLIP_BYTES:
            return not any(data[at:])
        at += 8 + size + size % 2
    return True


def _flac(data: bytes, start: int, name: str) -> Claim:
    """Take the promised length out of the header, so that the decoder finds the true one."""
    info = start + 8  # STREAMINFO always comes first: 4 bytes of mark, 4 of block header
    if len(data) < info + 34:
        raise BadInput(f"{name} is cut short inside its FLAC header; copy or record it again.")
    frames = (data[info + 13] & 0x0F) << 32 | struct.unpack_from(">I", data, info + 14)[0]  # 36 bits
    unknown = data[: info + 13] + bytes([data[info + 13] & 0xF0, 0, 0, 0, 0]) + data[info + 18 :]
    return Claim(unknown, frames or None)


_REVERSED = bytes(int(f"{i:08b}"[::-1], 2) for i in range(256))


def _ogg_checksum(page: bytes) -> int:
    """Ogg's CRC: zlib's polynomial with the bits the other way round, nothing inverted, its own field zero."""
    blank = page[:22] + bytes(4) + page[26:]
    crc = zlib.crc32(blank.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2)


def _ogg(data: bytes, name: str) -> Claim:
    """Walk the pages: each whole, each with its checksum, one stream."""
    at, flags, music = 0, 0, False
    while at < len(data):
        if data[at : at + 4] != b"OggS":
            if flags & 4:  # what follows the last page of the stream is nobody's audio
                break
            raise BadInput(f"{name} is damaged at byte {at:,}; copy or record it again.")
        table_end = at + 27 + (data[at + 26] if at + 27 <= len(data) else 0)
        end = table_end + sum(data[at + 27 : table_end])
        if max(end, at + 27) > len(data) or table_end > len(data):
            raise BadInput(f"{name} is cut short: its last Ogg page is incomplete; copy or record it again.")
        page, flags = data[at:end], data[at + 5]
        if _ogg_checksum(page) != struct.unpack_from("<I", page, 22)[0]:
            raise BadInput(f"{name} is damaged at byte {at:,} (Ogg page checksum); copy or record it again.")
        if flags & 2 and music:
            raise BadInput(f"{name} holds several recordings one after the other; give them one file each.")
        music = music or not flags & 2
        at = end
    return Claim(data)


_KBPS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # MPEG-1 layer III
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # MPEG-2 and 2.5 layer III
}
_MP3_TAILS = (b"TAG", b"APETAGEX", b"LYRICSBEGIN")


def _after_id3(data: bytes) -> int:
    """Offset of the first byte after any leading ID3v2 tags (0 without one)."""
    at = 0
    while data[at : at + 3] == b"ID3" and at + 10 <= len(data):
        a, b, c, d = data[at + 6 : at + 10]  # 4 x 7 bits
        at += 10 + (a << 21 | b << 14 | c << 7 | d) + (10 if data[at + 5] & 0x10 else 0)
    return at


def _mp3_frame(data: bytes, at: int) -> tuple[int, int, int] | None:
    """(bytes, samples per channel, sampling rate) of the layer III frame that starts at `at`, or None."""
    if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] & 0xE6 != 0xE2:
        return None
    version, rate_index, kbps_index = data[at + 1] >> 3 & 3, data[at + 2] >> 2 & 3, data[at + 2] >> 4
    if version == 1 or rate_index == 3 or kbps_index in (0, 15):
        return None
    first = version == 3
    rate = (44100, 48000, 32000)[rate_index] >> {3: 0, 2: 1, 0: 2}[version]
    size = (144 if first else 72) * 1000 * _KBPS[first][kbps_index] // rate + (data[at + 2] >> 1 & 1)
    return size, 1152 if first else 576, rate


def _mp3(data: bytes, start: int, name: str) -> Claim:
    """Count the frames and hold them against the length tag (Xing/Info) if there is one."""
    at, whole, samples, rate = start, 0, 0, 1
    first, partial = start, False
    tagged: int | None = None
    kbps: set[int] = set()
    while at < len(data):
        frame = _mp3_frame(data, at)
        if frame is None:
            rest = data[at:]
            if whole and (rest.startswith(_MP3_TAILS) or not any(rest) or len(rest) < 4):
                break
            if rest.startswith(b"ID3"):
                at += max(_after_id3(rest), 3)
            elif not whole and rest[0] == 0:  # padding between a tag and the first frame
                at += len(rest) - len(rest.lstrip(b"\0"))
            else:
                raise BadInput(f"{name} is damaged at byte {at:,} (no MP3 frame there); copy or record it again.")
            continue
        size, samples, rate = frame
        if at + size > len(data):
            partial = True
            break
        if not kbps:
            first = at
        tag = max(data.find(b"Xing", at, at + 48), data.find(b"Info", at, at + 48)) if not kbps else -1
        if tag > 0 and data[tag + 7] & 1:
            tagged = struct.unpack_from(">I", data, tag + 8)[0]  # the tag's own frame is not counted
        else:
            whole += 1
        kbps.add(data[at + 2] >> 4)
        at += size
    if not whole:
        raise BadInput(f"{name} holds no complete MP3 frame; copy or record it again.")
    length = f"{whole * samples / rate:.2f} s"
    if tagged is not None and (whole < tagged - 1 or partial and whole < tagged):  # some encoders count the tag as well
        raise cut_short(name, f"{tagged * samples / rate:.2f} s of audio", length)
    if tagged is not None and whole > tagged + 1:
        raise runs_on(name, f"{tagged * samples / rate:.2f} s of audio", f"{length} are there")
    frames = data[first:at]  # without what taggers put before and behind
    if tagged is None and len(kbps) > 1:
        frames = _length_tag(frames, whole) + frames
    return Claim(frames, whole * samples, slack=4 * samples)


def _length_tag(data: bytes, frames: int) -> bytes:
    """A Xing frame for a stream of changing bit rate, whose length the decoder would guess from its first frames."""
    head = bytes([0xFF, data[1] | 1, data[2] & 0x0D | 0x90, data[3]])  # no checksum, no padding, a middling bit rate
    mono, first = data[3] >> 6 == 3, data[1] >> 3 & 3 == 3
    side = (17 if mono else 32) if first else (9 if mono else 17)  # bytes before the tag's place
    frame = head + bytes(side) + b"Xing" + struct.pack(">II", 1, frames)
    return frame.ljust(_mp3_frame(head, 0)[0], b"\0")
