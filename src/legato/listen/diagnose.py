"""Before any map: where does each model hold the answer, and where does it look for it?

Everything is read from a capture, so nothing here runs audio. Three questions are asked of each model:

- hidden: what becomes of its own answers when the rows that answer may not see the question, the tail, the last
  memory position, or all of the memory behind the header?
- probe: at which position and layer can the answer's first token be read linearly from the keys and values?
- oracle: when the small model's tail comes from a prompt that *told* it an answer, does it speak that answer?

The prompt's tail and the handoff point are chosen from this. Fitting a map from where the answer is not, or into
where it is not looked for, fails however well the map explains its rows.

Shapes: N questions, V views, L layers, P positions, F numbers per token and layer, C model width, T memory tokens,
A answer tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from legato import probe as linear
from legato.errors import BadInput, MissingExtra
from legato.listen.capture import Capture, Entry
from legato.listen.mapper import unflatten
from legato.transformer import Transformer

VIEWS = ("everything", "tail only", "question only", "without the last position", "header only")


def view(name: str, entry: Entry, header: int) -> Tensor:
    """(T,) bool over one memory: which positions the answering rows may see."""
    seen = torch.ones(entry.length, dtype=torch.bool)
    question = slice(header, header + entry.question)
    if name == "tail only":
        seen[question] = False
    elif name == "question only":
        seen[question.stop :] = False
    elif name == "without the last position":
        seen[-1] = False
    elif name == "header only":
        seen[header:] = False
    elif name != "everything":
        raise BadInput(f"there is no view {name!r}; choose one of {', '.join(VIEWS)}.")
    return seen


@torch.no_grad()
def speaks(decoder: Transformer, memory: Tensor, seen: Tensor, last_id: int, answer: Sequence[int]) -> list[bool]:
    """Does the decoder, answering freely from what it may see of a memory, say exactly `answer`? One verdict a view.

    Args:
        memory: (T, L, F) content. seen: (V, T) bool.
        answer: token ids; greedy choices are compared one by one, which is what a free run would say.
    """
    keys, values = unflatten(memory[None].to(decoder.dtype), decoder.config.geometry)
    V, T = seen.shape
    A = len(answer)
    keys, values = (t.expand(-1, V, -1, -1, -1) for t in (keys, values))
    ids = torch.tensor([[last_id, *answer[:-1]]]).expand(V, A)
    causal = torch.ones(A, A, dtype=torch.bool).tril().expand(V, A, A)
    mask = torch.cat((seen[:, None].expand(V, A, T), causal), dim=2)[:, None]
    states = decoder(decoder.embed(ids), memory=(keys, values), mask=mask)
    return (decoder.logits(states).argmax(-1) == torch.tensor(answer)).all(1).tolist()


def hidden(
    decoder: Transformer, capture: Capture, which: str, entries: Sequence[Entry], last_id: int
) -> dict[str, float]:
    """Share of a model's own answers that survive each view. `which` is "large" (all layers captured) or "small"."""
    if which == "large" and len(capture.layers) != decoder.config.layers:
        raise BadInput(f"the capture holds {len(capture.layers)} of the large model's {decoder.config.layers} layers; "
                       "capture all of them to ask what it sees.")
    read = capture.large if which == "large" else capture.small
    kept = dict.fromkeys(VIEWS, 0)
    for e in entries:
        seen = torch.stack([view(name, e, capture.config["header"]) for name in VIEWS])
        for name, spoken in zip(VIEWS, speaks(decoder, read(e), seen, last_id, said(e, which)), strict=True):
            kept[name] += spoken
    return {name: n / len(entries) for name, n in kept.items()}


def said(e: Entry, which: str) -> tuple[int, ...]:
    """A model's own answer to a captured question: "large" or "small"."""
    return e.answer if which == "large" else e.own


def oracle(small: Transformer, capture: Capture, entries: Sequence[Entry], last_id: int) -> float:
    """Share of the large model's answers that the small one speaks when its own tail was told them in words."""
    right = 0
    for e in entries:
        memory = capture.small(e)
        memory[-capture.config["tail"] :] = capture.told(e)
        right += speaks(small, memory, view("everything", e, 0)[None], last_id, e.answer)[0]
    return right / len(entries)


@dataclass(frozen=True)
class Probe:
    """How often the answer's first token is read right, by layer and position."""

    accuracy: Tensor  # (L, P)
    layers: tuple[int, ...]
    positions: tuple[str, ...]


def probe(capture: Capture, which: str, entries: Sequence[Entry], labels: Mapping[str, int], embedding: Tensor,
          question_tokens: int = 3, lam: float = 1e-2) -> Probe:
    """Where the answer's first token can be read from keys and values (see `legato.probe`).

    Fitted on the first three quarters of `entries`, tried on the rest; questions too short for `question_tokens` are
    left out. Positions are the last `question_tokens` of the question and the tail.

    Args:
        labels: entry id -> token id that should be readable. embedding: (vocab, C).

    Raises: BadInput when fewer than 8 questions are long enough.
    """
    tail = capture.config["tail"]
    last = tail + question_tokens
    read = capture.large if which == "large" else capture.small
    chosen = [e for e in entries if e.question >= question_tokens]
    if len(chosen) < 8:
        raise BadInput(f"{len(chosen)} questions have {question_tokens} tokens, too few to probe; capture more.")
    states = torch.stack([read(e)[-last:] for e in chosen]).transpose(1, 2)  # (N, L, P, F)
    tokens = torch.tensor([labels[e.id] for e in chosen])
    accuracy = linear.probe(states, tokens, embedding, len(chosen) * 3 // 4, lam)
    layers = capture.layers if which == "large" else tuple(range(states.shape[1]))
    positions = [f"question {i - question_tokens}" for i in range(question_tokens)] + [f"tail {i}" for i in range(tail)]
    return Probe(accuracy, layers, tuple(positions))


def plot(probes: Mapping[str, Probe], views: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """One picture: a heat map of each model's probe, and bars of what survives each view.

    Raises: MissingExtra without matplotlib.
    """
    try:
        from matplotlib.figure import Figure  # no pyplot: no display is wanted
    except ModuleNotFoundError as error:
        raise MissingExtra("matplotlib", "plots", "drawing a diagnosis") from error

    figure = Figure(figsize=(6 * (len(probes) + 1), 5), layout="constrained")
    *maps, bars = figure.subplots(1, len(probes) + 1, squeeze=False)[0]
    for axes, (name, found) in zip(maps, probes.items(), strict=True):
        image = axes.imshow(found.accuracy.numpy(), aspect="auto", origin="lower", vmin=0, vmax=1, cmap="viridis")
        axes.set_title(f"{name}: answer's first token read linearly")
        axes.set_xticks(range(len(found.positions)), found.positions, rotation=90, fontsize=7)
        axes.set_yticks(range(len(found.layers)), [str(layer) for layer in found.layers], fontsize=7)
        axes.set_ylabel("layer")
        figure.colorbar(image, ax=axes, label="share of held questions")
    width = 0.8 / len(views)
    for i, (name, shares) in enumerate(views.items()):
        bars.barh([y + i * width for y in range(len(VIEWS))], [shares[v] for v in VIEWS], height=width, label=name)
    bars.set_yticks([y + 0.4 - width / 2 for y in range(len(VIEWS))], VIEWS)
    bars.set_xlabel("share of its own answers that survive")
    bars.set_xlim(0, 1)
    bars.legend()
    figure.savefig(path, dpi=120)
