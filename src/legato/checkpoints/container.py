"""The GGUF container: its metadata, and its tensors as the bytes they are stored in. No meaning is given to either.

The package `gguf` has a reader too; it makes a numpy view of every token of a vocabulary (1.7 s for 49,152, against
0.1 s here, at every start) and trusts the lengths it reads. From it we take the quantisation tables and arithmetic.
Layout: the GGUF specification, versions 2 and 3, little-endian (ggml, docs/gguf.md).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from legato.errors import ArtifactError, BadInput, OrganMismatch

_SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}  # value type -> struct letter
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a file."""

    name: str
    kind: GGMLQuantizationType
    data: np.ndarray  # uint8 (..., bytes of a row), mapped from the file; leading sizes as torch has them

    def dequantised(self) -> np.ndarray:
        """-> float32, own memory. Raises OrganMismatch for a quantisation that has no inverse here."""
        try:
            return np.array(dequantize(self.data, self.kind), dtype=np.float32)
        except NotImplementedError:
            raise OrganMismatch(f"{self.name} is stored as {self.kind.name}, which cannot be dequantised; "
                                "give a file in another quantisation.") from None


def read_gguf(path: Path) -> tuple[dict[str, Any], list[StoredTensor]]:
    """-> metadata by name, and all tensors.

    Raises: BadInput if there is no such file; ArtifactError if it is not GGUF, cut short, or its lengths are wrong.
    """
    if not path.is_file():
        raise BadInput(f"{path} is not a file; give the path of a GGUF model.")
    content = path.read_bytes() if path.stat().st_size < 4 else np.memmap(path, np.uint8, "r")
    scan = _Scan(memoryview(content), path.name)
    if bytes(scan.bytes[:4]) != b"GGUF":
        raise ArtifactError(f"{path.name} is no GGUF file, it begins with {bytes(scan.bytes[:4])!r}; give a GGUF file.")
    try:
        return _parse(scan)
    except (struct.error, UnicodeDecodeError, ValueError, KeyError, OverflowError) as error:
        raise ArtifactError(f"{path.name} is damaged near byte {scan.at} ({error}); fetch it again.") from error


def _parse(scan: _Scan) -> tuple[dict[str, Any], list[StoredTensor]]:
    scan.at = 4
    if (version := scan.scalar("I")) not in (2, 3):
        raise OrganMismatch(f"{scan.name} is GGUF version {version:#x}, but only 2 and 3, little-endian, are read.")
    tensors, entries = scan.scalar("Q"), scan.scalar("Q")
    meta = {}
    for _ in range(entries):
        name = scan.string()
        meta[name] = scan.value(scan.scalar("I"))
    headers = []
    for _ in range(tensors):
        name = scan.string()
        shape = [scan.scalar("Q") for _ in range(scan.scalar("I"))]
        headers.append((name, shape[::-1], scan.scalar("I"), scan.scalar("Q")))
    alignment = meta.get("general.alignment", 32)
    start = -(-scan.at // alignment) * alignment
    return meta, [_tensor(scan, start, *header) for header in headers]


def _tensor(scan: _Scan, start: int, name: str, shape: list[int], kind: int, offset: int) -> StoredTensor:
    quantisation = GGMLQuantizationType(kind)
    block, size = GGML_QUANT_SIZES[quantisation]
    if not shape or shape[-1] % block:
        raise ValueError(f"{name} of shape {shape} cannot be stored as {quantisation.name}")
    shape = [*shape[:-1], shape[-1] // block * size]
    scan.at = start + offset
    return StoredTensor(name, quantisation, scan.array(np.dtype(np.uint8), math.prod(shape)).reshape(shape))


class _Scan:
    """A place in the file that moves on as things are read, and never past the end."""

    def __init__(self, content: memoryview, name: str) -> None:
        self.bytes, self.name, self.at = content, name, 0

    def scalar(self, letter: str) -> Any:
        (value,) = struct.unpack_from("<" + letter, self.bytes, self.at)
        self.at += struct.calcsize("<" + letter)
        return value

    def string(self) -> str:
        length = self.scalar("Q")
        if self.at + length > len(self.bytes):
            raise ValueError(f"a string of {length} bytes reaches past the end")
        self.at += length
        return str(self.bytes[self.at - length : self.at], "utf-8")

    def array(self, dtype: np.dtype, count: int) -> np.ndarray:
        values = np.frombuffer(self.bytes, dtype, count, self.at)
        self.at += values.nbytes
        return values

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.scalar(_SCALARS[kind])
        kind, count = self.scalar("I"), self.scalar("Q")
        if kind in _SCALARS:
            return self.array(np.dtype("<" + _SCALARS[kind]), count).tolist()
        return [self.value(kind) for _ in range(count)]
