"""Polish the head against judges of the waveform, through the frozen codec: texture, and two steps instead of eight.

The unrolled sampler of a few steps is the generator, with gradients through all of its steps, in the manner of Flow2GAN
(arXiv 2512.23278); what it renders goes through the codec's second entrance and is judged as sound beside the decode of
the true latents, the best that this codec can do. Half of the windows are rendered on their true past, corrupted and
announced as in training, half on what the head itself rendered before. The flow loss stays as an anchor: without it the
head forgets that there is more than one way to say a thing. What the judges and what the spectra ask of the sound is
brought to one size before it goes back into the head (VQGAN's adaptive weight, Esser et al. 2021), and judges that
change their minds over a little noise are held back (R1 and R2 by finite differences, arXiv 2511.22475).

The other way to few steps needs neither codec nor judges: the flow map is distilled from its own velocity (LSD), at a
fraction of the cost. One round has one objective.

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

from legato.errors import BadInput
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
    self_distillation,
)
from legato.speak.train import Tapped

EARLIER = 8  # E
MEAN = 0.999  # of the moving average of the weights, which is what is kept
OBJECTIVES = ("unrolled", "lsd")
NUDGE = 0.005  # deviation of the noise over which a judge should not change its mind, full scale being 1
NUDGED = 4  # steps from one such look to the next
OWN_LEVEL = 0.05  # corruption of a past that the head rendered itself, as it is told when it speaks


@dataclass(frozen=True)
class Polish:
    """One round."""

    steps: int = 2000
    objective: str = "unrolled"  # or "lsd"
    windows: int = 6  # B
    frames: int = 16  # W
    flow_steps: int = 2  # of the unrolled generator
    temperature: float = 0.5
    rate: float = 1e-4
    judge_rate: float = 4e-4
    judges_first: int = 200  # steps in which only the judges learn
    mel: float = 5.0
    judged: float = 1.0  # what the judges ask of the sound, as a multiple of what the spectra ask
    matching: float = 2.0  # features, as a multiple of verdicts
    steady: float = 10.0  # weight of the judges' R1 and R2
    anchor: float = 1.0  # weight of the flow loss
    seed: int = 0

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise BadInput(f"there is no objective {self.objective!r}; choose one of {', '.join(OBJECTIVES)}.")


def polish(
    head: Head, entrance: Entrance, tapped: Tapped, how: Polish, out: Path,
    tell: Callable[[dict[str, Any]], None] = print, advance: Callable[[int], None] = lambda step: None,
) -> Head:
    """One round on a trained head; resumed where `out` was left. Returns the head of averaged weights.

    Args:
        tell: told each line of the log. advance: told every step.

    Raises: BadInput where no utterance is long enough for a window.
    """
    starts = beginnings(tapped, how.frames)
    if not len(starts):
        raise BadInput(f"no recording has the {EARLIER + how.frames} frames that a window needs; tap longer ones.")
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
    journal = Journal(out / "log.jsonl", step)
    torch.manual_seed(how.seed + step)  # or a resumed round would draw the noise of its beginning again
    draw = torch.Generator().manual_seed(how.seed + step)
    judging = how.objective == "unrolled"
    first = how.judges_first if judging else 0
    while step < how.steps:
        for group in made.param_groups:
            group["lr"] = how.rate * cosine(step, how.steps, how.judges_first)
        at = starts[torch.randint(len(starts), (how.windows,), generator=draw)]
        made.zero_grad(set_to_none=True)
        if judging:
            nudge = how.steady * (step % NUDGED == 0)
            noted = _judged(head, entrance, tapped, at, how, draw, judges, judged, nudge, moving=step >= first)
        else:
            noted = _distilled(head, tapped, at, how, draw)
        if step >= first:
            nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            made.step()
            moved = step - first + 1
            with torch.no_grad():
                for kept, now in zip(mean.parameters(), head.parameters(), strict=True):
                    kept.lerp_(now, 1 - min(MEAN, moved / (moved + 10)))
        step += 1
        advance(step)
        journal.note(how.windows, **noted)
        if step % 50 == 0 or step == how.steps:
            line = journal.line(step)
            journal.write(line)
            tell(line)
        if step % 250 == 0 or step == how.steps:
            checkpoint(out / "state.pt", {"step": step} | {name: part.state_dict() for name, part in parts.items()})
    return mean.eval()


def _judged(
    head: Head, entrance: Entrance, tapped: Tapped, at: Tensor, how: Polish, draw: torch.Generator,
    judges: nn.ModuleList, optimiser: torch.optim.Optimizer, steady: float, *, moving: bool,
) -> dict[str, float]:
    """The judges learn from one batch and, if it is `moving`, the head gets its gradients."""
    rendered, condition, truth = render(head, tapped, at, how, draw)
    with torch.no_grad():
        real = sound(entrance, tapped, at, truth)
    false = sound(entrance, tapped, at, rendered)
    noted = {"judged": _teach(judges, optimiser, real, false.detach(), steady)}
    flow = flow_matching(head, truth.flatten(0, 1), condition, 1)
    mel = log_mel_distance(false, real)
    noted |= {"flow": float(flow.detach()), "mel": float(mel.detach())}
    if moving:
        fooled, matched = _fool(judges, real, false)
        asked, weight = balanced(how.mel * mel, fooled + how.matching * matched, false, how.judged)
        torch.autograd.backward((false, how.anchor * flow), (asked, None))
        noted |= {"fooled": float(fooled.detach()), "matched": float(matched.detach()), "weight": float(weight)}
    return noted


def balanced(first: Tensor, second: Tensor, at: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Gradient at `at` of one loss, and of another at `share` times its size; with the weight that this took."""
    (own,), (other,) = torch.autograd.grad(first, at), torch.autograd.grad(second, at)
    weight = share * own.norm() / other.norm().clamp_min(1e-8)
    return own + weight * other, weight


def _distilled(head: Head, tapped: Tapped, at: Tensor, how: Polish, draw: torch.Generator) -> dict[str, float]:
    """Gradients of the flow and of its distillation into a map, on the same windows and pasts."""
    truth, condition, _ = situation(head, tapped, at, how, draw)
    data = truth.flatten(0, 1)
    flow, distilled = flow_matching(head, data, condition), self_distillation(head, data, condition)
    (how.anchor * flow + distilled).backward()
    return {"flow": float(flow.detach()), "distilled": float(distilled.detach())}


def beginnings(tapped: Tapped, frames: int) -> Tensor:
    """Frames at which a window of `frames` may begin: it and the E before it lie in one utterance."""
    utterance = tapped.firsts.cumsum(0)
    first, last = torch.arange(EARLIER, len(utterance) - frames), torch.arange(EARLIER + frames, len(utterance))
    return first[utterance[first - EARLIER] == utterance[last - 1]]


def render(
    head: Head, tapped: Tapped, at: Tensor, how: Polish, draw: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Windows that begin at frames `at` (B,) -> rendered and true latents (B, W, U), and their condition (B W, C')."""
    truth, condition, noise = situation(head, tapped, at, how, draw)
    x = sample(lambda x, s, t: head(x, s, t, condition), noise.flatten(0, 1), how.flow_steps)
    return x.view(truth.shape), condition, truth


def situation(
    head: Head, tapped: Tapped, at: Tensor, how: Polish, draw: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """True latents (B, W, U) of windows, their condition (B W, C'), and the noise (B, W, U) to begin from."""
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
    return truth, head.condition(states.flatten(0, 1), past.flatten(0, 1), level.flatten()), noise


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


def _teach(
    judges: nn.ModuleList, optimiser: torch.optim.Optimizer, real: Tensor, false: Tensor, steady: float
) -> float:
    lost = real.new_zeros(())
    for judge in judges:
        with torch.autocast("cpu", torch.bfloat16):
            (of_real, _), (of_false, _) = judge(real), judge(false)
        lost = lost + hinge_discriminator(of_real, of_false)
        if steady:
            for heard in (real, false):
                lost = lost + steady * steadiness(judge, heard)
    optimiser.zero_grad(set_to_none=True)
    lost.backward()
    nn.utils.clip_grad_norm_(judges.parameters(), 10.0)
    optimiser.step()
    return float(lost.detach())


def steadiness(judge: nn.Module, audio: Tensor) -> Tensor:
    """How far the judge's verdicts on (B, S) move under a little noise, squared: its slope, without a second backward.

    In float32, since bfloat16 would round the difference away.
    """
    (here, _), (there, _) = judge(audio), judge(audio + NUDGE * torch.randn_like(audio))
    return torch.stack([(b - a).square().mean() for a, b in zip(here, there, strict=True)]).mean()


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
