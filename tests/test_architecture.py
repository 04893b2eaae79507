"""The house is as its papers say: file tree, rooms, import rules."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/legato"
MODULES = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}
ROOMS = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}


def recipe(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"recipes/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tree_paths() -> dict[str, str]:
    """path -> what the README says of it, read from the indentation of its tree."""
    block = re.search(r"<!-- tree -->\n```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    paths: dict[str, str] = {}
    folders: list[tuple[int, str]] = []
    for line in filter(None, block.splitlines()):
        indent = len(line) - len(line.lstrip())
        name, _, what = line.strip().partition(" ")
        while folders and folders[-1][0] >= indent:
            folders.pop()
        path = f"{folders[-1][1] if folders else ''}{name}"
        if name.endswith("/"):
            folders.append((indent, path))
        paths[path.rstrip("/")] = what.strip()
    return paths


def test_the_readme_tree_is_true():
    paths = tree_paths()
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert sorted(MODULES - set(paths)) == [], "run: make docs"
    assert all(what for path, what in paths.items() if path.endswith(".py"))


def test_top_level_files_stand_in_the_tree():
    paths = set(tree_paths())
    tracked = {"README.md", ".gitignore"}
    for path in ROOT.iterdir():
        if path.is_file() and path.name not in tracked and not path.name.startswith("."):
            assert path.name in paths, f"{path.name} has no line in the README"


def test_every_module_says_what_it_is():
    readme_tables = recipe("readme_tables")
    for module in MODULES:
        assert len(readme_tables.first_sentence(ROOT / module)) > 10


def test_architecture_names_every_room_and_no_other():
    text = (ROOT / "docs/architecture.md").read_text()
    named = set(re.findall(r"(?m)^\| `([a-z]+)` \|", text))
    assert named == ROOMS - {"__init__", "__main__"}


def test_contracts_know_every_room():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [floors] = [contract for contract in contracts if contract["type"] == "layers"]
    known = {name.removeprefix("legato.") for layer in floors["layers"] for name in re.findall(r"[\w.]+", layer)}
    assert known == ROOMS - {"__init__"}


def test_contracts_hold(capsys, monkeypatch):
    importlinter = pytest.importorskip("importlinter.cli")
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT / "src"))
    status = importlinter.lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert status == importlinter.EXIT_STATUS_SUCCESS, capsys.readouterr().out
