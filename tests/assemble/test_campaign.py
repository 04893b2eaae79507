"""The campaign on a tiny random voice: what is tapped, that a kill costs nothing, what is refused, and that the head
that comes out of it speaks."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
import torch

from legato import artifacts, audio
from legato.assemble import campaign, campaign_shelf, parts
from legato.assemble.campaign_shelf import Tap, TapWriter, file_of
from legato.assemble.campaign_spoken import read_spoken, read_words
from legato.assemble.speech import load_speaker
from legato.audio import Audio
from legato.errors import ArtifactError, BadInput, ConditionIgnored, OrganMismatch
from legato.organs import Layout
from legato.pocket import voice_shelf
from legato.pocket.voice import NONE, PAD, WORD
from legato.speak import tap as taps
from legato.speak import train as training
from legato.speak.harness import Sampling
from legato.speak.polish import Polish
from legato.speak.train import HeadTraining

QUIET = {"progress": False}
SHORT = HeadTraining(steps=6, batch=16, draws=1)
ROUND = Polish(steps=2, windows=2, frames=4, judges_first=0)


def silent(_):
    """Tells nobody."""


def edit(spoken, change):
    path = spoken / "spoken.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


# -- what is tapped ----------------------------------------------------------------------------------------------------


def test_a_word_is_read_piece_by_piece_and_waits_for_the_one_before():
    layout = Layout((3, 4, 4), PAD, WORD)
    words = [(0, [7, 8]), (1, [9]), (9, [5, 6, 4])]
    W = WORD
    assert taps.script(words, 14, layout).tolist() == [W, 7, 8, W, 9, 0, 0, 0, 0, W, 5, 6, 4, 0]
    assert taps.script(words, 12, layout).tolist() == [W, 7, 8, W, 9, 0, 0, 0, 0, 0, 0, 0]  # no word is cut


def test_a_tap_is_what_the_whole_sequence_gives(speaking, spoken, tmp_path):
    campaign.tap(spoken, tmp_path / "tap", **QUIET)
    tap = Tap(tmp_path / "tap")
    found = parts.spoken("pocket", "codec", "voice")
    codec = voice_shelf.load_codec(found["codec"])
    voice, tokenizer = voice_shelf.load_voice(found["voice"], codec, tap.made_from["codec"])
    behind = max(voice.config.delays)
    lines = {line["text"]: line for line in map(json.loads, (spoken / "spoken.jsonl").read_text().splitlines())}
    assert len(tap.entries) == len(lines) == 10
    for recording, entry in zip(read_spoken(spoken), tap.entries, strict=True):
        wave = torch.from_numpy(audio.read(spoken / entry.audio).samples)
        codes, latent = codec.encode(wave)[0], codec.project(codec.latent(wave))[0]
        assert torch.equal(tap.rows(entry, "codes").T, codes)
        torch.testing.assert_close(tap.rows(entry, "latents").T, latent)
        frames = [(math.floor(at * 12.5), ids) for at, ids in read_words(tokenizer, recording, 2.4)]
        assert len(frames) == 5, "every word of these recordings is known to the voice"
        steps = entry.frames + behind
        layout = Layout(voice.config.delays, PAD, WORD)
        text, heard = taps.script(frames, steps, layout), taps.shifted(codes, steps, layout)
        # The harness begins with a wait and no codes: h of step s has read what was drawn up to s - 1.
        text = torch.cat((torch.tensor([PAD]), text[:-1]))
        heard = torch.cat((torch.full((1, voice.config.books), NONE), heard[:-1]))
        with torch.no_grad():
            h = voice.states(text[None], heard[None])[0]
        torch.testing.assert_close(tap.rows(entry, "states"), h[behind:], atol=1e-4, rtol=1e-4)


def test_words_of_the_text_move_the_states(speaking, spoken, tmp_path):
    campaign.tap(spoken, tmp_path / "tap", limit=1, **QUIET)
    edit(spoken, lambda lines: [word.__setitem__(1, word[1] + 0.4) for word in lines[0]["words"]])
    campaign.tap(spoken, tmp_path / "late", limit=1, **QUIET)
    early, late = Tap(tmp_path / "tap"), Tap(tmp_path / "late")
    a, b = (tap.rows(tap.entries[0], "states") for tap in (early, late))
    first = math.floor(0.1 * 12.5)  # the frame in which the first word begins to sound; it is read `lead` steps before
    behind = 4
    moved = (a - b).abs().amax(1) > 1e-3
    assert not moved[: max(0, first + 1 - behind)].any() and moved[first + 1 :].any()


def test_a_number_is_spread_until_the_next_word(speaking, spoken):
    def change(lines):
        lines[0] |= {"text": "The $12 is there.", "words": [["The", 0.2], ["$12", 0.5], ["is", 1.5], ["there.", 2.0]]}

    edit(spoken, change)
    tokenizer = campaign.load_organs("pocket").tokenizer
    read = read_words(tokenizer, read_spoken(spoken)[0], 2.4)
    assert [at for at, _ in read] == pytest.approx([0.2, 0.5, 1.0, 1.5, 2.0])  # the, twelve, dollars, is, there


def test_statistics_are_of_the_training_recordings(speaking, spoken, tmp_path):
    _, tap = campaign.tap(spoken, tmp_path / "tap", **QUIET)
    assert sum(e.held for e in tap.entries) == 2
    found = torch.cat([tap.rows(e, "latents") for e in tap.entries if not e.held]).double()
    statistics = tap.statistics()
    torch.testing.assert_close(statistics.mean, found.mean(0).float())
    torch.testing.assert_close(statistics.deviation, found.std(0, correction=0).float().clamp_min(1e-4))
    tapped = tap.tapped(tap.chosen(held=False), statistics)
    assert tapped.firsts.nonzero().flatten().tolist() == [30 * n for n in range(8)]
    torch.testing.assert_close(tapped.latents.mean(0), torch.zeros(64), atol=1e-4, rtol=0)


# -- killed, and given again -------------------------------------------------------------------------------------------


def test_a_killed_tap_goes_on_as_if_it_never_stopped(speaking, spoken, tmp_path, monkeypatch):
    monkeypatch.setattr(campaign_shelf, "SHARD", 100)  # so that the kill falls into a later shard
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    campaign.tap(spoken, whole, **QUIET)
    add = TapWriter.add

    def kill(self, id, name, text, rows):
        if len(self.done) == 5:  # in the middle of a recording: some numbers written, half a line in the index
            self._files["states"].write(b"\x01" * 1234)
            self._files["states"].flush()
            with (killed / "index.jsonl").open("ab") as index:
                index.write(b'{"audio":"5.fl')
            raise KeyboardInterrupt
        add(self, id, name, text, rows)

    with monkeypatch.context() as m:
        m.setattr(TapWriter, "add", kill)
        with pytest.raises(KeyboardInterrupt):
            campaign.tap(spoken, killed, **QUIET)
    with pytest.raises(BadInput, match="was not finished"):
        Tap(killed).statistics()
    added, tap = campaign.tap(spoken, killed, **QUIET)
    assert added == 5 and len(tap.entries) == 10 and max(e.shard for e in tap.entries) == 2
    names = sorted(path.name for path in whole.iterdir())
    assert names == sorted(path.name for path in killed.iterdir()) and len(names) == 13
    for name in names:
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name


def test_given_again_a_tap_takes_only_what_is_new(speaking, spoken, tmp_path):
    assert campaign.tap(spoken, tmp_path / "tap", limit=9, **QUIET)[0] == 9
    before = (tmp_path / "tap" / "index.jsonl").read_bytes()
    assert campaign.tap(spoken, tmp_path / "tap", **QUIET)[0] == 1
    assert campaign.tap(spoken, tmp_path / "tap", **QUIET)[0] == 0
    assert (tmp_path / "tap" / "index.jsonl").read_bytes().startswith(before)


def test_a_shortened_shard_is_told_before_it_is_read_or_written(speaking, spoken, tmp_path):
    campaign.tap(spoken, tmp_path / "tap", limit=9, **QUIET)
    path = file_of(tmp_path / "tap", "latents", 0)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ArtifactError, match="latents-0000.f32 is shorter than index.jsonl says"):
        campaign.tap(spoken, tmp_path / "tap", **QUIET)
    tap = Tap(tmp_path / "tap")
    with pytest.raises(ArtifactError, match="is shorter than"):
        tap.rows(tap.entries[0], "latents")


def test_a_tap_of_another_voice_is_refused(speaking, spoken, tmp_path):
    campaign.tap(spoken, tmp_path / "tap", limit=1, **QUIET)
    speaking.rebuild(seed=1)
    with pytest.raises(BadInput, match="was begun with another voice"):
        campaign.tap(spoken, tmp_path / "tap", **QUIET)


# -- from a tap to a voice ---------------------------------------------------------------------------------------------


@pytest.fixture
def tapped(speaking, spoken, tmp_path):
    campaign.tap(spoken, tmp_path / "tap", **QUIET)
    return tmp_path / "tap"


def trained(tapped, out, how=SHORT, **options):
    return campaign.train(tapped, out, how, width=16, tell=silent, **QUIET, **options)


def test_a_training_leaves_a_log_with_both_gaps_and_says_what_it_was_made_from(speaking, tapped, tmp_path):
    manifest = trained(tapped, tmp_path / "head")
    assert manifest.config["made_from"] == speaking.hashes and manifest.config["steps"] == 8
    log = campaign.curve(tmp_path / "head")
    assert log[-1]["step"] == 6 and {"flow", "distilled", "held", "another's state"} <= log[-1].keys()
    assert trained(tapped, tmp_path / "head").sha256 == manifest.sha256  # the same command again changes nothing
    for other in ({"unannounced": True}, {"plain": True}):
        with pytest.raises(BadInput, match="was begun with another choice of head"):
            trained(tapped, tmp_path / "head", **other)


def test_a_killed_training_goes_on(tapped, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT", 4)
    steps = []

    def killed(bar):
        def at(step):
            steps.append(step)
            if step == 5 and steps.count(5) == 1:
                raise KeyboardInterrupt

        return at

    monkeypatch.setattr(campaign, "_move", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(tapped, tmp_path / "head")
    trained(tapped, tmp_path / "head")
    assert steps == [1, 2, 3, 4, 5, 5, 6]  # from the last checkpoint


def test_a_head_that_ignores_the_voice_is_not_saved(tapped, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKED_AT", 1)
    with pytest.raises(ConditionIgnored, match="its condition is ignored"):
        trained(tapped, tmp_path / "head")
    with pytest.raises(ArtifactError, match="there is no artifact"):
        artifacts.load(tmp_path / "head")


def test_the_whole_campaign_leaves_its_records_and_a_voice_that_speaks(speaking, tapped, tmp_path):
    with pytest.raises(BadInput, match="has no head yet; train one with: legato speak train"):
        load_speaker()
    head = trained(tapped, tmp_path / "head", plot=tmp_path / "training.png")
    assert (tmp_path / "training.png").stat().st_size > 5000
    made, record = campaign.polish(tapped, tmp_path / "head", tmp_path / "round", ROUND, tell=silent, **QUIET)
    stored = json.loads((tmp_path / "round" / "round.json").read_text())
    assert stored == json.loads(json.dumps(record)) and stored["how"]["objective"] == "unrolled"
    assert stored["conditions"].startswith("teacher-forced") and stored["recordings"] == 2
    assert stored["head"] == head.sha256 and stored["polished"] == made.sha256 != head.sha256
    ways = ["the codec's own codes", "before, 8 steps", "before, 2 steps", "after, 2 steps"]
    assert all(set(scores) == set(ways) for scores in stored["scores"].values())
    instruments = {"log-mel distance", "spectral distance", "level spread", "HNR deficit", "warble"}
    assert set(stored["changes"]) == instruments
    change = stored["changes"]["log-mel distance"]
    each = [scores["after, 2 steps"]["log-mel distance"] for scores in stored["scores"].values()]
    assert change["after"] == pytest.approx(sum(each) / 2) and change["outcome"] in ("won", "lost")
    assert (change["outcome"] == "won") == (change["after"] < change["before"])
    kept = sorted(path.name for path in (tmp_path / "round" / "audio").iterdir())
    assert len(kept) == 2 * 5 and "1-after-2-steps.flac" in kept and "2-true-latents.flac" in kept
    assert audio.read(tmp_path / "round" / "audio" / "1-after-2-steps.flac").seconds == pytest.approx(2.4)
    shutil.copytree(tmp_path / "round", speaking.root / "weights" / "head")
    speaking.pin("codec", "voice", "head")
    speaker = load_speaker(sampling=Sampling(longest=200), threads=1)
    assert speaker.renderers["head"].steps == 2
    chunks = list(speaker.speak("Hello there."))
    assert len(chunks) > 3 and np.isfinite(np.concatenate(chunks)).all()


def test_what_does_not_belong_together_is_refused(speaking, tapped, spoken, tmp_path):
    trained(tapped, tmp_path / "head")
    with pytest.raises(BadInput, match="is the folder of a training, not of a tap"):
        trained(tmp_path / "head", tmp_path / "other")
    with pytest.raises(BadInput, match="is the folder of a tap, not of a training"):
        trained(tapped, tapped)
    with pytest.raises(BadInput, match="already holds something else"):
        trained(tapped, spoken)
    with pytest.raises(BadInput, match="holds no step of a campaign"):
        trained(spoken, tmp_path / "other")
    trained(tapped, tmp_path / "plain", plain=True)
    with pytest.raises(BadInput, match="a plain head"):
        campaign.polish(tapped, tmp_path / "plain", tmp_path / "round", ROUND, tell=silent, **QUIET)
    speaking.rebuild(seed=1)
    with pytest.raises(BadInput, match="was tapped with codec"):
        campaign.polish(tapped, tmp_path / "head", tmp_path / "round", ROUND, tell=silent, **QUIET)
    campaign.tap(spoken, tmp_path / "tap2", **QUIET)
    with pytest.raises(OrganMismatch, match="this head was trained on"):
        campaign.polish(tmp_path / "tap2", tmp_path / "head", tmp_path / "round", ROUND, tell=silent, **QUIET)
    assert not (tmp_path / "round").exists()


def test_a_tap_without_held_recordings_trains_nothing(speaking, spoken, tmp_path):
    campaign.tap(spoken, tmp_path / "tap", limit=8, **QUIET)
    with pytest.raises(BadInput, match="of the 8 recordings of .* none is held out; tap more"):
        trained(tmp_path / "tap", tmp_path / "head")


# -- bad recordings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"words": []}, "line 2 of .* has no words"),
        ({"words": [["The", 0.5], ["cat", 0.4]], "text": "The cat"}, "'cat' begins at 0.4 s, before 'The'"),
        ({"words": [["The", -0.1]], "text": "The"}, "'The' begins at -0.1 s, before the recording"),
        ({"words": [["The", 0.1], ["cat", 7]], "text": "The cat"}, "'cat' begins at 7 s, and 1.flac lasts 2.40 s"),
        ({"words": [["The", "0.1"]], "text": "The"}, r'holds the word \["The", "0.1"\]; write'),
        ({"words": [["The", 0.1]], "text": "The cat"}, "its text has 2 words and 1 are timed"),
        ({"audio": "none.wav"}, "there is no file .*none.wav"),
        ({"audio": 3}, "something that is no text"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(speaking, spoken, tmp_path, change, wanted):
    edit(spoken, lambda lines: lines[1].update(change))
    with pytest.raises(BadInput, match=wanted) as told:
        campaign.tap(spoken, tmp_path / "tap", **QUIET)
    assert "\n" not in str(told.value)


def test_recordings_that_cannot_be_used_are_named(speaking, spoken, tmp_path):
    audio.write(spoken / "1.flac", Audio(np.zeros((1, 2000), np.float32), 24_000))
    with pytest.raises(BadInput, match="1.flac lasts 0.083 s, too short"):
        campaign.tap(spoken, tmp_path / "tap", **QUIET)
    (spoken / "1.flac").write_bytes(b"no audio at all")
    with pytest.raises(BadInput, match="1.flac"):
        campaign.tap(spoken, tmp_path / "tap", **QUIET)
    assert [e.audio for e in Tap(tmp_path / "tap").entries] == ["0.wav"]  # what came before is kept


def test_a_folder_that_holds_no_recordings_is_told(speaking, spoken, tmp_path):
    with pytest.raises(BadInput, match="there is no folder"):
        campaign.tap(tmp_path / "nowhere", tmp_path / "tap", **QUIET)
    (spoken / "spoken.jsonl").write_text("\n")
    with pytest.raises(BadInput, match="holds no recordings"):
        campaign.tap(spoken, tmp_path / "tap", **QUIET)
    (spoken / "spoken.jsonl").write_text("{nothing\n")
    with pytest.raises(BadInput, match="line 1 of .* is not JSON"):
        campaign.tap(spoken, tmp_path / "tap", **QUIET)
    (spoken / "spoken.jsonl").unlink()
    with pytest.raises(BadInput, match="holds no spoken.jsonl"):
        campaign.tap(spoken, tmp_path / "tap", **QUIET)
    assert not (tmp_path / "tap").exists()
