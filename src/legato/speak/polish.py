"""Polish the head against judges of the waveform, through the frozen codec: texture, and two steps instead of eight.

The unrolled sampler of a few steps is the generator, with gradients through all of its steps, in the manner of Flow2GAN
(arXiv 2512.23278); what it renders goes through the codec's second entrance and is judged as sound beside the decode of
the true latents, the best that this codec can do. Half of the windows are rendered on their true past, corrupted and
announced as in training, half on what the head itself rendered before. The flow loss stays as an anchor: without it the
head forgets that there is more than one way to say a thing.

Shapes: B windows, W frames of a window, E frames of true latents before it for the codec's memory, U latent width, C
state width, J frames of history, S samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from legato.optim import Journal, checkpoint, cosine
from legato.speak.discriminators import MultiPeriod, MultiScale
from legato.speak.entrance import Entrance
from legato.speak.flow import sample
from legato.speak.head import Head
from legato.speak.history import bucket, corrupt, draw_history, windows
from legato.speak.objectives import (
    feature_matching,
    flow_matching,
    hinge_discriminator,
    hinge_generator,
    log_mel_distance,
)
from legato.speak.train import Tapped

EARLIER = 8  # E
MEAN = 0.999  # of the moving average of the weights, which is what is kept
OWN_LEVEL = 0.05  # corruption of a past that the head rendered itself, as it is told when it speaks


@dataclass(frozen=True)
class Polish:
    """One round."""

    steps: int = 2000
    windows: int = 6  # B
    frames: int = 16  # W
    flow_steps: int = 2  # of the unrolled generator
    temperature: float = 0.5
    rate: float = 1e-4
    judge_rate: float = 4e-4
    judges_first: int = 200  # steps in which only the judges learn
    mel: float = 5.0
    matching: float = 2.0
    anchor: float = 1.0  # weight of the flow loss
    seed: int = 0


def polish(
    head: Head, entrance: Entrance, tapped: Tapped, how: Polish, out: Path,
    tell: Callable[[dict[str, Any]], None] = print,
) -> Head:
    """One adversarial round on a trained head; resumed where `out` was left. Returns the head of averaged weights."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(how.seed)
    mean = Head(head.config)
    mean.load_state_dict(head.state_dict())
    judges = nn.ModuleList((MultiPeriod(), MultiScale()))
    made = torch.optim.AdamW(head.parameters(), how.rate, (0.8, 0.95), fused=True)
    judged = torch.optim.AdamW(judges.parameters(), how.judge_rate, (0.8, 0.95), fused=True)
    parts = {"head": head, "mean": mean, "judges": judges, "made": made, "judged": judged}
    step = 0
    if (out / "state.pt").exists():
        state = torch.load(out / "state.pt", weights_only=True)
        step = state["step"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
    starts = beginnings(tapped, how.frames)
    journal = Journal(out / "log.jsonl", step)
    draw = torch.Generator().manual_seed(how.seed + step)
    while step < how.steps:
        for group in made.param_groups:
            group["lr"] = how.rate * cosine(step, how.steps, how.judges_first)
        at = starts[torch.randint(len(starts), (how.windows,), generator=draw)]
        rendered, condition, truth = render(head, tapped, at, how, draw)
        with torch.no_grad():
            real = sound(entrance, tapped, at, truth)
        false = sound(entrance, tapped, at, rendered)
        noted = {"judged": _teach(judges, judged, real, false.detach())}
        flow = flow_matching(head, truth.flatten(0, 1), condition, 1)
        mel = log_mel_distance(false, real)
        noted |= {"flow": float(flow.detach()), "mel": float(mel.detach())}
        if step >= how.judges_first:
            fooled, matched = _fool(judges, real, false)
            loss = fooled + how.matching * matched + how.mel * mel + how.anchor * flow
            made.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            made.step()
            noted |= {"fooled": float(fooled.detach()), "matched": float(matched.detach())}
            with torch.no_grad():
                for kept, now in zip(mean.parameters(), head.parameters(), strict=True):
                    kept.lerp_(now, 1 - MEAN)
        step += 1
        journal.note(how.windows, **noted)
        if step % 50 == 0:
            line = journal.line(step)
            journal.write(line)
            tell(line)
        if step % 250 == 0 or step == how.steps:
            checkpoint(out / "state.pt", {"step": step} | {name: part.state_dict() for name, part in parts.items()})
    return mean.eval()


def beginnings(tapped: Tapped, frames: int) -> Tensor:
    """Frames at which a window of `frames` may begin: it and the E before it lie in one utterance."""
    utterance = tapped.firsts.cumsum(0)
    first, last = torch.arange(EARLIER, len(utterance) - frames), torch.arange(EARLIER + frames, len(utterance))
    return first[utterance[first - EARLIER] == utterance[last - 1]]


def render(
    head: Head, tapped: Tapped, at: Tensor, how: Polish, draw: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Windows that begin at frames `at` (B,) -> rendered and true latents (B, W, U), and their condition (B W, C')."""
    c, within = head.config, at[:, None] + torch.arange(how.frames)
    truth, states = tapped.latents[within], tapped.states[within]
    past, level = draw_history(tapped.past(within.flatten(), c.history), draw=draw)
    past = past.unflatten(0, within.shape)
    level = level.unflatten(0, within.shape)
    noise = how.temperature**0.5 * torch.randn(truth.shape, generator=draw)
    own = torch.rand(len(at), generator=draw) < 0.5
    if own.any():
        told = torch.full((how.frames,), OWN_LEVEL)
        rendered = speak(head, tapped.past(at, c.history)[own], states[own], noise[own], how, draw)
        for row, latents in zip(own.nonzero().flatten(), rendered, strict=True):
            before = tapped.past(at[row : row + 1], c.history)[0]
            seen = windows(torch.cat((before, latents)), c.history)[c.history :]  # (W, J, U)
            past[row], level[row] = corrupt(seen, told, draw), bucket(told)
    condition = head.condition(states.flatten(0, 1), past.flatten(0, 1), level.flatten())
    x = sample(lambda x, s, t: head(x, s, t, condition), noise.flatten(0, 1), how.flow_steps)
    return x.view(truth.shape), condition, truth


@torch.no_grad()
def speak(
    head: Head, past: Tensor, states: Tensor, noise: Tensor, how: Polish, draw: torch.Generator
) -> Tensor:
    """Frame after frame on the head's own past: past (B, J, U), states (B, W, C), noise (B, W, U) -> (B, W, U)."""
    level = torch.full((len(past),), OWN_LEVEL)
    out = []
    for i in range(how.frames):
        condition = head.condition(states[:, i], corrupt(past, level, draw), bucket(level))
        x = sample(lambda x, s, t, y=condition: head(x, s, t, y), noise[:, i], how.flow_steps)
        past = torch.cat((past[:, 1:], x[:, None]), dim=1)
        out.append(x)
    return torch.stack(out, 1)


def sound(entrance: Entrance, tapped: Tapped, at: Tensor, latents: Tensor) -> Tensor:
    """Latents (B, W, U) of windows at `at` as sound (B, S), the codec's memory being of the true frames before."""
    before = tapped.latents[at[:, None] + torch.arange(-EARLIER, 0)]
    whole = torch.cat((before, latents), dim=1).transpose(1, 2)
    with torch.autocast("cpu", torch.bfloat16):
        audio = entrance.decode(whole)
    return audio[:, EARLIER * entrance.codec.frame :].float()


def _teach(judges: nn.ModuleList, optimiser: torch.optim.Optimizer, real: Tensor, false: Tensor) -> float:
    lost = real.new_zeros(())
    for judge in judges:
        with torch.autocast("cpu", torch.bfloat16):
            (of_real, _), (of_false, _) = judge(real), judge(false)
        lost = lost + hinge_discriminator(of_real, of_false)
    optimiser.zero_grad(set_to_none=True)
    lost.backward()
    nn.utils.clip_grad_norm_(judges.parameters(), 10.0)
    optimiser.step()
    return float(lost.detach())


def _fool(judges: nn.ModuleList, real: Tensor, false: Tensor) -> tuple[Tensor, Tensor]:
    fooled = matched = false.new_zeros(())
    judges.requires_grad_(False)
    for judge in judges:
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                _, wanted = judge(real)
            verdicts, features = judge(false)
        fooled, matched = fooled + hinge_generator(verdicts), matched + feature_matching(wanted, features)
    judges.requires_grad_(True)
    return fooled, matched
