"""`legato say` on a tiny random voice: what it writes, what it refuses, and what it leaves behind."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import soundfile

from legato import cli
from legato.assemble import speech
from legato.assemble.speech import load_speaker
from legato.speak.harness import Sampling

_at = Path(__file__).parent / "assemble" / "conftest.py"
_spec = importlib.util.spec_from_file_location("speaking_fixtures", _at)
fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fixtures)
speaking, shipped = fixtures.speaking, fixtures.shipped
FRAME, RATE = 1920, 24_000


def complaint(capsys, *arguments):
    assert cli.main(["say", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("legato: ") and err.count("\n") == 1, (out, err)
    return err


def test_a_text_becomes_a_wav_file_that_python_gets_too(shipped, tmp_path, capsys):
    out = tmp_path / "said.wav"
    assert cli.main(["say", "Hello there.", "-o", str(out), "--seed", "3"]) == 0
    found, rate = soundfile.read(out, dtype="float32")
    assert rate == RATE and soundfile.info(out).subtype == "PCM_16"
    wanted = np.concatenate(list(load_speaker(sampling=Sampling(seed=3)).speak("Hello there.")))
    np.testing.assert_allclose(found, wanted, atol=1 / 32768)
    assert [path.name for path in tmp_path.glob("*.wav")] == ["said.wav"]


def test_both_renders_one_run(shipped, tmp_path):
    assert cli.main(["say", "Hello there.", "-o", str(tmp_path / "a.wav"), "--both"]) == 0
    assert cli.main(["say", "Hello there.", "-o", str(tmp_path / "b.wav"), "--render", "depth"]) == 0
    head, depth, alone = (soundfile.read(tmp_path / name)[0] for name in ("a.wav", "a-depth.wav", "b.wav"))
    assert len(head) == len(depth) and not np.array_equal(head, depth)
    np.testing.assert_array_equal(depth, alone)


def started(shipped, *arguments, **pipes) -> subprocess.Popen:
    """`legato say` as a process of its own, on the tiny voice."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"  # a background job has none
        "from pathlib import Path; from legato import cli, presets; from legato.pocket import shelf;"
        f"shelf.WEIGHTS = Path({str(shipped.root / 'weights')!r}); presets.FOLDER = Path({str(shipped.root)!r});"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    return subprocess.Popen([sys.executable, "-c", code, "say", *map(str, arguments)], bufsize=0, **pipes)


def test_a_stream_is_the_file_without_its_header_and_begins_before_its_text_has_ended(shipped, tmp_path):
    """The first samples are out while standard input is still open."""
    line, last = "The capital of France is Paris, hello there, hello.\n", "Hello there.\n"
    piped = started(shipped, "--file", "-", "--stream", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    piped.stdin.write(line.encode() * 3)
    piped.stdin.flush()
    first = piped.stdout.read(2 * FRAME)
    rest, _ = piped.communicate(last.encode(), timeout=120)
    assert piped.returncode == 0 and len(first) == 2 * FRAME
    (tmp_path / "text.txt").write_text(line * 3 + last)
    # In a process of its own too: another number of threads sums in another order, and another code is drawn.
    assert started(shipped, "--file", tmp_path / "text.txt", "-o", tmp_path / "x.wav").wait(120) == 0
    wanted, _ = soundfile.read(tmp_path / "x.wav", dtype="int16")
    np.testing.assert_array_equal(np.frombuffer(first + rest, "<i2"), wanted)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "nothing in this text can be spoken"),
        ("  \n\t ", "nothing in this text can be spoken"),
        ("?!... --- ,", "nothing in this text can be spoken"),
        ("\N{GRINNING FACE}\N{PARTY POPPER}", "nothing in this text can be spoken"),
        ("\x00\x07\x1b\x7f", "nothing in this text can be spoken"),
    ],
)
def test_what_cannot_be_spoken_is_one_sentence_and_no_file(shipped, tmp_path, capsys, text, told):
    assert told in complaint(capsys, text, "-o", tmp_path / "x.wav")
    assert not list(tmp_path.glob("*.wav")) and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("text", ["Привет, мир.", "你好", "naïve café", "Ok\x00ay\x1b[31m then", "\N{ROCKET} Hello."])
def test_another_script_and_stray_signs_are_said_as_far_as_they_can_be(shipped, tmp_path, text):
    assert cli.main(["say", text, "-o", str(tmp_path / "x.wav")]) == 0
    assert soundfile.info(tmp_path / "x.wav").frames > 0


def test_files_that_cannot_be_read_or_written(shipped, tmp_path, capsys):
    (tmp_path / "latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    (tmp_path / "folder.wav").mkdir()
    out = tmp_path / "x.wav"
    assert "there is no file" in complaint(capsys, "--file", tmp_path / "none.txt", "-o", out)
    assert "is a directory" in complaint(capsys, "--file", tmp_path, "-o", out)
    assert "is no UTF-8 text" in complaint(capsys, "--file", tmp_path / "latin.txt", "-o", out)
    assert "must end in .wav" in complaint(capsys, "Hello.", "-o", tmp_path / "x.mp3")
    assert "it is a directory" in complaint(capsys, "Hello.", "-o", tmp_path / "folder.wav")
    assert "cannot write" in complaint(capsys, "Hello.", "-o", tmp_path / "no/such/x.wav")
    assert not out.exists()


def test_what_contradicts_itself_is_refused(shipped, tmp_path, capsys):
    assert "give a text or --file" in complaint(capsys, "-o", tmp_path / "x.wav")
    assert "give a text or --file" in complaint(capsys, "Hello.", "--file", "-", "-o", tmp_path / "x.wav")
    assert "give -o FILE.wav" in complaint(capsys, "Hello.")
    assert "give -o FILE.wav" in complaint(capsys, "Hello.", "--stream", "-o", tmp_path / "x.wav")
    assert "--both writes two files" in complaint(capsys, "Hello.", "--stream", "--both")
    assert "99 depth stages were asked for" in complaint(capsys, "Hello.", "--stages", 99, "-o", tmp_path / "x.wav")


def test_a_full_disk_leaves_nothing(shipped, tmp_path, capsys, monkeypatch):
    real = os.fsync

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in complaint(capsys, "Hello.", "-o", tmp_path / "x.wav")
    monkeypatch.setattr(os, "fsync", real)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".x.wav", "x.wav"))]


def test_an_interrupted_run_leaves_nothing(shipped, tmp_path):
    """Ctrl-C in the middle of a long text: exit code 130, no file."""
    (tmp_path / "long.txt").write_text("The capital of France is Paris. " * 3000)
    out = tmp_path / "long.wav"
    running = started(shipped, "--file", tmp_path / "long.txt", "-o", out)
    until = time.monotonic() + 60
    while not list(tmp_path.glob(".long.wav.*")) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    try:
        assert running.wait(60) == cli.INTERRUPTED
    finally:
        running.kill()
    assert sorted(path.name for path in tmp_path.iterdir() if "long" in path.name) == ["long.txt"]


def test_a_hundred_kilobytes_are_read_as_they_come(shipped, tmp_path, monkeypatch):
    """Far more than is held at once: the text is asked for piece by piece."""
    path = tmp_path / "big.txt"
    path.write_text("hello there " * 9000)
    asked: list[int] = []

    front = speech.Front(load_speaker().front.tokenizer)
    pieces = (asked.append(len(piece)) or piece for piece in import_module("legato.cli.say")._read(str(path)))
    words = front(pieces)
    assert [next(words).text for _ in range(30)][:2] == ["hello", "there"]
    assert sum(asked) < Path(path).stat().st_size / 2
