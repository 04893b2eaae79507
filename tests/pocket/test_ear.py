"""The ear against its reference (transformers), its own laws (batch = alone, counts), and features kept on disk."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from legato import artifacts
from legato.errors import ArtifactError, BadInput, OrganMismatch
from legato.pocket.ear import CHUNK, HOP, RATE, Ear, EarConfig, LogMel, Projector, WhisperEncoder, from_transformers
from legato.pocket.features import Features, FeatureWriter
from legato.pocket.hearing import side_by_side

TINY = EarConfig(mels=80, width=64, layers=2, heads=4, stack=8)
RECIPES = Path(__file__).parents[2] / "recipes"


def speech(samples: int, seed: int = 0) -> torch.Tensor:
    """Something with a spectrum like a voice: a gliding buzz with pauses in faint noise, (samples,) in [-1, 1]."""
    t = torch.arange(samples) / RATE
    phase = 2 * torch.pi * (110 + 5 * seed) * t + 20 * torch.sin(3 * t)
    buzz = sum(torch.sin(k * phase) / k for k in range(1, 20))
    noise = torch.randn(samples, generator=torch.Generator().manual_seed(seed))
    return 0.2 * buzz * (torch.sin(7 * t) > -0.3) + 0.003 * noise


@pytest.fixture(scope="module")
def reference():
    """transformers' encoder of a tiny random Whisper, with weights as lively as trained ones."""
    whisper = pytest.importorskip("transformers.models.whisper.modeling_whisper")
    config = whisper.WhisperConfig(
        num_mel_bins=TINY.mels,
        d_model=TINY.width,
        encoder_layers=TINY.layers,
        encoder_attention_heads=TINY.heads,
        encoder_ffn_dim=4 * TINY.width,
        dropout=0.0,
    )
    torch.manual_seed(1)
    encoder = whisper.WhisperEncoder(config).eval()
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if "embed_positions" in name:
                parameter.copy_(WhisperEncoder(TINY).positions)  # the same, rounded to float16 as in published weights
            else:
                scale = 0.5 if parameter.ndim == 1 else parameter[0].numel() ** -0.5
                parameter.add_(scale * torch.randn_like(parameter))
    return encoder


@pytest.fixture(scope="module")
def ear(reference) -> Ear:
    return Ear.from_tensors(from_transformers(reference.state_dict(), TINY.layers), TINY)


@torch.no_grad()
def reference_loop(encoder, mel: torch.Tensor) -> torch.Tensor:
    """transformers' own layers on a mel of any length, which its forward refuses."""
    x = F.gelu(encoder.conv2(F.gelu(encoder.conv1(mel)))).transpose(1, 2)
    x = x + encoder.embed_positions.weight[: x.shape[1]]
    for layer in encoder.layers:
        x = layer(x, None)
    return encoder.layer_norm(x)


def test_log_mel_is_whispers():
    extractor = pytest.importorskip("transformers").WhisperFeatureExtractor()
    samples = speech(4 * RATE + 77)
    padded = F.pad(samples, (0, 30 * RATE - len(samples)))
    theirs = extractor(samples.numpy(), sampling_rate=RATE, return_tensors="pt").input_features
    assert LogMel()(padded[None]).shape == (1, 80, CHUNK)
    torch.testing.assert_close(LogMel()(padded[None]), theirs, atol=1e-4, rtol=0)
    short = extractor(samples.numpy(), sampling_rate=RATE, padding="do_not_pad", return_tensors="pt").input_features
    assert short.shape[-1] == len(samples) // HOP
    torch.testing.assert_close(LogMel()(samples[None]), short, atol=1e-4, rtol=0)


def test_rows_of_a_log_mel_do_not_see_each_other():
    loud, faint = speech(RATE), 0.01 * speech(RATE, 1)
    both = LogMel()(torch.stack([loud, faint]))
    torch.testing.assert_close(both[1], LogMel()(faint[None])[0])


@torch.no_grad()
def test_encoder_equals_transformers_at_thirty_seconds(reference, ear):
    mel = ear.mel(speech(30 * RATE)[None])
    torch.testing.assert_close(ear.encoder(mel), reference(mel).last_hidden_state, atol=1e-4, rtol=0)


@pytest.mark.parametrize("frames", [1, 2, 3, 157, 400])
@torch.no_grad()
def test_encoder_equals_transformers_layers_at_any_length(reference, ear, frames):
    mel = ear.mel(speech(5 * RATE)[None])[..., :frames]
    ours = ear.encoder(mel)
    assert ours.shape == (1, -(-frames // 2), TINY.width)
    torch.testing.assert_close(ours, reference_loop(reference, mel), atol=1e-4, rtol=0)


@torch.no_grad()
def test_a_padded_batch_equals_one_at_a_time(ear):
    lengths = torch.tensor([311, 17, 200, 1])
    mel = ear.mel(torch.stack([speech(312 * HOP, seed) for seed in range(4)]))[..., :311]
    together = ear.encoder(mel, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = ear.encoder(mel[row : row + 1, :, :length])[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, atol=1e-4, rtol=0)
        assert not together[row, len(alone) :].any()


def test_features_of_many_clips_equal_the_ear_on_each(ear):
    clips = [speech(samples, seed) for seed, samples in enumerate([16_000, 5, 47_999, 16_001, 31 * RATE, 2_560])]
    heard = ear.features(clips, batch=3)
    for clip, features in zip(clips, heard, strict=True):
        torch.testing.assert_close(features, ear(clip[None])[0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("samples", [0, 1, 320, 321, 2_560, 2_561, 48_000, 480_000, 480_001, 1_000_000])
def test_the_count_is_known_before_hearing(ear, samples):
    n = ear(speech(samples)[None] if samples else torch.zeros(1, 0)).shape[1]
    assert ear.tokens(samples) == n


def test_counts_of_known_lengths(ear):
    # 6.25 a second, rounded up; 30 s are 187.5, so a whole chunk has 188 and the next begins anew
    assert [ear.tokens(s * RATE) for s in (1, 2, 3, 30, 60)] == [7, 13, 19, 188, 376]
    assert ear.tokens(480_001) == 189


def test_stacking_lays_eight_frames_side_by_side_and_fills_with_zeros(ear):
    samples = speech(20 * HOP)  # 20 mel frames, 10 encoder frames, 2 tokens
    frames = ear.encoder(ear.mel(samples[None]))
    assert torch.equal(ear(samples[None])[0, 0], frames[0, :8].reshape(-1))
    assert torch.equal(ear(samples[None])[0, 1, : 2 * TINY.width], frames[0, 8:].reshape(-1))
    assert not ear(samples[None])[0, 1, 2 * TINY.width :].any()


def test_less_than_two_hops_is_filled_with_zeros(ear):
    torch.testing.assert_close(ear(speech(100)[None]), ear(F.pad(speech(100), (0, 220))[None]))


def test_bfloat16_is_near_float32_and_leaves_the_log_mel_alone(ear):
    small = Ear.from_tensors(ear.encoder.state_dict(), TINY, dtype=torch.bfloat16)
    clip = speech(3 * RATE)
    assert small.mel(clip[None]).dtype == torch.float32
    full, half = ear(clip[None]), small(clip[None])
    assert half.dtype == torch.bfloat16
    # the whole feature is compared: its last vector is partly zeros
    assert F.cosine_similarity(full.flatten(), half.float().flatten(), dim=0) > 0.999


def test_a_saved_ear_hears_the_same_to_its_rounding(ear, tmp_path):
    ear.save(tmp_path, name="tiny")
    loaded = Ear.load(tmp_path)
    assert loaded.config == TINY and loaded.manifest.name == "tiny"
    for name, weight in ear.encoder.state_dict().items():
        found = loaded.encoder.state_dict()[name]
        # int8: half a step of 1/127 of the largest in its group; vectors: float16
        bound = weight.abs().max() * (0.5 / 126 if weight.ndim > 1 else 2**-11)
        assert (found - weight).abs().max() <= bound and not (weight.ndim > 1 and torch.equal(found, weight)), name
    loaded.save(tmp_path / "again", name="tiny")
    assert Ear.load(tmp_path / "again").manifest.sha256 == loaded.manifest.sha256  # rounding twice changes nothing


def test_only_an_ear_is_loaded_as_one(tmp_path):
    artifacts.save(tmp_path, {"a": torch.zeros(2)}, name="p", kind="projector", config={})
    with pytest.raises(OrganMismatch, match="projector"):
        Ear.load(tmp_path)


def test_a_missing_or_unknown_weight_is_an_error(ear):
    tensors = ear.encoder.state_dict()
    with pytest.raises(RuntimeError, match="norm.bias"):
        Ear.from_tensors({name: tensor for name, tensor in tensors.items() if name != "norm.bias"}, TINY)
    with pytest.raises(RuntimeError, match="extra"):
        Ear.from_tensors(tensors | {"extra": torch.zeros(1)}, TINY)


def made_projector(seed: int) -> Projector:
    torch.manual_seed(seed)
    projector = Projector(width=6, hidden=8, features=16)
    with torch.no_grad():
        for parameter in projector.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return projector


def test_projector_is_ultravoxs_with_a_look_at_the_neighbours():
    fresh = Projector(width=6, hidden=8, features=16)
    assert (fresh.norm_in.weight == 0.4).all() and (fresh.norm_mid.weight == 0.4).all()
    projector = made_projector(0)
    w = {name: parameter.detach().double().numpy() for name, parameter in projector.named_parameters()}
    x = torch.randn(2, 3, 16)

    def rms_norm(v, weight):
        return v / np.sqrt((v**2).mean(-1, keepdims=True) + 1e-6) * weight

    def silu(v):
        return v / (1 + np.exp(-v))

    up = rms_norm(x.double().numpy(), w["norm_in.weight"]) @ w["up.weight"].T
    value, gate = up[..., :8], up[..., 8:]
    mid = rms_norm(silu(gate) * value, w["norm_mid.weight"])
    np.testing.assert_allclose(  # as Ultravox has it, while the neighbours say nothing
        fresh_as(projector)(x).detach().numpy(), mid @ w["down.weight"].T, rtol=1e-4, atol=1e-4
    )
    padded = np.pad(rms_norm(mid, w["norm_around.weight"]), ((0, 0), (2, 2), (0, 0)))
    beside = np.concatenate([padded[:, k : k + 3] for k in range(5)], -1)  # two before, itself, two after
    expected = (mid + silu(beside @ w["around.weight"].T) @ w["back.weight"].T) @ w["down.weight"].T
    np.testing.assert_allclose(projector(x).detach().numpy(), expected, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        np.testing.assert_allclose(projector(x).numpy(), expected, rtol=1e-4, atol=1e-4)


def fresh_as(projector: Projector) -> Projector:
    """The same without what it makes of neighbours."""
    alone = Projector(width=6, hidden=8, features=16)
    alone.load_state_dict(projector.state_dict() | {"back.weight": torch.zeros(8, 4)})
    return alone


def test_clips_side_by_side_are_projected_as_each_alone():
    projector = made_projector(1)
    clips = [torch.randn(n, 16) for n in (5, 2, 9)]
    for clip, row in zip(clips, side_by_side(projector, clips), strict=True):
        torch.testing.assert_close(row, projector(clip[None])[0], rtol=1e-4, atol=1e-4)


def test_projector_learns_the_same_by_the_folded_product():
    projector, x = made_projector(2), torch.randn(2, 3, 16)
    gradients = []
    for given in (x, x.clone().requires_grad_()):  # folded, and not
        projector.zero_grad()
        projector(given).sin().sum().backward()
        gradients.append([p.grad.clone() for p in projector.parameters()])
    for folded, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(folded, plain, rtol=1e-3, atol=1e-4)


def clip_features(n: int, seed: int) -> torch.Tensor:
    return torch.randn(n, 32, generator=torch.Generator().manual_seed(seed)).bfloat16()


def test_features_survive_the_disk_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr("legato.pocket.features.SHARD_BYTES", 10 * 32 * 2)
    clips = {f"clip-{n}": clip_features(n, n) for n in (4, 7, 3, 1, 12)}
    with FeatureWriter(tmp_path, ear="abc", width=32) as writer:
        for clip, features in clips.items():
            writer.add(clip, features, row=f"row of {clip}")
    stored = Features(tmp_path)
    assert list(stored) == list(clips) and stored.ear == "abc" and len(list(tmp_path.glob("*.bf16"))) == 4
    for clip, features in clips.items():
        assert torch.equal(stored[clip], features)
        assert stored.tokens(clip) == len(features) and stored.row(clip) == f"row of {clip}"


def test_a_killed_writer_goes_on_behind_the_last_whole_clip(tmp_path):
    with FeatureWriter(tmp_path, ear="abc", width=32) as writer:
        writer.add("one", clip_features(3, 1))
        writer.add("two", clip_features(2, 2))
    # killed in the middle of the third clip: data without a line, and half a line
    with (tmp_path / "feat-0000.bf16").open("ab") as file:
        file.write(b"\x01" * 77)
    with (tmp_path / "index.jsonl").open("ab") as file:
        file.write(b'{"id": "thr')
    reader = Features(tmp_path)
    assert len(reader) == 2
    with FeatureWriter(tmp_path, ear="abc", width=32) as writer:
        assert writer.done == {"one", "two"}
        writer.add("three", clip_features(4, 3))
    assert reader.refresh() == 3  # a reader may stay open while it grows
    for n, (clip, seed) in zip((3, 2, 4), (("one", 1), ("two", 2), ("three", 3)), strict=True):
        assert torch.equal(reader[clip], clip_features(n, seed))


def test_another_ear_may_not_write_into_the_same_folder(tmp_path):
    FeatureWriter(tmp_path, ear="abc", width=32).close()
    with pytest.raises(OrganMismatch, match="abc.*another"):
        FeatureWriter(tmp_path, ear="another", width=32)


def test_lost_feature_data_is_refused(tmp_path):
    with FeatureWriter(tmp_path, ear="abc", width=32) as writer:
        writer.add("one", clip_features(3, 1))
    (tmp_path / "feat-0000.bf16").write_bytes(b"\0" * 64)
    with pytest.raises(ArtifactError, match="names 3"):
        Features(tmp_path)["one"]
    with pytest.raises(ArtifactError, match="names 192"):
        FeatureWriter(tmp_path, ear="abc", width=32)
    with pytest.raises(ArtifactError, match="hear_clips"):
        Features(tmp_path / "nowhere")
    assert json.loads((tmp_path / "features.json").read_text())["width"] == 32


def text(word: str) -> bytes:
    return struct.pack("<H", len(word) + 1) + word.encode() + b"\0"


def test_ctranslate2_files_are_read_by_their_format(monkeypatch):
    monkeypatch.syspath_prepend(RECIPES)
    from build_ear import read_ctranslate2

    matrix = np.arange(6, dtype=np.float16).reshape(2, 3)
    head = struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<II", 3, 2)
    first = text("a/weight") + struct.pack("<BIIBI", 2, 2, 3, 4, 12) + matrix.tobytes()
    second = text("scalar") + struct.pack("<BBI", 0, 1, 1) + b"\xff"
    variables = read_ctranslate2(head + first + second + struct.pack("<I", 0))
    assert variables["a/weight"].tolist() == matrix.tolist() and variables["a/weight"].dtype == torch.float16
    assert variables["scalar"].item() == -1
    with pytest.raises(BadInput, match="format 5"):
        read_ctranslate2(struct.pack("<I", 5) + head[4:])
    with pytest.raises(BadInput, match="BertSpec"):
        read_ctranslate2(struct.pack("<I", 6) + text("BertSpec"))


def test_hearing_follows_a_growing_list_of_clips_until_it_is_done(ear, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(RECIPES)
    import hear_clips
    from voices.shards import ClipWriter

    spoken = [(speech(3000 + 700 * n, n) * 2**14).to(torch.int16).numpy() for n in range(5)]
    clips = ClipWriter(tmp_path / "clips")
    for n in range(2):
        clips.add(spoken[n], {"id": f"q.{n}", "row": "q"})

    def while_waiting(_: float) -> None:
        for n in range(2, 5):
            clips.add(spoken[n], {"id": f"q.{n}", "row": "q"})
        (tmp_path / "clips" / "DONE").touch()

    monkeypatch.setattr(hear_clips.time, "sleep", while_waiting)
    with FeatureWriter(tmp_path / "heard", ear="tiny", width=TINY.features) as writer:
        writer.add("q.1", torch.zeros(4, TINY.features), "q")  # heard before a kill: not heard again
        hear_clips.hear(tmp_path / "clips", writer, ear, follow=True)
    clips.close()
    heard = Features(tmp_path / "heard")
    assert sorted(heard) == [f"q.{n}" for n in range(5)] and heard.row("q.3") == "q" and not heard["q.1"].any()
    for n in (0, 2, 3, 4):
        alone = ear(torch.from_numpy(spoken[n]).float()[None] / 2**15)[0]
        torch.testing.assert_close(heard[f"q.{n}"].float(), alone, atol=0.05, rtol=0.01)
