"""Level steps, clicks and endings put in on purpose."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from legato.errors import BadInput
from legato.evaluate.instruments import grid
from legato.evaluate.instruments.levels import clicks, ending, trace


@pytest.mark.parametrize(("step", "seconds"), [(grid.CODEC, 0.08), (grid.FINE, 0.01)])
def test_a_level_step_is_found_where_it_is(sounds: SimpleNamespace, step: int, seconds: float) -> None:
    a = sounds.voice()
    b = a.copy()
    b[1920 * 10 : 1920 * 11] *= 0.5
    found = trace(sounds.audio(a), sounds.audio(b), step)
    assert found.step == seconds and len(found.reference) == 48_000 // step == len(found.test)
    assert found.worst[1] == pytest.approx(-6.02 * 24 / 25, abs=0.1) and 0.8 <= found.worst[0] < 0.88
    assert found.offset == pytest.approx(-6.02 / 25, abs=0.05)


def test_a_full_scale_square_is_0_dbfs_and_silence_stops_at_the_floor() -> None:
    assert grid.levels(np.ones(1920), grid.CODEC) == pytest.approx([0.0])
    assert grid.levels(np.zeros(240), grid.FINE) == pytest.approx([-100.0])


def test_a_gain_is_an_offset_without_spread(sounds: SimpleNamespace) -> None:
    a = sounds.voice()
    found = trace(sounds.audio(a), sounds.audio(a / 2))
    assert found.offset == pytest.approx(-6.02, abs=0.01) and found.spread < 0.01


def test_a_step_at_a_join_clicks_and_is_measured(sounds: SimpleNamespace) -> None:
    a = sounds.voice()
    a[1920 * 7 :] += 0.1
    (found,) = clicks(sounds.audio(a), [1920 * k for k in range(1, 25)])
    assert found.sample == 1920 * 7 and found.height == pytest.approx(0.1, rel=0.3) and found.ratio > 3


def test_smooth_joins_and_hiss_do_not_click(sounds: SimpleNamespace) -> None:
    inner = [1920 * k for k in range(1, 25)]
    assert clicks(sounds.audio(sounds.voice()), inner) == ()
    assert clicks(sounds.audio(sounds.hiss(48_000, 0.05)), inner) == ()
    assert clicks(sounds.audio(sounds.quiet(2))) == ()


def test_a_start_off_zero_clicks_and_a_faded_one_does_not(sounds: SimpleNamespace) -> None:
    a = 0.2 * np.cos(2 * np.pi * 140 * np.arange(24_000) / 24_000)
    fade = np.minimum(1, np.minimum(np.arange(24_000), np.arange(24_000)[::-1]) / 120)
    assert 0 in [c.sample for c in clicks(sounds.audio(a))]
    assert clicks(sounds.audio(a * np.sin(fade * np.pi / 2) ** 2)) == ()


def test_a_join_outside_is_refused(sounds: SimpleNamespace) -> None:
    with pytest.raises(BadInput, match="join 48,001 lies outside"):
        clicks(sounds.audio(sounds.voice()), [48_001])


def test_endings(sounds: SimpleNamespace) -> None:
    voice = sounds.voice(1.0)
    faded = voice * np.minimum(1, np.arange(24_000)[::-1] / 6000)
    good = ending(sounds.audio(faded, sounds.quiet(0.2)))
    assert not good.is_cut and not good.is_static and good.level < -40
    cut = ending(sounds.audio(voice))
    assert cut.is_cut and not cut.is_static
    static = ending(sounds.audio(voice, sounds.hiss(12_000, 0.1)))
    assert static.is_static and static.static == pytest.approx(0.5, abs=0.05) and not static.is_cut
    sibilant = ending(sounds.audio(voice, sounds.hiss(4800, 0.05) * np.linspace(1, 0, 4800), sounds.quiet(0.1)))
    assert not sibilant.is_static and not sibilant.is_cut
    with pytest.raises(BadInput, match="silent"):
        ending(sounds.audio(sounds.quiet(1)))
