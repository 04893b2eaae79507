"""Presets: one strict file for each assembled system, naming its weights by SHA-256.

A preset pins what a manifest only claims: weights that were exchanged together with their manifest are refused. It
holds no sizes; those stand in each artifact's own manifest, whose identity is pinned here. `recipes/pin_preset.py`
writes the hashes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from legato.errors import BadInput

FOLDER = Path(__file__).parent
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Pinned:
    """One artifact of a system."""

    folder: str  # under the package's weights, such as "ear"
    weights: str  # SHA-256 of its safetensors file
    identity: str  # `artifacts.Manifest.sha256`: over that hash and everything else that the manifest says


@dataclass(frozen=True)
class Artifacts:
    """The parts of a pair in which one model hears and the other answers."""

    ear: Pinned
    language: Pinned
    large: Pinned
    small: Pinned
    mapper: Pinned
    residual: Pinned
    control: Pinned


@dataclass(frozen=True)
class Speech:
    """The parts of a voice: what decides, what renders, what decodes. One that waits for its head has none yet."""

    codec: Pinned
    voice: Pinned
    head: Pinned | None = None


@dataclass(frozen=True)
class Preset:
    """An assembled system by name. One without a voice only listens."""

    name: str
    about: str
    artifacts: Artifacts
    speech: Speech | None = None


def names() -> list[str]:
    """The shipped presets."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read(name: str) -> Preset:
    """Read a shipped preset.

    Raises:
        BadInput: there is none of that name, or its file is malformed.
    """
    if not names():
        raise BadInput(f"there is no preset {name!r}, nor any other in {FOLDER}; install Legato again.")
    if name not in names():
        raise BadInput(f"there is no preset {name!r}; choose one of {', '.join(names())}.")
    path = FOLDER / f"{name}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text ({error}); restore the file.") from None
    return parse(text, f"preset {name}")


def parse(text: str, where: str) -> Preset:
    """Read a preset's text, strictly.

    Raises:
        BadInput: it is not TOML, or a key is unknown, missing or of the wrong kind; `where` starts the sentence.
    """
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"{where} is not TOML ({error}); restore the file.") from error
    _same_keys({"speech": None} | content, Preset, where)
    for key in ("name", "about"):
        _require(isinstance(content[key], str), f"{where}: {key!r} is no text")
    artifacts = Artifacts(**_pinned(content["artifacts"], Artifacts, f"{where}, [artifacts", "]"))
    speech = None
    if "speech" in content:
        speech = Speech(**_pinned(content["speech"], Speech, f"{where}, [speech", "]", optional=("head",)))
    return Preset(content["name"], content["about"], artifacts, speech)


def _pinned(parts: Any, wanted: type, where: str, end: str, optional: tuple[str, ...] = ()) -> dict[str, Pinned]:
    _same_keys(dict.fromkeys(optional) | parts if isinstance(parts, dict) else parts, wanted, where + end)
    pinned = {}
    for part, values in parts.items():
        at = f"{where}.{part}{end}"
        _same_keys(values, Pinned, at)
        _require(all(isinstance(value, str) for value in values.values()), f"{at} holds something that is no text")
        hashes = (values["weights"], values["identity"])
        _require(all(_SHA256.fullmatch(sha) for sha in hashes), f"{at} needs hashes of 64 hex digits")
        pinned[part] = Pinned(**values)
    return pinned


def _same_keys(found: Mapping[str, Any], wanted: type, where: str) -> None:
    known = [field.name for field in fields(wanted)]
    _require(isinstance(found, dict), f"{where} is no table")
    for key in found:
        if key not in known:
            raise BadInput(f"{where} has the unknown key {key!r}; known are {', '.join(known)}.")
    for key in known:
        if key not in found:
            raise BadInput(f"{where} lacks the key {key!r}; needed are {', '.join(known)}.")


def _require(right: bool, complaint: str) -> None:
    if not right:
        raise BadInput(f"{complaint}; restore the file.")
