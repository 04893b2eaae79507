"""Renderers over a port: ONNX Runtime computes, on buffers that were made once.

Every function has two sets of memory: it reads one and writes the other, and at the next frame the other way round, so
nothing is copied. All inputs and outputs are bound beforehand. Noise is drawn by torch as `render` draws it: the same
seed gives the same sound as there, to 1e-4.

Shapes: C state width, D width of the decoder's latent, S samples of a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from legato.organs import Codec
from legato.speak.harness import Frame
from legato.speak.history import DROPPED, bucket
from legato.speak.port import Function, Port
from legato.speak.render import HeadRenderer


class Running:
    """A function in the middle of an utterance: reads `given` and writes `made` at every call."""

    def __init__(self, function: Function, given: Mapping[str, Tensor], made: Mapping[str, Tensor]) -> None:
        self._session = function.session
        self._turn = 0
        sets = [[tensor.clone() for tensor in function.memory] for _ in range(2)]
        self._bindings = [self._bind(given, made, sets[i], sets[1 - i]) for i in range(2)]
        self._alive = (sets, given, made)  # bindings hold addresses only

    def _bind(self, given: Mapping[str, Tensor], made: Mapping[str, Tensor], read: list[Tensor], write: list[Tensor]):
        binding = self._session.io_binding()
        for name, tensor in (given | {f"memory.{i}": tensor for i, tensor in enumerate(read)}).items():
            binding.bind_input(name, **_place(tensor))
        for name, tensor in (made | {f"after.{i}": tensor for i, tensor in enumerate(write)}).items():
            binding.bind_output(name, **_place(tensor))
        return binding

    def __call__(self) -> None:
        self._session.run_with_iobinding(self._bindings[self._turn])
        self._turn = 1 - self._turn


def _place(tensor: Tensor) -> dict[str, object]:
    assert tensor.is_contiguous()
    dtype = {torch.float32: np.float32, torch.int64: np.int64}[tensor.dtype]
    return {
        "device_type": "cpu", "device_id": 0, "element_type": dtype, "shape": tuple(tensor.shape),
        "buffer_ptr": tensor.data_ptr(),
    }


class PortedStream:
    """A `CodecStream` of one row. What comes back for one frame is a view that the next call overwrites."""

    def __init__(self, codec: Function) -> None:
        sizes = {at.name: at.shape for at in (*codec.session.get_inputs(), *codec.session.get_outputs())}
        self.z, self.samples = torch.zeros(sizes["z"]), torch.zeros(sizes["samples"])
        self.run = Running(codec, {"z": self.z}, {"samples": self.samples})

    def __call__(self, z: Tensor) -> Tensor:
        """z (1, D, F) -> audio (1, S F)."""
        assert len(z) == 1, "a port streams one row"
        if z.shape[2] != 1:
            return torch.cat([self(frame).clone() for frame in z.split(1, dim=2)], dim=1)
        self.z.copy_(z[:, :, 0])
        self.run()
        return self.samples


@dataclass(frozen=True)
class PortedCodec:
    """As much of a codec as `DepthRenderer` reads: the codes looked up in torch, the decoder ported."""

    codec: Codec
    port: Port

    def lookup(self, codes: Tensor) -> Tensor:
        return self.codec.lookup(codes)

    def stream(self) -> PortedStream:
        return PortedStream(self.port.codec)


@dataclass(frozen=True)
class PortedRenderer:
    """`HeadRenderer` over a port, with the same settings. The samples are a view that the next frame overwrites."""

    port: Port
    temperature: float = HeadRenderer.temperature
    level: float = HeadRenderer.level
    seed: int = HeadRenderer.seed

    def start(self) -> Callable[[Frame], Tensor]:
        head, stream = self.port.head, PortedStream(self.port.codec)
        sizes = {at.name: at.shape for at in head.session.get_inputs()}
        state, spoil, noise = (torch.zeros(sizes[name]) for name in ("state", "spoil", "noise"))
        level, told = torch.tensor([self.level]), torch.tensor([DROPPED])
        given = {"state": state, "level": level, "told": told, "spoil": spoil, "noise": noise}
        run = Running(head, given, {"z": stream.z})
        draw = torch.Generator().manual_seed(self.seed)
        bucketed = int(bucket(level))

        def render(frame: Frame) -> Tensor:
            state[0].copy_(frame.state)
            spoil.normal_(generator=draw)
            noise.normal_(generator=draw).mul_(self.temperature**0.5)
            run()
            told.fill_(bucketed)
            stream.run()
            return stream.samples

        return render
