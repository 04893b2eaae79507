"""The listening page in a real browser: sound switches in step, keys vote, a reload goes on, the end says so.

Needs Playwright for Python and a Chromium that is already on the machine; skipped with the reason where either lacks.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from legato.evaluate.listening import verdict, votes
from legato.evaluate.listening.sheet import open_sheet

pytestmark = pytest.mark.slow
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture
def page():
    pytest.importorskip("starlette", reason="the serve extra is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--mute-audio"])
        page = browser.new_page(viewport={"width": 900, "height": 900})
        page.add_init_script(SPY)
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("console", lambda said: page.faults.append(said.text) if said.type == "error" else None)
        yield page
        browser.close()


# Remember every source's start and every gain, so that a test can ask what sounds.
SPY = """
window.spied = { starts: [], gains: [] };
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...args) {
  spied.starts.push(args);
  return start.apply(this, args);
};
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (...args) {
  if (this instanceof GainNode) spied.gains.push(this.gain);
  return connect.apply(this, args);
};
"""


def until(page, condition: str, seconds: float = 15.0) -> None:
    """Wait for a JavaScript condition; asked from outside, since the page's content policy allows no eval within."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"{condition}; page says: {page.inner_text('body')}"
        page.wait_for_timeout(20)


def shot(page, name: str) -> None:
    """A picture for people, where LISTENING_SHOTS names a folder."""
    folder = os.environ.get("LISTENING_SHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def test_a_whole_sheet_by_keyboard(page, sheet, served):
    with served(sheet) as address:
        page.goto(address)
        until(page, "document.querySelector('#hint').textContent.startsWith('Still to hear')")
        assert page.inner_text("#where") == f"Trial 1 of {len(sheet.trials)}"
        shot(page, "light")

        page.keyboard.press("a")
        assert page.is_disabled("#next")
        page.keyboard.press("Enter")  # too early: nothing is sent
        assert votes.read(sheet).by_trial == {}

        page.keyboard.press(" ")
        until(page, "left('left') <= 0")
        starts, gains = page.evaluate("[spied.starts, spied.gains.map((g) => g.value)]")
        assert starts[0] == starts[1] and gains == [1, 0]  # both run from one moment; one is heard
        before = page.evaluate("now()")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(50)
        assert page.evaluate("spied.gains.map((g) => g.value)") == [0, 1]
        assert len(page.evaluate("spied.starts")) == 2 and page.evaluate("now()") > before  # never restarted
        page.emulate_media(color_scheme="dark")
        shot(page, "dark")
        page.emulate_media(color_scheme="light")
        until(page, "left('right') <= 0")
        page.keyboard.press("w")
        page.keyboard.press("h")
        page.keyboard.press("h")  # taken back
        assert page.is_enabled("#next")
        shot(page, "ready")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#where').textContent.startsWith('Trial 2')")
        [vote] = votes.read(sheet).by_trial.values()
        assert (vote["choice"], vote["tags"], vote["switches"], vote["position"]) == ("left", ["warble"], 1, 0)
        assert vote["plays"] == {"left": 1, "right": 1} and min(vote["heard_s"].values()) >= sheet.trials[0].least_s

        page.reload()
        until(page, "buffers !== null")
        assert page.inner_text("#where").startswith("Trial 2")
        for number, trial in enumerate(sheet.trials[1:], 2):
            until(page, f"trial && trial.id === '{trial.id}' && buffers !== null")
            page.keyboard.press(" ")
            until(page, "left('left') <= 0")
            page.keyboard.press("2")
            until(page, "left('right') <= 0 || !run")
            if page.evaluate("left('right') > 0"):  # a short clip ended: once more, on B
                page.keyboard.press(" ")
                until(page, "left('right') <= 0")
            page.click("[data-choice='none']") if number % 2 else page.keyboard.press("b")
            page.click("#next")
        page.wait_for_selector("#done", state="visible")
        shot(page, "done")
        assert "legato listening report" in page.inner_text("#report")
    found = verdict.report(open_sheet(sheet.folder))
    assert found["finished"] and found["voted"] == len(sheet.trials)
    assert page.faults == []
    names = json.loads((sheet.folder / "key.json").read_text())
    assert names["a"] not in page.content() and names["b"] not in page.content()


def test_a_vote_that_cannot_be_saved_is_told_and_can_be_sent_again(page, sheet, served):
    with served(sheet) as address:
        page.goto(address)
        until(page, "buffers !== null")
        page.evaluate("count.heard_s.left = count.heard_s.right = 9; choose('left')")
        key = sheet.folder / "key.json"
        kept = key.read_bytes()
        key.write_bytes(kept + b" ")
        page.keyboard.press("Enter")
        page.wait_for_selector("#trouble", state="visible")
        assert "has changed" in page.inner_text("#trouble") and votes.read(sheet).by_trial == {}
        shot(page, "trouble")
        key.write_bytes(kept)
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#where').textContent.startsWith('Trial 2')")
        assert page.is_hidden("#trouble") and len(votes.read(sheet).by_trial) == 1
