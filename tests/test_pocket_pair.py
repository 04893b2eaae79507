"""The shipped pocket pair as a user meets it: the README's example, and every arm on the bundled questions."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

import legato
from legato import cli
from legato.audio import Audio, read
from legato.errors import BadInput
from legato.evaluate.answers import is_right

ROOT = Path(__file__).resolve().parents[1]
RIGHT = {
    "bookshop": ["bookshop"], "capital": ["Paris"], "language": ["Portuguese"], "month": ["April"],
    "pencils": ["pencils"], "taller": ["Tom"],
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def system():
    return legato.load("pocket")


def test_the_readme_example_runs(monkeypatch):
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(ROOT)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "README.md", "exec"), {})
    assert re.fullmatch(r"\S.* \d+\.\d+\n", said.getvalue())


def test_the_large_model_answers_the_bundled_questions(system):
    questions = {path.stem: path for path in (ROOT / "examples/questions").glob("*.flac")}
    assert set(RIGHT) <= set(questions)
    replies = {name: system.answer(path, arm="large") for name, path in questions.items()}
    assert not any(reply.malformed for reply in replies.values())
    right = [name for name, accepted in RIGHT.items() if is_right(replies[name].text, accepted)]
    assert len(right) >= 5, {name: reply.text for name, reply in replies.items()}


def test_every_arm_races_on_one_question(system, monkeypatch, capsys):
    monkeypatch.setattr("legato.assemble.load", lambda preset: system)
    question = str(ROOT / "examples/questions/capital.flac")
    assert cli.main(["ask", question, "--arm", "all", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["arms"]
    assert all(figures["answer"] for figures in found.values())
    handed = sum(found["transfer"][step] for step in ("map_ms", "correct_ms", "place_ms"))
    assert handed < found["large"]["prefill_ms"]


def test_equal_questions_get_equal_answers(system):
    question = ROOT / "examples/questions/pencils.flac"
    assert system.answer(question).tokens == system.answer(question).tokens


def test_what_is_no_english_question_is_refused_and_the_bundled_questions_are_not(system):
    t = np.arange(3 * 16_000) / 16_000
    noise = 0.1 * np.random.default_rng(5).standard_normal(len(t))
    hum = sum(np.sin(2 * np.pi * 50 * k * t) / k for k in range(1, 9)) / 10
    clicks = np.where(np.arange(len(t)) % 8000 == 0, 0.9, 0.0)
    for wave in (noise, 0.3 * np.sin(2 * np.pi * 440 * t), hum, clicks):
        with pytest.raises(BadInput, match="no question found in the audio: it sounds like noise or music"):
            system.answer(Audio.fitted(wave[None].astype(np.float32), 16_000))
    listener = system.arms["large"].handoff.listener
    for path in sorted((ROOT / "examples/questions").glob("*.flac")):
        question = read(path)
        assert listener.listen(question).doubt is None, path
        rng = np.random.default_rng(0)
        for seconds, level in ((4, 0.0), (2, 10 ** (-45 / 20)), (5, 10 ** (-45 / 20)), (2, 10 ** (-35 / 20))):
            around = level * rng.standard_normal((2, 1, seconds * question.rate)).astype(np.float32)
            padded = np.concatenate((around[0], question.mono().samples, around[1]), axis=1)
            found = listener.listen(Audio(padded, question.rate)).doubt
            assert found is None, f"{path} with {seconds} s of noise at {level:.3f} around it"
