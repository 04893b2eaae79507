"""The sentences that a voice is to say: a JSON lines file of {"id", "text", "kind"}, and what identifies each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from legato.errors import BadInput
from legato.evaluate import layout, lines
from legato.evaluate.questions import text_sha256

_SEED_BITS = 31  # what every generator takes


@dataclass(frozen=True)
class Sentence:
    """One sentence. id: also the name of its recordings, <id>.wav. kind: by which figures are grouped."""

    id: str
    text: str
    kind: str

    @property
    def text_sha256(self) -> str:
        """Of the normalised words: what must not be in a training set."""
        return text_sha256(self.text)

    @property
    def content_sha256(self) -> str:
        """Of text and kind to the letter: what must not change after sealing."""
        return hashlib.sha256(lines.dumps([self.text, self.kind])).hexdigest()

    @property
    def seed(self) -> int:
        """Of everything drawn while it is said: the same on every machine, and nobody chose it."""
        return int.from_bytes(hashlib.sha256(f"say|{self.id}".encode()).digest()[:8]) >> (64 - _SEED_BITS)


def read(path: Path) -> tuple[Sentence, ...]:
    """Read a file of sentences.

    Raises:
        BadInput: it cannot be read, a line is no sentence, or two share an id or their words.
    """
    found = lines.read(path)
    whole = [*found.whole, found.torn] if found.torn else found.whole
    sentences = []
    for number, line in enumerate(whole, 1):
        where = f"{path.name} line {number}"
        body = lines.parse(line, where)
        if set(body) != {"id", "text", "kind"} or not all(isinstance(v, str) and v for v in body.values()):
            raise BadInput(f"{where} holds {sorted(body)}; a sentence has id, text and kind, none of them empty.")
        layout.checked(body["id"])
        sentences.append(Sentence(**body))
    if not sentences:
        raise BadInput(f"{path} holds no sentence; give one JSON object a line, with id, text and kind.")
    refuse_twins(sentences)
    return tuple(sentences)


def refuse_twins(sentences: Iterable[Sentence]) -> None:
    """Raises BadInput where two sentences share an id or their words."""
    for what in ("id", "text_sha256"):
        seen: dict[str, Sentence] = {}
        for s in sentences:
            first = seen.setdefault(getattr(s, what), s)
            if first is not s:
                raise BadInput(f"sentences {first.id} and {s.id} share their {what} ({s.text!r}); keep one of them.")
