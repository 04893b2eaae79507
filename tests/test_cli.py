"""The command line: its options, its exit codes, its two ways to show a race, and the evidence from end to end.

The arms are stand-ins of known answers and times; the pocket pair itself runs in test_pocket_pair.py.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
import pytest
import soundfile

from legato import assemble, cli
from legato.assemble import Reply, System
from legato.audio import Audio, write
from legato.cli import race
from legato.errors import ChecksumMismatch
from legato.organs import Answer

ARMS = ("small", "mapped", "control", "transfer", "large")
STEPS = ["prefill_ms", "map_ms", "correct_ms", "place_ms", "first_token_ms", "decode_tokens_per_s", "total_ms"]
HASHES = {
    name: f"{i:064x}" for i, name in enumerate(("base", "ear", "large", "small", "mapper", "residual", "control"))
}


@dataclass
class StubArm:
    """Says its own name; only transfer has every step. Each question moves on a count, so that replies differ."""

    name: str
    asked: int = 0

    def answer(self, audio: Audio, *, max_tokens: int = 48, force_tokens: int | None = None) -> Answer:
        self.asked += 1
        count = force_tokens or min(4, max_tokens)
        whole = self.name == "transfer"
        return Answer(
            text=f"{self.name.title()} says so.",
            tokens=tuple(range(count)),
            finish="end" if count == 4 else "limit",
            prefill_ms=60.0,
            map_ms=3.0 if whole else None,
            correct_ms=2.0 if whole else None,
            place_ms=1.0,
            first_token_ms=80.04321,
            decode_tokens_per_s=50.0 if count > 1 else None,
            total_ms=120.0,
        )


@pytest.fixture
def system(monkeypatch) -> System:
    stub = System("pocket", {arm: StubArm(arm) for arm in ARMS}, dict(HASHES), "float32")
    monkeypatch.setattr(assemble, "load", lambda preset: stub)
    return stub


@pytest.fixture
def tone(tmp_path):
    """(name, seconds) -> a recording with something to hear, another for every name."""

    def make(name: str = "q.wav", seconds: float = 1.0) -> Path:
        t = np.arange(int(8000 * seconds)) / 8000
        pitch = 100 + sum(name.encode()) % 200
        write(tmp_path / name, Audio((0.3 * np.sin(2 * np.pi * pitch * t)).astype(np.float32)[None], 8000))
        return tmp_path / name

    return make


def complaint(capsys, *arguments: str) -> str:
    """The one sentence on stderr of a call that the user can mend."""
    assert cli.main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("legato: ") and err.count("\n") == 1, (out, err)
    return err.removeprefix("legato: ").strip()


def frozen_options(command: click.Command) -> dict[str, object]:
    if isinstance(command, click.Group):
        return {name: frozen_options(inner) for name, inner in sorted(command.commands.items())}
    return {
        p.opts[0]: sorted(p.type.choices) if isinstance(p.type, click.Choice) else p.type.name for p in command.params
    }


RECORDS = {"--records": "directory"}
SPOKEN = {"--rows": "file", "--audio": "directory"}


def test_commands_and_options_are_frozen():
    """A change here is a change for users: write it into CHANGELOG.md."""
    found = frozen_options(cli.legato)
    assert sorted(found) == ["ask", "bench", "eval", "listen", "listening", "say", "speak"]
    assert found["ask"] == {
        "questions": "path",
        "--arm": sorted([*ARMS, "all"]),
        "--json": "boolean",
        "--max-tokens": "integer range",
        "--force-tokens": "integer range",
    }
    assert found["listening"] == {
        "new": {
            "out": "directory",
            "--a": "directory",
            "--b": "directory",
            "--catch": "integer range",
            "--repeat": "integer range",
            "--seed": "integer",
        },
        "report": {
            "sheet_path": "directory",
            "--json": "boolean",
            "--metric-said": ["a", "b", "none"],
            "--metric": "text",
            "--records": "directory",
        },
        "serve": {"sheet_path": "directory", "--port": "integer range"},
    }
    assert found["listen"] == {
        "capture": {"out": "directory", **SPOKEN, "--every-layer": "boolean"},
        "diagnose": {"captured": "directory", "--limit": "integer range", "--plot": "file", "--json": "boolean"},
        "fit": {
            "captured": "directory",
            "out": "directory",
            "--target": ["own", "told"],
            "--lam": "float range",
            "--plot": "file",
            "--reads": ["all", "late", "nearest"],
            "--int8": "boolean",
        },
        "train": {
            "captured": "directory",
            "out": "directory",
            "--mapper": "directory",
            "--control": "boolean",
            "--rank": "text",
            "--questions": "integer range",
            "--only": "file",
            "--labels": "file",
            "--steps": "integer range",
            "--rate": "float range",
            "--guard": "float range",
            "--seed": "integer range",
            "--plot": "file",
            "--reads": ["all", "late", "nearest"],
            "--int8": "boolean",
        },
    }
    assert found["bench"] == {
        "listen": {
            "question": "path",
            "--repeats": "integer range",
            "--tokens": "integer range",
            "--json": "boolean",
        }
    }
    assert found["eval"] == {
        "agreement": {"run_name": "text", "--json": "boolean", **RECORDS},
        "audit": {**SPOKEN, **RECORDS},
        "freeze": {"name": "text", "--train": "file", "--select": "file", "--note": "text", **RECORDS},
        "identities": {"rows": "file", "--audio": "directory", "--out": "file"},
        "judge": {
            "fill": {"sheet_path": "file"},
            "sheet": {
                "run_name": "text",
                "--rows": "file",
                "--salt": "text",
                "--out": "file",
                "--key": "file",
                **RECORDS,
            },
            "unblind": {"sheet_path": "file", "key": "file", "--json": "boolean"},
        },
        "open": {
            "final": "text",
            "candidate": "text",
            **SPOKEN,
            "--run": "text",
            "--max-tokens": "integer range",
            **RECORDS,
        },
        "promote": {"candidate": "text", "--seal": "text", "--note": "text", **RECORDS},
        "report": {"--json": "boolean", "--plot": "file", **RECORDS},
        "seal": {"name": "text", **SPOKEN, "--n": "integer range", "--salt": "text", "--source": "text", **RECORDS},
    }


def test_help_imports_no_torch_and_names_every_command():
    commands = [[], ["ask"], ["eval"], ["eval", "open"], ["listen"], ["bench"]]
    code = f"""
import sys
from legato.cli import main
for command in {commands!r}:
    assert main([*command, "--help"]) == 0
heavy = {{"torch", "transformers", "numpy", "scipy", "matplotlib", "soundfile", "tokenizers"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert all(f"\n  {name} " in done.stdout for name in ("ask", "listen", "eval", "bench"))


def test_version_and_the_module_form():
    done = subprocess.run([sys.executable, "-m", "legato", "--version"], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "legato 0.1.0\n", "")


def test_json_is_one_object_of_the_promised_shape(system, tone, capsys):
    path = str(tone(seconds=1.5))
    assert cli.main(["ask", path, "--arm", "all", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.count("\n") == 1
    found = json.loads(out)
    assert list(found) == ["file", "seconds", "artifacts", "arms"]
    assert (found["file"], found["seconds"], found["artifacts"]) == (path, 1.5, HASHES)
    assert list(found["arms"]) == list(ARMS)
    for arm, figures in found["arms"].items():
        assert list(figures) == ["answer", "tokens", "malformed", *STEPS]
        assert (
            figures["answer"] == f"{arm.title()} says so." and figures["tokens"] == 4 and figures["malformed"] is False
        )
        assert (figures["map_ms"] is None) == (arm != "transfer") == (figures["correct_ms"] is None)
        assert figures["first_token_ms"] == 80.043


def test_one_arm_is_transfer_unless_said_otherwise(system, tone, capsys):
    path = str(tone())
    assert cli.main(["ask", path, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["arms"]) == ["transfer"]
    assert cli.main(["ask", path, "--arm", "small", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["arms"]) == ["small"]
    assert system.arms["transfer"].asked == system.arms["small"].asked == 2  # a warm-up turn each, and the question
    assert system.arms["large"].asked == 0


def test_limits_reach_the_arm_and_a_cut_answer_is_malformed(system, tone, capsys):
    path = str(tone())
    assert cli.main(["ask", path, "--max-tokens", "2", "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)["arms"]["transfer"]
    assert (reply["tokens"], reply["malformed"]) == (2, True)
    assert cli.main(["ask", path, "--force-tokens", "1", "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)["arms"]["transfer"]
    assert (reply["tokens"], reply["decode_tokens_per_s"]) == (1, None)


def test_the_race_for_people(system, tone, capsys):
    first, second = tone("a.wav"), tone("b.flac")
    assert cli.main(["ask", str(first), str(second), "--arm", "all"]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    for arm in ARMS:
        assert out.count(f"{arm.title()} says so.") == 2
    assert f"{first}  (1.00 s)" in out and f"{second}  (1.00 s)" in out
    assert "median of 2 questions" in out
    assert [line.split()[-1] for line in out.splitlines()[-5:]] == ["1.00"] * 5  # every total against large's


def reply(**times: float | None) -> Reply:
    steps = dict.fromkeys(STEPS) | times
    return Reply(text="x", tokens=(1,), finish="end", arm="transfer", malformed=False, **steps)


def test_bars_are_drawn_to_scale():
    r = reply(prefill_ms=50.0, map_ms=10.0, correct_ms=5.0, place_ms=5.0, first_token_ms=80.0, total_ms=100.0)
    assert race.bar(r, 100.0, width=20) == "h" * 10 + "m" * 2 + "c" + "p" + "s" * 2 + "." * 4
    assert race.bar(r, 200.0, width=20) == "hhhhhmps.."  # the correction is half a character here
    plain = reply(prefill_ms=50.0, place_ms=0.1, first_token_ms=50.2, total_ms=100.0)
    assert race.bar(plain, 100.0, width=10) == "hhhhh....."


def test_answer_from_python(system, tone):
    path = tone()
    found = system.answer(path)
    assert (found.arm, found.text, found.malformed) == ("transfer", "Transfer says so.", False)
    assert isinstance(found, Answer)
    assert system.answer(assemble.hear(path), arm="large").text == "Large says so."


def test_an_unknown_arm_is_refused_with_the_known_ones(system, tone, capsys):
    from legato.errors import BadInput

    with pytest.raises(BadInput, match="no arm 'big'; choose one of small, mapped"):
        system.answer(tone(), arm="big")
    assert "'big' is not one of 'small'" in complaint(capsys, "ask", str(tone()), "--arm", "big")


def test_bad_recordings_are_refused_in_one_sentence(system, tone, tmp_path, capsys):
    (tmp_path / "text.wav").write_text("to be or not to be, that is the question")
    (tmp_path / "empty.wav").write_bytes(b"")
    (tmp_path / "cut.wav").write_bytes(tone("whole.wav").read_bytes()[:6000])
    write(tmp_path / "silent.wav", Audio(np.zeros((1, 16000), np.float32), 16000))
    wanted = {
        "nowhere.wav": "no file",
        ".": "directory",
        "text.wav": "not audio",
        "empty.wav": "empty",
        "cut.wav": "cut short",
        "silent.wav": "no speech",
    }
    for name, word in wanted.items():
        sentence = complaint(capsys, "ask", str(tmp_path / name))
        assert word in sentence, sentence
    assert "at most 30 s" in complaint(capsys, "ask", str(tone("long.wav", seconds=31)))
    assert all(arm.asked == 0 for arm in system.arms.values())


def test_usage_errors_are_one_sentence(capsys):
    assert complaint(capsys, "ask") == "Missing argument 'QUESTION...'; see: legato ask --help"
    assert "No such command 'aks'" in complaint(capsys, "aks")
    assert "No such option" in complaint(capsys, "ask", "q.wav", "--fast")
    assert "0 is not in the range 1<=x<=1000" in complaint(capsys, "ask", "q.wav", "--max-tokens", "0")
    assert "give --rows and --audio together" in complaint(capsys, "eval", "audit", "--audio", ".")


def test_paths_that_are_not_there_are_told_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("")
    seal = ["eval", "seal", "f", "--n", "1", "--salt", "s", "--source", "x", "--audio", "."]
    assert "'rows.json' does not exist" in complaint(capsys, *seal, "--rows", "rows.json")
    assert "there is no folder pictures to write r.png into" in complaint(
        capsys, "eval", "report", "--plot", "pictures/r.png"
    )
    assert "'voices' does not exist" in complaint(
        capsys, "eval", "identities", "rows.jsonl", "--audio", "voices", "--out", "a.ids"
    )
    assert "r.bmp must end in .png, .svg, .pdf" in complaint(capsys, "eval", "report", "--plot", "r.bmp")
    assert "nothing to draw" in complaint(capsys, "eval", "report", "--plot", "r.png")


def test_a_bug_is_not_softened(tone, monkeypatch):
    monkeypatch.setattr(assemble, "load", lambda preset: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["ask", str(tone())])


def test_interruption_is_130(tone, monkeypatch, capsys):
    def interrupted(preset):
        raise KeyboardInterrupt

    monkeypatch.setattr(assemble, "load", interrupted)
    assert cli.main(["ask", str(tone())]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_goes_away_is_no_traceback():
    read, wrote = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "legato", "--help"], stdout=wrote, stderr=subprocess.PIPE, timeout=600
        )
    finally:
        os.close(wrote)
    assert (done.returncode, done.stderr) == (141, b"")


def shell(line: str) -> subprocess.CompletedProcess:
    """Run a shell line in which $LEGATO is the command line."""
    environment = {**os.environ, "LEGATO": f"{sys.executable} -m legato"}
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=600, env=environment)


@pytest.mark.parametrize("command", ("--help", "--version", "eval audit --records {0}"))
def test_output_onto_a_full_disk_is_one_sentence(tmp_path, command):
    done = shell(f"$LEGATO {command.format(tmp_path)} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith("legato: a file cannot be read or written: No space left on device")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", (">&-", "2>&-", "2>/dev/full", ">&- 2>&-", ">/dev/full 2>&1"))
def test_the_exit_code_outlives_closed_and_full_streams(closed):
    done = shell(f"$LEGATO ask nofile.wav {closed}")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr == ("legato: there is no file nofile.wav; check the path.\n" if closed == ">&-" else "")
    assert shell("$LEGATO --help >&-").returncode == 0


def test_what_the_disk_refuses_is_one_sentence_with_the_file(tone, monkeypatch, capsys):
    def full(preset):
        raise OSError(errno.ENOSPC, "No space left on device", "out/large.f16")

    monkeypatch.setattr(assemble, "load", full)
    assert complaint(capsys, "ask", str(tone())) == (
        "a file cannot be read or written: No space left on device (out/large.f16); "
        "mend that and give the same command again"
    )


def test_a_capture_of_no_rows_is_refused(tmp_path, capsys):
    (tmp_path / "empty.jsonl").write_text("")
    said = complaint(capsys, "listen", "capture", str(tmp_path / "out"), "--rows", str(tmp_path / "empty.jsonl"))
    assert said.endswith("empty.jsonl holds no rows; give a JSONL file with one row a line.")
    assert not (tmp_path / "out").exists()


def test_recordings_that_hold_no_usable_sound_are_refused(system, tmp_path, capsys):
    wave = np.full(16000, 0.1, np.float32)
    wave[::2] = -0.1
    soundfile.write(tmp_path / "slow.wav", wave, 3999)
    soundfile.write(tmp_path / "slow-enough.wav", wave, 4000)
    wave[7] = 1e30
    soundfile.write(tmp_path / "spike.wav", wave, 16000, subtype="FLOAT")
    assert "has 3,999 samples a second, too few for speech" in complaint(capsys, "ask", str(tmp_path / "slow.wav"))
    assert "holds a sample of 1e+30" in complaint(capsys, "ask", str(tmp_path / "spike.wav"))
    assert cli.main(["ask", str(tmp_path / "slow-enough.wav")]) == 0


def test_a_recording_without_a_question_is_told_and_those_behind_it_are_answered(system, tone, capsys):
    said = system.arms["transfer"].answer

    def doubting(audio, **limits):
        answer = said(audio, **limits)
        return replace(answer, doubt="it sounds like noise or music") if audio.seconds == 2 else answer

    system.arms["transfer"].answer = doubting
    files = [str(tone(*what)) for what in (("hum.wav", 2), ("q.wav", 1), ("rain.wav", 2), ("r.wav", 1))]
    nowhere = files[0] + ".not"
    assert cli.main(["ask", nowhere, *files, "--json"]) == 2
    out, err = capsys.readouterr()
    assert [json.loads(line)["file"] for line in out.splitlines()] == [files[1], files[3]]
    refusals = [f"no question found in {f}: it sounds like noise or music" for f in (files[0], files[2])]
    assert err.count("\n") == 1 and all(refusal in err for refusal in (nowhere, *refusals))
    assert complaint(capsys, "ask", files[0]).startswith(refusals[0])


def test_changed_weights_are_refused_by_name_with_both_hashes(system):
    system.require({"large": HASHES["large"]})
    with pytest.raises(ChecksumMismatch) as caught:
        system.require({"large": "f" * 64})
    assert "large" in str(caught.value) and "f" * 64 in str(caught.value) and HASHES["large"] in str(caught.value)


@pytest.fixture
def evidence(system, tone, tmp_path, monkeypatch):
    """A folder with 12 spoken rows and a candidate's weight files; gives a function that runs `legato eval`."""
    from hashlib import sha256

    from legato.corpora.rows import Row, row_id, write_rows

    rows = []
    for i in range(12):
        question, answer = f"What does stub number {i} say?", f"{ARMS[i % 5].title()} says so."
        rows.append(
            Row(
                row_id("stub", question, answer),
                "facts",
                "stub",
                f"stub:{i}",
                f"stub/{i % 3}",
                question,
                answer,
                (f"{ARMS[i % 5]} says so",),
                fact_held=i < 6,
                wording_held=False,
            )
        )
        tone(f"{rows[-1].id}.wav", seconds=0.5 + 0.01 * i)
    write_rows(tmp_path / "rows.jsonl", rows)
    files = {}
    for name in HASHES.keys() - {"base"}:
        files[name] = tmp_path / f"{name}.safetensors"
        files[name].write_bytes(name.encode())
        system.artifacts[name] = sha256(name.encode()).hexdigest()
    monkeypatch.setattr(assemble, "files", lambda preset: files)
    for name in ("train", "select"):
        (tmp_path / f"{name}.ids").write_text("")
    monkeypatch.chdir(tmp_path)
    spoken = ["--rows", "rows.jsonl", "--audio", "."]

    def run(command: str, *arguments: str, code: int = 0) -> None:
        extra = spoken if command in ("seal", "open") else []
        assert cli.main(["eval", command, *arguments, *extra]) == code

    return run


def test_the_evidence_from_seal_to_report(evidence, capsys):
    evidence("seal", "final-1", "--n", "10", "--salt", "s", "--source", "stubs")
    evidence("freeze", "stub-1", "--train", "train.ids", "--select", "select.ids")
    evidence("open", "final-1", "stub-1", "--run", "run-1")
    capsys.readouterr()
    evidence("report", "--json")
    [final] = json.loads(capsys.readouterr().out)["finals"]
    assert (final["seal"], final["n"], list(final["arms"])) == ("final-1", 10, list(ARMS))
    assert 0 < sum(arm["accuracy"] for arm in final["arms"].values()) <= 1.0 + 1e-9  # each row accepts one arm's words
    assert {"fixed", "regressed", "mcnemar_one_sided", "mcnemar_two_sided"} <= set(final["transfer_vs_small"])
    evidence("audit")
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 faults in ")
    evidence("open", "final-1", "stub-1", "--run", "run-2", code=2)
    assert "final 'final-1' was opened" in capsys.readouterr().err
    evidence("agreement", "run-1", "--json")
    assert json.loads(capsys.readouterr().out)["small"]["n"] == 10
    evidence("promote", "stub-1", "--seal", "final-1")


def test_an_audit_that_finds_something_is_exit_1(evidence, capsys):
    evidence("seal", "final-1", "--n", "10", "--salt", "s", "--source", "stubs")
    path = Path("records/seals/final-1.json")
    path.write_text(path.read_text().replace('"n": 10', '"n": 9'))
    capsys.readouterr()
    evidence("audit", code=1)
    assert "FAULT" in capsys.readouterr().out


def test_a_candidate_of_other_weights_cannot_open(evidence, system, capsys):
    evidence("seal", "final-1", "--n", "10", "--salt", "s", "--source", "stubs")
    evidence("freeze", "stub-1", "--train", "train.ids", "--select", "select.ids")
    system.artifacts["mapper"] = "e" * 64
    capsys.readouterr()
    evidence("open", "final-1", "stub-1", "--run", "run-1", code=2)
    assert "mapper has changed" in capsys.readouterr().err
    evidence("report")
    assert "no final has been run yet" in capsys.readouterr().out
