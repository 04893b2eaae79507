"""One frame's rendering: the head in two steps against the depth transformer in 16 stages, same threads, in turn.

    python benchmarks/render.py [--geometry pocket kyutai] [--threads 1] [--repeats 30] [--json]

Random weights: speed does not depend on them. "pocket" is the shipped geometry, unguided. "kyutai" is that of Kyutai
TTS 1.6B: a depth transformer of four layers, 1024 wide, with nine weight sets for 16 codebooks (565 M parameters in its
32-codebook whole, see --json for what is built here), behind a backbone state of 2048; the head is 1024 wide. What is
printed are medians with quartiles, the ratio with a bootstrap interval over repeats, and the bytes of weights that each
must read.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from legato.evaluate.speed import ratio, spread
from legato.pocket.ring import Ring
from legato.speak.head import Head, HeadConfig
from legato.speak.rendering import Rendering
from legato.transformer import Transformer, TransformerConfig

WARM_UP = 3


@dataclass(frozen=True)
class Geometry:
    """What is timed: the depth model's one weight set, which set each stage uses, and the head."""

    depth: TransformerConfig
    sets: tuple[int, ...]  # of each stage
    entries: int
    state: int
    head: HeadConfig
    steps: int = 2


GEOMETRIES = {
    "pocket": Geometry(TransformerConfig(4, 192, 3, 3, 64, 512, 8), (0,) * 16, 512, 320, HeadConfig(128, 320)),
    "kyutai": Geometry(
        TransformerConfig(4, 1024, 16, 16, 64, 3072, 8), (0, 1, 2, 3, 4, 5, 6, 7, *(8,) * 8), 2048, 2048,
        HeadConfig(512, 2048, width=1024, layers=5, history=1),
    ),
}


class Depth:
    """A depth transformer whose stages have weight sets of their own and one memory."""

    def __init__(self, geometry: Geometry) -> None:
        g = geometry
        width = g.depth.width
        self.models = [Transformer(g.depth).requires_grad_(False) for _ in range(max(g.sets) + 1)]
        self.rings = [Ring(model, 1, len(g.sets)) for model in self.models]
        for ring in self.rings[1:]:
            ring.keys, ring.values = self.rings[0].keys, self.rings[0].values
        self.sets = g.sets
        self.hand_down = [nn.Linear(g.state, width).requires_grad_(False) for _ in self.models]
        self.heads = [torch.randn(width, g.entries) * width**-0.5 for _ in g.sets]
        self.codes = [torch.randn(g.entries, width) for _ in g.sets]

    @property
    def size(self) -> int:
        parts = [*self.models, *self.hand_down]
        return sum(p.numel() for m in parts for p in m.parameters()) + sum(h.numel() for h in self.heads + self.codes)

    @torch.inference_mode()
    def frame(self, h: Tensor) -> list[int]:
        drawn, before = [], None
        handed = [hand_down(h) for hand_down in self.hand_down]
        for stage, which in enumerate(self.sets):
            ring = self.rings[which]
            ring.length = stage
            x = handed[which] if before is None else handed[which] + before
            code = int((ring.step(x) @ self.heads[stage]).argmax())
            drawn.append(code)
            before = self.codes[stage][code]
        return drawn


def measure(name: str, repeats: int) -> dict[str, object]:
    g = GEOMETRIES[name]
    torch.manual_seed(0)
    depth, head = Depth(g), Head(g.head).requires_grad_(False).eval()
    h, past = torch.randn(1, g.state), torch.randn(1, g.head.history, g.head.latent)
    noise, rendering = torch.randn(1, g.head.latent), Rendering(head, g.steps)
    times: dict[str, list[float]] = {"depth": [], "head": []}
    for _ in range(WARM_UP + repeats):
        begun = time.perf_counter()
        depth.frame(h)
        half = time.perf_counter()
        rendering(h[0], past, 0, noise)
        times["depth"].append(1000 * (half - begun))
        times["head"].append(1000 * (time.perf_counter() - half))
    return {
        "threads": torch.get_num_threads(),
        "parameters": {"depth": depth.size, "head": head.size},
        "stages": len(g.sets),
        "steps": g.steps,
        "ms": {side: asdict(spread(taken, warm_up=WARM_UP)) for side, taken in times.items()},
        "depth_to_head": asdict(ratio(times["depth"], times["head"], warm_up=WARM_UP)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--geometry", nargs="+", choices=GEOMETRIES, default=list(GEOMETRIES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    found = {name: measure(name, args.repeats) for name in args.geometry}
    if args.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        sizes, ms, times = figures["parameters"], figures["ms"], figures["depth_to_head"]
        print(f"{name}, {figures['threads']} thread(s)")
        for side in ("depth", "head"):
            s = ms[side]
            print(f"  {side:<6} {sizes[side] / 1e6:7.1f} M parameters  {s['median']:8.2f} ms  "
                  f"({s['q1']:.2f} to {s['q3']:.2f}, n = {s['n']})")
        print(f"  depth : head  {times['value']:.1f}  ({times['low']:.1f} to {times['high']:.1f})")


if __name__ == "__main__":
    main()
