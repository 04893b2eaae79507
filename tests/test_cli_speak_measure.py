"""`legato speak measure` from the sentences to the refused promotion, with a tiny random voice and a stub ear."""

from __future__ import annotations

import hashlib
import json

import pytest
import torch
from click.testing import CliRunner

from legato import artifacts, presets
from legato.cli.speak_measure import measure
from legato.errors import BadInput, ChecksumMismatch, NotPromoted, SealError
from legato.evaluate.audit import audit
from legato.evaluate.instruments import recogniser
from legato.evaluate.saying import record
from legato.pocket import shelf
from legato.pocket.codec import Codec, CodecConfig
from legato.pocket.phonemes import sentence_phonemes
from legato.pocket.quantiser import SplitQuantiserConfig
from legato.pocket.script import learn
from legato.pocket.voice import TEXTS, Voice, VoiceConfig
from legato.pocket.voice_shelf import codebooks, save_codec, save_voice
from legato.speak.entrance import Statistics
from legato.speak.head import Head, HeadConfig
from legato.speak.shelf import save_head
from legato.transformer import TransformerConfig

SHA = "0" * 64
TEXTS_SAID = ("Paris.", "The hat costs $3.50.")


def build(folder):
    """A random codec, voice and head; returns folder -> SHA-256 of the weights."""
    torch.manual_seed(0)
    codec = Codec(
        CodecConfig(
            latent=64, encoder_fast=32, encoder_slow=40, decoder_slow=40, decoder_fast=32, fast_blocks=1, slow_blocks=1,
            quantiser=SplitQuantiserConfig(books=3, entries=12, projected=32),
        )
    )  # fmt: skip
    for part in (codec.quantiser.first, codec.quantiser.rest):
        for book in part.books:
            book.entries.normal_()
    made = {"codec": save_codec(folder / "codec", codec, recipe="a test", sources=())}
    sha = {"codec": weights(made["codec"])}
    config = VoiceConfig(
        backbone=TransformerConfig(2, 48, 4, 2, 12, 96, TEXTS), depth=TransformerConfig(1, 32, 2, 2, 16, 64, TEXTS),
        books=3, entries=12, projected=32, lead=3, delay=1, window=40,
    )  # fmt: skip
    tokenizer = learn(sentence_phonemes(["paris.", "the", "hat", "costs", "three", "dollars"]), TEXTS)
    voice = Voice(config, codebooks(codec))
    made["voice"] = save_voice(folder / "voice", voice, tokenizer, codec=sha["codec"], recipe="a test", sources=())
    sha["voice"] = weights(made["voice"])
    head, statistics = Head(HeadConfig(64, 48, 32, 2, 3)), Statistics(torch.zeros(64), torch.ones(64))
    made_from = {"voice": sha["voice"], "codec": sha["codec"]}
    made["head"] = save_head(folder / "head", head, statistics, steps=2, recipe="a test", made_from=made_from)
    return made


def weights(manifest):
    return manifest.files[manifest.path("weights.safetensors").name]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A preset with a voice, two sentences, a recogniser that always hears "Paris", and a way to call the command."""
    made = build(tmp_path / "weights")
    text = 'name = "pocket"\nabout = "random"\n'
    for part in ("ear", "language", "large", "small", "mapper", "residual", "control"):
        text += f'[artifacts.{part}]\nfolder = "{part}"\nweights = "{SHA}"\nidentity = "{SHA}"\n'
    for part, manifest in made.items():
        text += f'[speech.{part}]\nfolder = "{part}"\nweights = "{weights(manifest)}"\nidentity = "{manifest.sha256}"\n'
    (tmp_path / "pocket.toml").write_text(text)
    monkeypatch.setattr(shelf, "WEIGHTS", tmp_path / "weights")
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    monkeypatch.setattr(
        recogniser, "whisper", lambda folder: recogniser.Recogniser("stub", SHA, lambda _: "Paris")
    )
    (tmp_path / "ear").mkdir()
    lines = [{"id": f"s{i}", "text": said, "kind": "plain"} for i, said in enumerate(TEXTS_SAID)]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "train.jsonl").write_text('{"text": "Something else."}\n{"text": "The hat costs."}\n')
    return tmp_path


def call(desk, *arguments, fails=None, records=True):
    rest = ("--records", desk / "records") if records else ()
    done = CliRunner().invoke(measure, [str(a) for a in (*arguments, *rest)])
    if fails is None:
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output
    assert isinstance(done.exception, fails), (done.output, done.exception)
    return str(done.exception)


def heard(desk):
    return ("--sentences", desk / "s.jsonl", "--recogniser", desk / "ear")


def test_a_voice_is_measured_freely_and_the_second_call_says_nothing_anew(desk):
    out = call(desk, "run", "trial", *heard(desk), "--keep", desk / "kept")
    assert "2 sentences now, 0 before" in out and "free-running" in out
    found = record.read(desk / "records" / "say" / "runs" / "trial.jsonl")
    assert [r.id for r in found] == ["s0", "s1"] and found[0].seed != found[1].seed
    assert found[1].said == "the hat costs 3 dollars and 50 cents"
    assert found[0].artifacts.keys() == {"codec", "voice", "head"}
    assert found[0].settings["engine"] == "torch" and "seed" not in found[0].settings["sampling"]
    for r in found:
        assert r.broke is None and r.sounds["head"].frames == r.sounds["depth"].frames
        assert r.sounds["head"].audio_sha256 != r.sounds["depth"].audio_sha256
        assert (desk / "kept" / "head" / f"{r.id}.wav").is_file()
    first = (desk / "records" / "say" / "runs" / "trial.jsonl").read_bytes()
    assert "0 sentences now, 2 before" in call(desk, "run", "trial", *heard(desk))
    call(desk, "run", "again", *heard(desk))
    again = (desk / "records" / "say" / "runs" / "again.jsonl").read_bytes()
    assert again == first.replace(b'"trial"', b'"again"')  # same seeds, same sound
    body = json.loads(call(desk, "report", "trial", "--json"))
    assert body["finals"][0]["n"] == 2 and len(body["floors"][0]) > 8
    assert "not to be heard yet" in call(desk, "report", "trial", "--plot", desk / "p.png")
    assert (desk / "p.png").is_file()


def test_a_final_from_seal_to_refused_promotion(desk):
    assert "2 texts" in call(desk, "identities", desk / "train.jsonl", "--out", desk / "train.txt", records=False)
    assert "0 texts" in call(desk, "identities", "--out", desk / "select.txt", records=False)
    assert "no final has been said yet" in call(desk, "report")
    assert "2 sentences" in call(desk, "seal", "final-1", "--sentences", desk / "s.jsonl", "--source", "a test")
    assert "stands in the sealed final" in call(desk, "run", "trial", *heard(desk), fails=SealError)
    call(desk, "freeze", "voice-1", "--train", desk / "train.txt", "--select", desk / "select.txt")
    assert "final-1 is closed" in call(desk, "open", "final-1", "voice-1", "--run", "one", *heard(desk))
    message = call(desk, "open", "final-1", "voice-1", "--run", "two", *heard(desk), fails=SealError)
    assert "a final opens once" in message
    assert audit(desk / "records").faults == []
    assert "final final-1, run one: 2 sentences" in call(desk, "report")
    message = call(desk, "promote", "voice-1", "--seal", "final-1", fails=NotPromoted)
    assert message.startswith("candidate 'voice-1' is not fit to be heard: score of the depth path is ")


def test_a_voice_that_is_not_the_frozen_one_opens_nothing(desk):
    for name in ("train", "select"):
        call(desk, "identities", "--out", desk / f"{name}.txt", records=False)
    call(desk, "seal", "final-1", "--sentences", desk / "s.jsonl", "--source", "a test")
    call(desk, "freeze", "voice-1", "--train", desk / "train.txt", "--select", desk / "select.txt")
    stored = artifacts.read_manifest(desk / "weights" / "head").path("weights.safetensors")
    stored.write_bytes(stored.read_bytes() + b" ")
    call(desk, "open", "final-1", "voice-1", "--run", "one", *heard(desk), fails=ChecksumMismatch)
    events = [json.loads(line)["event"] for line in (desk / "records" / "ledger.jsonl").read_text().splitlines()]
    assert events == ["sealed", "frozen"]


def test_refusals_are_one_sentence(desk):
    (desk / "bad.jsonl").write_text('{"words": "x"}\n')
    call(desk, "identities", desk / "bad.jsonl", "--out", desk / "x.txt", records=False, fails=BadInput)
    assert "holds no <id>.wav" in call(desk, "run", "t", *heard(desk), "--ceiling", desk / "ear", fails=BadInput)
    assert "run it first" in call(desk, "report", "nothing", fails=BadInput)
    done = CliRunner().invoke(measure, ["report", "--plot", str(desk / "p.png")])
    assert done.exit_code == 2 and "give the RUN" in done.output


def test_a_folder_without_a_model_is_refused_and_a_model_is_known_by_its_files(tmp_path):
    with pytest.raises(BadInput, match="it lacks model.bin, config.json, tokenizer.json"):
        recogniser.whisper(tmp_path)
    (tmp_path / "model.bin").write_bytes(b"m")
    first = recogniser._digest(tmp_path)
    assert first == hashlib.sha256(f"model.bin {hashlib.sha256(b'm').hexdigest()}\n".encode()).hexdigest()
    (tmp_path / "model.bin").write_bytes(b"n")
    assert recogniser._digest(tmp_path) != first
