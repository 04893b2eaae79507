"""Write the hashes of the shipped weights into their preset: run after an artifact under `pocket/weights` was replaced.

    python recipes/pin_preset.py

Every weight file is read and held against its manifest first. The preset is the only file that changes.
"""

from __future__ import annotations

import re
from pathlib import Path

from legato import artifacts
from legato.pocket.shelf import WEIGHTS
from legato.presets import FOLDER, parse


def pin(text: str, weights: Path) -> str:
    """The preset's text with the hashes of what lies in `weights`."""
    parts = re.split(r"(?m)^(?=\[(?:artifacts|speech)\.)", text)
    for n, part in enumerate(parts[1:], 1):
        folder = re.search(r'(?m)^folder = "(.+)"$', part)
        assert folder, part
        if not (weights / folder[1]).exists():
            continue  # not trained yet: stays unpinned, and loading the preset says what is missing
        _, manifest = artifacts.load(weights / folder[1])
        stored = manifest.path("weights.safetensors").name
        for key, value in (("weights", manifest.files[stored]), ("identity", manifest.sha256)):
            part = re.sub(rf'(?m)^{key} = ".*"$', f'{key} = "{value}"', part)
        parts[n] = part
    return "".join(parts)


def main() -> None:
    path = FOLDER / "pocket.toml"
    text = pin(path.read_text(encoding="utf-8"), WEIGHTS)
    parse(text, path.name)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
