"""Which way of multiplying a row by a matrix reads memory fastest here? The evidence behind `legato.stepper._as_read`.

    python benchmarks/products.py [--threads 1 2] [--repeats 5]

Shapes are those of SmolLM2-135M (N outputs, K inputs). Each is measured over as many different matrices as fill 200 MB,
so that no cache can help. Printed is the best of the repeats in GB/s of weights: the other uses of the machine only
ever slow a run down.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from legato import runtime

SHAPES = {"qkv": (960, 576), "out": (576, 576), "gate_up": (3072, 576), "down": (576, 1536), "head": (49152, 576)}
FILL = 200e6


def ways(dtype: torch.dtype, N: int, K: int, slices: int) -> dict[str, tuple[Callable[[Tensor], Tensor], Callable]]:
    """name -> (lay a weight (N, K) out, multiply by it)."""
    x, y = torch.randn(1, K).to(dtype), torch.empty(1, N, dtype=dtype)
    sliced_x, sliced_y = x.expand(slices, 1, K), torch.empty(slices, 1, N // slices, dtype=dtype)
    return {
        "F.linear (N, K)": (lambda w: w, lambda w: F.linear(x, w)),
        "mm (N, K)": (lambda w: w, lambda w: torch.mm(x, w.t(), out=y)),
        "mv (N, K)": (lambda w: w, lambda w: torch.mv(w, x[0], out=y[0])),
        "mm (K, N)": (lambda w: w.t().contiguous(), lambda w: torch.mm(x, w, out=y)),
        f"bmm ({slices}, K, N/{slices})": (lambda w: w.view(slices, N // slices, K).transpose(1, 2).contiguous(),
                                           lambda w: torch.bmm(sliced_x, w, out=sliced_y)),
    }


def best(multiply: Callable, weights: list[Tensor], repeats: int) -> float:
    """-> bytes of weights per second, best of the repeats."""
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        for weight in weights:
            multiply(weight)
        times.append(time.perf_counter() - start)
    return sum(w.nbytes for w in weights) / min(times[1:])


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, runtime.physical_cores()}))
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    print(f"{runtime.cpu_name()}, torch {torch.__version__}; GB/s of weights")
    for threads in asked.threads:
        torch.set_num_threads(threads)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            title = f"{str(dtype).removeprefix('torch.')}, {threads} threads"
            print(f"\n{title:33}" + "".join(f"{shape:>9}" for shape in SHAPES))
            table: dict[str, list[float]] = {}
            for N, K in SHAPES.values():
                count = max(1, int(FILL / (N * K * dtype.itemsize)))
                weights = [torch.randn(N, K).mul_(0.02).to(dtype) for _ in range(count)]
                for name, (lay_out, multiply) in ways(dtype, N, K, threads).items():
                    if dtype == torch.float16 and "(N, K)" not in name:
                        continue  # no fast kernel; minutes
                    rate = best(multiply, [lay_out(w) for w in weights], asked.repeats)
                    table.setdefault(name, []).append(rate / 1e9)
            for name, values in table.items():
                print(f"  {name:31}" + "".join(f"{value:9.1f}" for value in values))


if __name__ == "__main__":
    main()
