"""The noise deficit against noise put in at a known ratio."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from legato.evaluate.instruments.noise import noise, ratio


@pytest.mark.parametrize(("first", "second"), [(25, 12), (20, 20), (12, 25)])
def test_noise_at_a_known_ratio_is_found(sounds: SimpleNamespace, first: float, second: float) -> None:
    clean = sounds.voice()
    level = np.sqrt(np.mean(clean**2))
    a, b = (sounds.audio(clean + sounds.hiss(len(clean), level * 10 ** (-db / 20))) for db in (first, second))
    found = noise(a, b)
    assert found.reference == pytest.approx(first, abs=1) and found.test == pytest.approx(second, abs=1)
    assert found.deficit == pytest.approx(first - second, abs=1)
    assert found.lost < 0.02


def test_the_level_does_not_matter(sounds: SimpleNamespace) -> None:
    clean = sounds.voice() + sounds.hiss(48_000, 0.01)
    assert abs(noise(sounds.audio(clean), sounds.audio(clean * 0.3)).deficit) < 0.1


def test_only_frames_voiced_in_both_count_and_the_lost_are_told(sounds: SimpleNamespace) -> None:
    whole = sounds.voice() + sounds.hiss(48_000, 0.01)
    half = np.where(np.arange(48_000) < 24_000, whole, sounds.hiss(48_000, 0.1))
    found = noise(sounds.audio(whole), sounds.audio(half))
    assert found.lost == pytest.approx(0.5, abs=0.06) and abs(found.deficit) < 1


def test_without_a_common_voice_there_is_no_figure(sounds: SimpleNamespace) -> None:
    assert noise(sounds.audio(sounds.hiss(48_000, 0.1)), sounds.audio(sounds.voice())) is None


@pytest.mark.parametrize("db", [10.0, 20.0])
def test_one_recording_alone_has_the_ratio_that_was_mixed(sounds: SimpleNamespace, db: float) -> None:
    voice = sounds.voice()
    rms = float(np.sqrt(np.mean(voice**2))) * 10 ** (-db / 20)
    assert ratio(sounds.audio(voice + sounds.hiss(len(voice), rms))) == pytest.approx(db, abs=1)
    assert ratio(sounds.audio(sounds.hiss(24_000, 0.1))) is None
