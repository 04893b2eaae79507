"""The production port: the head and the codec's decoder as two ONNX files in one artifact, and the sessions over them.

    folder/manifest.json                 what `legato.artifacts` writes; config: what it was made from
    folder/head-<12 hex>.onnx            `head_step.HeadStep`
    folder/codec-<12 hex>.onnx           the codec's decoder, of one frame
    folder/weights-<12 hex>.safetensors  what both remember at the beginning

Nothing is written before both files stand in memory, and the manifest is written last: a process killed while it ports
leaves no port. A port belongs to the very weights it was made from and to this version of Legato: any other is refused,
never used. The same weights give the same bytes. Sound is made of it in `ported`.

An exported function takes its inputs by name and `memory.0`, `memory.1` ...; it gives its output and `after.0` ... .
"""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

import legato
from legato import artifacts
from legato.artifacts import Manifest
from legato.errors import ArtifactError, MissingExtra
from legato.speak.entrance import Entrance
from legato.speak.head import Head
from legato.speak.head_step import HeadStep

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PORT = "port"  # kind of artifact
OPSET = 20  # the first with GELU in one operation; ONNX Runtime has had it since 1.17
FILES = ("head", "codec")


class FrameDecoder(Protocol):
    """A codec's decoder as a function of one frame, an `nn.Module`: memory in, memory out."""

    memory: list[Tensor]  # at the beginning

    def __call__(self, z: Tensor, *memory: Tensor) -> tuple[Tensor, ...]:
        """z (1, C), what the decoder reads -> samples (1, S), and the memory of the next frame."""
        ...


@dataclass(frozen=True)
class Function:
    """One exported function that is ready to run, and what it remembers at the beginning."""

    session: InferenceSession
    memory: tuple[Tensor, ...]


@dataclass(frozen=True)
class Port:
    """Both functions; any number of utterances may run on them."""

    head: Function
    codec: Function


def open_port(
    folder: Path | None, head: Head, entrance: Entrance, decoder: FrameDecoder, *, steps: int,
    made_from: Mapping[str, str], threads: int,
) -> Port:
    """The port in a folder, made there first if there is none; None: in a folder of its own in the user's cache.

    For arguments and errors see `save_port` and `load_port`.
    """
    folder = folder or cache_folder(made_from, steps)
    if not (folder / artifacts.MANIFEST).exists():
        save_port(folder, head, entrance, decoder, steps=steps, made_from=made_from)
    return load_port(folder, steps=steps, made_from=made_from, threads=threads)


def cache_folder(made_from: Mapping[str, str], steps: int) -> Path:
    """Where such a port is kept. Raises MissingExtra."""
    _require("platformdirs")
    from platformdirs import user_cache_path

    name = hashlib.sha256(json.dumps(_origin(made_from, steps), sort_keys=True).encode()).hexdigest()
    return user_cache_path("legato") / f"port-{name[:12]}"


def save_port(
    folder: Path, head: Head, entrance: Entrance, decoder: FrameDecoder, *, steps: int, made_from: Mapping[str, str]
) -> Manifest:
    """Export to a folder; an older port there is replaced. Takes some seconds.

    Args:
        decoder: of the codec that the entrance leads to.
        steps: of the flow.
        made_from: head and codec, by name and SHA-256 of their weights.

    Raises:
        MissingExtra: a package of the extra `onnx` is not installed.
        ArtifactError: the folder cannot be written.
    """
    _require("onnx", "onnxscript")
    c = head.config
    step = HeadStep(head, entrance, steps)
    given = {
        "state": torch.zeros(1, c.state), "level": torch.zeros(1), "told": torch.zeros(1, dtype=torch.int64),
        "spoil": torch.zeros(c.history, c.latent), "noise": torch.zeros(1, c.latent),
    }
    files = {
        "head.onnx": _export(step, step.memory, given, "z"),
        "codec.onnx": _export(decoder, decoder.memory, {"z": torch.zeros(1, entrance.codec.width)}, "samples"),
    }
    memory = {
        f"{name}.{i}": tensor
        for name, function in zip(FILES, (step, decoder), strict=True) for i, tensor in enumerate(function.memory)
    }
    config = {"made_from": _origin(made_from, steps)}
    return artifacts.save(folder, memory, name=PORT, kind=PORT, config=config, extra=files)


def load_port(folder: Path, *, steps: int, made_from: Mapping[str, str], threads: int) -> Port:
    """Every file checked by SHA-256 before it is read as anything.

    Args:
        threads: of each session.

    Raises:
        MissingExtra: onnxruntime is not installed.
        ChecksumMismatch: a file was changed.
        ArtifactError: the port is missing or damaged, or was made from other weights or by another version.
    """
    _require("onnxruntime")
    tensors, manifest = artifacts.load(folder)
    if manifest.kind != PORT:
        raise ArtifactError(f"{folder} holds a {manifest.kind}, but a {PORT} is wanted; give another folder.")
    if (found := manifest.config["made_from"]) != (wanted := _origin(made_from, steps)):
        raise ArtifactError(
            f"the port in {folder} was made from {found}, and here is {wanted}; "
            "give another folder, or delete this one to have it made again."
        )
    functions = {}
    for name in FILES:
        memory = tuple(tensors[f"{name}.{i}"] for i in range(sum(key.startswith(f"{name}.") for key in tensors)))
        functions[name] = Function(_session(manifest.path(f"{name}.onnx").read_bytes(), threads), memory)
    return Port(**functions)


def _require(*packages: str) -> None:
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtra(package, "onnx", "speaking by ONNX Runtime")


def _origin(made_from: Mapping[str, str], steps: int) -> dict[str, str | int]:
    return dict(made_from) | {"steps": steps, "legato": legato.__version__}


def _export(function: nn.Module, memory: list[Tensor], given: Mapping[str, Tensor], output: str) -> bytes:
    log = logging.getLogger("torch.onnx")  # says of other packages that they are not installed
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's about itself
            program = torch.onnx.export(
                function.eval(), (*given.values(), *memory), dynamo=True, opset_version=OPSET, verbose=False,
                input_names=[*given, *(f"memory.{i}" for i in range(len(memory)))],
                output_names=[output, *(f"after.{i}" for i in range(len(memory)))],
            )
    finally:
        log.setLevel(level)
    assert program is not None
    model = program.model_proto
    for node in model.graph.node:  # where in our source each stems from: paths of this machine, and half of the names
        del node.metadata_props[:]
    return model.SerializeToString()


def _session(model: bytes, threads: int) -> InferenceSession:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3  # errors; it warns of what it optimises away
    # Threads that spin between two frames take the cores from the backbone.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
