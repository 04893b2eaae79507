"""The golden test of the port: what ONNX Runtime says is what torch says, over a whole stream."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import legato
from legato import artifacts
from legato.errors import ArtifactError, ChecksumMismatch, MissingExtra
from legato.pocket.codec import FRAME, Codec, CodecConfig
from legato.pocket.codec_step import DecoderStep
from legato.pocket.quantiser import SplitQuantiserConfig
from legato.speak import port
from legato.speak.entrance import Entrance, Statistics
from legato.speak.harness import Frame
from legato.speak.head import Head, HeadConfig
from legato.speak.port import load_port, open_port, save_port
from legato.speak.ported import PortedCodec, PortedRenderer, PortedStream
from legato.speak.render import DepthRenderer, HeadRenderer

FROM = {"head": "a" * 64, "codec": "b" * 64}
TINY = CodecConfig(
    latent=24, encoder_fast=16, encoder_slow=20, decoder_slow=20, decoder_fast=12, fast_blocks=2, slow_blocks=1,
    quantiser=SplitQuantiserConfig(books=4, entries=10, projected=6),
)
TIGHT = {"atol": 1e-4, "rtol": 0}


def organs(codec_config, head_config):
    """A codec, a head and the entrance between them, as loud as speech and steady when fed its own past."""
    torch.manual_seed(5)
    codec = Codec(codec_config).requires_grad_(False).eval()
    for part in (codec.quantiser.first, codec.quantiser.rest):
        for book in part.books:
            book.entries.normal_()
    d = codec.decoder
    d.out.weight.mul_(2)
    d.out.bias[: len(d.out.bias) // 2] += 1
    head = Head(head_config).requires_grad_(False).eval()
    for p in head.parameters():
        torch.nn.init.normal_(p, std=0.4 * p.shape[-1] ** -0.5)
    U = codec.projected
    return codec, head, Entrance(codec, Statistics(torch.randn(U), 0.5 + torch.rand(U)))


@pytest.fixture(scope="module")
def tiny():
    return organs(TINY, HeadConfig(12, 48, 32, 2, 3))


@pytest.fixture(scope="module")
def kept(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("port")
    codec, head, entrance = tiny
    save_port(folder, head, entrance, DecoderStep(codec), steps=2, made_from=FROM)
    return folder


@pytest.fixture
def loaded(kept):
    return load_port(kept, steps=2, made_from=FROM, threads=1)


def frames(n, codec, head, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [
        Frame(i, torch.randn(head.config.state, generator=draw),
              torch.randint(codec.config.quantiser.entries, (codec.books,), generator=draw))
        for i in range(n)
    ]


def sound(renderer, given):
    render = renderer.start()
    return torch.cat([render(frame).clone() for frame in given], 1)


def same(codec, head, entrance, found, settings):
    given = frames(70, codec, head)
    wanted = sound(HeadRenderer(head, entrance, 2, **settings), given)
    assert wanted.std() > 0.01 and wanted.abs().max() > 0.1
    torch.testing.assert_close(sound(PortedRenderer(found, **settings), given), wanted, **TIGHT)
    wanted = sound(DepthRenderer(codec), given)
    assert wanted.std() > 0.01
    torch.testing.assert_close(sound(DepthRenderer(PortedCodec(codec, found)), given), wanted, **TIGHT)


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "level": 0.3, "seed": 7}])
def test_both_renderers_say_what_torch_says(tiny, loaded, settings):
    same(*tiny, loaded, settings)


@pytest.mark.slow
def test_at_the_shipped_sizes(tmp_path):
    parts = organs(CodecConfig(), HeadConfig(128, 320))
    codec, head, entrance = parts
    same(*parts, open_port(tmp_path, head, entrance, DecoderStep(codec), steps=2, made_from=FROM, threads=2), {})


def test_the_decoder_as_a_function_is_the_stream(tiny):
    """Before any export: so a difference is the exporter's or the runtime's."""
    codec = tiny[0]
    step, stream = DecoderStep(codec), codec.stream()
    z, memory = torch.randn(1, 24, 20), step.memory
    for i in range(20):
        samples, *memory = step(z[:, :, i], *memory)
        torch.testing.assert_close(samples, stream(z[:, :, i : i + 1]), atol=1e-5, rtol=0)


def test_a_stream_takes_several_frames_at_once(tiny, loaded):
    z = torch.randn(1, 24, 9)
    torch.testing.assert_close(PortedStream(loaded.codec)(z), tiny[0].decode(z), **TIGHT)


def test_a_new_utterance_knows_nothing_of_others(tiny, loaded):
    """One after another, and two at the same time over the same sessions."""
    codec, head, _ = tiny
    renderer = PortedRenderer(loaded)
    one, other = frames(9, codec, head), frames(9, codec, head, seed=1)
    first = sound(renderer, one)
    assert torch.equal(sound(renderer, one), first)
    a, b = renderer.start(), renderer.start()
    turns = [(a(x).clone(), b(y).clone()) for x, y in zip(one, other, strict=True)]
    assert torch.equal(torch.cat([x for x, _ in turns], 1), first)
    assert not torch.equal(torch.cat([y for _, y in turns], 1), first)


def test_every_frame_is_written_into_the_same_buffer(tiny, loaded):
    codec, head, _ = tiny
    render = PortedRenderer(loaded).start()
    places = {render(frame).data_ptr() for frame in frames(5, codec, head)}
    assert len(places) == 1 and render(frames(1, codec, head)[0]).shape == (1, FRAME)


def test_the_files_say_nothing_of_this_machine(kept):
    manifest = artifacts.read_manifest(kept)
    for name in ("head.onnx", "codec.onnx"):
        content = manifest.path(name).read_bytes()
        assert b"layer_norm" in content  # names of operations are in clear, so paths would be
        assert b".py" not in content and str(Path(legato.__file__).parent).encode() not in content


@pytest.mark.slow
def test_the_same_weights_give_the_same_bytes(tiny, kept, tmp_path):
    codec, head, entrance = tiny
    again = save_port(tmp_path, head, entrance, DecoderStep(codec), steps=2, made_from=FROM)
    assert again.files == artifacts.read_manifest(kept).files


def test_a_port_that_is_there_is_not_made_again(tiny, kept, monkeypatch):
    codec, head, entrance = tiny
    monkeypatch.setattr(port, "save_port", None)
    open_port(kept, head, entrance, DecoderStep(codec), steps=2, made_from=FROM, threads=1)


@pytest.mark.parametrize(
    "steps, made_from", [(2, FROM | {"head": "c" * 64}), (2, FROM | {"codec": "c" * 64}), (3, FROM)]
)
def test_a_port_of_other_weights_is_refused(kept, steps, made_from):
    with pytest.raises(ArtifactError, match=r"was made from .*, and here is .*; give another folder, or delete this"):
        load_port(kept, steps=steps, made_from=made_from, threads=1)


def test_a_port_of_another_version_is_refused(kept, monkeypatch):
    monkeypatch.setattr(legato, "__version__", "0.0.0")
    with pytest.raises(ArtifactError, match="'legato': '0.0.0'"):
        load_port(kept, steps=2, made_from=FROM, threads=1)


@pytest.mark.parametrize("name", ["head.onnx", "codec.onnx", "weights.safetensors"])
def test_a_changed_file_is_refused_by_name(kept, tmp_path, name):
    shutil.copytree(kept, tmp_path / "port")
    path = artifacts.read_manifest(tmp_path / "port").path(name)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ChecksumMismatch, match=path.name):
        load_port(tmp_path / "port", steps=2, made_from=FROM, threads=1)
    path.unlink()
    with pytest.raises(ArtifactError, match=f"{path.name} is missing"):
        load_port(tmp_path / "port", steps=2, made_from=FROM, threads=1)


def test_another_artifact_is_no_port(tmp_path):
    artifacts.save(tmp_path, {"a": torch.ones(1)}, name="x", kind="head", config={})
    with pytest.raises(ArtifactError, match="holds a head, but a port is wanted"):
        load_port(tmp_path, steps=2, made_from=FROM, threads=1)


def exported(tiny, monkeypatch):
    """The export itself replaced: what is tested is what becomes of its bytes."""
    monkeypatch.setattr(port, "_export", lambda function, memory, given, output: output.encode())
    codec, head, entrance = tiny
    return lambda folder: save_port(folder, head, entrance, DecoderStep(codec), steps=2, made_from=FROM)


@pytest.mark.parametrize("writes", range(4))
def test_an_interrupted_export_leaves_no_port_and_no_torn_file(tiny, tmp_path, monkeypatch, writes):
    """Stopped in the middle of each write; the next one is whole."""
    export, replace, left = exported(tiny, monkeypatch), artifacts.os.replace, [writes]

    def interrupted(scratch, target):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        replace(scratch, target)

    with monkeypatch.context() as patched:
        patched.setattr(artifacts.os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            export(tmp_path)
    files = {path.name for path in tmp_path.iterdir()}
    assert len(files) == writes and not any(".part" in name or name == artifacts.MANIFEST for name in files)
    with pytest.raises(ArtifactError, match="there is no artifact"):
        load_port(tmp_path, steps=2, made_from=FROM, threads=1)
    manifest = export(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {artifacts.MANIFEST, *manifest.files}


def test_an_export_that_fails_in_torch_has_written_nothing(tiny, tmp_path, monkeypatch):
    codec, head, entrance = tiny
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save_port(tmp_path / "port", head, entrance, DecoderStep(codec), steps=2, made_from=FROM)
    assert not (tmp_path / "port").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(tiny, tmp_path, monkeypatch):
    (tmp_path / "port").write_text("a file")
    with pytest.raises(ArtifactError, match="cannot save port in"):
        exported(tiny, monkeypatch)(tmp_path / "port")


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime", "platformdirs"])
def test_a_missing_package_names_the_extra(tiny, kept, tmp_path, monkeypatch, package):
    codec, head, entrance = tiny
    monkeypatch.setattr(port, "find_spec", lambda name: None if name == package else find_spec(name))
    folder = {"onnxruntime": kept, "platformdirs": None}.get(package, tmp_path)
    with pytest.raises(MissingExtra, match=rf"package {package}, .* pip install 'legato\[onnx\]'"):
        open_port(folder, head, entrance, DecoderStep(codec), steps=2, made_from=FROM, threads=1)


def test_each_port_has_a_folder_of_its_own_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    others = ((FROM, 2), (FROM, 3), (FROM | {"head": "c" * 64}, 2))
    folders = {port.cache_folder(made_from, steps) for made_from, steps in others}
    assert len(folders) == 3 and port.cache_folder(FROM, 2) in folders
