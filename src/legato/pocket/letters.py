"""Letters to sounds, for words that no lexicon has: a joint n-gram over pairs of a letter and its phonemes.

Beam search over the letters of the word; a word has one primary stress. Made by recipes/phonemes.py, which explains
the model; read from one file, deterministic, no torch. A letter that is no a-z has no sound and is passed over.
"""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
from pathlib import Path

ORDER = 8
STEP = 0.0625  # nats of one unit of what is stored
FIRST, LAST = "\x01", "\x02"
EMPTY = "_"
BEAM = 24
UNSEEN = -12.0
PRIMARY = "ˈ"
STRESSES = "ˈˌ"
LONGEST = 60  # letters that are read at once; a longer word is read in parts


def signs(said: str) -> list[str]:
    """Phonemes, each vowel with the stress mark before it."""
    found: list[str] = []
    mark = ""
    for sign in said:
        if sign in STRESSES:
            mark = sign
        else:
            found.append(mark + sign)
            mark = ""
    return found


class Letters:
    """A word of letters a-z -> phonemes."""

    def __init__(self, pairs: list[str], logp: dict[str, float], back: dict[str, float]) -> None:
        self._logp, self._back = logp, back
        self._pairs: dict[str, list[tuple[str, str]]] = defaultdict(list)  # letter -> (sign, phonemes)
        for i, pair in enumerate(pairs):
            self._pairs[pair[0]].append((chr(0x100 + i), pair[1:].replace(EMPTY, "")))

    @classmethod
    def load(cls, path: Path) -> Letters:
        data = lzma.decompress(path.read_bytes())
        parts = []
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "little")
            parts.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        head, shared, rests, logs, backs = parts
        logp: dict[str, float] = {}
        back: dict[str, float] = {}
        gram = ""
        for keep, rest, p, b in zip(shared, rests.decode("utf-16-le").split("\n"), logs, backs, strict=False):
            gram = gram[:keep] + rest
            logp[gram] = -p * STEP
            if b != 128:
                back[gram] = (b - 128) * STEP
        return cls(json.loads(head), logp, back)

    def __call__(self, word: str) -> str:
        word = "".join(sign for sign in word.lower() if sign in self._pairs)
        if len(word) > LONGEST:
            return self(word[:LONGEST]) + self(word[LONGEST:])
        beam = [(0.0, FIRST, "")]
        for letter in word:
            grown: dict[tuple[str, str], float] = {}
            for so_far, history, said in beam:
                stressed = PRIMARY in said
                for sign, chunk in self._pairs[letter]:
                    if stressed and PRIMARY in chunk:
                        continue
                    key = ((history + sign)[1 - ORDER :], said + chunk)
                    new = so_far + self._score(history, sign)
                    if new > grown.get(key, -1e9):
                        grown[key] = new
            ranked = sorted(((score, *key) for key, score in grown.items()), reverse=True)
            beam = ranked[:BEAM]
        ended = sorted(((score + self._score(history, LAST), said) for score, history, said in beam), reverse=True)
        return next((said for _, said in ended if PRIMARY in said), ended[0][1])

    def _score(self, history: str, sign: str) -> float:
        total = 0.0
        while True:
            found = self._logp.get(history + sign)
            if found is not None:
                return total + found
            if not history:
                return total + UNSEEN
            total += self._back.get(history, 0.0)
            history = history[1:]
