"""What training saw, written down: the rows that a stage drew, and recordings by the identity that the judge uses."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes"))
import training_identities as ti
from legato.audio import read
from legato.corpora.rows import write_rows
from legato.corpora.world import draw
from legato.evaluate.identities import DIGITS, Identities
from voices.shards import ClipWriter


def clips(folder: Path, rows, flac: bool) -> None:
    writer = ClipWriter(folder, flac=flac, by_row=flac)
    for n, row in enumerate(rows):
        wave = (3000 * np.sin(np.arange(4000) * (0.05 + 0.01 * n))).astype(np.int16)
        writer.add(wave, {"id": f"{row.id}.0", "row": row.id})
    writer.close()


def test_a_clip_in_a_shard_has_the_identity_of_its_file(tmp_path):
    rows = draw(3, seed=1, split="train")
    clips(tmp_path / "shards", rows, flac=False)
    clips(tmp_path / "files", rows, flac=True)
    from_files = {read(path).sha256 for path in (tmp_path / "files").glob("*.flac")}
    assert len(from_files) == 3
    assert set(ti.recordings(tmp_path / "shards", {row.id for row in rows})) == from_files
    assert len(list(ti.recordings(tmp_path / "shards", {rows[0].id}))) == 1  # the others are lists, say


def test_everything_drawn_and_spoken_is_in_the_file(tmp_path, monkeypatch, capsys):
    rows = draw(4, seed=2, split="train")
    write_rows(tmp_path / "rows.jsonl", rows)
    clips(tmp_path / "clips", rows, flac=False)
    monkeypatch.setattr(ti, "CHUNK", 64)
    monkeypatch.setattr(sys, "argv", ["x", str(tmp_path / "out.txt"), "--rows", str(tmp_path / "rows.jsonl"),
                                      "--clips", str(tmp_path / "clips"), "--drawn", "9:3", "--words", "5:10"])
    ti.main()
    found = Identities.read(tmp_path / "out.txt")
    assert len(found.audio) == 4 and all(len(sha) == DIGITS for sha in found.audio)
    chunks = [row for chunk in range(2) for row in draw(64, seed=9 * 100003 + chunk, split="train")]  # 3 x 32 rows
    assert found.text == Identities.of([*rows, *chunks, *draw(10, seed=5, split="train")]).text
    assert "4 recordings" in capsys.readouterr().out


def test_batches_that_were_never_drawn_are_not_in_it():
    with pytest.raises(StopIteration):
        next(ti.drawn(1, 0))
