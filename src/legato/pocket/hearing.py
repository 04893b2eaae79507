"""From what the ear heard to what a language model reads: the projector, and its words as mixtures of embeddings.

A decoder reads vectors that look like its own words at once and learns to read others very slowly (measured, see
records/LOG.md: a projector's raw outputs, pointing at the right words, gave 0 of 300 answers, the same outputs as
mixtures of those words' embeddings 85, without any training of the decoder). So the projector spells: its output at
each audio token is a query, compared with a key for each word that questions are made of, and the words' embeddings
are mixed by what comes of it. It learns that as CTC (Graves et al. 2006) with a learned blank; where nothing new is
said the decoder is given a constant, at the start the embedding of a space.

The keys come from letters (`Letters`), not from the embeddings: what sounds alike is written alike, but means anything,
so with embeddings as keys every word has to be learnt by itself (records/LOG.md, "Keys of letters").

Shapes: B batch, n audio tokens, C model width, K candidate tokens, F ear features, G letter groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from tokenizers import Tokenizer


DECIDED = 2.0  # the mixture is that much sharper than the spelling is sure: a mean of two words is no word


class Letters(nn.Module):
    """Keys of words from how they are written: sums of learned vectors of their letter groups, as unit vectors.

    Groups are those of `letter_groups` that two pieces have, and the whole piece: what is heard of one word helps with
    all that are written like it, and no two words have the same key.

    Args:
        pieces: tokens as a byte-level BPE writes them, "Ġ" for a leading space.
    """

    def __init__(self, pieces: Sequence[str], width: int) -> None:
        super().__init__()
        groups = [letter_groups(piece) for piece in pieces]
        had = Counter(group for of_piece in groups for group in set(of_piece))
        names: dict[str, int] = {}
        bags = [
            [names.setdefault(group, len(names)) for group in [*(g for g in of_piece if had[g] > 1), f"whole {piece}"]]
            for piece, of_piece in zip(pieces, groups, strict=True)
        ]
        longest = max(map(len, bags))
        self.register_buffer("bags", torch.tensor([b + [-1] * (longest - len(b)) for b in bags]), persistent=False)
        self.groups = nn.Parameter(torch.randn(len(names), width) * width**-0.5)

    def forward(self, among: Tensor | None = None) -> Tensor:
        """-> keys (K, C), of the pieces at places `among` (K',) where that is given."""
        bags = self.bags if among is None else self.bags[among]
        there = bags >= 0
        starts = F.pad(there.sum(1).cumsum(0)[:-1], (1, 0))
        return F.normalize(F.embedding_bag(bags[there], self.groups, starts, mode="sum"), dim=-1)


def letter_groups(piece: str) -> list[str]:
    """Single letters, runs of two to four with the piece's ends marked, first and last letter, length.

    A piece that goes on with a word ("ing", without "Ġ") has a mark of its own at its beginning.
    """
    letters = piece.replace("Ġ", "").lower()
    whole = ("^" if piece.startswith("Ġ") else "~") + letters + "$"
    runs = [whole[at : at + n] for n in (2, 3, 4) for at in range(len(whole) - n + 1)]
    return [*letters, *runs, "first " + letters[:1], "last " + letters[-1:], f"length {min(len(letters), 10)}"]


class Spelling(nn.Module):
    """CTC logits of projected audio over the candidates' keys; index 0 is the blank.

    Args:
        embedding: (vocab, C), frozen.
        candidates: token ids that questions are made of.
        keys: (K, C) unit vectors in the order of the sorted candidates; by default the directions of their embeddings.
    """

    def __init__(self, embedding: Tensor, candidates: Sequence[int], keys: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("ids", torch.tensor(sorted(candidates)))
        self.register_buffer("table", embedding.detach()[self.ids], persistent=False)
        keys = F.normalize(self.table.float(), dim=-1) if keys is None else keys.detach()
        self.register_buffer("keys", keys.to(embedding.dtype), persistent=False)
        self.blank = nn.Parameter(torch.randn(embedding.shape[1]) * embedding.shape[1] ** -0.5)
        self.bias = nn.Parameter(torch.zeros(len(self.ids)))  # how often a word is said at all
        self.sharpness = nn.Parameter(torch.tensor(3.0))  # log of the factor on cosines
        self.index = {int(token): i + 1 for i, token in enumerate(self.ids)}

    def forward(self, x: Tensor, among: Tensor | None = None, letters: Letters | None = None) -> Tensor:
        """x (..., C) -> log probabilities (..., 1 + K) float32.

        Args:
            among: places (K',) in `ids`; only these candidates compete, in this order.
            letters: where the keys come from while they are learnt.
        """
        return self.logits(x, among, letters).log_softmax(-1)

    def logits(self, x: Tensor, among: Tensor | None = None, letters: Letters | None = None) -> Tensor:
        """The same before normalising: cosines times a learned sharpness, plus a bias."""
        if letters is not None:
            keys = letters(among).to(self.keys.dtype)
        else:
            keys = self.keys if among is None else self.keys[among]
        bias = self.bias if among is None else self.bias[among]
        x = F.normalize(x.float(), dim=-1).to(keys.dtype)
        blank = x @ F.normalize(self.blank.float(), dim=-1).to(keys.dtype)
        cosines = torch.cat((blank[..., None], F.linear(x, keys)), dim=-1)  # no copy of the table
        return cosines.float() * self.sharpness.float().exp() + F.pad(bias.float(), (1, 0))

    def loss(
        self,
        heard: Sequence[Tensor],
        said: Sequence[Sequence[int]],
        rivals: Sequence[int] | None = None,
        letters: Letters | None = None,
    ) -> Tensor:
        """Mean CTC loss per word token.

        Args:
            heard: projected audio of each question, (n_i, C). said: its audible token ids.
            rivals: places in `ids` that compete beside what was said (sampled softmax); all by default. 2,000 of
                10,000 take half of the time.
            letters: see `forward`.
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
        found = self(flat, among, letters)
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
        """(..., n, F) -> (..., n, C), queries. Float32 weights beside bfloat16 words multiply as bfloat16."""
        half = self.spelling.table.dtype is torch.bfloat16
        with torch.autocast(features.device.type, torch.bfloat16, enabled=half):
            return self.projector(features)

    def loss(
        self, clips: Sequence[Tensor], said: Sequence[Sequence[int]], rivals: Sequence[int] | None = None
    ) -> Tensor:
        """`Spelling.loss` of whole clips of features, (n_i, F) each."""
        return self.spelling.loss(side_by_side(self.project, clips), said, rivals)

    def spell(self, features: Tensor) -> list[int]:
        """What was heard, as token ids: (n, F) -> ids."""
        return self.spelling.spell(self.project(features[None])[0])


def side_by_side(project: Callable[[Tensor], Tensor], clips: Sequence[Tensor]) -> list[Tensor]:
    """Clips of features (n_i, F) through a projector in one batch -> (n_i, C) each, as each would be alone.

    The zeros behind a shorter clip are nothing to a `Projector`.
    """
    projected = project(nn.utils.rnn.pad_sequence(list(clips), batch_first=True).float())
    return [h[: len(clip)] for h, clip in zip(projected, clips, strict=True)]


def audible(tokenizer: Tokenizer, text: str) -> list[int]:
    """Token ids of a question without those that make no sound (punctuation)."""
    encoding = tokenizer.encode(text)
    pieces = (piece.replace("Ġ", "") for piece in encoding.tokens)  # byte-level BPE writes a leading space so
    return [i for i, piece in zip(encoding.ids, pieces, strict=True) if any(c.isalnum() for c in piece)]
