"""Speed of the arms on this machine, measured in turn on one sound, beside what its memory could give.

Every repeat runs all arms one after the other, so that ratios compare moments with moments. Decoding is a forced number
of tokens; before each repeat a probe reads a block larger than any cache. Our loop beside that of `transformers` is
`benchmarks/decode.py`, since the package does not know that library.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import torch
from tqdm import tqdm

from legato import runtime
from legato.assemble import System, hear
from legato.audio import Audio
from legato.evaluate.speed import ratio, spread
from legato.listen.arms import HandoffArm
from legato.organs import Answer

PROBE_BYTES = 256 << 20
WARM_UP = 1  # repeats that are not counted
STEPS = ("prefill_ms", "map_ms", "correct_ms", "place_ms", "first_token_ms", "total_ms")


def measure(
    system: System, question: Audio, *, repeats: int = 9, tokens: int = 48, progress: bool = True
) -> dict[str, Any]:
    """Plain JSON values: medians with quartiles of every step, and the ratios that matter with intervals.

    Args:
        question: the same for all arms.
        repeats: counted turns of each arm; one more goes before them.
        tokens: decoded in each turn, end marks included.
    """
    hear(question)
    block = torch.ones(PROBE_BYTES // 4)
    turns: dict[str, list[Answer]] = {arm: [] for arm in system.arms}
    probe = []
    for _ in tqdm(range(WARM_UP + repeats), disable=not progress, unit="turn"):
        begun = time.perf_counter()
        block.sum()
        probe.append(block.nbytes / (time.perf_counter() - begun))
        for arm in system.arms:
            turns[arm].append(system.arms[arm].answer(question, force_tokens=tokens))
    each = {arm: [1000 / turn.decode_tokens_per_s for turn in said] for arm, said in turns.items()}  # ms a token
    handed = [(t.map_ms or 0) + (t.correct_ms or 0) + (t.place_ms or 0) for t in turns["transfer"]]
    limit = spread(probe, warm_up=WARM_UP)
    return {
        "machine": runtime.choose("cpu", system.dtype).describe() | {"threads": torch.get_num_threads()},
        "tokens": tokens,
        "repeats": repeats,
        "arms": {
            arm: _steps(said) | {"token_ms": asdict(spread(each[arm], warm_up=WARM_UP))} for arm, said in turns.items()
        },
        "decode_speed_transfer_to_small": asdict(ratio(each["small"], each["transfer"], warm_up=WARM_UP)),
        "decode_speed_transfer_to_large": asdict(ratio(each["large"], each["transfer"], warm_up=WARM_UP)),
        "handoff_to_large_prefill": asdict(ratio(handed, [t.prefill_ms for t in turns["large"]], warm_up=WARM_UP)),
        "memory_bytes_per_s": asdict(limit),
        "share_of_memory_bandwidth": {
            arm: bytes_per_token(organ) / (spread(each[arm], warm_up=WARM_UP).median / 1000) / limit.median
            for arm, organ in system.arms.items()
        },
    }


def _steps(said: list[Answer]) -> dict[str, Any]:
    columns = {step: [getattr(turn, step) for turn in said] for step in STEPS}
    return {step: None if None in times else asdict(spread(times, warm_up=WARM_UP)) for step, times in columns.items()}


def bytes_per_token(arm: HandoffArm) -> int:
    """What one decode step must read: every weight of the answering model once, an untied input embedding aside."""
    model = arm.handoff.answerer.model
    weights = sum(p.numel() for p in model.parameters())
    unread = 0 if model.head is None else model.embedding.weight.numel()
    return (weights - unread) * model.dtype.itemsize


def table(found: dict[str, Any]) -> str:
    """A measurement as plain text for people."""
    machine = found["machine"]
    lines = [
        f"{machine['cpu']}, {machine['threads']} threads, {machine['dtype']}, torch {machine['torch']}; "
        f"medians of {found['repeats']} turns [quartiles], {found['tokens']} forced tokens each",
        f"  {'arm':<9} {'hears, ms':>18} {'first token, ms':>20} {'ms a token':>20} {'tokens/s':>9} {'of memory':>10}",
    ]
    for arm, steps in found["arms"].items():
        spreads = [_spread(steps[name]) for name in ("prefill_ms", "first_token_ms", "token_ms")]
        share = found["share_of_memory_bandwidth"][arm]
        speed = 1000 / steps["token_ms"]["median"]
        lines.append(f"  {arm:<9} {spreads[0]:>18} {spreads[1]:>20} {spreads[2]:>20} {speed:>9.1f} {share:>10.0%}")
    for what, key in (
        ("decode speed, transfer : small", "decode_speed_transfer_to_small"),
        ("decode speed, transfer : large", "decode_speed_transfer_to_large"),
        ("map + correct + place : large prefill", "handoff_to_large_prefill"),
    ):
        r = found[key]
        lines.append(f"  {what:<38} {r['value']:.3f} [{r['low']:.3f}, {r['high']:.3f}]")
    lines.append(
        f"  the memory gives {found['memory_bytes_per_s']['median'] / 1e9:.1f} GB/s to one reader of all threads"
    )
    return "\n".join(lines)


def _spread(s: dict[str, float]) -> str:
    return f"{s['median']:.1f} [{s['q1']:.1f}, {s['q3']:.1f}]"
