"""The listening server over real HTTP: what it hands out, what it refuses, and how it starts and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from legato.cli import main
from legato.errors import BadInput
from legato.evaluate.listening import votes
from legato.serve import local


def get(address, path="", **headers):
    """(status, headers, body)"""
    try:
        with urlopen(Request(address + path, headers=headers), timeout=20) as reply:
            return reply.status, reply.headers, reply.read()
    except HTTPError as error:
        return error.code, error.headers, error.read()


def post(address, value, **headers):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    request = Request(f"{address}api/votes", data, {"Content-Type": "application/json", **headers})
    try:
        with urlopen(request, timeout=20) as reply:
            return reply.status, json.loads(reply.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


def vote(trial, choice="left", **changes):
    heard, plays = {"left": 9.0, "right": 9.0}, {"left": 1, "right": 1}
    listened = {"plays": plays, "heard_s": heard, "switches": 1, "took_s": 20}
    return {"trial": trial["id"], "choice": choice, "tags": [], **listened, **changes}


def test_a_sheet_is_answered_from_first_to_last(sheet, served):
    with served(sheet) as address:
        state = json.loads(get(address, "api/sheet")[2])
        assert (state["trials"], state["voted"], state["trial"]["number"]) == (5, 0, 1)
        for number in range(1, 6):
            trial = state["trial"]
            assert trial["number"] == number
            for side in ("left", "right"):
                status, headers, body = get(address, trial["audio"][side].lstrip("/"))
                assert status == 200 and headers["Content-Type"] == "audio/wav"
                assert body == sheet.audio(trial["id"], side).read_bytes()
            status, state = post(address, vote(trial, ("left", "right", "none")[number % 3]))
            assert status == 200 and state["voted"] == number
        assert state["trial"] is None
    assert len(votes.read(sheet).by_trial) == 5


def test_the_page_loads_nothing_from_elsewhere_and_tells_nothing(sheet, served):
    with served(sheet) as address:
        for path in ("", "static/listening.js", "static/listening.css", "static/ear.svg", "api/sheet"):
            status, headers, body = get(address, path)
            assert status == 200 and headers["Content-Security-Policy"].startswith("default-src 'self'")
            outside = body.replace(b"http://www.w3.org/2000/svg", b"")
            assert b"http" not in outside
            assert (
                b"teacher" not in body
                and b"student" not in body
                and b"catch" not in body.replace(b".catch(", b"").replace(b"} catch (", b"")
            )
        for path in (
            "key.json",
            "static/../key.json",
            "static/%2e%2e/%2e%2e/key.json",
            "audio/..%2fkey.json/left",
            "votes.jsonl",
        ):
            assert get(address, path)[0] == 404
        assert get(address, f"audio/{sheet.trials[0].id}/key")[0] == 404


def test_strangers_are_turned_away(sheet, served):
    with served(sheet) as address:
        assert get(address, "api/sheet", Host="evil.example")[0] == 400
        trial = json.loads(get(address, "api/sheet")[2])["trial"]
        assert post(address, vote(trial), **{"Content-Type": "text/plain"})[0] == 415
        assert post(address, b"[" * 5000)[0] == 400 and post(address, b"not json")[0] == 400
        assert post(address, b" " * 20_000)[0] == 413
        status, said = post(address, vote(trial, heard_s={"left": 9, "right": 0}))
        assert status == 400 and "listen to both first" in said["error"]
    assert not sheet.votes.exists() or sheet.votes.read_bytes() == b""


def test_a_vote_sent_twice_counts_once(sheet, served):
    with served(sheet) as address:
        trial = json.loads(get(address, "api/sheet")[2])["trial"]
        first, again = post(address, vote(trial, "left")), post(address, vote(trial, "right"))
        assert first == again and first[0] == 200
    [kept] = votes.read(sheet).by_trial.values()
    assert kept["choice"] == "left"


def test_a_full_disk_and_a_changed_key_are_told(sheet, served, monkeypatch):
    def full(sheet, value):
        raise OSError(28, "No space left on device")

    with served(sheet) as address:
        trial = json.loads(get(address, "api/sheet")[2])["trial"]
        with monkeypatch.context() as patch:
            patch.setattr(votes, "cast", full)
            status, said = post(address, vote(trial))
        assert status == 507 and "No space left" in said["error"]
        (sheet.folder / "key.json").write_text("{}")
        status, said = post(address, vote(trial))
        assert status == 409 and "has changed" in said["error"]


def test_a_port_in_use_is_one_sentence(sheet, capsys):
    with local.listen(0) as door:
        port = door.getsockname()[1]
        with pytest.raises(BadInput, match=f"port {port} is in use"):
            local.listen(port)
        assert main(["listening", "serve", str(sheet.folder), "--port", str(port)]) == 2
    assert (
        capsys.readouterr().err
        == f"legato: port {port} is in use; give another one with --port, or 0 for any free one.\n"
    )


def test_the_command_serves_until_interrupted(sheet):
    command = [sys.executable, "-m", "legato", "listening", "serve", str(sheet.folder), "--port", "0"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        first = running.stdout.readline()
        assert first.startswith("0 of 5 trials are answered; open http://127.0.0.1:")
        address = first.split("open ")[1].split()[0]
        state = json.loads(get(address, "api/sheet")[2])
        assert post(address, vote(state["trial"]))[0] == 200
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    finally:
        running.kill()
        running.communicate()
    assert (running.returncode, err) == (0, "") and "1 of 5 trials are answered" in out


def test_the_commands_make_and_report(sheet, tmp_path, capsys):
    again = tmp_path / "again"
    folders = ["--a", str(tmp_path / "teacher"), "--b", str(tmp_path / "student")]
    assert main(["listening", "new", str(again), *folders, "--catch", "0", "--repeat", "1", "--seed", "3"]) == 0
    assert "key sealed: sha256" in capsys.readouterr().out
    assert main(["listening", "new", str(again), *folders]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["listening", "report", str(again)]) == 0
    assert capsys.readouterr().out.startswith("verdict  no verdict yet: 4 of 4 trials have no vote")
    assert main(["listening", "report", str(again), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "no verdict yet"
    said = ["--metric-said", "a", "--metric", "wer", "--records", str(tmp_path / "records")]
    assert main(["listening", "report", str(again), *said]) == 2
    assert "no verdict yet" in capsys.readouterr().err
    assert main(["listening", "report", str(again), "--metric-said", "a"]) == 2
    assert main(["listening", "report", str(tmp_path)]) == 2
    assert "no listening sheet in" in capsys.readouterr().err
