"""Train the head on tapped states: what a frozen voice's backbone thought at each frame, and that frame's latent.

Teacher-forced: the head is handed the true frames before (corrupted and announced, see `history`), so its loss says
whether it learns, never how it will speak. Before a head may go on its condition must matter: with another frame's
state the loss has to rise clearly, or training stops and says so.

Shapes: N frames, C state width, U latent width, J frames of history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from legato.errors import BadInput, ConditionIgnored
from legato.optim import Journal, checkpoint, cosine
from legato.speak.head import Head, HeadConfig
from legato.speak.history import DROPPED, draw_history
from legato.speak.objectives import flow_matching, self_distillation, shuffle_gap

WARMUP = 200
MEAN = 0.999  # of the moving average of the weights, which is what is kept
LISTENS = 1.05  # the loss with another frame's state must be that many times the own
CHECKPOINT = 500  # steps from one to the next
CHECKED_AT = 1000  # steps; by then a head that listens is far beyond it


@dataclass(frozen=True)
class Tapped:
    """Frames of many utterances end to end.

    states: (N, C). latents: (N, U), normalised. firsts: (N,) bool, True where an utterance begins.
    """

    states: Tensor
    latents: Tensor
    firsts: Tensor

    def __post_init__(self) -> None:
        if not len(self.states) == len(self.latents) == len(self.firsts) > 1:
            raise BadInput(
                f"tapped frames do not fit together ({len(self.states)} states, {len(self.latents)} latents); tap anew."
            )

    def past(self, frames: Tensor, length: int) -> Tensor:
        """The `length` latents before each of `frames` (n,), zeros where its utterance had not begun: (n, J, U)."""
        back = torch.arange(length, 0, -1)
        at = frames[:, None] - back  # (n, J)
        utterance = self.firsts.cumsum(0)
        inside = (at >= 0) & (utterance[at.clamp_min(0)] == utterance[frames][:, None])
        return self.latents[at.clamp_min(0)] * inside[..., None]


@dataclass(frozen=True)
class HeadTraining:
    """How long and how."""

    steps: int = 6000
    batch: int = 512  # frames
    rate: float = 1e-3
    draws: int = 4  # points on each frame's path
    distilled: float = 0.25  # share of the frames on which the flow map is distilled into few steps
    seed: int = 0


def train_head(
    config: HeadConfig, tapped: Tapped, held: Tapped, how: HeadTraining, out: Path,
    tell: Callable[[dict[str, Any]], None] = print, advance: Callable[[int], None] = lambda step: None,
) -> Head:
    """Train from nothing, or from where `out` was left; returns the head of averaged weights.

    Args:
        tell: told each line of the log. advance: told every step.

    Raises: ConditionIgnored.
    """
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(how.seed)
    head, mean = Head(config), Head(config)
    mean.load_state_dict(head.state_dict())
    optimiser = torch.optim.AdamW(head.parameters(), how.rate, (0.9, 0.95), weight_decay=0.01, fused=True)
    step = 0
    if (out / "state.pt").exists():
        state = torch.load(out / "state.pt", weights_only=True)
        step = state["step"]
        head.load_state_dict(state["head"])
        mean.load_state_dict(state["mean"])
        optimiser.load_state_dict(state["optimiser"])
    journal = Journal(out / "log.jsonl", step)
    torch.manual_seed(how.seed + step)  # or a resumed run would draw the noise of its beginning again
    draw = torch.Generator().manual_seed(how.seed + step)
    while step < how.steps:
        for group in optimiser.param_groups:
            group["lr"] = how.rate * cosine(step, how.steps, WARMUP)
        frames = torch.randint(len(tapped.states), (how.batch,), generator=draw)
        past, level = draw_history(tapped.past(frames, config.history), draw=draw)
        data = tapped.latents[frames]
        condition = head.condition(tapped.states[frames], past, level)
        flow = flow_matching(head, data, condition, how.draws)
        few = round(how.distilled * how.batch)
        distilled = self_distillation(head, data[:few], condition[:few])
        loss = flow + distilled / 3
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimiser.step()
        step += 1
        with torch.no_grad():
            for kept, now in zip(mean.parameters(), head.parameters(), strict=True):
                kept.lerp_(now, 1 - min(MEAN, step / (step + 10)))
        journal.note(how.batch, flow=float(flow.detach()), distilled=float(distilled.detach()))
        advance(step)
        if step % 100 == 0 or step == how.steps:
            line = journal.line(step)
            if step % 500 == 0 or step == how.steps:
                own, other = _gap(mean, held)
                line |= {"held": round(own, 4), "another's state": round(other, 4)}
                if step >= CHECKED_AT and other < LISTENS * own:
                    raise ConditionIgnored(
                        f"after {step} steps the head does as well with another frame's state ({other:.4f} against "
                        f"{own:.4f}): its condition is ignored; look at the tap before you train on."
                    )
            journal.write(line)
            tell(line)
        if step % CHECKPOINT == 0 or step == how.steps:
            state = {"step": step, "head": head.state_dict(), "mean": mean.state_dict(),
                     "optimiser": optimiser.state_dict()}
            checkpoint(out / "state.pt", state)
    return mean.eval()


def _gap(head: Head, held: Tapped) -> tuple[float, float]:
    """Loss on held frames without a past, so that only the state can help."""
    n = min(2048, len(held.states))
    frames = torch.linspace(0, len(held.states) - 1, n).long()
    nothing = torch.zeros(n, head.config.history, head.config.latent)
    return shuffle_gap(head, held.latents[frames], held.states[frames], nothing, torch.full((n,), DROPPED))

