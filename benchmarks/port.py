"""One frame's sound in torch against ONNX Runtime: head and codec decoder at the shipped sizes, same threads, in turn.

    python benchmarks/port.py [--threads 1 2] [--repeats 200] [--json]

Random weights: speed does not depend on them. "frame" is all that a renderer does with the backbone's state, "decoder"
its second half, one latent to 1920 samples; the port is exported anew into a temporary folder. What is printed are
medians with quartiles, the ratio with a bootstrap interval over repeats, and the largest difference of a sample. Heard,
a frame lasts 80 ms. On a busy machine two threads of torch wait for each other: that ratio says little.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import torch

from legato.evaluate.speed import ratio, spread
from legato.pocket.codec import Codec
from legato.pocket.codec_step import DecoderStep
from legato.speak.entrance import Entrance, Statistics
from legato.speak.harness import Frame
from legato.speak.head import Head, HeadConfig
from legato.speak.port import load_port, save_port
from legato.speak.ported import PortedRenderer, PortedStream
from legato.speak.render import HeadRenderer

WARM_UP = 10
STATE, STEPS = 320, 2  # of the shipped voice and head
MADE_FROM = {"head": "random", "codec": "random"}


def organs() -> tuple[Head, Entrance]:
    torch.manual_seed(0)
    codec = Codec().requires_grad_(False).eval()
    head = Head(HeadConfig(codec.projected, STATE)).requires_grad_(False).eval()
    for p in head.parameters():  # fresh, it gives nothing; larger, its own past blows up
        torch.nn.init.normal_(p, std=0.4 * p.shape[-1] ** -0.5)
    return head, Entrance(codec, Statistics(torch.zeros(codec.projected), torch.ones(codec.projected)))


def measure(folder: Path, head: Head, entrance: Entrance, threads: int, repeats: int) -> dict[str, object]:
    torch.set_num_threads(threads)
    port = load_port(folder, steps=STEPS, made_from=MADE_FROM, threads=threads)
    renders = {"torch": HeadRenderer(head, entrance, STEPS).start(), "onnx": PortedRenderer(port).start()}
    streams = {"torch": entrance.codec.stream(), "onnx": PortedStream(port.codec)}
    times: dict[str, dict[str, list[float]]] = {part: {side: [] for side in renders} for part in ("frame", "decoder")}
    apart = 0.0
    for index in range(WARM_UP + repeats):
        frame, z = Frame(index, torch.randn(STATE), torch.empty(0)), torch.randn(1, entrance.codec.width, 1)
        for part, sides, given in (("frame", renders, frame), ("decoder", streams, z)):
            said = {}
            for side, run in sides.items():
                begun = time.perf_counter()
                said[side] = run(given)
                times[part][side].append(1000 * (time.perf_counter() - begun))
            apart = max(apart, float((said["torch"] - said["onnx"]).abs().max()))
    return {
        "threads": threads,
        "ms": {
            part: {side: asdict(spread(taken, warm_up=WARM_UP)) for side, taken in sides.items()}
            for part, sides in times.items()
        },
        "torch_to_onnx": {
            part: asdict(ratio(sides["torch"], sides["onnx"], warm_up=WARM_UP)) for part, sides in times.items()
        },
        "apart": apart,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    head, entrance = organs()
    with tempfile.TemporaryDirectory() as folder:
        save_port(Path(folder), head, entrance, DecoderStep(entrance.codec), steps=STEPS, made_from=MADE_FROM)
        found = [measure(Path(folder), head, entrance, threads, args.repeats) for threads in args.threads]
    if args.json:
        print(json.dumps(found))
        return
    for figures in found:
        print(f"{figures['threads']} thread(s), largest difference {figures['apart']:.1e}")
        for part, sides in figures["ms"].items():
            for side, s in sides.items():
                print(f"  {part:<8} {side:<6} {s['median']:7.2f} ms  ({s['q1']:.2f} to {s['q3']:.2f}, n = {s['n']})")
            times = figures["torch_to_onnx"][part]
            print(f"  {part:<8} torch : onnx  {times['value']:.2f}  ({times['low']:.2f} to {times['high']:.2f})")


if __name__ == "__main__":
    main()
