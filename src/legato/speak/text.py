"""Any text -> sentences as they are spoken, out as soon as they are certain.

    reader = Reader()
    for piece in pieces:                 # from a language model, cut anywhere
        for said in reader.feed(piece):  # "Doctor Smith paid five dollars,"
            ...
    reader.finish()                      # what was left

What comes out does not depend on where the pieces were cut. A sentence ends at . ! ? before a space, but not behind a
title, an initial or an abbreviation ("Dr. Smith", "J. Smith", "e.g. this"); it also ends at a blank line and in front
of a list's item. A clause is given out at , ; : before a word once it has SHORTEST letters, so that speaking may begin
early; a stretch of LONGEST without any of these is cut between words. How each is said: `spoken`.

Another script is said by its Latin letters ("Привет" -> "Privet"). Emoji, control characters and stray marks are passed
over; a text in which nothing else stands raises BadInput at `finish`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from legato.errors import BadInput
from legato.speak.spoken import say
from legato.speak.wordlists import ABBREVIATIONS, NUMBERED, TITLES

SHORTEST = 24  # characters of a clause that is given out by itself
LONGEST = 400  # characters without any stop
AHEAD = 12  # characters that a decision may look at behind a stop

STOP = re.compile(
    r"[.!?…]+[\"'”’»)\]*_]*(?=\s)|[。！？](?=.)|\n\n|\n(?=(?:[-*•+]|#{1,6}|\d{1,3}[.)]) )|[,;:](?= [^\W\d])"
)
ITEM = re.compile(r"\s*\d{1,3}[.)]?$")
INITIAL = re.compile(r"(?:^|[\s(\"'“])[A-Za-z]\.$")
SPACES = re.compile(r"\s+")
NO_LETTERS = (
    "nothing in this text can be spoken: no letter, digit or symbol with a name is in its {} characters; give words"
)


class Reader:
    """Text in, spoken sentences and clauses out. One text; not thread-safe."""

    def __init__(self) -> None:
        self._text = ""  # of the sentence that is not yet out, spaces already single
        self._gap = ""  # white space at the end, held back until something follows
        self._length = 0
        self._spoke = False

    def feed(self, piece: str) -> list[str]:
        """Takes the next piece; returns what it made certain, in order."""
        self._length += len(piece)
        kept = self._gap + piece
        bare = kept.rstrip()
        self._gap = kept[len(bare) :]
        if not bare:
            return []
        bare = SPACES.sub(_space, bare)
        self._text = self._text + bare if self._text else bare.lstrip()
        return self._said(self._cut(False))

    def finish(self) -> list[str]:
        """What is left. Raises BadInput where the whole text had nothing to say."""
        said = self._said([*self._cut(True), self._text])
        self._text = self._gap = ""
        if not self._spoke:
            raise BadInput(NO_LETTERS.format(self._length))
        return said

    def _said(self, written: list[str]) -> list[str]:
        said = [spoken for part in written if (spoken := say(part))]
        self._spoke = self._spoke or bool(said)
        return said

    def _cut(self, last: bool) -> list[str]:
        """Takes every certain part off the front."""
        parts = []
        while (at := _end(self._text, last)) is not None:
            parts.append(self._text[:at])
            self._text = self._text[at:].lstrip()
        return parts


def _space(m: re.Match[str]) -> str:
    lines = m[0].count("\n") + m[0].count("\u2029") + m[0].count("\u2028")
    return "\n\n" if lines > 1 else "\n" if lines else " "


def _end(text: str, last: bool) -> int | None:
    """Where the first part ends; None while that is not certain."""
    for m in STOP.finditer(text, 0, min(len(text), LONGEST + AHEAD)):
        if m.end() > LONGEST:
            break
        if not last and len(text) < m.end() + AHEAD and not _sure(text, m):
            return None
        if _ends(text, m):
            return m.end()
    if len(text) <= LONGEST or (not last and len(text) < LONGEST + AHEAD):
        return None
    head = text[:LONGEST]
    at = max(head.rfind(" "), head.rfind("\n"))
    return at if at > 0 else LONGEST


def _sure(text: str, m: re.Match[str]) -> bool:
    """Enough stands behind this mark already: white space and the sign that follows it."""
    return m[0][0] != "\n" and len(text) > m.end() + 1


def _ends(text: str, m: re.Match[str]) -> bool:
    """Is this mark the end of a sentence, or of a clause that is worth giving out?"""
    mark, before = m[0], text[: m.end()]
    if mark[0] in ",;:":
        return m.end() >= SHORTEST
    if mark != "." or text[m.end() : m.end() + 2] == "\n\n":
        return not ITEM.match(text[: m.start()]) or mark[0] == "\n"
    word = before.split()[-1].lstrip("\"'“(")
    following = text[m.end() :].lstrip()[:1]
    if ITEM.match(text[: m.start()]) or INITIAL.search(before) or word[:-1] in TITLES and not following.islower():
        return False
    if word in ABBREVIATIONS or re.fullmatch(r"(?:[A-Za-z]\.)+", word):
        return following.isupper() and word in ("etc.", "a.m.", "p.m.", "Jr.", "Sr.", "Inc.", "Ltd.", "Co.", "Corp.")
    if word[:-1] in NUMBERED and following.isdecimal():
        return False
    return not following.islower() or word[:-1].isdecimal() or len(word) > 4


def sentences(pieces: Iterable[str]) -> Iterator[str]:
    """A stream of pieces -> spoken sentences and clauses. Raises BadInput as `Reader.finish` does."""
    reader = Reader()
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.finish()
