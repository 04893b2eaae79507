"""Artifacts: whole or not at all, and never other bytes than the recorded ones."""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import time

import pytest
import torch

from legato import artifacts
from legato.artifacts import Source, load, save
from legato.errors import ArtifactError, ChecksumMismatch

TENSORS = {"a.weight": torch.arange(12.0).view(3, 4), "b": torch.tensor([1.5, -2.5], dtype=torch.bfloat16)}
SOURCE = Source("a model", "rev1", "Apache-2.0", "0" * 64)


def make(folder, tensors=None, **how):
    return save(folder, tensors or TENSORS, name="probe", kind="mapper", config={"rank": 16}, **how)


def refusal(folder) -> str:
    with pytest.raises(ArtifactError) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def edit(folder, **changes) -> None:
    path = folder / "manifest.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def weights_of(folder):
    return next(folder.glob("weights-*.safetensors"))


def test_round_trip(tmp_path):
    made = make(
        tmp_path / "deep" / "probe", recipe="recipes/x.py --seed 1", sources=(SOURCE,), extra={"words.json": b"[1]"}
    )
    tensors, manifest = load(tmp_path / "deep" / "probe")
    assert manifest == made and manifest.sha256 == made.sha256
    assert manifest.sources == (SOURCE,) and manifest.config == {"rank": 16}
    assert manifest.path("words.json").read_bytes() == b"[1]"
    assert tensors.keys() == TENSORS.keys()
    for key, tensor in TENSORS.items():
        assert tensors[key].dtype == tensor.dtype and torch.equal(tensors[key], tensor)
    with pytest.raises(ArtifactError, match="holds no file other.json; it has weights-"):
        manifest.path("other.json")


def test_views_and_transposes_are_saved_as_seen(tmp_path):
    base = torch.arange(6.0).view(2, 3)
    make(tmp_path, {"t": base.T, "row": base[1].requires_grad_()})
    tensors, _ = load(tmp_path)
    assert (
        torch.equal(tensors["t"], base.T) and torch.equal(tensors["row"], base[1]) and not tensors["row"].requires_grad
    )


def test_same_content_same_bytes_and_identity_follows_content(tmp_path):
    one, two = make(tmp_path / "1"), make(tmp_path / "2")
    assert one.files == two.files and one.sha256 == two.sha256
    assert save(tmp_path / "3", TENSORS, name="probe", kind="mapper", config={"rank": 17}).sha256 != one.sha256
    assert make(tmp_path / "4", {"b": torch.zeros(2)}).sha256 != one.sha256


def test_one_flipped_bit_is_refused_by_name_with_both_hashes(tmp_path):
    make(tmp_path)
    path = weights_of(tmp_path)
    expected = artifacts.sha256_file(path)
    blob = bytearray(path.read_bytes())
    blob[-1] ^= 1
    path.write_bytes(blob)
    with pytest.raises(ChecksumMismatch) as caught:
        load(tmp_path)
    found = artifacts.sha256_file(path)
    assert found != expected and all(part in str(caught.value) for part in (path.name, expected, found))
    path.write_bytes(blob[:50])
    assert "has changed" in refusal(tmp_path)


def test_extra_files_are_checked_too(tmp_path):
    manifest = make(tmp_path, extra={"words.json": b"[1]"})
    manifest.path("words.json").write_bytes(b"[2]")
    assert "words-" in refusal(tmp_path)


def test_missing_things_are_one_sentence(tmp_path):
    assert "manifest.json is missing" in refusal(tmp_path / "nowhere")
    assert "manifest.json is missing" in refusal(tmp_path)
    make(tmp_path)
    weights_of(tmp_path).unlink()
    assert "is missing although manifest.json lists it" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"colour": "blue"}, "unknown manifest key 'colour'; known are name, kind, files"),
        ({"kind": None}, "lacks the manifest key 'kind'"),
        ({"kind": 3}, "'kind' is not a str"),
        ({"files": ["weights"]}, "'files' is not a dict"),
        ({"files": {}}, "lists no files"),
        ({"files": {"../x.safetensors": "0" * 64}}, "leaves the folder"),
        ({"files": {"/etc/passwd": "0" * 64}}, "leaves the folder"),
        ({"files": {"x.safetensors": "abc"}}, "has no SHA-256 but 'abc'"),
        ({"files": {"x.safetensors": 7}}, "has no SHA-256 but 7"),
        ({"sources": "me"}, "sources is not a list"),
        ({"sources": ["me"]}, "the source is not an object"),
        ({"sources": [{"name": "x"}]}, "lacks the source key 'licence'"),
        ({"config": [1]}, "'config' is not a dict"),
    ],
)
def test_a_malformed_manifest_is_one_sentence(tmp_path, changes, complaint):
    make(tmp_path)
    edit(tmp_path, **changes)
    assert complaint in refusal(tmp_path)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[]", b"3", b"[" * 100_000, b"{\"name\": " * 100_000])
def test_a_manifest_that_is_no_json_object_is_one_sentence(tmp_path, text):
    make(tmp_path)
    (tmp_path / "manifest.json").write_bytes(text)
    refusal(tmp_path)


def test_a_manifest_with_half_a_surrogate_pair_is_one_sentence(tmp_path):
    make(tmp_path)
    edit(tmp_path, name="\ud800")
    assert "surrogates not allowed" in refusal(tmp_path)


def listed(folder, name: str, blob: bytes) -> None:
    """A manifest that vouches for `blob`: what a careless repackager would make."""
    make(folder)
    (folder / name).write_bytes(blob)
    edit(folder, files={name: artifacts.sha256_file(folder / name)})


def test_pickles_are_refused_unopened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    listed(tmp_path, "weights.pt", pickle.dumps(Bomb()))
    assert "a pickle, which can run code" in refusal(tmp_path)
    listed(tmp_path, "weights.safetensors", pickle.dumps(Bomb()))
    assert "not a whole safetensors file" in refusal(tmp_path)
    assert "looks like a pickle" in refusal(tmp_path / "model.ckpt")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("part", [0, 7, 8, 60, -1])
def test_a_vouched_for_stump_of_safetensors_is_one_sentence(tmp_path, part):
    make(tmp_path)
    blob = weights_of(tmp_path).read_bytes()
    listed(tmp_path, "weights.safetensors", blob[:part])
    assert "not a whole safetensors file" in refusal(tmp_path)


def test_several_weight_files_are_joined_and_may_not_overlap(tmp_path):
    one = make(tmp_path / "1", {"a": torch.zeros(2)})
    two = make(tmp_path / "2", {"b": torch.ones(2)})
    (tmp_path / "1" / "more.safetensors").write_bytes(two.path("weights.safetensors").read_bytes())
    digest = two.files[two.path("weights.safetensors").name]
    edit(tmp_path / "1", files=one.files | {"more.safetensors": digest})
    assert load(tmp_path / "1")[0].keys() == {"a", "b"}
    (tmp_path / "1" / "again.safetensors").write_bytes(two.path("weights.safetensors").read_bytes())
    edit(tmp_path / "1", files=one.files | {"more.safetensors": digest, "again.safetensors": digest})
    assert "repeats the tensor b" in refusal(tmp_path / "1")


def test_a_new_version_replaces_the_old_and_leaves_strangers_alone(tmp_path):
    make(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    make(tmp_path, {"b": torch.zeros(3)})
    assert load(tmp_path)[0].keys() == {"b"}
    assert len(list(tmp_path.iterdir())) == 3
    make(tmp_path, {"b": torch.zeros(3)})  # saving the same again keeps it
    assert load(tmp_path)[0].keys() == {"b"} and len(list(tmp_path.iterdir())) == 3


def test_a_loaded_tensor_does_not_follow_the_file(tmp_path):
    make(tmp_path, {"b": torch.zeros(1000)})
    tensors, _ = load(tmp_path)
    with weights_of(tmp_path).open("r+b") as file:
        file.seek(-4000, os.SEEK_END)
        file.write(b"\xff" * 4000)
    assert not tensors["b"].any()


@pytest.fixture
def full_disk():
    """Real writes that fail: no file may grow past 40 kB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("replaced", [True, False])
def test_a_full_disk_leaves_the_old_version_in_force_and_no_litter(tmp_path, full_disk, replaced):
    if replaced:
        make(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(
        ArtifactError, match=r"cannot save probe in .*: File too large; what was there before is untouched"
    ):
        make(tmp_path, {"big": torch.zeros(100_000)}, extra={"a.json": b"1"})
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    if replaced:
        assert load(tmp_path)[0].keys() == TENSORS.keys()


def test_a_failure_at_the_manifest_leaves_the_old_version_in_force(tmp_path, monkeypatch):
    make(tmp_path)
    replace = os.replace

    def full_at_the_end(source, target):
        if str(target).endswith("manifest.json"):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full_at_the_end)
    with pytest.raises(ArtifactError, match="No space left"):
        make(tmp_path, {"b": torch.zeros(3)})
    assert load(tmp_path)[0].keys() == TENSORS.keys() and len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ArtifactError, match="cannot save probe"):
        make(tmp_path / "file")


WRITER = """
import itertools, sys, torch
from legato.artifacts import save
for i in itertools.count():
    tensors = {"x": torch.full((50_000,), float(i)), "y": torch.full((1,), float(i))}
    save(sys.argv[1], tensors, name="n", kind="k", config={"i": i})
    if i == 0: print("ready", flush=True)
"""


def test_a_writer_stopped_at_any_moment_leaves_one_whole_version(tmp_path):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout.readline() == b"ready\n"
        versions = set()
        for moment in range(25):
            time.sleep(0.001 * moment)
            writer.send_signal(signal.SIGSTOP)  # what lies there now is what a kill would leave
            os.waitid(os.P_PID, writer.pid, os.WSTOPPED)
            tensors, manifest = load(tmp_path)
            version = float(manifest.config["i"])
            assert set(tensors["x"].tolist()) == set(tensors["y"].tolist()) == {version}
            versions.add(version)
            writer.send_signal(signal.SIGCONT)
        assert len(versions) > 1
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()


# Int8


def test_int8_error_is_within_half_a_step_of_each_group():
    torch.manual_seed(0)
    weight = torch.randn(48, 200) * torch.logspace(-4, 4, 48)[:, None]
    weight[5, 64:128] = 0
    packed = artifacts.pack_int8(weight)
    assert packed["q"].dtype == torch.int8 and packed["q"].shape == (48, 200)
    assert packed["scale"].dtype == torch.float16 and packed["scale"].shape == (48, 4)
    error = (artifacts.unpack_int8(packed) - weight).abs()
    bound = packed["scale"].float().repeat_interleave(64, 1)[:, :200] / 2
    assert bool((error <= bound + 1e-6 * weight.abs()).all())
    assert not artifacts.unpack_int8(packed)[5, 64:128].any()
    largest = weight[:, :64].abs().amax(1)  # the step is not wasteful either: 127 of them reach the largest weight
    assert torch.allclose(packed["scale"][:, 0].float() * 127, largest, rtol=2e-3, atol=127 * 2**-24)


def test_int8_keeps_what_it_can_hold_exactly():
    weight = torch.arange(-127, 128).float().view(1, 255) * 0.25
    assert torch.equal(artifacts.unpack_int8(artifacts.pack_int8(weight, group=255), group=255), weight)
    tiny = torch.tensor([[1e-9, -3e-8, 6e-8, 0.0]])
    assert bool((artifacts.unpack_int8(artifacts.pack_int8(tiny)) - tiny).abs().le(2**-25).all())


def test_int8_is_small_and_close_on_gaussian_weights():
    torch.manual_seed(0)
    weight = torch.randn(256, 576)
    packed = artifacts.pack_int8(weight)
    size = sum(t.numel() * t.element_size() for t in packed.values())
    assert size == 256 * 576 * (1 + 2 / 64)
    relative = (artifacts.unpack_int8(packed) - weight).pow(2).mean() / weight.pow(2).mean()
    step = float(packed["scale"].float().pow(2).mean())
    assert float(relative) == pytest.approx(step / 12, rel=0.05)  # a uniform rounding error


def test_int8_refuses_what_it_cannot_hold():
    for bad in (float("nan"), float("inf"), 1e8):
        with pytest.raises(AssertionError, match="out of range"):
            artifacts.pack_int8(torch.tensor([[1.0, bad]]))
    with pytest.raises(AssertionError, match="do not fit groups of 32"):
        artifacts.unpack_int8(artifacts.pack_int8(torch.ones(2, 128)), group=32)


def test_sha256_file_is_the_published_digest(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert artifacts.sha256_file(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
