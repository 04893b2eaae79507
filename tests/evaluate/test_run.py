import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import legato
from legato.errors import BadInput, LegatoError, SealError
from legato.evaluate import layout, record
from legato.evaluate.run import final, run


def artifacts(arms):
    return {arm: {"model": "m" * 64} for arm in arms}


def test_every_arm_answers_every_question_once(tmp_path, questions, arms):
    done = run(arms, questions, tmp_path / "r.jsonl", name="r", artifacts=artifacts(arms), progress=False)
    assert (done.asked, done.kept, done.repaired) == (36, 0, None)
    found = record.read(done.path)
    assert {(r.row, r.arm) for r in found} == {(q.id, arm) for q in questions for arm in arms}
    first = found[0]
    assert (first.reply, first.finish, first.timings.prefill_ms, first.timings.map_ms) == ("No idea.", "end", 5.0, None)
    assert {r.arm for r in found[::3]} == set(arms), "each arm goes first in its turn"
    again = run(arms, questions, done.path, name="r", artifacts=artifacts(arms), progress=False)
    assert (again.asked, again.kept) == (0, 36)
    assert all(len(arm.asked) == 12 for arm in arms.values())


@pytest.mark.parametrize("error", [BadInput("cannot hear"), RuntimeError("bug")])
def test_an_arm_that_raises_stops_the_run_and_loses_nothing(tmp_path, questions, arms, error):
    arms["transfer"].error, arms["transfer"].fail_at = error, 5
    path = tmp_path / "r.jsonl"
    with pytest.raises(LegatoError if isinstance(error, LegatoError) else RuntimeError) as caught:
        run(arms, questions, path, name="r", artifacts=artifacts(arms), progress=False)
    said = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    written = len(record.read(path))
    assert f"arm transfer on row {questions[5].id}" in said
    assert f"{written} answers are safe" in said
    arms["transfer"].error = None
    done = run(arms, questions, path, name="r", artifacts=artifacts(arms), progress=False)
    assert (done.kept, done.asked) == (written, 36 - written)
    assert len(arms["transfer"].asked) == 12, "no question is asked again"


def test_records_of_another_run_or_other_files_are_not_continued(tmp_path, questions, arms):
    path = tmp_path / "r.jsonl"
    run(arms, questions[:2], path, name="r", artifacts=artifacts(arms), progress=False)
    with pytest.raises(BadInput, match="choose a new run id"):
        run(arms, questions, path, name="other", artifacts=artifacts(arms), progress=False)
    with pytest.raises(SealError, match="from other files"):
        run(arms, questions, path, name="r", artifacts={a: {"model": "n" * 64} for a in arms}, progress=False)


def test_audio_that_changes_during_a_run_stops_it(tmp_path, questions, arms, audio_folder):
    a, b = (audio_folder / f"{questions[i].id}.wav" for i in (2, 3))
    a.write_bytes(b.read_bytes())
    with pytest.raises(SealError, match=f"recording of row {questions[2].id} changed"):
        run(arms, questions, tmp_path / "r.jsonl", name="r", artifacts=artifacts(arms), progress=False)
    assert len(record.read(tmp_path / "r.jsonl")) == 6


def test_letter_logits_are_kept_where_an_arm_can_say_them(tmp_path, questions, arms):
    from dataclasses import replace

    class Lettered:
        name = "large"

        def answer(self, audio, *, max_tokens=48, force_tokens=None):
            return arms["large"].answer(audio)

        def letter_logits(self, audio, letters):
            return {letter: i for i, letter in enumerate(letters)}

    asked = [replace(questions[0], choices={"B": "x", "A": "y"}, letter="B"), questions[1]]
    run({"large": Lettered()}, asked, tmp_path / "r.jsonl", name="r", artifacts=artifacts(["large"]), progress=False)
    with_letters, without = record.read(tmp_path / "r.jsonl")
    assert with_letters.letter_logits == {"A": 0.0, "B": 1.0}
    assert without.letter_logits is None


KILLED = """
    import sys, time
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    from conftest import Desk, TableArm, row
    from legato.evaluate import run
    from legato.evaluate.questions import audio_in, spoken

    class Slow(TableArm):
        def answer(self, audio, **settings):
            time.sleep(0.05)
            return super().answer(audio, **settings)

    root = Path({root!r})
    rows = [row(i) for i in range(12)]
    questions = spoken(rows, audio_in(root / "audio", [r.id for r in rows]))
    desk = Desk(root / "records", {{}}, {{}}, questions)
    right = {{q.audio_sha256: q.accepted[0] for q in questions}}
    arms = {{name: Slow(name, right) for name in ("small", "transfer", "large")}}
    run.final(desk.records, desk.open(), arms, progress=False)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 needs signals")
def test_a_run_killed_with_kill_9_is_resumed_and_asks_nothing_twice(tmp_path, desk, arms):
    desk.seal()
    desk.freeze()
    code = textwrap.dedent(KILLED).format(tests=str(Path(__file__).parent), root=str(tmp_path))
    environment = os.environ | {"PYTHONPATH": str(Path(legato.__file__).parents[1])}
    path = layout.run(desk.records, "run")
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as process:
        deadline = time.monotonic() + 60
        while not (path.exists() and path.read_bytes().count(b"\n") >= 5):
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    whole = len(record.scan(path).records)
    assert 5 <= whole < 24
    with open(path, "ab") as file:
        file.write(b'{"run":"run","se')  # what a kill in the middle of a write leaves
    with pytest.raises(SealError, match="a final opens once"):
        desk.open(run="second")
    opened = desk.open()
    assert opened.resumed
    done = final(desk.records, opened, arms, progress=False)
    assert (done.kept, done.asked) == (whole, 24 - whole)
    assert "cut off" in done.repaired
    assert sum(len(arm.asked) for arm in arms.values()) == 24 - whole
    with pytest.raises(SealError, match="opened and finished"):
        desk.open()


def test_a_final_runs_with_the_arms_and_files_it_was_opened_for(desk, arms):
    desk.seal()
    desk.freeze()
    opened = desk.open()
    with pytest.raises(SealError, match="was opened for the arms"):
        final(desk.records, opened, {"small": arms["small"]}, progress=False)
    uses = {"small": ["residual"], "transfer": ["mapper", "residual"], "large": ["mapper"]}
    final(desk.records, opened, arms, uses=uses, progress=False)
    by_arm = {r.arm: set(r.artifacts) for r in record.read(layout.run(desk.records, "run"))}
    assert by_arm == {arm: set(files) for arm, files in uses.items()}
