"""Teach a projector to hear before any language model listens: CTC over the base model's own word embeddings.

A projector trained only through a frozen or half-frozen decoder finds out very late that its outputs should look like
words (measured: 5 % of heard questions right after 10,000 examples, see records/LOG.md). The base ties its input and
output matrices, so closeness to a word's embedding is both "this word was said" and what the decoder expects to read.
The projector is therefore first asked to spell the question as a CTC sequence (Graves et al. 2006) of unit embeddings,
with a learned blank, and to keep the norm that word embeddings have. One such projector starts both models.

Shapes: B batch, n audio tokens, C model width, K candidate tokens, F ear features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Spelling(nn.Module):
    """CTC logits of projected audio over the candidates' embeddings; index 0 is the blank.

    Args:
        embedding: (vocab, C), frozen.
        candidates: token ids that questions are made of.
    """

    def __init__(self, embedding: Tensor, candidates: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("ids", torch.tensor(sorted(candidates)))
        words = embedding.detach().float()[self.ids]
        self.register_buffer("words", F.normalize(words, dim=-1))
        self.norm = words.norm(dim=-1).mean().item()
        self.blank = nn.Parameter(torch.randn(embedding.shape[1]) * embedding.shape[1] ** -0.5)
        self.sharpness = nn.Parameter(torch.tensor(3.0))  # log of the factor on cosines
        self.index = {int(token): i + 1 for i, token in enumerate(self.ids)}

    def forward(self, x: Tensor, among: Tensor | None = None) -> Tensor:
        """x (..., C) -> log probabilities (..., 1 + K) float32.

        Args:
            among: places (K',) in `ids`; only these candidates compete, in this order.
        """
        words = self.words if among is None else self.words[among]
        table = torch.cat((F.normalize(self.blank, dim=-1)[None], words))
        cosines = F.linear(F.normalize(x.float(), dim=-1).bfloat16(), table.bfloat16()).float()
        return (cosines * self.sharpness.exp()).log_softmax(-1)

    def loss(
        self, heard: Sequence[Tensor], said: Sequence[Sequence[int]], others: Sequence[int] | None = None
    ) -> Tensor:
        """Mean CTC loss per word token, plus a pull of the outputs' norm to that of words.

        Args:
            heard: projected audio of each question, (n_i, C). said: its audible token ids.
            others: places in `ids` that compete beside what was said; all by default. A drawn few thousand teach as
                well as 10,000 and cost half (sampled softmax).
        """
        places = {t: self.index[t] for s in said for t in s if t in self.index}  # token -> column
        among = None
        if others is not None:
            kept = sorted({i - 1 for i in places.values()} | set(others))
            column = {place: n + 1 for n, place in enumerate(kept)}
            places = {t: column[i - 1] for t, i in places.items()}
            among = torch.tensor(kept)
        lengths = torch.tensor([len(h) for h in heard])
        flat = torch.cat(list(heard))
        found = self(flat, among)
        B, longest = len(heard), int(lengths.max())
        at = torch.cat([torch.arange(n) * B + b for b, n in enumerate(lengths.tolist())])
        padded = found.new_zeros(longest * B, found.shape[-1]).index_copy(0, at, found).view(longest, B, -1)
        targets = [torch.tensor([places[t] for t in s if t in places], dtype=torch.int64) for s in said]
        sizes = torch.tensor([len(t) for t in targets])
        ctc = F.ctc_loss(padded, torch.cat(targets), lengths, sizes, reduction="none", zero_infinity=True)
        words = sum(len(t) for t in targets)
        return ctc.sum() / max(1, words) + 0.1 * (flat.float().norm(dim=-1) / self.norm - 1).square().mean()

    @torch.no_grad()
    def spell(self, heard: Tensor) -> list[int]:
        """The likeliest token of each frame, repeats and blanks removed: (n, C) -> ids."""
        best = self(heard).argmax(-1)
        kept = best[torch.cat((torch.tensor([True]), best[1:] != best[:-1]))]
        return [int(self.ids[i - 1]) for i in kept.tolist() if i > 0]


def audible(tokenizer: Tokenizer, text: str) -> list[int]:
    """Token ids of a question without those that make no sound (punctuation)."""
    encoding = tokenizer.encode(text)
    pieces = (piece.replace("Ġ", "") for piece in encoding.tokens)  # byte-level BPE writes a leading space so
    return [i for i, piece in zip(encoding.ids, pieces, strict=True) if any(c.isalnum() for c in piece)]
