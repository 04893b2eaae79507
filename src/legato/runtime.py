"""The one place that picks device, dtype, threads and seeds, and says why. It loads no model and moves no tensor.

Settings come from arguments, then from LEGATO_DEVICE, LEGATO_DTYPE and LEGATO_THREADS, then from the machine.
"""

from __future__ import annotations

import os
import platform
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.errors import BadInput

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16", "float16")
_BF16_FLAGS = {"avx512_bf16", "amx_bf16"}  # as /proc/cpuinfo spells them


@dataclass(frozen=True)
class Runtime:
    """Where and how to compute. reason: one sentence on where each of the three came from."""

    device: torch.device
    dtype: torch.dtype
    threads: int
    reason: str

    def apply(self) -> Runtime:
        """Set torch's thread count for this process; returns itself."""
        import torch

        torch.set_num_threads(self.threads)
        return self

    def describe(self) -> dict[str, Any]:
        """Plain JSON values for records: machine, versions and what was chosen."""
        import torch

        accelerator = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else None
        return {
            "cpu": cpu_name(),
            "cores": physical_cores(),
            "accelerator": accelerator,
            "device": str(self.device),
            "dtype": str(self.dtype).removeprefix("torch."),
            "threads": self.threads,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "reason": self.reason,
        }


def choose(device: str | None = None, dtype: str | None = None, threads: int | str | None = None) -> Runtime:
    """Pick what is asked for, else what this machine does best; BadInput lists what is allowed.

    device: cpu (default), cuda, cuda:N or mps. dtype: float32, bfloat16 or float16; by default bfloat16 where the
    device multiplies it natively, else float32 (float16 on older CUDA GPUs). threads: 1 to the number of logical CPUs;
    by default the physical cores that this process may use. Changes nothing until `Runtime.apply`.
    """
    import torch

    device, why_device = _asked(device, "device", "LEGATO_DEVICE")
    dtype, why_dtype = _asked(dtype, "dtype", "LEGATO_DTYPE")
    asked_threads, why_threads = _asked(threads, "threads", "LEGATO_THREADS")

    chosen = torch.device("cpu") if device is None else _device(device, why_device)
    if dtype is None:
        dtype, why_dtype = _best_dtype(chosen)
    elif dtype not in DTYPES:
        raise BadInput(f"{why_dtype} {dtype!r} is not a number format that can be used; choose {', '.join(DTYPES)}.")
    if asked_threads is None:
        count, why_threads = physical_cores(), "physical cores open to this process"
    else:
        most = os.cpu_count() or 1
        if not re.fullmatch(r"[0-9]{1,6}", str(asked_threads)) or not 1 <= int(asked_threads) <= most:
            raise BadInput(
                f"{why_threads} {asked_threads!r} is not a thread count; choose a whole number from 1 to {most}."
            )
        count = int(asked_threads)
    reason = f"{chosen} ({why_device or 'default'}), {dtype} ({why_dtype}), {count} threads ({why_threads})"
    return Runtime(chosen, getattr(torch, dtype), count, reason)


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and torch (all devices). seed: 0 to 2**32 - 1, numpy's range."""
    if not 0 <= seed < 2**32:
        raise BadInput(f"the seed {seed} is out of range; choose a whole number from 0 to {2**32 - 1}.")
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _asked(value: Any, argument: str, variable: str) -> tuple[Any, str]:
    """(value, where it was asked for): the argument, else the environment variable, else (None, "")."""
    if value is not None:
        return value, argument
    found = os.environ.get(variable)
    return (found, variable) if found else (None, "")


def _device(device: str, asked: str) -> torch.device:
    import torch

    here = ["cpu"]
    if torch.cuda.is_available():
        here += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        here.append("mps")
    if device not in here:
        raise BadInput(f"{asked} {device!r} is not a device of this machine; choose {', '.join(here)}.")
    return torch.device(device)


def _best_dtype(device: torch.device) -> tuple[str, str]:
    import torch

    if device.type == "cuda":
        # Emulated bfloat16 answers True by default; from Ampere on it is native.
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        return ("bfloat16", "native on this GPU") if native else ("float16", "no native bfloat16 on this GPU")
    if device.type == "mps":
        return "float32", "default on mps"
    flags = sorted(_BF16_FLAGS & cpu_flags())
    if flags and torch.backends.mkldnn.is_available():  # the bfloat16 kernels are oneDNN's
        return "bfloat16", f"the CPU has {flags[0]}"
    return "float32", "no native bfloat16 on this CPU"


def cpu_flags(root: Path = Path("/")) -> set[str]:
    """Instruction sets of the CPU by the kernel's names; empty where /proc/cpuinfo does not list any.

    The kernel is asked, not torch: torch's questions are private and moved between its releases.
    """
    return set(_cpuinfo(root, "flags").split())


def cpu_name(root: Path = Path("/")) -> str:
    """What the CPU calls itself, or the architecture."""
    return _cpuinfo(root, "model name") or platform.processor() or platform.machine()


def physical_cores(root: Path = Path("/")) -> int:
    """Cores this process may use: affinity, hyperthreads counted once, cut to the cgroup's CPU quota; at least 1."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = _text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings or str(cpu))
    quota = cpu_quota(root)
    return max(1, len(cores) if quota is None else min(len(cores), int(quota)))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPUs' worth of time that cgroups (v1 or v2) grant this process, the tightest of all levels; None if unlimited."""
    quotas = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base = root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            base = root / "sys/fs/cgroup" / controllers
        else:
            continue
        level = base / path.lstrip("/")
        for folder in (level, *level.parents):
            if not folder.is_relative_to(base):
                break
            grant = _text(folder / "cpu.max").split()
            if not grant:
                grant = [_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")]
            if grant[0].isdigit() and grant[1].isdigit():  # "max" and -1 mean unlimited
                quotas.append(int(grant[0]) / int(grant[1]))
    return min(quotas, default=None)


def _cpuinfo(root: Path, key: str) -> str:
    found = re.search(rf"^{key}\s*:\s*(.*)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return found.group(1).strip() if found else ""


def _text(path: Path) -> str:
    """The file's text without its last newline, or nothing: the kernel does not have every file everywhere."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
