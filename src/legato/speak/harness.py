"""The generation loop: text in, a state and a frame of codes out, for whoever renders them.

    step s:  text and codes of s - 1 --backbone--> h --> wait or begin a word --lead--> text of s
                                                   h, text --depth model, so many stages--> codes of s
    frame s - lead - delay is complete: its first code was drawn `delay` steps ago, the others now, and h is what it is
    rendered from

The depth model always runs, since the backbone wants its codes back; what becomes of the sound is another's business.
So a head on h changes nothing here: the codes of a seed are the same with and without it. Guidance runs the backbone
twice in one pass, the second time with the text blanked, and moves every code's logits away from what the blanked one
would say; the action is the reading one's own. A checkpoint that was distilled from guided runs is run once.

No answers are handed in. Shapes: K books, V entries, C backbone width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from legato.errors import BadInput
from legato.organs import SpeechModel
from legato.speak.lead import Lead, Pacing, Word


@dataclass(frozen=True)
class Sampling:
    """How codes and actions are drawn."""

    temperature: float = 0.6
    top_k: int = 50
    action_temperature: float = 0.6
    guidance: float = 2.0  # 1: the text is read once and nothing is moved
    stages: int | None = None  # codes that the depth model draws for each frame; None: all
    seed: int = 0
    trailing: int = 4  # frames after the last word has been said
    longest: int = 100_000  # steps

    def __post_init__(self) -> None:
        if not (self.temperature >= 0 and self.top_k >= 1 and self.guidance >= 1):
            raise BadInput(
                f"sampling asks for temperature {self.temperature}, top-k {self.top_k} and guidance {self.guidance}; "
                "give a temperature of 0 or more, a top-k and a guidance of 1 or more."
            )


@dataclass(frozen=True)
class Frame:
    """One codec frame: h (C,), from which it is rendered, and its codes (K,), -1 where no stage was run."""

    index: int
    state: Tensor
    codes: Tensor


@dataclass
class Harness:
    """One utterance after the other by one model."""

    model: SpeechModel
    sampling: Sampling = field(default_factory=Sampling)
    pacing: Pacing = field(default_factory=Pacing)

    def __post_init__(self) -> None:
        layout = self.model.layout
        if self.sampling.stages is not None and not 1 <= self.sampling.stages <= layout.books:
            raise BadInput(f"{self.sampling.stages} depth stages were asked for; this voice has 1 to {layout.books}.")
        if layout.distilled and self.sampling.guidance != 1:
            raise BadInput(
                "this voice was distilled from guided runs and reads the text once; give it a guidance of 1."
            )

    @torch.inference_mode()
    def frames(self, words: Iterable[Word]) -> Iterator[Frame]:
        """Speak `words`; frames come as soon as they are complete. `lead` tells afterwards when each word began."""
        layout, sampling = self.model.layout, self.sampling
        draw = torch.Generator().manual_seed(sampling.seed)
        state = self.model.start(guided=sampling.guidance != 1)
        lead = self.lead = Lead(words, layout.pad, layout.word, self.pacing)
        behind = max(layout.delays)
        firsts: dict[int, int] = {}
        text, codes = layout.pad, torch.full((layout.books,), -1)
        for step in range(sampling.longest):
            h, action = state.step(text, codes)
            may_wait, may_begin = lead.choices()
            free = may_wait and may_begin
            text = lead.step(bool(pick(action, sampling.action_temperature, 2, draw)) if free else may_begin)
            codes = torch.full((layout.books,), -1)
            due = sum(step >= delay for delay in layout.delays)
            if due:
                stages = min(due, sampling.stages or layout.books)
                self._draw(state, text, codes, stages, draw)
            firsts[step - layout.delays[0]] = int(codes[0])
            if step >= behind:
                index = step - behind
                yield Frame(index, h[0].clone(), torch.cat((torch.tensor([firsts.pop(index)]), codes[1:])))
            if lead.ended is not None and step >= lead.ended + behind + sampling.trailing:
                return
        raise BadInput(f"the text was not finished after {sampling.longest} steps; give it in pieces.")

    def _draw(self, state, text: int, codes: Tensor, stages: int, draw: torch.Generator) -> None:
        """Fill the first `stages` of codes (K,), one after the other."""
        sampling = self.sampling
        depth = state.depth(text)
        for k in range(stages):
            logits = depth.logits(k)  # (1 or 2, V)
            if len(logits) == 2:
                logits = logits[1:] + sampling.guidance * (logits[:1] - logits[1:])
            codes[k] = pick(logits[0], sampling.temperature, sampling.top_k, draw)
            depth.take(k, int(codes[k]))


def pick(logits: Tensor, temperature: float, top_k: int, draw: torch.Generator) -> int:
    """One of (V,), by its softmax among the k likeliest; temperature 0 takes the likeliest."""
    if temperature == 0:
        return int(logits.argmax())
    best, ids = logits.float().topk(min(top_k, len(logits)))
    return int(ids[torch.multinomial((best / temperature).softmax(0), 1, generator=draw)])
