"""Weights and their manifest in one folder: saved whole or not at all, checked byte by byte on every load.

    folder/manifest.json              name, kind, files {file: sha256}, recipe, sources, created, config
    folder/weights-<12 hex>.safetensors

Files carry the start of their own SHA-256 in their names, so a new version never overwrites the old one's bytes: it is
written beside it, and the manifest, replaced last in one step, decides which is in force. A process killed at any
moment leaves the old version or the new one (and perhaps a file that no manifest lists). Only safetensors is read: a
pickle can run code. What was promoted and which artifact may serve is not decided here. Also here: int8 packing, in
which weights are shipped.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from legato.errors import ArtifactError, ChecksumMismatch

if TYPE_CHECKING:
    import torch

MANIFEST = "manifest.json"
_PICKLES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt")


@dataclass(frozen=True)
class Source:
    """Something an artifact was made from: where it came from, under which licence, and the bytes that were used."""

    name: str
    revision: str
    licence: str
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What an artifact is and which bytes it consists of.

    name: for people and records; kind: what loads it (mapper, residual, projector ...); files: stored name -> SHA-256;
    recipe: the run that made it; created: UTC, ISO 8601; config: plain JSON values; folder: where it was read or
    written, not part of the file.
    """

    name: str
    kind: str
    files: dict[str, str]
    recipe: str
    sources: tuple[Source, ...]
    created: str
    config: dict[str, Any]
    folder: Path = field(compare=False)

    @property
    def sha256(self) -> str:
        """Identity of the artifact: SHA-256 over everything but the time of creation, the config included."""
        content = {key: value for key, value in self.as_json().items() if key != "created"}
        return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def path(self, name: str) -> Path:
        """Where the file saved as `name` lies ("tokenizer.json" is stored as "tokenizer-<12 hex>.json")."""
        for stored, digest in self.files.items():
            if stored in (name, _stored_name(name, digest)):
                return self.folder / stored
        raise ArtifactError(f"{self.folder} holds no file {name}; it has {', '.join(sorted(self.files))}.")

    def as_json(self) -> dict[str, Any]:
        content = asdict(self)
        del content["folder"]
        return content | {"sources": list(content["sources"])}


def save(
    folder: str | os.PathLike[str],
    tensors: Mapping[str, torch.Tensor],
    *,
    name: str,
    kind: str,
    config: Mapping[str, Any],
    recipe: str = "",
    sources: tuple[Source, ...] = (),
    extra: Mapping[str, bytes] | None = None,
) -> Manifest:
    """Write tensors (and extra files, such as a tokenizer) as one artifact, replacing an older one in the folder.

    Tensors are stored on the CPU, contiguous, under their names. Raises ArtifactError when the files cannot be written
    (full disk, no permission); the older version is then untouched and still in force.
    """
    from safetensors.torch import save as to_bytes

    folder = Path(folder)
    blobs = dict(extra or {})
    assert "weights.safetensors" not in blobs
    blobs["weights.safetensors"] = to_bytes({key: t.detach().cpu().contiguous() for key, t in tensors.items()})
    digests = {plain: hashlib.sha256(blob).hexdigest() for plain, blob in blobs.items()}
    manifest = Manifest(
        name=name,
        kind=kind,
        files={_stored_name(plain, digest): digest for plain, digest in sorted(digests.items())},
        recipe=recipe,
        sources=tuple(sources),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        config=dict(config),
        folder=folder,
    )
    text = json.dumps(manifest.as_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = _older_files(folder)
        for plain, blob in blobs.items():
            target = folder / _stored_name(plain, digests[plain])
            if target.name not in before:
                written.append(target)
            write_atomic(target, blob)
        write_atomic(folder / MANIFEST, text.encode())
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise ArtifactError(
            f"cannot save {name} in {folder}: {error.strerror}; what was there before is untouched; "
            "make room or choose another folder."
        ) from None
    for stored in before - set(manifest.files):
        (folder / stored).unlink(missing_ok=True)
    return manifest


def load(folder: str | os.PathLike[str]) -> tuple[dict[str, torch.Tensor], Manifest]:
    """Read an artifact: all tensors of its safetensors files by name (CPU, own memory), and its manifest.

    Every file is read once, held against its recorded SHA-256, and decoded from those same bytes. Raises
    ChecksumMismatch (file, expected, found), or ArtifactError for anything missing, malformed or unsafe.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    manifest = read_manifest(folder)
    tensors: dict[str, torch.Tensor] = {}
    for stored, expected in manifest.files.items():
        path = manifest.folder / stored
        try:
            blob = path.read_bytes()
        except FileNotFoundError:
            raise ArtifactError(f"{path} is missing although {MANIFEST} lists it; restore the artifact.") from None
        except OSError as error:
            raise ArtifactError(f"cannot read {path}: {error.strerror}.") from None
        found = hashlib.sha256(blob).hexdigest()
        if found != expected:
            raise ChecksumMismatch(str(path), expected, found)
        if path.suffix != ".safetensors":
            continue
        try:
            part = from_bytes(blob)
        except SafetensorError as error:
            raise ArtifactError(f"{path} is not a whole safetensors file ({error}); save the artifact again.") from None
        if twice := tensors.keys() & part.keys():
            raise ArtifactError(f"{path} repeats the tensor {min(twice)} of another file; save the artifact again.")
        tensors |= part
    return tensors, manifest


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Read and check manifest.json alone: keys, types, file names and hashes. Reads no weights."""
    folder = Path(folder)
    path = folder / MANIFEST
    if folder.suffix in _PICKLES:
        raise ArtifactError(f"{folder} looks like a pickle, which can run code; give a folder saved by Legato.")
    try:
        content = json.loads(path.read_bytes())
        json.dumps(content, ensure_ascii=False).encode()  # half of a surrogate pair is no text: `sha256` could not be
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(f"there is no artifact at {folder}: {MANIFEST} is missing; check the path.") from None
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is not JSON ({error}); restore the artifact.") from None
    keys = {f.name: f.type for f in fields(Manifest) if f.name != "folder"}
    _check_keys(content, keys, path, "manifest")
    _check(content["files"], path, "it lists no files")
    _check(isinstance(content["sources"], list), path, "sources is not a list")
    for source in content["sources"]:
        _check_keys(source, {f.name: f.type for f in fields(Source)}, path, "source")
    for stored, digest in content["files"].items():
        parts = PurePosixPath(stored).parts
        _check(parts and not stored.startswith("/") and ".." not in parts, path, f"file {stored!r} leaves the folder")
        _check(
            isinstance(digest, str) and len(digest) == 64 and set(digest) <= set("0123456789abcdef"),
            path,
            f"file {stored} has no SHA-256 but {digest!r}",
        )
        if PurePosixPath(stored).suffix in _PICKLES:
            raise ArtifactError(f"{path} lists {stored}, a pickle, which can run code; only safetensors is read.")
    return Manifest(**content | {"sources": tuple(Source(**s) for s in content["sources"]), "folder": folder})


def _check_keys(content: object, keys: Mapping[str, str], path: Path, what: str) -> None:
    """A JSON object with exactly these keys; those annotated str or dict must be such."""
    _check(isinstance(content, dict), path, f"the {what} is not an object")
    assert isinstance(content, dict)
    listed = ", ".join(keys)
    if unknown := sorted(content.keys() - keys.keys()):
        raise ArtifactError(f"{path} has the unknown {what} key {unknown[0]!r}; known are {listed}.")
    if missing := sorted(keys.keys() - content.keys()):
        raise ArtifactError(f"{path} lacks the {what} key {missing[0]!r}; needed are {listed}.")
    for key, kind in keys.items():
        wanted = {"str": str, "dict": dict}.get(kind.split("[")[0])
        _check(wanted is None or isinstance(content[key], wanted), path, f"{what} key {key!r} is not a {kind}")


def _check(right: object, path: Path, complaint: str) -> None:
    if not right:
        raise ArtifactError(f"{path} is malformed: {complaint}; restore the artifact.")


def _stored_name(name: str, digest: str) -> str:
    path = PurePosixPath(name)
    return str(path.with_name(f"{path.stem}-{digest[:12]}{path.suffix}"))


def _older_files(folder: Path) -> set[str]:
    """What the manifest now in force lists; nothing where there is none, or none that can be read."""
    try:
        return set(read_manifest(folder).files)
    except ArtifactError:
        return set()


def sha256_file(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file of any size, read in pieces. Raises OSError like open."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Put bytes at `path` on disk in one step: readers see the old file or the new one. Raises OSError."""
    path = Path(path)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(scratch, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the rename itself is only on disk once its folder is
        parent = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)


def pack_int8(weight: torch.Tensor, group: int = 64) -> dict[str, torch.Tensor]:
    """Symmetric int8 with one fp16 scale per `group` input columns.

    weight: (O, I) float, finite, |w| < 8e6. Returns q: int8 (O, I) and scale: float16 (O, ceil(I / group)).
    Error bound: |w - unpacked| <= scale / 2 for each entry (plus fp32 rounding), since the scale is rounded up.
    """
    import torch

    rows, columns = weight.shape
    groups = -(-columns // group)
    w = torch.nn.functional.pad(weight.float(), (0, groups * group - columns)).view(rows, groups, group)
    exact = w.abs().amax(-1) / 127  # (rows, groups)
    assert bool(exact.isfinite().all()) and float(exact.max()) <= torch.finfo(torch.float16).max, "weight out of range"
    scale = exact.half()
    up = torch.nextafter(scale, torch.full_like(scale, torch.inf))
    scale = torch.where(scale.float() < exact, up, scale)
    step = scale.float().clamp_min(2**-24).unsqueeze(-1)  # fp16's least; only a group of zeros has less
    q = torch.round(w / step)
    return {"q": q.to(torch.int8).view(rows, groups * group)[:, :columns].contiguous(), "scale": scale}


def unpack_int8(packed: Mapping[str, torch.Tensor], group: int = 64) -> torch.Tensor:
    """The float32 (O, I) weight of `pack_int8` with the same group."""
    q, scale = packed["q"], packed["scale"]
    assert -(-q.shape[1] // group) == scale.shape[1], f"scales {tuple(scale.shape)} do not fit groups of {group}"
    return q.float() * scale.float().repeat_interleave(group, dim=1)[:, : q.shape[1]]


def pack_module(module: torch.nn.Module, group: int = 64) -> dict[str, torch.Tensor]:
    """A module's state as it is shipped: what has two dimensions and more as int8 rows, all else as float16.

    Kernels and stacks of matrices are rows of their last dimension. Whole numbers and booleans stay what they are.
    """
    packed: dict[str, torch.Tensor] = {}
    for name, tensor in module.state_dict().items():
        if not tensor.is_floating_point():
            packed[name] = tensor
        elif tensor.dim() < 2 or tensor.shape[-1] < group // 2:  # short rows would be half scales
            packed[name] = tensor.half()
        else:
            parts = pack_int8(tensor.flatten(0, -2), group)
            packed |= {f"{name}.{part}": value for part, value in parts.items()}
    return packed


def fill_module(module: torch.nn.Module, packed: Mapping[str, torch.Tensor], group: int = 64) -> None:
    """Put back what `pack_module` gave, in the module's own shapes and types.

    Raises ArtifactError when names or sizes are another module's.
    """
    state = {}
    for name, tensor in module.state_dict().items():
        found = packed.get(name)
        if found is None and f"{name}.q" in packed:
            found = unpack_int8({part: packed[f"{name}.{part}"] for part in ("q", "scale")}, group)
        if found is None or found.numel() != tensor.numel():
            shape = tuple(tensor.shape)
            raise ArtifactError(f"the stored weights hold no {name} of {shape}; they are another model's.")
        state[name] = found.view(tensor.shape).to(tensor.dtype)
    module.load_state_dict(state)
