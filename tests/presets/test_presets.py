"""Presets are read strictly, and the shipped ones are whole."""

from __future__ import annotations

import pytest

from legato import artifacts, presets
from legato.errors import BadInput
from legato.pocket.shelf import WEIGHTS

SHA = "0123456789abcdef" * 4


def text(**changes: str) -> str:
    parts = {
        name: f'folder = "{name}"\nweights = "{SHA}"\nidentity = "{SHA}"'
        for name in ("ear", "language", "large", "small", "mapper", "residual", "control")
    } | changes
    return 'name = "probe"\nabout = "a probe"\n' + "".join(
        f"[artifacts.{name}]\n{body}\n" for name, body in parts.items()
    )


def refusal(preset: str) -> str:
    with pytest.raises(BadInput) as caught:
        presets.parse(preset, "preset probe")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_whole_preset_is_read():
    found = presets.parse(text(), "preset probe")
    assert (found.name, found.artifacts.control) == ("probe", presets.Pinned("control", SHA, SHA))


UNPINNED = "0" * 64  # a part that is not trained yet


@pytest.mark.parametrize("name", presets.names())
def test_shipped_presets_are_strict_and_pin_what_ships(name):
    preset = presets.read(name)
    assert preset.name == name
    for part in ("ear", "language", "large", "small", "mapper", "residual", "control"):
        pinned = getattr(preset.artifacts, part)
        if not (WEIGHTS / pinned.folder).exists():
            assert {pinned.weights, pinned.identity} == {UNPINNED}, f"{part} is pinned but does not ship"
            continue
        _, manifest = artifacts.load(WEIGHTS / pinned.folder)
        assert pinned.identity == manifest.sha256, f"run recipes/pin_preset.py: {part}"
        assert pinned.weights in manifest.files.values()


def test_no_such_preset_lists_those_there_are():
    with pytest.raises(BadInput, match="no preset 'pokcet'; choose one of pocket"):
        presets.read("pokcet")
    with pytest.raises(BadInput, match="no preset '../pocket'"):
        presets.read("../pocket")


def test_a_folder_without_presets_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    with pytest.raises(BadInput, match=f"no preset 'pocket', nor any other in {tmp_path}; install Legato again"):
        presets.read("pocket")


def test_a_preset_that_is_no_text_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    (tmp_path / "pocket.toml").write_bytes(text().encode() + b"# \xff\n")
    with pytest.raises(BadInput, match=r"pocket.toml is not UTF-8 text .*; restore the file"):
        presets.read("pocket")
    assert "is not TOML" in refusal("name = " + "[" * 100_000)


def test_unknown_keys_are_refused_with_the_known_ones():
    assert "unknown key 'speed'; known are name, about, artifacts" in refusal('speed = "fast"\n' + text())
    assert "unknown key 'voice'; known are ear, language, large, small, mapper, residual, control" in refusal(
        text(voice='folder = "v"')
    )
    assert "[artifacts.ear] has the unknown key 'sha'; known are folder, weights, identity" in refusal(
        text(ear='sha = "0"')
    )


def test_missing_keys_and_wrong_kinds_are_refused():
    assert "lacks the key 'weights'" in refusal(text(ear='folder = "ear"'))
    assert "lacks the key 'name'" in refusal(text().replace('name = "probe"\n', ""))
    assert "'about' is no text" in refusal(text().replace('"a probe"', "7"))
    assert "64 hex digits" in refusal(text(ear=f'folder = "ear"\nweights = "{SHA[:-1]}"\nidentity = "{SHA}"'))
    assert "is not TOML" in refusal("name = ")
    assert "[artifacts] is no table" in refusal('name = "a"\nabout = "b"\nartifacts = "c"')
