"""Speech engines behind one call: `say(text, speed, pitch)` gives float samples at the engine's own rate.

What it is: thin drivers that stay warm (a library or one long-lived process), because starting a process for each clip
would cost more than the speech. What it is not: a voice list (see `catalogue`) or sound processing (see `conditions`).
Speed is relative to the voice's natural pace (1.2 = a fifth faster), pitch multiplies the fundamental. An engine says
in `bends_speed` and `bends_pitch` whether it obeys; a caller bends the audio itself where it does not.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import unicodedata
import wave
from functools import cache
from pathlib import Path
from select import select
from typing import Protocol

import numpy as np

SPOKEN_SIGNS = {
    "×": " times ",
    "÷": " divided by ",
    "−": " minus ",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "…": "...",
    "–": "-",
}

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where short-lived wave files go


class MissingVoice(RuntimeError):
    """A voice was asked for whose engine is not installed; the message names what to install."""


class Engine(Protocol):
    """One voice, ready to speak."""

    bends_speed: bool
    bends_pitch: bool

    def say(self, text: str, speed: float, pitch: float) -> tuple[np.ndarray, int]:
        """Return samples, float32 (N,) in [-1, 1], and their rate in Hz."""
        ...


def plain(text: str) -> str:
    """The text in ASCII, as the older engines need it: signs become words, accents fall away."""
    for sign, words in SPOKEN_SIGNS.items():
        text = text.replace(sign, words)
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def read_wave(path: Path) -> tuple[np.ndarray, int]:
    """A 16-bit mono RIFF file as float32 samples (N,) and its rate."""
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return samples.astype(np.float32) / 32768, file.getframerate()


def need_program(program: str, package: str) -> None:
    """Raise MissingVoice unless the program is on this machine."""
    if shutil.which(program) is None:
        raise MissingVoice(f"{program} is not on this machine; install it with `apt-get install {package}`.")


class _Wave(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_char_p),
        ("rate", ctypes.c_int),
        ("count", ctypes.c_int),
        ("channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    ]


class _Voice(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("features", ctypes.c_void_p)]


def _library(name: str, package: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise MissingVoice(f"{name} is not on this machine; install it with `apt-get install {package}`.") from error


class Flite:
    """A CMU Flite voice through the shared library (permissive CMU licence)."""

    def __init__(self, name: str, bends_speed: bool, bends_pitch: bool) -> None:
        self.bends_speed, self.bends_pitch = bends_speed, bends_pitch
        self.flite, self.libc = _library("libflite.so.1", "libflite1"), ctypes.CDLL(None)
        for part in ("usenglish", "cmulex"):
            _library(f"libflite_{part}.so.1", "libflite1")
        self.flite.flite_init()
        self.flite.flite_text_to_wave.restype = ctypes.POINTER(_Wave)
        self.flite.flite_text_to_wave.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Voice)]
        self.flite.delete_wave.argtypes = [ctypes.POINTER(_Wave)]
        self.flite.flite_feat_set_float.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_float]
        register = getattr(_library(f"libflite_cmu_us_{name}.so.1", "libflite1"), f"register_cmu_us_{name}")
        register.restype, register.argtypes = ctypes.POINTER(_Voice), [ctypes.c_char_p]
        self.voice = register(None)

    def say(self, text: str, speed: float, pitch: float) -> tuple[np.ndarray, int]:
        features = self.voice.contents.features
        if self.bends_speed:
            self.flite.flite_feat_set_float(features, b"duration_stretch", 1 / speed)
        if self.bends_pitch:
            self.flite.flite_feat_set_float(features, b"f0_shift", pitch)
        self.libc.srand(1)  # the statistical voices excite their filter with rand()
        sound = self.flite.flite_text_to_wave(plain(text).encode(), self.voice)
        wave_ = sound.contents
        samples = np.ctypeslib.as_array(wave_.samples, (wave_.count,)).astype(np.float32) / 32768
        rate = wave_.rate
        self.flite.delete_wave(sound)
        return samples, rate


class _Festival:
    """One Festival process for all its voices. It reads Scheme on a pipe, writes a wave, then a letter into a fifo."""

    def __init__(self) -> None:
        need_program("festival", "festival")
        self.folder = Path(tempfile.mkdtemp(prefix="festival-", dir=MEMORY))
        self.wave, self.fifo = self.folder / "said.wav", self.folder / "done"
        os.mkfifo(self.fifo)
        self.done = os.open(self.fifo, os.O_RDWR)  # both ends, so that neither side waits for the other to open it
        self.process = subprocess.Popen(
            ["festival", "--pipe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.chosen = ""

    def _tell(self, scheme: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(scheme + "\n")
        self.process.stdin.flush()

    def say(self, voice: str, setup: str, text: str) -> tuple[np.ndarray, int]:
        words = plain(text).replace("\\", " ").replace('"', " ")
        self.wave.unlink(missing_ok=True)
        if voice != self.chosen:
            self._tell(f"(voice_{voice})")
            self.chosen = voice
        # Each line stands alone: an error ends its line only, and closes every file that Scheme holds open.
        said = f'(utt.save.wave (utt.synth (Utterance Text "{words}")) "{self.wave}" \'riff)'
        self._tell(f"{setup}(if (equal? current-voice '{voice}) {said})")
        self._tell(f'(set! done (fopen "{self.fifo}" "w"))(fwrite "x" done)(fclose done)')
        while not select([self.done], [], [], 0.5)[0]:
            if self.process.poll() is not None:
                break
        else:
            os.read(self.done, 1)
        if not self.wave.exists():
            raise MissingVoice(
                f"festival's voice {voice} could not say {words!r}; see that festvox-kallpc16k, festvox-kdlpc16k and "
                "festvox-us-slt-hts are installed and that the text has words."
            )
        return read_wave(self.wave)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.done)
        shutil.rmtree(self.folder)


@cache
def _festival(process: int) -> _Festival:
    """The Festival of this Python process; a forked worker must not share its parent's pipe."""
    import atexit

    festival = _Festival()
    atexit.register(lambda: festival.close() if os.getpid() == process else None)
    return festival


class Festival:
    """A Festival voice (program and voices under permissive, X11-like licences). `mean` is its natural f0 in Hz."""

    def __init__(self, voice: str, mean: float | None) -> None:
        self.voice, self.mean = voice, mean
        self.bends_speed = self.bends_pitch = mean is not None  # the diphone voices obey, the HTS voice does not

    def say(self, text: str, speed: float, pitch: float) -> tuple[np.ndarray, int]:
        setup = ""
        if self.mean is not None:
            setup = (
                f"(Parameter.set 'Duration_Stretch {1 / speed:.4f})(set! int_lr_params '((target_f0_mean "
                f"{self.mean * pitch:.1f})(target_f0_std {0.133 * self.mean * pitch:.1f})"
                "(model_f0_mean 170)(model_f0_std 34)))"
            )
        return _festival(os.getpid()).say(self.voice, setup, text)


class Espeak:
    """eSpeak NG as a separate program (GPL-3; nothing of it is linked or shipped, only its output is used)."""

    bends_speed = bends_pitch = True

    def __init__(self, voice: str) -> None:
        need_program("espeak-ng", "espeak-ng")
        self.voice = voice

    def say(self, text: str, speed: float, pitch: float) -> tuple[np.ndarray, int]:
        semitone_like = int(np.clip(50 * pitch**2, 5, 95))  # espeak's 0-99 scale, 50 = the voice's own pitch
        raw = subprocess.run(
            ["espeak-ng", "-v", self.voice, "-s", str(int(160 * speed)), "-p", str(semitone_like), "--stdout", text],
            capture_output=True,
            check=True,
        ).stdout
        return np.frombuffer(raw[44:], "<i2").astype(np.float32) / 32768, int.from_bytes(raw[24:28], "little")


def _spoken_file(command: list[str], text: str) -> tuple[np.ndarray, int]:
    """Run a program that reads text (from standard input or from the argument SAY) and writes the wave file WAVE."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "said.wav"
        filled = [str(path) if word == "WAVE" else text if word == "SAY" else word for word in command]
        subprocess.run(filled, input=text, text=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return read_wave(path)


class RHVoice:
    """RHVoice as a separate program (LGPL-2.1+ library, GPL-3 parts; Debian contrib): 0.1 s of CPU a call."""

    bends_speed = bends_pitch = True

    def __init__(self, voice: str) -> None:
        need_program("RHVoice-test", "rhvoice rhvoice-english` (Debian contrib)")
        self.voice = voice

    def say(self, text: str, speed: float, pitch: float) -> tuple[np.ndarray, int]:
        return _spoken_file(
            [
                "RHVoice-test",
                "-p",
                self.voice,
                "-r",
                str(round(100 * speed)),
                "-t",
                str(round(100 * pitch)),
                "-o",
                "WAVE",
            ],
            text,
        )


class Pico:
    """SVOX Pico as a separate program (Apache-2.0; its language files come without sources, hence Debian non-free)."""

    bends_speed = bends_pitch = True

    def __init__(self, language: str) -> None:
        need_program("pico2wave", "libttspico-utils` (Debian non-free)")
        self.language = language

    def say(self, text: str, speed: float, pitch: float) -> tuple[np.ndarray, int]:
        words = plain(text).replace("&", " and ").replace("<", " less than ").replace(">", " greater than ")
        marked = f"<speed level='{round(100 * speed)}'><pitch level='{round(100 * pitch)}'>{words}</pitch></speed>"
        return _spoken_file(["pico2wave", "-l", self.language, "-w", "WAVE", "SAY"], marked)
