"""The capture: what is written is what is read, and a killed one goes on as if nothing had happened."""

import json
import resource
import signal

import pytest
import torch

from legato.errors import ArtifactError, BadInput, OrganMismatch
from legato.listen.capture import FILES, TELL, Capture, capture
from legato.listen.capture import pair as complete
from legato.listen.mapper import flatten
from legato.organs import Heard
from legato.pocket.tiny import sound

ABOUT = {"large_model": "a" * 64, "small_model": "b" * 64}
LAYERS = (3, 0, 1)  # any order, not all


def contents(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def pairs(planted):
    world = planted()
    return [world.pair(i, 3 + i % 3, heard=i % 4 > 0) for i in range(7)]


@pytest.fixture
def whole(pairs, tmp_path):
    """The files that an uninterrupted capture leaves."""
    folder = tmp_path / "whole"
    assert capture(pairs, folder, LAYERS, ABOUT) == 7
    return contents(folder)


def test_what_was_heard_is_read_back(pairs, tmp_path):
    capture(pairs, tmp_path, LAYERS, ABOUT)
    found = Capture(tmp_path)
    assert [e.id for e in found.entries] == [p.id for p in pairs]
    assert found.layers == LAYERS and found.config["header"] == 2 and found.config["tail"] == 3
    for e, p in zip(found.entries, pairs, strict=True):
        assert (e.question, e.length) == (p.large.prompt.audio.stop - 2, p.large.memory.length)
        assert (e.answer, e.own) == (p.answer, p.own)
        assert e.heard == (p.large.prompt.ids[2] == -1)
        near = {"rtol": 1e-3, "atol": 1e-3}  # float16
        torch.testing.assert_close(found.large(e), flatten(p.large.memory, LAYERS)[0], **near)
        torch.testing.assert_close(found.small(e), flatten(p.small.memory)[0], **near)
        torch.testing.assert_close(found.told(e), flatten(p.told.memory)[0, -3:], **near)
    assert {e.heard for e in found.entries} == {True, False}


@pytest.mark.parametrize("done", (0, 1, 4))
@pytest.mark.parametrize("torn", FILES + ("index",))
def test_a_killed_capture_resumes_to_the_same_bytes(pairs, whole, tmp_path, done, torn):
    """Killed while `torn` was being written for the next question: what comes before it in a question is whole."""
    folder = tmp_path / "killed"
    if done:
        capture(pairs[:done], folder, LAYERS, ABOUT)
    one_more = tmp_path / "more"
    capture(pairs[: done + 1], one_more, LAYERS, ABOUT)
    folder.mkdir(exist_ok=True)
    for path in one_more.iterdir():  # of the question that was being written, everything up to half of `torn`
        order = (*FILES, "index")
        size = (folder / path.name).stat().st_size if (folder / path.name).exists() else 0
        new = path.read_bytes()[size:]
        if path.stem in order and order.index(path.stem) >= order.index(torn):
            new = new[: len(new) // 2 + 1] if path.stem == torn else b""
        with open(folder / path.name, "ab") as file:
            file.write(new)
    if done:
        assert len(Capture(folder).entries) == done  # a reader is not disturbed
    else:
        with pytest.raises(BadInput, match="no captured question yet"):
            Capture(folder)
    assert capture(pairs, folder, LAYERS, ABOUT) == 7 - done
    assert contents(folder) == whole


def test_a_crash_between_questions_loses_none(pairs, whole, tmp_path):
    def failing():
        yield from pairs[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        capture(failing(), tmp_path / "killed", LAYERS, ABOUT)
    assert capture(pairs, tmp_path / "killed", LAYERS, ABOUT) == 4
    assert contents(tmp_path / "killed") == whole


def test_no_id_comes_twice(pairs, whole, tmp_path):
    folder = tmp_path / "twice"
    assert capture(pairs + pairs[:4], folder, LAYERS, ABOUT) == 7
    assert capture(pairs, folder, LAYERS, ABOUT) == 0
    assert contents(folder) == whole


@pytest.mark.parametrize(("about", "layers", "message"), (
    ({**ABOUT, "small_model": "c" * 64}, LAYERS, f"this capture has small_model {'c' * 64}, not {'b' * 64} as in"),
    (ABOUT, (0, 1, 3), r"this capture has layers \[0, 1, 3\], not \[3, 0, 1\] as in"),
    ({"large_model": "a" * 64}, LAYERS, "this capture has small_model None"),
    ({**ABOUT, "tell": "Speak {answer}"}, LAYERS, "this capture has tell Speak {answer}, not None"),
))  # fmt: skip
def test_another_capture_is_left_alone(pairs, whole, tmp_path, about, layers, message):
    def unheard():
        raise AssertionError("nothing may be computed for a folder that is refused")
        yield

    with pytest.raises(ArtifactError, match=message):
        capture(unheard(), tmp_path / "whole", layers, about)
    assert contents(tmp_path / "whole") == whole


def test_one_capture_holds_prompts_of_one_shape(planted, pairs, tmp_path):
    capture(pairs[:2], tmp_path, LAYERS, ABOUT)
    with pytest.raises(OrganMismatch, match="question 0005 has tail 4, not 3 as in the capture"):
        capture([planted(tail=4).pair(5)], tmp_path, LAYERS, ABOUT)
    assert len(Capture(tmp_path).entries) == 2


def test_numbers_beyond_float16_are_refused(planted, tmp_path):
    pair = planted().pair(0)
    pair.small.memory.values[1, 0, 0, 4, 2] = 1e5
    with pytest.raises(OrganMismatch, match="question 0000 leaves numbers in small that float16 cannot hold"):
        capture([pair], tmp_path, LAYERS, ABOUT)


def test_a_file_that_lost_numbers_is_refused(pairs, tmp_path):
    capture(pairs, tmp_path, LAYERS, ABOUT)
    file = tmp_path / "told.f16"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-2])
    for use in (lambda: Capture(tmp_path), lambda: capture(pairs, tmp_path, LAYERS, ABOUT)):
        with pytest.raises(ArtifactError, match=rf"told.f16 has {size - 2} bytes, but its index needs {size}"):
            use()
    file.unlink()
    with pytest.raises(ArtifactError, match="told.f16 has 0 bytes"):
        Capture(tmp_path)


def without(line: int):
    return lambda lines: lines[:line] + lines[line + 1 :]


def changed(**fields):
    """Change the third line of an index."""
    return lambda lines: [*lines[:2], json.dumps(json.loads(lines[2]) | fields) + "\n", *lines[3:]]


@pytest.mark.parametrize(("change", "message"), (
    (without(0), "line 1 starts at row 8, but the lines before it end at 0"),
    (without(3), "line 4 starts at row 35, but the lines before it end at 27"),
    (lambda lines: [lines[1], lines[0], *lines[2:]], "line 1 starts at row 8"),
    (lambda lines: [*lines[:2], lines[2][:20] + "\n", *lines[3:]], "line 3 is damaged"),
    (lambda lines: [*lines[:2], lines[2][:20], *lines[3:]], "line 3 is damaged"),
    (lambda lines: [*lines[:2], "[]\n", *lines[3:]], "line 3 is damaged"),
    (lambda lines: [*lines[:2], "[" * 100_000 + "\n", *lines[3:]], "line 3 is damaged"),
    (lambda lines: [*lines[:2], "\udcff\n", *lines[3:]], "index.jsonl is damaged"),
    (changed(id="0001"), "line 3 repeats question 0001"),
    (changed(length=9), "line 3 has 9 tokens, 5 of them the question's"),
    (changed(length="10"), "line 3 is damaged"),
    (changed(answer=None), "line 3 is damaged"),
    (changed(more=1), "line 3 is damaged"),
))  # fmt: skip
def test_a_damaged_index_is_refused_and_nothing_cut(pairs, tmp_path, change, message):
    """The tails in told.f16 are found by their place in the index: a lost line would make them another question's."""
    capture(pairs, tmp_path, LAYERS, ABOUT)
    index = tmp_path / "index.jsonl"
    text = "".join(change(index.read_text().splitlines(keepends=True)))
    index.write_bytes(text.encode(errors="surrogateescape"))
    before = contents(tmp_path)
    for use in (lambda: Capture(tmp_path), lambda: capture(pairs, tmp_path, LAYERS, ABOUT)):
        with pytest.raises(ArtifactError, match=message):
            use()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("text", ("{", "[]", "{}", "7", "[" * 100_000, "\udcff", "tail", "layers"))
def test_a_damaged_configuration_is_refused_and_nothing_cut(pairs, tmp_path, text):
    capture(pairs, tmp_path, LAYERS, ABOUT)
    path = tmp_path / "config.json"
    whole = json.loads(path.read_text())
    wrong = {"tail": {**whole, "tail": "3"}, "layers": {**whole, "layers": [3, 0, None]}}
    text = json.dumps(wrong[text]) if text in wrong else text
    path.write_bytes(text.encode(errors="surrogateescape"))
    before = contents(tmp_path)
    for use in (lambda: Capture(tmp_path), lambda: capture(pairs, tmp_path, LAYERS, ABOUT)):
        with pytest.raises(ArtifactError, match=r"config.json is damaged .*; restore the file or capture anew"):
            use()
    assert contents(tmp_path) == before


def test_a_lost_configuration_or_a_short_file_costs_no_bytes(pairs, tmp_path):
    capture(pairs, tmp_path, LAYERS, ABOUT)
    config = (tmp_path / "config.json").read_bytes()
    (tmp_path / "config.json").unlink()
    before = contents(tmp_path)
    with pytest.raises(ArtifactError, match="holds 7 questions, but config.json is missing"):
        capture(pairs, tmp_path, LAYERS, ABOUT)
    assert contents(tmp_path) == before
    (tmp_path / "config.json").write_bytes(config)
    with open(tmp_path / "large.f16", "ab") as file:
        file.write(b"more")
    (tmp_path / "told.f16").write_bytes(b"")
    before = contents(tmp_path)
    with pytest.raises(ArtifactError, match="told.f16 has 0 bytes"):
        capture(pairs, tmp_path, LAYERS, ABOUT)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("room", (700, 2000, 5000))
def test_a_full_disk_stops_a_capture_that_then_resumes_to_the_same_bytes(pairs, whole, tmp_path, room):
    """A file may have `room` bytes; the write that goes beyond fails, as on a full disk."""
    folder = tmp_path / "full"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            capture(pairs, folder, LAYERS, ABOUT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert capture(pairs, folder, LAYERS, ABOUT) > 0
    assert contents(folder) == whole


def test_a_folder_without_a_capture_is_named(tmp_path):
    with pytest.raises(BadInput, match="holds no capture .* legato listen capture"):
        Capture(tmp_path)


def test_a_growing_capture_is_read_as_it_was_when_opened(pairs, tmp_path):
    capture(pairs[:3], tmp_path, LAYERS, ABOUT)
    early = Capture(tmp_path)
    capture(pairs, tmp_path, LAYERS, ABOUT)
    late = Capture(tmp_path)
    assert (len(early.entries), len(late.entries)) == (3, 7)
    assert all(torch.equal(early.large(e), late.large(e)) for e in early.entries)


def test_a_pair_is_told_the_large_models_answer_without_its_end_mark(pair):
    large, small = pair
    heard, own = large.listen(sound()), small.listen(sound())
    found = complete(large, small, "q", heard, own, [30, 31, 2], [40])
    told = small.read(TELL.format(answer="30 31"))
    assert found.told.prompt == told.prompt and torch.equal(found.told.memory.keys, told.memory.keys)
    assert (found.answer, found.own) == ((30, 31, 2), (40,))
    with pytest.raises(OrganMismatch, match="the prompts of one question differ"):
        complete(large, small, "q", heard, small.listen(sound(2.6)), [30, 2], [40])


def test_the_index_is_lines_of_plain_json(pairs, tmp_path):
    capture(pairs[1:2], tmp_path, LAYERS, ABOUT)
    assert json.loads((tmp_path / "index.jsonl").read_text()) == {
        "id": "0001", "question": 4, "length": 9, "start": 0, "answer": [21, 2], "own": [21, 2], "heard": True,
    }  # fmt: skip
    assert isinstance(pairs[1].large, Heard)
