"""From what the ear heard to what a language model reads: the projector, and its words as mixtures of embeddings.

A decoder reads vectors that look like its own words at once and learns to read others very slowly (measured, see
records/LOG.md: a projector's raw outputs, pointing at the right words, gave 0 of 300 answers, the same outputs as
mixtures of those words' embeddings 85, without any training of the decoder). So the projector spells: its output at
each audio token is compared with the embeddings of the words that questions are made of, and the embeddings are mixed
by what comes of it. It learns that as CTC (Graves et al. 2006) with a learned blank; where nothing new is said the
decoder is given a constant, at the start the embedding of a space.

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


DECIDED = 2.0  # the mixture is that much sharper than the spelling is sure: a mean of two words is no word


class Spelling(nn.Module):
    """CTC logits of projected audio over the candidates' embeddings; index 0 is the blank.

    Args:
        embedding: (vocab, C), frozen.
        candidates: token ids that questions are made of.
    """

    def __init__(self, embedding: Tensor, candidates: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("ids", torch.tensor(sorted(candidates)))
        self.register_buffer("table", embedding.detach()[self.ids], persistent=False)
        self.register_buffer("words", F.normalize(self.table.float(), dim=-1).to(embedding.dtype), persistent=False)
        self.blank = nn.Parameter(torch.randn(embedding.shape[1]) * embedding.shape[1] ** -0.5)
        self.sharpness = nn.Parameter(torch.tensor(3.0))  # log of the factor on cosines
        self.index = {int(token): i + 1 for i, token in enumerate(self.ids)}

    def forward(self, x: Tensor, among: Tensor | None = None) -> Tensor:
        """x (..., C) -> log probabilities (..., 1 + K) float32.

        Args:
            among: places (K',) in `ids`; only these candidates compete, in this order.
        """
        return self.logits(x, among).log_softmax(-1)

    def logits(self, x: Tensor, among: Tensor | None = None) -> Tensor:
        """The same before normalising: cosines times a learned sharpness."""
        words = self.words if among is None else self.words[among]
        x = F.normalize(x.float(), dim=-1).to(words.dtype)
        blank = x @ F.normalize(self.blank.float(), dim=-1).to(words.dtype)
        cosines = torch.cat((blank[..., None], F.linear(x, words)), dim=-1)  # no copy of the table
        return cosines.float() * self.sharpness.float().exp()

    def loss(
        self, heard: Sequence[Tensor], said: Sequence[Sequence[int]], rivals: Sequence[int] | None = None
    ) -> Tensor:
        """Mean CTC loss per word token.

        Args:
            heard: projected audio of each question, (n_i, C). said: its audible token ids.
            rivals: places in `ids` that compete beside what was said (sampled softmax); all by default. 2,000 of
                10,000 take half of the time.
        """
        places = {t: self.index[t] for s in said for t in s if t in self.index}  # token -> column
        among = None
        if rivals is not None:
            kept = sorted({i - 1 for i in places.values()} | set(rivals))
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
        return ctc.sum() / max(1, words)

    @torch.no_grad()
    def spell(self, heard: Tensor) -> list[int]:
        """The likeliest token of each frame, repeats and blanks removed: (n, C) -> ids."""
        best = self(heard).argmax(-1)
        kept = best[torch.cat((torch.tensor([True]), best[1:] != best[:-1]))]
        return [int(self.ids[i - 1]) for i in kept.tolist() if i > 0]


class Hearing(nn.Module):
    """Projector and spelling in one: features (..., n, F) -> (..., n, C) in the space of word embeddings.

    Args:
        projector: features -> (..., n, C).
        spelling: over the words that the decoder embeds.
        gap: (C,) what the decoder reads where nothing new is said.
    """

    def __init__(self, projector: nn.Module, spelling: Spelling, gap: Tensor) -> None:
        super().__init__()
        self.projector, self.spelling = projector, spelling
        self.gap = nn.Parameter(gap.detach().float().clone())

    def forward(self, features: Tensor) -> Tensor:
        shares = (DECIDED * self.spelling.logits(self.project(features))).softmax(-1)
        table = self.spelling.table
        return shares[..., 1:].to(table.dtype) @ table + shares[..., :1].to(table.dtype) * self.gap.to(table.dtype)

    def project(self, features: Tensor) -> Tensor:
        """(..., n, F) -> (..., n, C), directions. Float32 weights beside bfloat16 words multiply as bfloat16."""
        half = self.spelling.table.dtype is torch.bfloat16
        with torch.autocast(features.device.type, torch.bfloat16, enabled=half):
            return self.projector(features)

    def loss(
        self, clips: Sequence[Tensor], said: Sequence[Sequence[int]], rivals: Sequence[int] | None = None
    ) -> Tensor:
        """`Spelling.loss` of whole clips of features, (n_i, F) each."""
        projected = self.project(torch.cat(list(clips)).float()[None])[0]
        return self.spelling.loss(projected.split([len(clip) for clip in clips]), said, rivals)

    def spell(self, features: Tensor) -> list[int]:
        """What was heard, as token ids: (n, F) -> ids."""
        return self.spelling.spell(self.project(features[None])[0])


def audible(tokenizer: Tokenizer, text: str) -> list[int]:
    """Token ids of a question without those that make no sound (punctuation)."""
    encoding = tokenizer.encode(text)
    pieces = (piece.replace("Ġ", "") for piece in encoding.tokens)  # byte-level BPE writes a leading space so
    return [i for i, piece in zip(encoding.ids, pieces, strict=True) if any(c.isalnum() for c in piece)]
