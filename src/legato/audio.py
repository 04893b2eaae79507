"""`Audio` is samples and their rate. Read any recording, check it, mix it down, resample it, write it.

Reading is strict: a file that ends before its header says, is damaged, or holds NaN is refused in one sentence, never
quietly shortened (`containers` says why). Formats: WAV (8 to 32 bit, float, A-law, mu-law, ADPCM, RF64), FLAC,
OGG (Vorbis, Opus), MP3; decoding is libsndfile's (soundfile), resampling is soxr's. Silence is valid audio: ask
`loudness_dbfs`, or let `check_question` refuse it. No model-specific features here.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import secrets
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np

from legato import containers
from legato.artifacts import write_atomic
from legato.errors import BadInput

MAX_RATE = 384_000  # Hz
MAX_CHANNELS = 64
MAX_FILE_BYTES = 256 << 20
MAX_VALUES = 1 << 28  # decoded samples over all channels: 1 GiB of float32, whatever a small file unpacks to
MAX_PEAK = 2.0**31  # what 32-bit whole numbers written as floats reach; a sample beyond is damage, not headroom
MIN_QUESTION_RATE = 4000  # Hz: a telephone line carries up to 3.4 kHz; below 2 kHz, consonants are gone
MIN_QUESTION_SECONDS, MAX_QUESTION_SECONDS = 0.2, 30.0
SILENCE_DBFS = -70.0  # 10 steps of 16-bit audio; recorded rooms are louder, quiet speech much louder
_BLOCK = 1 << 16  # frames decoded at a time
_UNKNOWN = 1 << 60  # libsndfile calls an unknown length the largest 64-bit number
_CANCELLED = 0.1  # a mix 10 dB below that of unrelated channels means that they cancel


@dataclass(frozen=True, eq=False)
class Audio:
    """Samples in [-1, 1] and their rate.

    samples: float32 numpy array (channels, samples), at least one of each, all finite; rate: Hz, 1 to 384,000.
    Raises BadInput for anything else. Not copied: do not write into the array afterwards.
    """

    samples: np.ndarray
    rate: int

    def __post_init__(self) -> None:
        shape = getattr(self.samples, "shape", None)
        if not isinstance(self.samples, np.ndarray) or self.samples.dtype != np.float32 or len(shape) != 2:
            kind = getattr(self.samples, "dtype", type(self.samples).__name__)
            raise BadInput(
                f"audio samples are {kind} of shape {shape}; give a float32 numpy array (channels, samples)."
            )
        if self.samples.size == 0:
            raise BadInput(f"audio of shape {shape} holds no samples; at least one is needed.")
        if isinstance(self.rate, bool) or not isinstance(self.rate, int) or not 1 <= self.rate <= MAX_RATE:
            raise BadInput(f"the sampling rate {self.rate!r} is not a whole number of Hz from 1 to {MAX_RATE:,}.")
        if not np.isfinite(self.samples).all():
            raise BadInput("audio samples hold NaN or infinite values; give finite ones.")
        if np.abs(self.samples).max() > 1.0:
            raise BadInput("audio samples go beyond -1..1; scale them first, for example with Audio.fitted.")

    @classmethod
    def fitted(cls, samples: np.ndarray, rate: int) -> Audio:
        """Audio whose peak is brought down to 1 if it is above; the shape of the wave stays, nothing is clipped."""
        peak = float(np.abs(samples).max(initial=0.0))
        return cls(samples / np.float32(peak) if 1.0 < peak < math.inf else samples, rate)

    @property
    def seconds(self) -> float:
        return self.samples.shape[1] / self.rate

    @cached_property
    def sha256(self) -> str:
        """Content identity: SHA-256 of the rate and of the mono mix at that rate, rounded to 16 bit little-endian.

        No resampler takes part, so it is the same on every machine, and the same for WAV, FLAC, 16, 24, 32 bit or float
        copies of one 16-bit recording. A copy at another rate, level or lossy codec is other content.
        """
        head = f"legato audio 1, {self.rate} Hz\n".encode()
        return hashlib.sha256(head + pcm16(self.mono().samples)).hexdigest()

    def mono(self) -> Audio:
        """One channel: the mean, or the loudest channel where the mean cancels out (one of two wires swapped)."""
        if self.samples.shape[0] == 1:
            return self
        mean = self.samples.mean(axis=0, dtype=np.float64)  # (samples,)
        energy = np.square(self.samples, dtype=np.float64).sum(axis=1)  # (channels,)
        unrelated = energy.sum() / len(energy) ** 2  # the mean's energy if the channels had nothing in common
        if np.square(mean).sum() < _CANCELLED * unrelated:
            mean = self.samples[int(energy.argmax())]
        return Audio(mean.astype(np.float32)[None], self.rate)

    def resample(self, rate: int) -> Audio:
        """The same sound at another rate (Hz), all channels; a peak that the filter lifts above 1 is scaled back."""
        if rate == self.rate:
            return self
        if not 1 <= rate <= MAX_RATE:
            raise BadInput(f"cannot resample to {rate!r} Hz; give a rate from 1 to {MAX_RATE:,}.")
        import soxr

        out = soxr.resample(self.samples.T, self.rate, rate)  # (samples, channels)
        return Audio.fitted(np.ascontiguousarray(out.T, dtype=np.float32), rate)


def read(source: str | os.PathLike[str] | bytes | BinaryIO, max_seconds: float | None = None) -> Audio:
    """Decode a whole recording.

    source: a path, the bytes of a file, or an open binary file. max_seconds: refuse anything longer, before decoding
    where the header tells and as soon as it is passed where the header lies. Samples above full scale (float files,
    lossy codecs) are scaled down by their peak, which may be up to `MAX_PEAK`. Raises BadInput with one sentence for
    whatever cannot be read in full.
    """
    import soundfile

    class Forward(soundfile.SoundFile):
        """Reads to the end without seeking: soundfile seeks after each block, which fails where no length is known."""

        def seekable(self) -> bool:
            return False

    name, data = _load(source)
    claim = containers.inspect(data, name)
    try:
        with Forward(io.BytesIO(claim.data)) as file:
            rate, channels = file.samplerate, file.channels
            if not 1 <= rate <= MAX_RATE or channels > MAX_CHANNELS:
                raise BadInput(
                    f"{name} has {channels} channels at {rate:,} Hz; "
                    f"at most {MAX_CHANNELS} channels and {MAX_RATE:,} Hz can be read."
                )
            room = MAX_VALUES // channels
            most = room if max_seconds is None else min(room, math.floor(max_seconds * rate))
            promised = file.frames if claim.frames is None else claim.frames
            if promised > _UNKNOWN:
                promised = None
            elif promised - claim.slack > most:
                raise _too_long(name, promised / rate, max_seconds if most < room else None)
            blocks: list[np.ndarray] = []
            decoded = 0
            while len(block := file.read(_BLOCK, dtype="float32", always_2d=True)):  # (frames, channels)
                blocks.append(block)
                decoded += len(block)
                if decoded > most:
                    raise _too_long(name, None, max_seconds if most < room else None)
    except soundfile.LibsndfileError as error:
        reason = error.error_string.strip().rstrip(".").removeprefix("Error : ")
        raise BadInput(
            f"{name} is damaged or of a kind that cannot be read ({reason}); save it again as WAV."
        ) from None
    if decoded == 0:
        raise BadInput(f"{name} holds no audio (0 samples); record it again.")
    if promised is not None and decoded < promised - claim.slack:
        raise containers.cut_short(name, f"{promised / rate:.2f} s of audio", f"{decoded / rate:.2f} s")
    if claim.frames is not None and decoded > claim.frames + claim.slack:
        raise containers.runs_on(name, f"{claim.frames / rate:.2f} s of audio", f"{decoded / rate:.2f} s are there")
    samples = np.concatenate(blocks).T  # (channels, samples)
    if not np.isfinite(samples).all():
        raise BadInput(f"{name} holds samples that are NaN, infinite or beyond 32-bit floats; export it again.")
    if (peak := float(np.abs(samples).max())) > MAX_PEAK:
        raise BadInput(f"{name} holds a sample of {peak:.3g}, where full scale is 1; export it again.")
    return Audio.fitted(np.ascontiguousarray(samples), rate)


def write(path: str | os.PathLike[str], audio: Audio) -> None:
    """Write 16-bit WAV or FLAC (by the name's ending), whole or not at all. 16-bit material comes back bit for bit."""
    import soundfile

    path = Path(path)
    kind = {".wav": "WAV", ".flac": "FLAC"}.get(path.suffix.lower())
    if kind is None:
        raise BadInput(f"cannot write {path}: its name must end in .wav or .flac.")
    buffer = io.BytesIO()
    try:
        # soundfile would multiply floats by 32767 and read by 32768; whole numbers pass unchanged.
        soundfile.write(buffer, _int16(audio.samples).T, audio.rate, format=kind, subtype="PCM_16")
        write_atomic(path, buffer.getvalue())
    except soundfile.LibsndfileError as error:
        raise BadInput(f"cannot write {path}: {error.error_string.strip().rstrip('.')}.") from None
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}.") from None


@contextmanager
def writing(path: str | os.PathLike[str], rate: int) -> Iterator[Callable[[np.ndarray], None]]:
    """A 16-bit mono WAV that grows on the disk and appears under its name when it is whole, or not at all.

    Gives a function that takes float32 samples (S,) in [-1, 1]. Raises BadInput, at once where the place cannot be
    written, or as soon as the disk is full; what was written is then gone.
    """
    path = Path(path)
    if path.suffix.lower() != ".wav":
        raise BadInput(f"cannot write {path}: its name must end in .wav.")
    if path.is_dir():
        raise BadInput(f"cannot write {path}: it is a directory.")
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(scratch, "xb") as file:
            with wave.open(file, "wb") as out:  # raises what the disk says, where libsndfile only writes less
                out.setnchannels(1)
                out.setsampwidth(2)
                out.setframerate(rate)
                yield lambda samples: out.writeframes(pcm16(samples))
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}.") from None
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def loudness_dbfs(audio: Audio) -> float:
    """RMS of the loudest 400 ms of the mono mix in dB below full scale (a full square wave is 0); -inf for silence.

    The constant part is taken out first (nobody hears it), and the loudest stretch counts, so that one word in a long
    pause is as loud as the word.
    """
    wave = audio.mono().samples[0].astype(np.float64)
    power = np.square(wave - wave.mean())
    width = min(len(power), max(1, round(0.4 * audio.rate)))
    running = np.concatenate(([0.0], np.cumsum(power)))
    loudest = float((running[width:] - running[:-width]).max()) / width
    return 10 * math.log10(loudest) if loudest > 1e-15 else -math.inf  # below: rounding of the running sum


def check_question(audio: Audio, max_seconds: float = MAX_QUESTION_SECONDS, name: str = "the audio") -> None:
    """Raise BadInput with one sentence unless this can be a spoken question: its rate, length and level."""
    if audio.rate < MIN_QUESTION_RATE:
        raise BadInput(
            f"{name} has {audio.rate:,} samples a second, too few for speech; "
            f"record it again at {MIN_QUESTION_RATE:,} Hz or more."
        )
    if audio.seconds < MIN_QUESTION_SECONDS:
        raise BadInput(f"{name} is {audio.seconds:.3f} s long, too short to hold a question; record it again.")
    if audio.seconds > max_seconds:
        raise _too_long(name, audio.seconds, max_seconds)
    level = loudness_dbfs(audio)
    if level < SILENCE_DBFS:
        heard = "it is silent" if level == -math.inf else f"its loudest moment is {-level:.0f} dB below full scale"
        raise BadInput(f"no speech found in {name}: {heard}; check the microphone and record it again.")


def pcm16(samples: np.ndarray) -> bytes:
    """Samples in [-1, 1] as a WAV file holds them, little-endian."""
    return _int16(samples).astype("<i2").tobytes()


def _int16(samples: np.ndarray) -> np.ndarray:
    return np.rint(samples * np.float32(32768)).clip(-32768, 32767).astype(np.int16)


def _too_long(name: str, seconds: float | None, max_seconds: float | None) -> BadInput:
    """seconds: None while still unknown; max_seconds: None when it is the memory that would not do."""
    length = "more audio than allowed" if seconds is None else f"{seconds:,.1f} s of audio"
    if max_seconds is not None:
        return BadInput(f"{name} holds {length}; at most {max_seconds:g} s can be taken; cut it shorter.")
    return BadInput(f"{name} holds {length}, over {MAX_VALUES * 4 >> 20:,} MiB once decoded; cut it or mix it down.")


def _load(source: str | os.PathLike[str] | bytes | BinaryIO) -> tuple[str, bytes]:
    """(name for messages, all bytes) of a path, bytes or open file; pipes work, endless ones are stopped."""
    if isinstance(source, bytes | bytearray | memoryview):
        name, data = "the audio", bytes(source)
    elif isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        try:
            with open(source, "rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            raise BadInput(f"there is no file {name}; check the path.") from None
        except IsADirectoryError:
            raise BadInput(f"{name} is a directory; give one audio file.") from None
        except PermissionError:
            raise BadInput(f"{name} may not be read by this user; check its permissions.") from None
        except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
            raise BadInput(f"{name!r} cannot be opened ({getattr(error, 'strerror', None) or error}).") from None
    else:
        name, data = str(getattr(source, "name", "the audio")), source.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise BadInput(f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB, the most that is read; cut it shorter.")
    return name, data
