"""Words -> phonemes of the pocket voice: Kokoro's alphabet as misaki writes it, American English, with stress marks.

A word is looked up in the lexicon as it stands, then as an inflection (-s, -ed, -ing, 's) or by its parts between
hyphens, and then its letters are read (`letters`): halves of a word without a hyphen would more often be wrong. What is
no letter a-z is not read: `speak.text` leaves none.

How little words sound depends on what follows ("the apple", "used to"), and which of two readings is meant ("to
record", "a record") on the words around: by the rules below, which know no grammar.

Lexicon, its source and licence, and what was measured: `pronunciation/README.md`.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from legato.pocket.letters import PRIMARY, STRESSES, Letters

FOLDER = Path(__file__).parent / "pronunciation"
MARKS = ",.?!;:"
SECONDARY = "ˌ"
VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ")
CONSONANTS = frozenset("bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθ")  # the vowels of "a" and of "bottle" are neither: nothing hears them
LONG = frozenset("AIOQWYʤʧ")
TAPS = frozenset("AIOWYiuæɑəɛɪɹʊʌ")  # a t between one of these and a vowel is tapped
VOICELESS, HISSING = frozenset("ptkfθ"), frozenset("szʃʒʧʤ")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


DETERMINERS = _set(
    "the a an this that these those my your his her its our their no some any each every another which what whose of "
    "in on at for with by from about into under over first second third last next new old good great"
)
BEFORE_VERB = _set(
    "to will would can could should must may might shall can't cannot won't wouldn't couldn't shouldn't don't doesn't "
    "didn't do does did i you we they who not never please let's i'll you'll we'll they'll he'll she'll i'd you'd we'd "
    "they'd always often and"
)
BEFORE_PARTICIPLE = _set("have has had having i've you've we've they've was were been is are be being")
MOSTLY_VERBS = _set("live lives use uses excuse")  # where nothing around them says otherwise
PRONOUNS = _set("i you he she it we they who")
GETTING = _set("get gets got gotten getting")
PREPOSITIONS = _set("in on at for with by from about under over into to of near during before after and")
OPENERS = _set("the a an this that these those my your his her its our their it me us them him and up down")
FUNCTION = _set(
    "of in on at for with by from to and or but is was are were be been has have had will would can could that which "
    "who as than if when while because so it he she they we you i"
)

Entry = str | dict[str, str]


@cache
def lexicon() -> dict[str, Entry]:
    """Word -> its phonemes, or phonemes by part of speech with a DEFAULT."""
    found: dict[str, Entry] = {}
    for line in lzma.decompress((FOLDER / "lexicon.xz").read_bytes()).decode().splitlines():
        word, said = line.split("\t")
        found[word] = dict(part.split("=") for part in said.split("|")) if "=" in said else said
    return found


@cache
def letters() -> Letters:
    return Letters.load(FOLDER / "letters.xz")


def phonemes(word: str) -> str:
    """One word by itself; empty only where it has no letter."""
    return _finished(_say(word, None) or "")


def sentence_phonemes(words: Sequence[str]) -> list[str]:
    """Words of one sentence, each with the marks behind it -> as many strings, marks kept: "Yes," -> "jˈɛs,"."""
    bare = [word.rstrip(MARKS) for word in words]
    marks = [word[len(b) :] for word, b in zip(words, bare, strict=True)]
    said: list[str] = [""] * len(words)
    vowel: bool | None = None  # does what follows begin with one; None where a pause follows
    for i in reversed(range(len(words))):
        if marks[i]:
            vowel = None
        found = _in_context(bare, marks, i, vowel)
        said[i] = _finished(found) + marks[i]
        first = next((sign for sign in found if sign in VOWELS or sign in CONSONANTS), None)
        vowel = vowel if first is None else first in VOWELS
    return said


def _finished(said: str) -> str:
    return said.replace("ɾ", "T").replace("ʔ", "t").replace(" ", "")


# -- the word among others ---------------------------------------------------------------------------------------------


def _in_context(words: Sequence[str], marks: Sequence[str], i: int, vowel: bool | None) -> str:
    word = words[i]
    lower = word.lower()
    before = words[i - 1].lower() if i and not marks[i - 1] else ""
    after = words[i + 1] if i + 1 < len(words) and not marks[i] else ""
    if len(word) == 1 and word.isalpha() and word.isupper() and not _small(word, i, before, after, words):
        spelled = after[:2] in ("", "'s") or not (len(after.rstrip("'s")) == 1 and after[0].isupper())
        return _restressed(_entry(word), PRIMARY if spelled else SECONDARY)
    if lower in ("a", "an"):
        return "ɐ" if lower == "a" else "ɐn"
    if word == "I":
        return SECONDARY + "I"
    if lower == "the":
        return "ði" if vowel else "ðə"
    if lower == "to":
        return "tu" if vowel is None else "tʊ" if vowel else "tə"
    if lower == "in":
        return PRIMARY + "ɪn" if vowel is None else "ɪn"
    if word == "am" and vowel is not None:
        return "ɐm"
    if lower == "used" and after.lower() == "to" and _used_to_be(words, i):
        return "jˈust"
    return _say(word, _part(lower, before, after.lower(), i, vowel)) or ""


def _used_to_be(words: Sequence[str], i: int) -> bool:
    """We used to go, she got used to it; but a tool is used to cut."""
    before = words[i - 1] if i else ""
    habit = before.lower() in PRONOUNS | GETTING | {"never", "always"} or (i > 0 and before[:1].isupper())
    return habit or (words[i + 2 : i + 3] == ["be"] and before.lower() not in BEFORE_PARTICIPLE)


def _small(letter: str, i: int, before: str, after: str, words: Sequence[str]) -> bool:
    """The words A and I, not the letters."""
    if letter == "I":
        neighbours = (words[i - 1] if i else "", after)
        return not any(len(n) == 1 and n.isupper() for n in neighbours)
    return letter == "A" and not before and len(after) > 1


def _part(word: str, before: str, after: str, i: int, vowel: bool | None) -> str | None:
    """Which reading, for the few words that have several."""
    entry = _entry(word)
    if not isinstance(entry, dict):
        return None
    if vowel is None and "None" in entry:
        return "None"
    if "DT" in entry:
        pointing = before in PREPOSITIONS and after not in FUNCTION and after not in OPENERS
        return "DT" if not after or pointing or (not before and after not in OPENERS) else None
    if "VBN" in entry and before in BEFORE_PARTICIPLE:
        return "VBN"
    if "VBD" in entry and before in ("he", "she", "it", "who"):
        return "VBD"
    verb, noun = entry.get("VERB", entry["DEFAULT"]), entry.get("NOUN", entry["DEFAULT"])
    many = word.endswith("s") and before not in PRONOUNS  # "to contracts" has no verb in it
    if (before in BEFORE_VERB and not many) or (not before and after in OPENERS):
        return "VERB"
    if (before == "that" or word in MOSTLY_VERBS) and after in OPENERS:
        return "VERB"
    if before in DETERMINERS or before.endswith("'s"):
        adjective = "ADJ" in entry and after and after not in FUNCTION and word != "minute"
        return "ADJ" if adjective else "NOUN" if noun != verb else None
    if before in BEFORE_PARTICIPLE:
        return None if after in OPENERS else "ADJ"
    if after in OPENERS or (word in MOSTLY_VERBS and (after or not before)):
        return "VERB"
    return "NOUN" if before and noun != verb else None


# -- the word by itself ------------------------------------------------------------------------------------------------


def _entry(word: str) -> Entry | None:
    found = lexicon().get(word)
    if found is None and len(word) > 1:
        found = lexicon().get(word.capitalize() if word == word.lower() else word.lower())
    return found


def _say(word: str, part: str | None) -> str | None:
    parts = [p for p in word.split("-") if p]
    if len(parts) > 1 and _entry(word) is None:
        return _joined([said for p in parts if (said := _say(p, None))])
    said = _known(word, part)
    if said is None and re.fullmatch(r"[a-z]+[A-Z][A-Za-z]*|[A-Z][a-z]+(?:[A-Z][a-z]*)+", word):
        humps = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", word)
        said = _joined([found for hump in humps if (found := _say(hump, None))])
    if said is None:
        said = _read(word)
    if said and word != word.lower() and not any(mark in said for mark in STRESSES):
        said = _restressed(said, PRIMARY if word == word.upper() and len(word) > 1 else SECONDARY)
    return said


def _known(word: str, part: str | None) -> str | None:
    entry = _entry(word)
    if entry is None:
        return _inflected(word)
    if isinstance(entry, str):
        return entry
    return entry.get(part or "DEFAULT") or entry["DEFAULT"]


def _inflected(word: str) -> str | None:
    """The stem is known, and so is how an ending sounds behind it."""
    lower = word.lower()
    if len(word) > 2 and lower.endswith("s"):
        stems = [word[:-1]] if not lower.endswith(("ss", "'s")) else []
        if len(word) > 4 and lower.endswith("ies"):
            stems.insert(0 if word[:-1] not in lexicon() else 1, word[:-3] + "y")  # Carrie is not in "carries"
        elif lower.endswith("'s") or (len(word) > 4 and lower.endswith("es")):
            stems.append(word[:-2])
        for stem in stems:
            if said := _stem(stem):
                return said + ("s" if said[-1] in VOICELESS else "ᵻz" if said[-1] in HISSING else "z")
    if len(word) > 2 and lower.endswith("'"):
        return _stem(word[:-1])
    if len(word) > 4 and lower.endswith("ed"):
        doubled = [word[:-3]] if word[-3:-2] == word[-4:-3] else []
        for stem in (word[:-1], word[:-2], *doubled, word[:-3] + "y"):
            if said := _stem(stem, "VERB"):
                return _past(said)
    if len(word) > 4 and lower.endswith("ing"):
        doubled = [word[:-4]] if word[-4:-3] == word[-5:-4] else []
        for stem in (word[:-3], word[:-3] + "e", *doubled):
            if said := _stem(stem, "VERB"):
                return f"{said[:-1]}ɾɪŋ" if said[-1] == "t" and said[-2:-1] and said[-2] in TAPS else f"{said}ɪŋ"
    return None


def _stem(word: str, part: str = "DEFAULT") -> str | None:
    if len(word) < 2:
        return _entry(word.upper()) if word.isupper() else None  # type: ignore[return-value]  # letters have one reading
    entry = _entry(word)
    return entry if entry is None or isinstance(entry, str) else entry.get(part, entry["DEFAULT"])


def _past(said: str) -> str:
    if said[-1] == "t":
        return f"{said[:-1]}ɾᵻd" if said[-2:-1] and said[-2] in TAPS else f"{said}ᵻd"
    if said[-1] == "d":
        return f"{said}ᵻd"
    return said + ("t" if said[-1] in "pkfθʃsʧ" else "d")


def _read(word: str) -> str | None:
    """By its letters; what cannot be said as a word is spelled."""
    plain = re.sub(r"[^a-z]", "", word.lower())
    if not plain:
        return None
    if len(plain) > 1 and re.search("[aeiouy]", plain):
        return letters()(plain)
    names = [_restressed(_entry(sign.upper()), SECONDARY) for sign in plain]
    return "".join((*names[:-1], _restressed(names[-1], PRIMARY)))


# -- stress ------------------------------------------------------------------------------------------------------------


def _restressed(said: Entry | None, mark: str) -> str:
    """The strongest stress of a word becomes this one; a word without any gets it on its first vowel."""
    assert isinstance(said, str)
    if PRIMARY in said:
        return said.replace(SECONDARY, "").replace(PRIMARY, mark) if mark == SECONDARY else said
    if SECONDARY in said:
        return said.replace(SECONDARY, mark, 1)
    at = next((i for i, sign in enumerate(said) if sign in VOWELS), None)
    return said if at is None else said[:at] + mark + said[at:]


def _joined(parts: list[str]) -> str:
    """One word of several: where most of them are stressed, the lighter half steps back."""
    weights = [(PRIMARY in said, sum(2 if sign in LONG else 1 for sign in said), i) for i, said in enumerate(parts)]
    if len(parts) > 1 and sum(stressed for stressed, *_ in weights) > (len(parts) + 1) // 2:
        for _, _, i in sorted(weights)[: len(parts) // 2]:
            parts[i] = _restressed(parts[i], SECONDARY)
    return "".join(parts)
