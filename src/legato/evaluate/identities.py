"""What a training or selection run has seen, as hashes in one text file, and whether a final shares any of it.

A candidate declares these files when it is frozen, pinned by SHA-256; the opening of a final compares them with the
sealed rows. Each line is `<what> <hash>`, what being text, audio, fact or wording and the hash the first 16 hex digits
of a SHA-256: among a million lines against a thousand rows, one false alarm in 10^10. The lines are sorted, so equal
sets give equal files. An undeclared row cannot be found out here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from legato.corpora.rows import Row
from legato.errors import BadInput
from legato.evaluate.questions import Question, text_sha256

DIGITS = 16
_LINE = re.compile(rf"(text|audio|fact|wording) ([0-9a-f]{{{DIGITS}}})")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


@dataclass(frozen=True)
class Identities:
    """Hashes of everything that a set of rows holds."""

    text: frozenset[str] = frozenset()  # normalised questions
    audio: frozenset[str] = frozenset()  # recordings, by `Audio.sha256`
    fact: frozenset[str] = frozenset()
    wording: frozenset[str] = frozenset()

    @classmethod
    def of(cls, rows: Iterable[Row], audio_sha256: Iterable[str] = ()) -> Identities:
        """Identities of corpus rows and of the recordings (`Audio.sha256`) in which they were spoken."""
        rows = list(rows)
        return cls(
            text=frozenset(text_sha256(row.question)[:DIGITS] for row in rows),
            audio=frozenset(sha[:DIGITS] for sha in audio_sha256),
            fact=frozenset(_sha(row.fact) for row in rows),
            wording=frozenset(_sha(row.wording) for row in rows),
        )

    def clashes(self, questions: Iterable[Question], *, trained: bool) -> list[str]:
        """One sentence for each thing that `questions` share with this set and must not.

        Text and audio may never be shared; a fact may not where the row calls it held; a wording may not where the
        row calls it held and the set was `trained` on (selection may read a wording that no training saw).
        """
        found = []
        for q in questions:
            if q.text_sha256[:DIGITS] in self.text:
                found.append(f"row {q.id} asks a text of the set ({q.text!r})")
            if q.audio_sha256[:DIGITS] in self.audio:
                found.append(f"row {q.id} plays a recording of the set ({q.audio_sha256})")
            if q.fact_held and _sha(q.fact) in self.fact:
                found.append(f"row {q.id} is marked as outside every fit, but the set holds its fact {q.fact!r}")
            if trained and q.wording_held and _sha(q.wording) in self.wording:
                found.append(f"row {q.id} is marked as an unseen wording, but the set holds {q.wording!r}")
        return found

    def write(self, path: Path) -> None:
        """Write the sorted lines."""
        rows = (f"{f.name} {sha}\n" for f in fields(self) for sha in sorted(getattr(self, f.name)))
        path.write_text("".join(rows), encoding="ascii")

    @classmethod
    def read(cls, path: Path) -> Identities:
        """Read what `write` wrote.

        Raises:
            BadInput: the file is missing, or a line is not `<what> <sha256>`.
        """
        try:
            text = path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path} cannot be read as identities ({error}); write them from the rows.") from error
        sets: dict[str, set[str]] = {f.name: set() for f in fields(cls)}
        for number, line in enumerate(text.splitlines(), 1):
            match = _LINE.fullmatch(line)
            if match is None:
                wanted = f"text|audio|fact|wording and {DIGITS} hex digits"
                raise BadInput(f"{path} line {number} is {line[:40]!r}, wanted {wanted}.")
            sets[match[1]].add(match[2])
        return cls(**{name: frozenset(shas) for name, shas in sets.items()})
