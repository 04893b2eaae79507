import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from legato.errors import BadInput
from legato.evaluate import lines
from legato.evaluate.judge import Endpoint, fill, make_sheet, read_key, read_sheet, unblind
from legato.evaluate.questions import text_sha256

TEXTS = {str(i): f"Question {i}?" for i in range(6)}


@pytest.fixture
def records(planted):
    said = {"small": "Dunno", "transfer": "Good answer", "large": "Good answer"}
    return [
        planted(row, arm, f"{reply} {row}", question_sha256=text_sha256(text))
        for row, text in TEXTS.items()
        for arm, reply in said.items()
    ]


@pytest.fixture
def sheet(tmp_path, records):
    sheet, key = make_sheet(records, TEXTS, salt="s")
    lines.write_whole(tmp_path / "sheet.json", sheet)
    return tmp_path / "sheet.json", key


class Judge(BaseHTTPRequestHandler):
    """Scores "Good" replies 5 and others 2; `server.mood` makes it misbehave."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, self.headers.get("Authorization"), body))
        asked = json.loads(body["messages"][1]["content"])
        mood = self.server.mood(asked)
        content = json.dumps({"score": 5 if "Good" in asked["reply"] else 2})
        if mood == "slow":
            time.sleep(0.6)
        if mood == "chatty":
            content = "I would say 4 out of 5."
        status = mood if isinstance(mood, int) else 200
        data = b"<html>" if mood == "html" else json.dumps({"choices": [{"message": {"content": content}}]}).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except BrokenPipeError:
            pass  # the client lost its patience, as it should

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Judge) as server:
        server.seen, server.mood = [], lambda asked: None
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def endpoint(server, **changes):
    return Endpoint(**{"base_url": f"http://127.0.0.1:{server.server_port}/v1", "model": "m", "key": "k"} | changes)


def test_a_sheet_hides_arms_and_joins_equal_replies(sheet):
    path, key = sheet
    text = path.read_text()
    assert not any(arm in text for arm in ("small", "transfer", "large"))
    items = read_sheet(path)["items"]
    assert len(items) == 12  # two arms said the same
    assert sorted(len(key["items"][i["item"]]) for i in items) == [1] * 6 + [2] * 6
    assert [i["item"] for i in items] == sorted(i["item"] for i in items)


def test_words_that_were_not_asked_are_refused(records):
    with pytest.raises(BadInput, match="words given for row 3"):
        make_sheet(records, TEXTS | {"3": "Another question?"}, salt="s")


def test_a_server_fills_the_sheet_and_unblinding_gives_means(sheet, server):
    path, key = sheet
    with pytest.raises(BadInput, match="12 of 12 items have no score"):
        unblind(read_sheet(path), key)
    assert fill(path, endpoint(server), progress=False) == 0
    where, auth, body = server.seen[0]
    assert (where, auth, body["model"], body["temperature"]) == ("/v1/chat/completions", "Bearer k", "m", 0)
    result = unblind(read_sheet(path), key)
    assert {arm: a["mean"] for arm, a in result["arms"].items()} == {"small": 2, "transfer": 5, "large": 5}
    versus = result["against"]["transfer"]
    assert (versus["n"], versus["difference"]) == (6, 3)
    assert versus["p_two_sided"] == pytest.approx(2 / 64)
    assert fill(path, endpoint(server), progress=False) == 0
    assert len(server.seen) == 12, "what is scored is not asked again"


@pytest.mark.parametrize(
    ("mood", "says"),
    [("chatty", "I would say 4"), ("html", "no chat completion"), (500, "answered 500"), ("slow", "within")],
)
def test_a_failed_row_is_recorded_and_never_scored(sheet, server, mood, says):
    path, key = sheet
    server.mood = lambda asked: mood if asked["question"] == "Question 2?" else None
    assert fill(path, endpoint(server, timeout_s=0.3), progress=False) == 2
    failed = [i for i in read_sheet(path)["items"] if i["failure"] is not None]
    assert [i["question"] for i in failed] == ["Question 2?"] * 2
    assert all(says in i["failure"] and i["score"] is None for i in failed)
    result = unblind(read_sheet(path), key)
    assert (result["arms"]["small"]["n"], result["arms"]["small"]["failed"]) == (5, 1)
    assert result["against"]["large"]["n"] == 5


def test_an_outage_is_one_clear_error_and_not_held_against_the_replies(sheet, server):
    path, _ = sheet
    server.mood = lambda asked: 503
    with pytest.raises(BadInput, match="failed 5 times in a row"):
        fill(path, endpoint(server), progress=False)
    assert all(i["failure"] is None and i["score"] is None for i in read_sheet(path)["items"])


@pytest.mark.parametrize("status", [401, 404])
def test_a_wrong_key_or_address_is_one_clear_error(sheet, server, status):
    server.mood = lambda asked: status
    with pytest.raises(BadInput, match=f"refuses us \\({status}\\)"):
        fill(sheet[0], endpoint(server), progress=False)
    assert len(server.seen) == 1


def test_an_unreachable_judge_is_one_clear_error(sheet, server):
    with pytest.raises(BadInput, match="cannot be reached"):
        fill(sheet[0], endpoint(server, base_url="http://127.0.0.1:9/v1"), progress=False)
    with pytest.raises(BadInput, match="no http or https URL"):
        fill(sheet[0], endpoint(server, base_url="file:///etc"), progress=False)


def test_the_environment_names_the_judge(monkeypatch):
    for name in ("URL", "MODEL", "KEY"):
        monkeypatch.delenv(f"LEGATO_JUDGE_{name}", raising=False)
    with pytest.raises(BadInput, match="LEGATO_JUDGE_URL"):
        Endpoint.from_environment()
    monkeypatch.setenv("LEGATO_JUDGE_URL", "http://localhost/v1")
    monkeypatch.setenv("LEGATO_JUDGE_MODEL", "m")
    assert Endpoint.from_environment() == Endpoint("http://localhost/v1", "m", None)


def edit(path, change):
    sheet = json.loads(path.read_text())
    change(sheet["items"])
    path.write_text(json.dumps(sheet))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda items: items[0].update(score=6), "has the score 6"),
        (lambda items: items[0].update(score=True), "has the score True"),
        (lambda items: items[0].update(reply="nicer"), "was changed"),
        (lambda items: items[0].pop("score"), "is no sheet"),
        (lambda items: items[0].update(score=3, failure="x"), "a score and a failure"),
    ],
)
def test_a_person_may_fill_in_scores_and_nothing_else(sheet, change, says):
    path, key = sheet
    edit(path, lambda items: [i.update(score=3) for i in items])
    assert unblind(read_sheet(path), key)["against"]["large"]["p_two_sided"] == 1.0
    edit(path, change)
    with pytest.raises(BadInput, match=says):
        read_sheet(path)


def test_a_key_of_another_sheet_is_refused(sheet, records):
    path, _ = sheet
    edit(path, lambda items: [i.update(score=3) for i in items])
    _, other = make_sheet(records, TEXTS, salt="t")
    lines.write_whole(path.with_name("key.json"), other)
    with pytest.raises(BadInput, match="another sheet"):
        unblind(read_sheet(path), read_key(path.with_name("key.json")))
    with pytest.raises(BadInput, match="is no key"):
        read_key(path)
