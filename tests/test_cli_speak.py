"""`legato speak` as it is typed: the probe's page, the campaign from command to command, and one sentence for mistakes.

On a tiny random codec and voice; what the steps themselves do is tested in tests/assemble/test_campaign.py.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from legato import audio, cli
from legato.assemble import campaign, campaign_probe
from legato.assemble import campaign_scores as scores
from legato.audio import Audio
from legato.errors import MissingExtra
from legato.evaluate.instruments import praat
from legato.evaluate.instruments.recogniser import Recogniser

_at = Path(__file__).parent / "assemble" / "conftest.py"
_spec = importlib.util.spec_from_file_location("speaking_fixtures", _at)
fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fixtures)
speaking, spoken = fixtures.speaking, fixtures.spoken
WAYS = ["1 book", "2 books", "3 books", "continuous", "5% noise", "10% noise", "20% noise", "40% noise", "60% noise",
        "80% noise", "wrong space"]


@pytest.fixture
def recordings(tmp_path):
    """Two hums, one at another rate and in two channels, with a transcript."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    audio.write(folder / "a.wav", Audio(fixtures.hum(0.6, 0)[None], 24_000))
    audio.write(folder / "b.flac", Audio(np.stack([fixtures.hum(0.7, 1, 16_000)] * 2), 16_000))
    (folder / "b.txt").write_text("Hello there.\n")
    (folder / "notes.md").write_text("no recording")
    return folder


def legato(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def refused(capsys, *arguments):
    code, _, err = legato(capsys, *arguments)
    sentence = err.strip().splitlines()[-1]
    assert code == 2 and sentence.startswith("legato: ") and "Traceback" not in err
    return sentence


class Page(HTMLParser):
    """What a page would fetch, and how much of what it shows."""

    def __init__(self):
        super().__init__()
        self.sources, self.tags = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.sources += [value for name, value in attributes if name in ("src", "href")]


def test_a_probe_leaves_figures_pictures_sound_and_a_page_that_needs_nothing_else(
    speaking, recordings, tmp_path, capsys
):
    code, out, _ = legato(capsys, "speak", "probe", recordings, tmp_path / "probe")
    assert code == 0 and "index.html" in out and "1 recordings have a transcript" in out
    found = json.loads((tmp_path / "probe" / "probe.json").read_text())
    assert set(found["scores"]) == {"a.wav", "b.flac"} and set(found["scores"]["a.wav"]) == set(WAYS)
    for way in WAYS:
        each = [found["scores"][name][way]["log-mel distance"] for name in ("a.wav", "b.flac")]
        assert found["means"][way]["log-mel distance"] == pytest.approx(sum(each) / 2)
    asked = list(found["means"]["continuous"])
    assert asked == ["HNR deficit", "level spread", "log-mel distance", "spectral distance", "warble"]
    drawn = {name.replace(" ", "-") for name in asked if any(m[name] is not None for m in found["means"].values())}
    pictures = {path.stem: path.read_bytes() for path in (tmp_path / "probe").glob("*.png")}
    assert pictures.keys() == drawn >= {"log-mel-distance", "level-spread"}
    assert all(content.startswith(b"\x89PNG") for content in pictures.values())
    sounds = {path.name for path in (tmp_path / "probe" / "audio").iterdir()}
    assert len(sounds) == 2 * 12 and {"1-recording.flac", "2-wrong-space.flac", "1-40pc-noise.flac"} <= sounds
    text = (tmp_path / "probe" / "index.html").read_text()
    page = Page()
    page.feed(text)
    assert page.tags.count("img") == len(drawn) and page.tags.count("audio") == 24
    assert all(source.startswith("data:") for source in page.sources) and "http" not in re.sub("data:[^\"]*", "", text)
    assert all(verdict[1:].split(":")[0] in text for verdict in found["verdicts"])


def test_a_killed_probe_goes_on_and_is_the_same(speaking, recordings, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scores, "_hnr", lambda reference, test: None)  # Praat takes a second each time
    legato(capsys, "speak", "probe", recordings, tmp_path / "whole")
    scored = campaign_probe.score_ways

    def kill(entrance, wave, instruments, seed, keep):
        if seed == 1:
            raise KeyboardInterrupt
        return scored(entrance, wave, instruments, seed, keep)

    with monkeypatch.context() as m:
        m.setattr(campaign_probe, "score_ways", kill)
        assert legato(capsys, "speak", "probe", recordings, tmp_path / "killed")[0] == 130
    assert not (tmp_path / "killed" / "probe.json").exists()
    monkeypatch.setattr(campaign_probe, "score_ways", lambda *a: scored(*a) if a[3] == 1 else pytest.fail("again"))
    assert legato(capsys, "speak", "probe", recordings, tmp_path / "killed")[0] == 0
    for name in ("probe.json", "index.html"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes(), name


def test_recordings_with_a_transcript_are_heard(speaking, recordings, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scores, "_hnr", lambda reference, test: None)  # Praat takes a second each time

    def hear(audio):
        return "hello there" if audio.seconds > 0.65 else pytest.fail("this one has no transcript")

    monkeypatch.setattr(campaign_probe, "whisper", lambda folder: Recogniser("a stub", "0" * 64, hear))
    assert legato(capsys, "speak", "probe", recordings, tmp_path / "probe", "--recogniser", tmp_path)[0] == 0
    found = json.loads((tmp_path / "probe" / "probe.json").read_text())
    assert found["scores"]["b.flac"]["continuous"]["intelligibility"] == 1.0
    assert "intelligibility" not in found["scores"]["a.wav"]["continuous"]
    assert found["means"]["continuous"]["intelligibility"] == 1.0 and found["recogniser"] == "0" * 64
    # It hears the wrong space as well as the right one, and the probe says loudly that this cannot be.
    assert found["verdicts"][0].startswith("DO NOT BELIEVE THIS PROBE") and "intelligibility" in found["verdicts"][0]
    assert 'class="verdict bad">DO NOT BELIEVE' in (tmp_path / "probe" / "index.html").read_text()


def test_without_praat_the_probe_says_what_it_left_out(speaking, recordings, tmp_path, capsys, monkeypatch):
    def missing(samples):
        raise MissingExtra("praat-parselmouth", "instruments", "measuring pitch and voice noise")

    monkeypatch.setattr(praat, "pitch", missing)
    code, out, _ = legato(capsys, "speak", "probe", recordings, tmp_path / "probe", "--limit", 1)
    assert code == 0 and "HNR deficit and warble were not measured" in out and "legato[instruments]" in out
    found = json.loads((tmp_path / "probe" / "probe.json").read_text())
    assert set(found["means"]["continuous"]) == {"log-mel distance", "spectral distance", "level spread"}


def test_tap_train_polish(speaking, spoken, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(campaign, "HEARD", 1)
    monkeypatch.setattr(scores, "_hnr", lambda reference, test: None)  # Praat takes a second each time
    tap, head, round_ = (tmp_path / name for name in ("tap", "head", "round"))
    code, out, _ = legato(capsys, "speak", "tap", spoken, tap)
    assert code == 0 and "10 recordings, 10 of them new, 2 held out; 300 frames" in out
    options = ("--steps", 2, "--width", 16, "--plot", tmp_path / "t.png")
    code, out, _ = legato(capsys, "speak", "train", tap, head, *options)
    assert code == 0 and "with another frame's state" in out and (tmp_path / "t.png").exists()
    options = ("--steps", 2, "--objective", "lsd", "--plot", tmp_path / "p.png")
    code, out, _ = legato(capsys, "speak", "polish", tap, head, round_, *options)
    assert code == 0 and "log-mel distance" in out and "teacher-forced" in out and (tmp_path / "p.png").exists()
    record = json.loads((round_ / "round.json").read_text())
    assert record["how"]["objective"] == "lsd" and record["recordings"] == 1
    assert legato(capsys, "speak", "polish", tap, head, round_, *options)[1] == out  # given again, it is as it was


def test_mistakes_are_told_in_one_sentence(speaking, recordings, spoken, tmp_path, capsys):
    out = tmp_path / "out"
    assert "there is no folder" in refused(capsys, "speak", "probe", tmp_path / "nowhere", out)
    assert "there is no preset 'other'" in refused(capsys, "speak", "probe", recordings, out, "--preset", "other")
    assert "already holds something else" in refused(capsys, "speak", "probe", recordings, spoken)
    assert "holds no recordings" in refused(capsys, "speak", "probe", tmp_path, out)
    assert "holds no spoken.jsonl" in refused(capsys, "speak", "tap", recordings, out)
    assert "holds no step of a campaign" in refused(capsys, "speak", "train", recordings, out)
    assert "--objective" in refused(capsys, "speak", "polish", recordings, recordings, out, "--objective", "other")
    audio.write(recordings / "c.wav", Audio(np.zeros((1, 24_000), np.float32), 24_000))
    assert "nothing is to be heard" in refused(capsys, "speak", "probe", recordings, out)
    audio.write(recordings / "c.wav", Audio(fixtures.hum(0.1, 0)[None], 24_000))
    assert "too short to probe with" in refused(capsys, "speak", "probe", recordings, out)
    (recordings / "c.wav").write_bytes(b"RIFF")
    assert "c.wav" in refused(capsys, "speak", "probe", recordings, out)
    assert not out.exists()  # so that the same command does once they are mended


def test_a_preset_that_only_listens_cannot_be_probed(speaking, recordings, tmp_path, capsys):
    speaking.pin()
    assert "has no voice: it only listens" in refused(capsys, "speak", "probe", recordings, tmp_path / "out")


def test_a_full_disk_is_told(speaking, spoken, tmp_path, capsys, monkeypatch):
    from legato.assemble.campaign_shelf import TapWriter

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(TapWriter, "add", full)
        assert "No space left on device" in refused(capsys, "speak", "tap", spoken, tmp_path / "tap")
    assert legato(capsys, "speak", "tap", spoken, tmp_path / "tap")[0] == 0
