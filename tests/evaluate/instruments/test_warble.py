"""Warble against vibratos of known depth and speed, and against what is no warble."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from legato.errors import BadInput, MissingExtra
from legato.evaluate.instruments.warble import warble, wobble


@pytest.mark.parametrize("cents", [15, 30, 60])
def test_a_vibrato_is_measured_as_its_effective_depth(sounds: SimpleNamespace, cents: float) -> None:
    found = warble(sounds.audio(sounds.voice()), sounds.audio(sounds.voice(cents=cents)))
    assert found.cents == pytest.approx(cents / math.sqrt(2), rel=0.08)
    assert found.seconds > 1.8 and found.runs == 1


def test_no_vibrato_is_no_warble(sounds: SimpleNamespace) -> None:
    plain = sounds.audio(sounds.voice())
    assert warble(plain, plain).cents == 0
    trembling = sounds.audio(sounds.voice(cents=40))
    assert warble(trembling, trembling).cents == 0  # the reference's own vibrato is not a fault
    assert wobble(trembling).cents == pytest.approx(40 / math.sqrt(2), rel=0.08)


@pytest.mark.parametrize("hertz", [1.0, 25.0])
def test_melody_and_jitter_are_not_warble(sounds: SimpleNamespace, hertz: float) -> None:
    found = warble(sounds.audio(sounds.voice()), sounds.audio(sounds.voice(cents=30, hertz=hertz)))
    assert found.cents < 0.15 * 30 / math.sqrt(2)


def test_a_transposed_voice_does_not_warble(sounds: SimpleNamespace) -> None:
    assert warble(sounds.audio(sounds.voice()), sounds.audio(sounds.voice(f0=150))).cents < 0.5


def test_too_little_voice_gives_none(sounds: SimpleNamespace) -> None:
    hiss = sounds.audio(sounds.hiss(48_000, 0.05))
    assert warble(sounds.audio(sounds.voice()), hiss) is None
    short = sounds.audio(sounds.voice(0.3))
    assert warble(short, short) is None and wobble(short) is None


def test_what_cannot_be_measured_is_refused(sounds: SimpleNamespace) -> None:
    plain = sounds.audio(sounds.voice())
    with pytest.raises(BadInput, match="the test is silent"):
        warble(plain, sounds.audio(sounds.quiet(2)))
    with pytest.raises(BadInput, match="16,000 samples a second"):
        warble(sounds.audio(sounds.voice(), rate=16_000), plain)
    with pytest.raises(BadInput, match="same frames"):
        warble(plain, sounds.audio(sounds.voice(2.2)))
    with pytest.raises(BadInput, match="at least 0.1 s"):
        wobble(sounds.audio(np.full(100, 0.1)))


def test_missing_praat_names_the_command(sounds: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "parselmouth", None)
    with pytest.raises(MissingExtra, match=r"pip install 'legato\[instruments\]'"):
        wobble(sounds.audio(sounds.voice(0.5)))
