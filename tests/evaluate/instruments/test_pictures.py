"""Every instrument's picture is drawn from what it returns."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from legato.errors import MissingExtra
from legato.evaluate.instruments import levels, noise, pictures, warble
from legato.evaluate.instruments.intelligibility import match
from legato.evaluate.instruments.rate import rate


def test_each_picture_is_a_png_that_shows_something(sounds: SimpleNamespace, tmp_path: Path) -> None:
    from matplotlib.image import imread

    v, q = sounds.voice, sounds.quiet
    a = np.concatenate((v(0.8), q(0.4), v(0.8)))
    b = np.concatenate((v(0.7, cents=40), q(0.6), v(0.7, cents=40))) + sounds.hiss(len(a), 1e-4)
    first, second = sounds.audio(a), sounds.audio(b)
    said = ("one little sentence", "another sentence")
    pictures.intelligibility(
        [match(s, s) for s in said], [match(s, "one sentence too") for s in said], tmp_path / "words.png"
    )
    pictures.warble(warble.contours(first, second), tmp_path / "warble.png")
    pictures.noise(noise.ratios(first, second), tmp_path / "noise.png")
    pictures.levels(levels.trace(first, second), tmp_path / "levels.png")
    pictures.pauses(first, second, tmp_path / "pauses.png")
    pictures.rate([rate(first, s) for s in said], [rate(second, s) for s in said], tmp_path / "rate.png")
    drawn = sorted(tmp_path.glob("*.png"))
    assert len(drawn) == 6
    for path in drawn:
        pixels = imread(path)
        assert len(np.unique(pixels[..., :3].reshape(-1, 3), axis=0)) > 20 and min(pixels.shape[:2]) > 400


def test_missing_matplotlib_names_the_command(
    sounds: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    voice = sounds.audio(sounds.voice(0.5))
    with pytest.raises(MissingExtra, match=r"pip install 'legato\[plots\]'"):
        pictures.pauses(voice, voice, tmp_path / "p.png")
