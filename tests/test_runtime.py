"""The runtime: asked for, then environment, then machine; machines are folders of kernel files made here."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from legato import runtime
from legato.errors import BadInput
from legato.runtime import choose


def machine(root, files: dict[str, str]):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_arguments_win_over_the_environment_and_the_reason_names_the_winner(monkeypatch):
    monkeypatch.setenv("LEGATO_DTYPE", "float16")
    monkeypatch.setenv("LEGATO_THREADS", "1")
    chosen = choose(dtype="float32")
    assert (chosen.device, chosen.dtype, chosen.threads) == (torch.device("cpu"), torch.float32, 1)
    assert chosen.reason == "cpu (default), float32 (dtype), 1 threads (LEGATO_THREADS)"
    assert choose().dtype == torch.float16
    monkeypatch.setenv("LEGATO_DTYPE", "")  # set and empty is not set
    assert choose(threads="1").dtype in (torch.float32, torch.bfloat16)


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ({"device": "tpu"}, "device 'tpu' is not a device of this machine; choose cpu"),
        ({"device": "cuda:99"}, "'cuda:99' is not a device"),
        ({"dtype": "int4"}, "dtype 'int4' is not a number format that can be used; choose float32, bfloat16, float16"),
        ({"threads": 0}, "threads 0 is not a thread count; choose a whole number from 1 to"),
        ({"threads": -1}, "threads -1"),
        ({"threads": "two"}, "threads 'two'"),
        ({"threads": 10**5}, "threads 100000"),
        ({"threads": "1.5"}, "threads '1.5'"),
    ],
)
def test_bad_settings_list_what_is_allowed(how, complaint, monkeypatch):
    with pytest.raises(BadInput) as caught:
        choose(**how)
    assert complaint in str(caught.value)
    (argument, value), *_ = how.items()
    monkeypatch.setenv(f"LEGATO_{argument.upper()}", str(value))
    with pytest.raises(BadInput, match=f"LEGATO_{argument.upper()} '{value}'"):
        choose()


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ("fpu avx2 avx512_bf16 avx512f", torch.bfloat16),
        ("fpu avx2 amx_bf16 amx_tile", torch.bfloat16),
        ("fpu avx2 avx512f amx_tile", torch.float32),
        ("fpu avx512_bf16_lookalike", torch.float32),
    ],
)
def test_bfloat16_only_where_the_cpu_multiplies_it(tmp_path, monkeypatch, flags, dtype):
    root = machine(
        tmp_path, {"proc/cpuinfo": f"processor : 0\nmodel name\t: Test CPU 9\nflags\t\t: {flags}\nbugs\t: avx512_bf16"}
    )
    found = runtime.cpu_flags(root)
    assert found == set(flags.split()) and runtime.cpu_name(root) == "Test CPU 9"
    monkeypatch.setattr(runtime, "cpu_flags", lambda: found)
    assert choose(threads=1).dtype == dtype
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert choose(threads=1).dtype == torch.float32


def test_the_kernel_and_torch_agree_on_this_machine():
    if not hasattr(torch.cpu, "_is_avx512_bf16_supported"):
        pytest.skip("this torch does not tell")
    if not os.path.exists("/proc/cpuinfo"):
        pytest.skip("this system does not tell")
    assert ("avx512_bf16" in runtime.cpu_flags()) == torch.cpu._is_avx512_bf16_supported()


def test_a_machine_that_tells_nothing_still_runs(tmp_path):
    assert runtime.cpu_flags(tmp_path) == set() and runtime.cpu_name(tmp_path)
    assert runtime.cpu_quota(tmp_path) is None and runtime.physical_cores(tmp_path) >= 1


def test_cores_respect_affinity_and_count_hyperthreads_once(tmp_path, monkeypatch):
    siblings = {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"}
    where = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    root = machine(tmp_path, {where.format(cpu): text for cpu, text in siblings.items()})
    for open_cpus, cores in [(set(range(8)), 4), ({0, 4}, 1), ({0, 1, 4, 6}, 3), ({7}, 1)]:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cpus=open_cpus: cpus)
        assert runtime.physical_cores(root) == cores
    machine(root, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "250000 100000"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert runtime.physical_cores(root) == 2
    machine(root, {"sys/fs/cgroup/cpu.max": "50000 100000"})
    assert runtime.physical_cores(root) == 1


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "150000 100000",
          "sys/fs/cgroup/a/b/cpu.max": "max 100000"}, 1.5),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "300000 100000",
          "sys/fs/cgroup/a/b/cpu.max": "200000 100000"}, 2),
        ({"proc/self/cgroup": "4:memory:/x\n2:cpu,cpuacct:/docker/1\n0::/",
          "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "400000",
          "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000"}, 4),
        ({"proc/self/cgroup": "1:cpu:/", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, None),
        ({"proc/self/cgroup": "3:cpuset:/", "sys/fs/cgroup/cpuset/cpu.max": "1 1"}, None),
    ],
    ids=["v2 unlimited", "v2 parent", "v2 tightest", "v1 in a container", "v1 unlimited", "other controllers"],
)  # fmt: skip
def test_quotas_of_both_cgroup_versions(tmp_path, files, quota):
    assert runtime.cpu_quota(machine(tmp_path, files)) == quota


def test_apply_sets_the_threads_and_choose_does_not():
    most = os.cpu_count()
    if most < 2:
        pytest.skip("one CPU")
    chosen = choose(threads=2)
    assert torch.get_num_threads() == 1
    assert chosen.apply() is chosen and torch.get_num_threads() == 2


def test_describe_is_plain_json_and_says_what_was_chosen():
    said = choose(dtype="float32", threads=1).describe()
    assert json.loads(json.dumps(said)) == said
    assert (said["device"], said["dtype"], said["threads"], said["accelerator"]) == ("cpu", "float32", 1, None)
    assert said["torch"] == torch.__version__ and said["cpu"] and said["cores"] >= 1


def test_the_same_seed_gives_the_same_numbers_everywhere():
    def draw():
        return random.random(), float(np.random.rand()), torch.rand(3).tolist()

    runtime.seed_everything(7)
    first = draw()
    runtime.seed_everything(7)
    assert draw() == first
    runtime.seed_everything(8)
    assert all(a != b for a, b in zip(draw(), first, strict=True))
    for bad in (-1, 2**32):
        with pytest.raises(BadInput, match="out of range; choose a whole number from 0 to 4294967295"):
            runtime.seed_everything(bad)


def test_importing_the_ground_floor_imports_nothing_heavy():
    code = (
        "import sys, legato.runtime, legato.artifacts, legato.audio, legato.clock\n"
        "print([m for m in ('torch', 'soundfile', 'soxr', 'safetensors') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_when_asked():
    chosen = choose(device="cuda")
    assert chosen.device.type == "cuda" and chosen.describe()["accelerator"]
