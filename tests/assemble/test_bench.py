"""The measurement of the arms: what is compared with what."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import torch

from legato import assemble, cli
from legato.assemble import System, bench
from legato.listen.arms import NAMES, HandoffArm
from legato.listen.handoff import Handoff
from legato.organs import Answer
from legato.pocket.tiny import sound, tiny_listener


@pytest.fixture(scope="module")
def system() -> System:
    """Five arms that are all one tiny model, but for what is measured by their steps."""
    torch.set_num_threads(1)
    model = tiny_listener("tiny")
    return System("pocket", {name: HandoffArm(name, Handoff(model, model)) for name in NAMES}, {}, "float32")


@dataclass
class Clockwork:
    """An arm of known times; the first turn is a slow one."""

    steps: dict[str, float | None]
    turns: int = 0

    def answer(self, audio, *, max_tokens=48, force_tokens=None) -> Answer:
        self.turns += 1
        slow = 10 if self.turns == 1 else 1
        times = {name: value and value * slow for name, value in self.steps.items()}
        return Answer("x", tuple(range(force_tokens)), "limit", **times)


def clockwork(token_ms: float, prefill: float, map_ms: float | None = None, place: float = 1.0) -> Clockwork:
    return Clockwork(
        {
            "prefill_ms": prefill,
            "map_ms": map_ms,
            "correct_ms": map_ms,
            "place_ms": place,
            "first_token_ms": 50.0,
            "decode_tokens_per_s": 1000 / token_ms,
            "total_ms": 90.0,
        }
    )


def test_what_is_compared_with_what(monkeypatch):
    monkeypatch.setattr(bench, "PROBE_BYTES", 1 << 20)
    monkeypatch.setattr(bench, "bytes_per_token", lambda arm: 4000)
    arms = {
        "small": clockwork(4.0, 20.0),
        "mapped": clockwork(4.0, 80.0, 3.0),
        "control": clockwork(4.0, 20.0, 3.0),
        "transfer": clockwork(5.0, 80.0, 3.0),
        "large": clockwork(20.0, 80.0),
    }
    found = bench.measure(System("pocket", arms, {}, "float32"), sound(), repeats=3, tokens=12, progress=False)
    assert [arm.turns for arm in arms.values()] == [4] * 5
    assert found["decode_speed_transfer_to_small"]["value"] == pytest.approx(4 / 5)
    assert found["decode_speed_transfer_to_large"]["value"] == pytest.approx(4.0)
    assert found["handoff_to_large_prefill"]["value"] == pytest.approx(7 / 80)
    assert found["arms"]["small"]["map_ms"] is None and found["arms"]["transfer"]["map_ms"]["median"] == 3.0
    share, memory = found["share_of_memory_bandwidth"], found["memory_bytes_per_s"]["median"]
    assert share["small"] == pytest.approx(4000 / 0.004 / memory) and share["large"] == pytest.approx(
        share["small"] / 5
    )
    assert json.loads(json.dumps(found)) == found
    text = bench.table(found)
    assert all(f"\n  {name} " in text for name in NAMES)
    assert "decode speed, transfer : small 0.800 [0.800, 0.800]" in " ".join(text.split())


def test_a_step_reads_every_weight_but_the_other_embeddings(system):
    model = tiny_listener("tiny").model
    embedding = model.embedding.weight.numel()
    every = sum(p.numel() for p in model.parameters())
    assert model.head is not None and bench.bytes_per_token(system.arms["small"]) == 4 * (every - embedding)


def test_the_command(system, monkeypatch, capsys):
    monkeypatch.setattr(assemble, "load", lambda preset: system)
    monkeypatch.setattr(bench, "PROBE_BYTES", 1 << 20)
    assert cli.main(["bench", "listen", "--repeats", "2", "--tokens", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["repeats"], found["tokens"]) == (2, 4)
