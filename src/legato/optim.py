"""What every training loop here shares: AdamW over float32 masters, one rate curve, and what survives a kill.

No loop lives here: each training is a function that one can read from top to bottom, in the room whose model it trains.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from legato.artifacts import write_atomic


class Masters:
    """AdamW over float32 masters of parameters that may themselves be bfloat16.

    Updates smaller than a bfloat16 step would be lost if they were added to the weights directly.

    Args:
        groups: parameters with their peak learning rates.
    """

    def __init__(self, groups: list[tuple[Iterable[nn.Parameter], float]], weight_decay: float = 0.0) -> None:
        self.pairs = [[(p, p.detach().float().clone().requires_grad_()) for p in params] for params, _ in groups]
        self.optimizer = torch.optim.AdamW(
            [{"params": [m for _, m in pairs], "lr": rate, "peak": rate}
             for pairs, (_, rate) in zip(self.pairs, groups, strict=True)],
            betas=(0.9, 0.98), weight_decay=weight_decay, fused=True)

    def step(self, scale: float) -> float:
        """One update at `scale` times the peak rates, gradients clipped to norm 1. Returns the norm before clipping.

        Gradients are used up: afterwards there are none. A parameter without one stays as it is.
        """
        flat = [pair for pairs in self.pairs for pair in pairs]
        for p, master in flat:
            master.grad = None if p.grad is None else p.grad.float()
            p.grad = None
        norm = torch.nn.utils.clip_grad_norm_([m for _, m in flat], 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * scale
        self.optimizer.step()
        with torch.no_grad():
            for p, master in flat:
                p.copy_(master)
        return float(norm)

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs to go on as if never stopped."""
        masters: list[list[Tensor]] = [[m.detach() for _, m in pairs] for pairs in self.pairs]
        return {"masters": masters, "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        """Take up where `state` was; the parameters get its values."""
        self.optimizer.load_state_dict(state["optimizer"])
        with torch.no_grad():
            for pairs, saved in zip(self.pairs, state["masters"], strict=True):
                for (p, master), value in zip(pairs, saved, strict=True):
                    master.copy_(value)
                    p.copy_(value)


def cosine(step: int, steps: int, warmup: int) -> float:
    """Linear warm-up over `warmup` steps, then cosine down to a tenth; a factor on the peak learning rate."""
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done)))


def checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write beside, then rename: a killed run leaves the last whole checkpoint. Raises OSError (full disk)."""
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb") as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # of a full disk torch tells only that it is at another place than it thought
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


class Journal:
    """The log of one run, a JSON line every few steps: means since the line before, and examples a second.

    A run that was killed resumes from its checkpoint and not from its last line, so lines beyond `step`, where it
    goes on, are dropped: every step is told once.
    """

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        whole = path.read_text().split("\n")[:-1] if path.exists() else []
        kept = [line for line in whole if json.loads(line)["step"] <= step]
        write_atomic(path, "".join(f"{line}\n" for line in kept).encode())
        self._begin()

    def _begin(self) -> None:
        self._sums: dict[str, float] = {}
        self._steps = self._examples = 0
        self._since = time.perf_counter()

    def note(self, examples: int, **values: float) -> None:
        """What one step made of so many examples."""
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._steps += 1
        self._examples += examples

    def line(self, step: int) -> dict[str, Any]:
        """Where the run stands at `step`: what `write` takes, perhaps with more in it."""
        means = {name: round(total / self._steps, 4) for name, total in self._sums.items()}
        rate = self._examples / (time.perf_counter() - self._since)
        return {"step": step, **means, "examples_per_s": round(rate, 1)}

    def write(self, line: dict[str, Any]) -> None:
        """Append the line and begin the next means."""
        with open(self.path, "a") as log:
            log.write(json.dumps(line) + "\n")
        self._begin()
