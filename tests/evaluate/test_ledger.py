import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import legato
from legato.errors import SealError
from legato.evaluate import ledger


def add(records, worker, n):
    for i in range(n):
        with ledger.writing(records) as book:
            book.append("sealed", name=f"{worker}-{i}", sha256="x")


@pytest.fixture
def path(tmp_path):
    add(tmp_path, "w", 4)
    return tmp_path / "ledger.jsonl"


def test_an_untouched_chain_holds(tmp_path, path):
    entries = ledger.verify(tmp_path).entries
    assert [e.n for e in entries] == [1, 2, 3, 4]
    assert entries[0].previous == ledger.GENESIS
    assert [e.previous for e in entries[1:]] == [e.sha256 for e in entries[:-1]]


def edited(line: bytes) -> bytes:
    return line.replace(b"w-", b"v-")


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (lambda ls: [*ls[:1], edited(ls[1]), *ls[2:]], 2),
        (lambda ls: [*ls[:3], edited(ls[3])], 4),  # the last line as well
        (lambda ls: [*ls[:1], *ls[2:]], 2),
        (lambda ls: [ls[1], ls[0], *ls[2:]], 1),
        (lambda ls: [*ls, ls[3]], 5),
        (lambda ls: [*ls[:2], b"nonsense", *ls[2:]], 3),
        (lambda ls: [*ls[:2], b'{"n": 3}', *ls[2:]], 3),
        (lambda ls: [*ls[:2], b"[" * 100_000, *ls[2:]], 3),
    ],
)
def test_the_first_broken_line_is_named(tmp_path, path, tamper, named):
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join(tamper(lines)) + b"\n")
    with pytest.raises(SealError, match=f"ledger line {named}\\b"):
        ledger.verify(tmp_path)
    with pytest.raises(SealError, match=f"ledger line {named}\\b"), ledger.writing(tmp_path):
        pass


def test_rehashing_one_line_breaks_the_next(tmp_path, path):
    from legato.evaluate import layout

    lines = path.read_bytes().splitlines()
    forged = json.loads(lines[1])
    forged["data"]["name"] = "forged"
    lines[1] = json.dumps(layout.signed(forged)).encode()
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(SealError, match="ledger line 3"):
        ledger.verify(tmp_path)


def test_a_torn_end_is_seen_and_the_next_writer_repairs_it_and_says_so(tmp_path, path):
    path.write_bytes(path.read_bytes() + b'{"n":5,"eve')
    assert ledger.verify(tmp_path).torn == b'{"n":5,"eve'
    add(tmp_path, "after", 1)
    found = ledger.verify(tmp_path)
    assert found.torn == b""
    assert [e.event for e in found.entries[4:]] == ["repaired", "sealed"]


def test_writers_in_many_processes_share_one_chain(tmp_path):
    code = f"import sys\nfrom pathlib import Path\nfrom legato.evaluate import ledger\n{inspect.getsource(add)}"
    code += "add(Path(sys.argv[1]), sys.argv[2], 10)"
    environment = os.environ | {"PYTHONPATH": str(Path(legato.__file__).parents[1])}
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), f"w{i}"], env=environment) for i in range(3)
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    assert len(ledger.verify(tmp_path).entries) == 30
