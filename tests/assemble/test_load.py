"""Assembling a system from its files, and refusing every file that is not the pinned one.

The weights are random and small, in the real layout; the ear is the shipped one.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import torch

from legato import artifacts, assemble, cli, presets, runtime
from legato.audio import write
from legato.errors import ArtifactError, BadInput, ChecksumMismatch, OrganMismatch
from legato.listen import shelf as listen_shelf
from legato.listen.mapper import CacheMapper, MapConfig
from legato.listen.residual import CacheResidual, ResidualConfig
from legato.pocket import lowrank, pair, shelf
from legato.pocket.ear import Projector
from legato.pocket.hearing import Hearing, Spelling
from legato.pocket.language import DOUBTS, Language
from legato.pocket.prompt import HEADER, TAIL
from legato.pocket.tiny import VOCAB, Numbers, sound
from legato.transformer import Transformer, TransformerConfig

CONFIG = TransformerConfig(layers=30, width=32, heads=2, kv_heads=1, head_dim=16, ffn=48, vocab=VOCAB)
PARTS = ("ear", "language", "large", "small", "mapper", "residual", "control")


def base(dtype: torch.dtype = torch.float32) -> tuple[Transformer, Numbers]:
    torch.manual_seed(0)
    return Transformer(CONFIG).to(dtype).requires_grad_(False), Numbers()


def pin_preset():
    path = Path(__file__).resolve().parents[2] / "recipes/pin_preset.py"
    spec = importlib.util.spec_from_file_location("pin_preset", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pin


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A weights folder and its preset's text."""
    folder = tmp_path_factory.mktemp("shipped")
    shutil.copytree(shelf.WEIGHTS / "ear", folder / "ear")
    Language(least=0.0).save(folder / "language", recipe="a test", sources=())
    large, _ = base()
    small = pair.cut(large)
    lowrank.attach(large, pair.LARGE_RANK)
    for name, save, model in (("large", shelf.save_large, large), ("small", shelf.save_small, small)):
        projector = Projector(CONFIG.width, hidden=pair.PROJECTOR_HIDDEN)
        hearing = Hearing(projector, Spelling(large.embedding.weight, range(5, 60)), torch.zeros(CONFIG.width))
        save(folder / name, model, hearing, recipe="a test")
    own, wide = small.config.geometry, CONFIG.geometry
    read = MapConfig(wide, own, tuple((layer,) for layer in pair.KEPT), len(HEADER), len(TAIL))
    itself = MapConfig(own, own, tuple((layer,) for layer in range(own.layers)), len(HEADER), len(TAIL))
    listen_shelf.save_mapper(folder / "mapper", CacheMapper(read), recipe="a test", made_from={})
    for name, layout in (("residual", read), ("control", itself)):
        residual = CacheResidual(ResidualConfig(layout, 4))
        listen_shelf.save_residual(folder / name, residual, recipe="a test", made_from={"for": name})
    blank = "".join(f'[artifacts.{part}]\nfolder = "{part}"\nweights = ""\nidentity = ""\n\n' for part in PARTS)
    return folder, pin_preset()('name = "pocket"\nabout = "random"\n\n' + blank, folder)


@pytest.fixture
def weights(shipped, tmp_path, monkeypatch):
    """A copy of the weights that a test may spoil, standing where the package looks."""
    folder, text = shipped
    shutil.copytree(folder, tmp_path / "weights")
    (tmp_path / "pocket.toml").write_text(text)
    monkeypatch.setattr(shelf, "WEIGHTS", tmp_path / "weights")
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    monkeypatch.setattr(shelf, "load_base", base)
    monkeypatch.setattr(runtime, "physical_cores", lambda: 1)
    return tmp_path / "weights"


def weight_file(folder: Path) -> Path:
    return artifacts.read_manifest(folder).path("weights.safetensors")


def test_a_whole_system_answers_with_every_arm(weights, tmp_path):
    system = assemble.load("pocket", dtype="float32")
    assert list(system.arms) == list(assemble.USES) and system.dtype == "float32"
    assert list(system.artifacts) == ["base", *PARTS] and system.artifacts["base"] == pair.BASE_SHA256
    assert system.artifacts["mapper"] == artifacts.sha256_file(weight_file(weights / "mapper"))
    assert {name: artifacts.sha256_file(path) for name, path in assemble.files("pocket").items()} == {
        name: system.artifacts[name] for name in PARTS
    }
    replies = {arm: system.answer(sound(), arm=arm, force_tokens=3) for arm in system.arms}
    assert all(len(reply.tokens) == 3 and reply.malformed for reply in replies.values())  # cut off by the limit
    # Fresh residuals are zero: they change nothing.
    assert replies["transfer"].tokens == replies["mapped"].tokens
    assert replies["control"].tokens == replies["small"].tokens


def test_through_the_command_line(weights, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("LEGATO_DTYPE", "float32")
    write(tmp_path / "q.wav", sound())
    assert cli.main(["ask", str(tmp_path / "q.wav"), "--arm", "all", "--json", "--force-tokens", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["arms"]) == list(assemble.USES) and list(found["artifacts"]) == ["base", *PARTS]


def test_what_does_not_sound_like_a_question_is_refused_by_name_but_no_arm_refuses(weights, tmp_path, capsys):
    system = assemble.load("pocket", dtype="float32")
    for arm in system.arms.values():
        arm.handoff.listener.language.least = 1.01  # nothing is certain enough
    said = system.arms["transfer"].answer(sound(), force_tokens=3)
    assert len(said.tokens) == 3 and said.doubt in DOUBTS.values()
    path = tmp_path / "q.wav"
    write(path, sound())
    for question, name in ((path, str(path)), (sound(), "the audio")):
        with pytest.raises(BadInput, match="ask in English") as caught:
            system.answer(question, arm="small")
        assert str(caught.value).startswith(f"no question found in {name}: it sounds like ")
    with pytest.raises(BadInput, match="no question found in the kitchen"):
        system.answer(sound(), name="the kitchen")


@pytest.mark.parametrize("part", ["small", "mapper", "language"])
def test_a_changed_byte_is_refused_by_name_with_both_hashes(weights, tmp_path, capsys, part):
    path = weight_file(weights / part)
    content = bytearray(path.read_bytes())
    before = artifacts.sha256_file(path)
    content[-1] ^= 1
    path.write_bytes(content)
    write(tmp_path / "q.wav", sound())
    assert cli.main(["ask", str(tmp_path / "q.wav")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert path.name in err and before in err and artifacts.sha256_file(path) in err


def test_weights_exchanged_together_with_their_manifest_are_refused(weights):
    """A whole, consistent artifact, but not the pinned one."""
    before = artifacts.read_manifest(weights / "residual")
    stranger = CacheResidual(listen_shelf.load_residual(artifacts.load(weights / "residual")).config)
    listen_shelf.save_residual(weights / "residual", stranger, recipe="a test", made_from={"for": "residual"})
    after = weight_file(weights / "residual")
    with pytest.raises(ChecksumMismatch) as caught:
        assemble.load("pocket")
    assert caught.value.name == f"residual ({after.name})"
    assert caught.value.expected in before.files.values() and caught.value.found == artifacts.sha256_file(after)


def test_an_edited_manifest_is_refused(weights):
    path = weights / "mapper/manifest.json"
    content = json.loads(path.read_text())
    content["config"]["map"]["reads"][3] = [9]
    path.write_text(json.dumps(content))
    with pytest.raises(ChecksumMismatch, match=r"mapper \(manifest.json\) has changed: expected sha256"):
        assemble.load("pocket")


def test_missing_weights_are_named(weights):
    shutil.rmtree(weights / "control")
    with pytest.raises(ArtifactError, match="control: manifest.json is missing"):
        assemble.load("pocket")


def test_a_residual_is_no_mapper(weights, tmp_path):
    """Even a preset that pins it cannot put one in the other's place."""
    preset = tmp_path / "pocket.toml"
    text = preset.read_text()
    mapper, residual = presets.read("pocket").artifacts.mapper, presets.read("pocket").artifacts.residual
    for a, b in (
        (mapper.folder, residual.folder),
        (mapper.weights, residual.weights),
        (mapper.identity, residual.identity),
    ):
        head, tail = text.split("[artifacts.mapper]\n")
        text = head + "[artifacts.mapper]\n" + tail.replace(a, b, 1)
    preset.write_text(text)
    with pytest.raises(OrganMismatch, match="holds a residual, but a mapper is wanted"):
        assemble.load("pocket")
