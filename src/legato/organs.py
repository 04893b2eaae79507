"""The contracts between rooms. Protocols and the plain values they pass; no behaviour.

A pocket model and an adapter around a real checkpoint satisfy the same Protocols; `tests/contracts/` runs one suite
over all of them. A frozen organ is a guest: `listen`, `speak`, `converse` and `evaluate` know it only by these names.

Shapes: B batch, T tokens, C model width, L layers, H key/value heads, D head width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor

    from legato.audio import Audio
    from legato.cache import Cache, Geometry
    from legato.rotary import Rotary


@dataclass(frozen=True)
class Prompt:
    """One question as a decoder reads it: words and audio on one row of positions.

    Two models can share a prefix only if their prompts are equal token for token: `ids` holds `AUDIO` where audio
    features stand, so the equality of two prompts is the equality of two tuples.
    """

    ids: tuple[int, ...]  # n tokens; the last one always runs through the decoder that answers (the n-1 rule)
    audio: slice  # where the audio stands in ids

    AUDIO = -1


@dataclass(frozen=True)
class Heard:
    """What a listener remembers of a question: everything but the prompt's last token, as content keys."""

    prompt: Prompt
    memory: Cache  # content space, length n - 1
    doubt: str | None = None  # why this may be no question to it at all, such as "it sounds like noise or music"


class Listener(Protocol):
    """A speech language model that can hear."""

    name: str
    geometry: Geometry
    rotary: Rotary

    def prompt(self, audio: Audio) -> Prompt: ...

    def listen(self, audio: Audio) -> Heard:
        """Run audio and prompt through the model once, up to and without the last prompt token."""
        ...

    def read(self, text: str) -> Heard:
        """The same prompt with words where the audio would stand."""
        ...


class TextDecoder(Protocol):
    """A frozen decoder that answers from a memory."""

    name: str
    geometry: Geometry
    rotary: Rotary
    end_ids: frozenset[int]

    def start(self, memory: Cache, last_id: int, capacity: int) -> DecodeState:
        """Install placed `memory` (length n - 1) and run `last_id` on top of it. Refuses content keys."""
        ...

    def text(self, ids: list[int]) -> str: ...


class DecodeState(Protocol):
    """A decoder in the middle of an answer: logits of the newest position, and one step forward."""

    logits: Tensor  # (vocab,)

    def step(self, token: int) -> None: ...


@dataclass(frozen=True)
class Answer:
    """What an arm said, and what each part cost. Milliseconds; None where the arm has no such step."""

    text: str
    tokens: tuple[int, ...]
    finish: str  # "end": the model stopped by itself; "limit": the token limit stopped it
    prefill_ms: float | None
    map_ms: float | None
    correct_ms: float | None
    place_ms: float | None
    first_token_ms: float  # from the start of the question to the first token known
    decode_tokens_per_s: float | None  # None when fewer than two tokens were made
    total_ms: float
    doubt: str | None = None  # the listener's, see `Heard`; the answer was given in spite of it


@runtime_checkable
class Arm(Protocol):
    """One way of answering a spoken question."""

    name: str

    def answer(self, audio: Audio, *, max_tokens: int = 48, force_tokens: int | None = None) -> Answer:
        """Answer; `force_tokens` decodes exactly that many, past any end mark, for speed measurements."""
        ...



@dataclass(frozen=True)
class Layout:
    """How text and audio lie beside each other in a speech model, in steps of one codec frame."""

    delays: tuple[int, ...]  # steps from a frame's moment in the text stream to each of its K codes
    pad: int  # text id of waiting
    word: int  # text id of beginning a word
    distilled: bool = False  # guidance is in the weights already

    @property
    def books(self) -> int:
        return len(self.delays)


class SpeechModel(Protocol):
    """A frozen voice: a backbone that reads text ahead of the sound, and a depth model that completes a frame."""

    name: str
    width: int  # C
    layout: Layout

    def start(self, *, guided: bool) -> SpeechState:
        """A new utterance; guided ones are run twice in one pass, the second time with the text blanked."""
        ...


class SpeechState(Protocol):
    """A speech model in the middle of an utterance."""

    def step(self, text: int, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Text id and codes (K,) of the last step, -1 for none -> h (1 or 2, C), logits of waiting and beginning (2,).

        Both are views that the next step overwrites; the first row of h has read the text.
        """
        ...

    def depth(self, text: int) -> DepthState:
        """The depth model on the newest h, with this step's text."""
        ...


class DepthState(Protocol):
    """One frame's codes, one after the other."""

    def logits(self, stage: int) -> Tensor:
        """(1 or 2, V) for code `stage`, after all before it were taken."""
        ...

    def take(self, stage: int, code: int) -> None: ...


class Codec(Protocol):
    """A neural codec whose decoder reads the sum of projected codebook vectors."""

    rate: int  # Hz
    frame: int  # samples of one codec frame
    books: int  # K
    width: int  # C of the latent that the decoder reads
    projected: int  # U, of what stands between the projections: all spaces that have codebooks, side by side

    def latent(self, audio: Tensor) -> Tensor:
        """Audio (B, S) -> the encoder's own latent (B, C', F)."""
        ...

    def encode(self, audio: Tensor) -> Tensor:
        """Audio (B, S) -> codes (B, K, F)."""
        ...

    def project(self, e: Tensor) -> Tensor:
        """The encoder's latent (B, C', F) -> what the codebooks would cut up (B, U, F), not cut up."""
        ...

    def unproject(self, u: Tensor) -> Tensor:
        """(B, U, F), cut up or not -> what the decoder reads (B, C, F)."""
        ...

    def lookup(self, codes: Tensor) -> Tensor:
        """The first k books' codes (B, k, F) -> what the decoder reads (B, C, F)."""
        ...

    def decode(self, z: Tensor) -> Tensor:
        """(B, C, F) -> audio (B, F x frame)."""
        ...

    def stream(self, batch: int = 1) -> CodecStream:
        """The decoder with memory, fed frame by frame."""
        ...


class CodecStream(Protocol):
    """A decoder between two frames: its outputs, end to end, are what `Codec.decode` gives for all at once."""

    def __call__(self, z: Tensor) -> Tensor:
        """(B, C, F) -> audio (B, F x frame)."""
        ...
