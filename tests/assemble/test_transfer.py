"""The whole path on a tiny pair, through the command line: capture, fit, train, diagnose, and arms of what came out."""

from __future__ import annotations

import json
import resource
import shutil
import signal
from types import SimpleNamespace

import pytest
import torch

from legato import artifacts, cli
from legato.assemble import transfer
from legato.audio import write
from legato.corpora.rows import Row, read_rows, row_id, write_rows
from legato.listen import shelf
from legato.listen.arms import five
from legato.pocket.pair import KEPT
from legato.pocket.tiny import sound, tiny_listener

QUESTIONS = 48
HASHES = {"ear": "e" * 64, "large": "a" * 64, "small": "b" * 64}


@pytest.fixture(scope="module")
def tiny():
    """A pair of the real pair's depths, and answers of at most 6 tokens."""
    torch.set_num_threads(1)
    large = tiny_listener("large", seed=1, layers=30, width=16)
    small = tiny_listener("small", seed=2, layers=len(KEPT), width=16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "LIMIT", 6)
        patch.setattr(transfer, "load_pair", lambda: (large, small, HASHES))
        yield large, small


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """rows.jsonl with its recordings beside it."""
    folder = tmp_path_factory.mktemp("spoken")
    made = []
    for i in range(QUESTIONS):
        question, answer = f"say the number {100 + i}", f"{100 + i}"
        name = row_id("stub", question, answer)
        made.append(Row(name, "skills", "stub", f"stub:{i}", "stub/0", question, answer, (answer,), False, False))
        write(folder / f"{name}.wav", sound(0.6 + 0.02 * (i % 3), seed=i))
    write_rows(folder / "rows.jsonl", made)
    return folder


@pytest.fixture(scope="module")
def words(tiny, rows, tmp_path_factory):
    """A capture of every layer, the questions read as words."""
    folder = tmp_path_factory.mktemp("words")
    transfer.capture_rows(folder, read_rows(rows / "rows.jsonl"), None, every_layer=True, progress=False)
    return folder


@pytest.fixture
def run(tiny, monkeypatch, tmp_path, capsys):
    """`legato listen ...` in an empty folder; returns what was printed, on stderr where it was refused."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, code: int = 0) -> str:
        assert cli.main(["listen", *arguments]) == code
        out, err = capsys.readouterr()
        return err if code else out

    return call


def test_from_capture_to_arms(run, rows, tiny, tmp_path):
    spoken = ["--rows", str(rows / "rows.jsonl"), "--audio", str(rows)]
    assert f"{QUESTIONS} questions captured, 0 were there" in run("capture", "caches", *spoken)
    assert f"0 questions captured, {QUESTIONS} were there" in run("capture", "caches", *spoken)

    said = run("fit", "caches", "mapper", "--target", "own", "--lam", "1e-2", "--plot", "r2.png")
    assert "question" in said and "tail" in said and (tmp_path / "r2.png").stat().st_size > 5000
    said = run("train", "caches", "residual", "--mapper", "mapper", "--steps", "3", "--rank", "4", "--plot", "t.png")
    assert "says what the large model says:" in said and (tmp_path / "t.png").stat().st_size > 5000
    run("train", "caches", "control", "--control", "--steps", "3", "--rank", "4")

    stored = {name: artifacts.load(tmp_path / name) for name in ("mapper", "residual", "control")}
    made_from = {name: manifest.config["made_from"] for name, (_, manifest) in stored.items()}
    assert made_from["residual"]["mapper"] in stored["mapper"][1].files.values()
    assert made_from["control"].keys() == {*HASHES, "decoder before and after"}
    large, small = tiny
    mapper = shelf.load_mapper(stored["mapper"])
    residual, control = (shelf.load_residual(stored[name]) for name in ("residual", "control"))
    arms = five(small, large, mapper, residual, control)
    replies = {name: arm.answer(sound(0.7, seed=999), force_tokens=4) for name, arm in arms.items()}
    assert all(len(reply.tokens) == 4 for reply in replies.values())
    assert replies["transfer"].map_ms is not None and replies["transfer"].correct_ms is not None
    assert replies["control"].map_ms is None and replies["control"].correct_ms is not None


def test_a_finished_training_is_not_repeated(run, words, tmp_path):
    run("fit", str(words), "mapper")
    train = ["train", str(words), "out", "--mapper", "mapper", "--steps", "2"]
    once, again = run(*train), run(*train)
    assert once.split("sha256")[1] == again.split("sha256")[1]
    assert len(transfer.curve(tmp_path / "out")) == 1


def test_reference_answers_can_be_the_labels(run, words, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "encode", lambda row, tokenizer: SimpleNamespace(answer=(int(row.answer), 2)))
    run("fit", str(words), "mapper")
    run("train", str(words), "own", "--mapper", "mapper", "--steps", "2")
    run("train", str(words), "gold", "--mapper", "mapper", "--steps", "2", "--labels", str(rows / "rows.jsonl"))
    own, gold = (transfer.curve(tmp_path / name)[-1]["loss"] for name in ("own", "gold"))
    assert own != gold
    (tmp_path / "few.jsonl").write_text((rows / "rows.jsonl").read_text().splitlines()[0] + "\n")
    said = run("train", str(words), "few", "--mapper", "mapper", "--labels", "few.jsonl", code=2)
    assert "the rows hold no answer to captured question" in said


def test_only_some_rows_are_trained_on(run, words, rows, tmp_path):
    run("fit", str(words), "mapper")
    lines = (rows / "rows.jsonl").read_text().splitlines()
    (tmp_path / "some.jsonl").write_text("\n".join(lines[::2]) + "\n")
    train = ["train", str(words), "out", "--mapper", "mapper", "--steps", "2"]
    run(*train, "--only", "some.jsonl")
    chosen = {json.loads(line)["id"] for line in lines[::2]}
    fit_on = transfer.Training(only=frozenset(chosen)).chosen(transfer.Capture(words))
    assert 0 < len(fit_on) < len(lines) and {e.id for e in fit_on} <= chosen
    assert f"{len(fit_on)} questions" in artifacts.load(tmp_path / "out")[1].recipe
    assert "holds a training with data" in run(*train, code=2)  # all rows: not the run that is there
    held = next(line for line in lines if int(json.loads(line)["id"][:4], 16) % 20 == 0)  # never trained on
    (tmp_path / "none.jsonl").write_text(held + "\n")
    said = run("train", str(words), "none", "--mapper", "mapper", "--only", "none.jsonl", code=2)
    assert "holds none of the questions" in said


def test_diagnosis_of_every_layer(run, words):
    found = json.loads(run("diagnose", str(words), "--json", "--limit", "32", "--plot", "picture.png"))
    assert found["questions"] == 32
    for name in ("large", "small"):
        assert found["views"][name]["everything"] > 0.9  # its own answers, up to the rounding of a capture
    assert 0 <= found["probe_at_last_position"]["small"] <= 1


@pytest.mark.parametrize("room", (100, 1_000, 20_000, 60_000))
def test_a_full_disk_is_one_sentence_and_the_same_command_goes_on(run, words, tmp_path, room):
    """No file may grow beyond `room` bytes, as on a disk that is full there."""
    run("fit", str(words), "mapper")
    train = ["train", str(words), "out", "--mapper", "mapper", "--steps", "2"]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        said = run(*train, code=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "File too large" in said and "Traceback" not in said
    assert "sha256" in run(*train)


def test_captures_of_other_models_are_refused(run, words, tmp_path):
    shutil.copytree(words, tmp_path / "other")
    config = tmp_path / "other/config.json"
    config.write_text(config.read_text().replace("b" * 64, "c" * 64))
    said = run("fit", "other", "mapper", code=2)
    assert "another small" in said and "b" * 64 in said and "c" * 64 in said


def test_what_cannot_be_trained_is_refused(run, words):
    assert "give either --mapper or --control" in run("train", str(words), "out", code=2)
    assert "holds no capture" in run("fit", "nowhere", "out", code=2)
    assert "no artifact at nomap" in run("train", "nowhere", "out", "--mapper", "nomap", code=2)  # before the capture
    assert "--rank is 'none'" in run("train", str(words), "out", "--control", "--rank", "none", code=2)
