"""The pocket voice: a backbone that reads words ahead of the sound, and a depth transformer that fills in a frame.

One stream of text and K of audio codes move together at 12.5 steps a second (delayed streams, Kyutai's DSM). Audio is
`lead` steps behind its text, and the books after the first another `delay` steps behind. At step s the backbone has
read text and codes up to s - 1; from its state h come the action of step s (begin a word, or wait) and, through the
depth transformer, K codes one after the other, each knowing those before it.

Codes are read as the codebook vectors that they stand for, through one matrix: a table of its own for every book would
be four times the backbone's layers in what it must learn, and alike codes would be strangers.

Not here: how words become tokens (`script`), stepping one frame at a time (`speaking`), training (recipes).

Shapes: B batch, T steps, K books, V entries, P projected width, C backbone width, D depth width.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.transformer import Transformer, TransformerConfig

PAD, WORD, BLANK = 0, 1, 2  # text: wait, begin a word, and what stands everywhere where no text is to be known
SPECIALS = 3
NONE = -1  # a code that is not there yet
TEXTS = 1024  # text tokens, the special ones included


@dataclass(frozen=True)
class VoiceConfig:
    """Sizes and the layout of the streams."""

    backbone: TransformerConfig = field(default_factory=lambda: TransformerConfig(8, 320, 5, 5, 64, 864, TEXTS))
    depth: TransformerConfig = field(default_factory=lambda: TransformerConfig(4, 192, 3, 3, 64, 512, TEXTS))
    books: int = 16
    entries: int = 512
    projected: int = 64
    lead: int = 12  # steps from a word's token to its sound: 0.96 s
    delay: int = 2  # steps from a frame's first code to its others
    window: int = 125  # steps that the backbone looks back: 10 s

    @property
    def delays(self) -> tuple[int, ...]:
        """Steps from a frame to each of its codes."""
        return (self.lead, *(self.lead + self.delay for _ in range(self.books - 1)))


class Voice(nn.Module):
    """Backbone, depth transformer and everything between codes and them.

    Args:
        codebooks: (K, V, P), the codec's, frozen.
    """

    def __init__(self, config: VoiceConfig, codebooks: Tensor) -> None:
        super().__init__()
        c = self.config = config
        assert codebooks.shape == (c.books, c.entries, c.projected), codebooks.shape
        scale = codebooks.flatten(1).std(1).clamp_min(1e-6)[:, None, None]
        # Each book at the same size, and a row of zeros for a code that is not there.
        self.register_buffer("codebooks", F.pad(codebooks / scale, (0, 0, 0, 1)), persistent=False)
        self.backbone, self.depth = Transformer(c.backbone), Transformer(c.depth)
        self.read_codes = nn.Linear(c.books * c.projected, c.backbone.width, bias=False)
        self.action = nn.Linear(c.backbone.width, 2)
        self.hand_down = nn.Linear(c.backbone.width, c.depth.width)
        self.stage = nn.Parameter(torch.randn(c.books, c.depth.width) * 0.02)
        self.read_code = nn.Parameter(torch.randn(c.books - 1, c.projected, c.depth.width) * c.projected**-0.5)
        self.heads = nn.Parameter(torch.randn(c.books, c.depth.width, c.entries) * c.depth.width**-0.5)

    def vectors(self, codes: Tensor) -> Tensor:
        """codes (..., K), NONE where there is none -> (..., K, P)."""
        books = torch.arange(codes.shape[-1], device=codes.device)
        return self.codebooks[books, codes]  # NONE is the last row, of zeros

    def embed(self, text: Tensor, codes: Tensor) -> Tensor:
        """text (B, T), codes (B, T, K), of one step -> what the backbone reads in the next, (B, T, C)."""
        return self.backbone.embed(text) + self.read_codes(self.vectors(codes).flatten(-2))

    def states(self, text: Tensor, codes: Tensor) -> Tensor:
        """Text (B, T) and codes (B, T, K) of steps 0 .. T - 1 -> h of steps 1 .. T, (B, T, C)."""
        T, W = text.shape[1], self.config.window
        steps = torch.arange(T, device=text.device)
        seen = (steps[:, None] >= steps) & (steps[:, None] - steps < W)
        return self.backbone(self.embed(text, codes), mask=seen[None, None])

    def depth_logits(self, h: Tensor, text: Tensor, codes: Tensor) -> Tensor:
        """All stages of frames at once, given the answers: h (N, C), text (N,), codes (N, K) -> (N, K, V)."""
        c = self.config
        before = torch.einsum("nkp,kpd->nkd", self.vectors(codes)[:, :-1], self.read_code.to(h.dtype))
        x = F.pad(before, (0, 0, 1, 0)) + self.stage.to(h.dtype) + self.hand_down(h)[:, None]
        x = torch.cat((x[:, :1] + self.depth.embed(text)[:, None], x[:, 1:]), dim=1)
        earlier = torch.ones(c.books, c.books, dtype=torch.bool, device=h.device).tril()[None, None]
        return torch.einsum("nkd,kdv->nkv", self.depth(x, mask=earlier), self.heads.to(h.dtype))
