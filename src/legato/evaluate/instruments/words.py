"""Two texts made comparable: case, punctuation, symbols, spelling, and numbers in words or in digits.

Not a text front end: it decides only what counts as the same word when a recogniser's spelling meets the script's. The
voice's own front end, handed in as `spoken`, reads both sides, so that "$3.50" meets "three dollars and fifty cents"
and "Mr." meets "mister". Numbers end as digits ("twenty-first" and "21st", "nineteen eighty-four" and "1984"), so one
wrong number is one wrong word. What may be written in two ways is settled by `toward`, which looks at both sides at
once. Two round numbers side by side ("two thousand three thousand") are not told apart. English only; other scripts
pass through untouched.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache

from legato.corpora.world.tables import column, table
from legato.errors import MissingExtra

Spoken = Callable[[str], str]  # a text -> the words that a voice says for it; empty where it can say nothing

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
]
_ONES += ["seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VALUE = {w: i for i, w in enumerate(_ONES)} | {w: 20 + 10 * i for i, w in enumerate(_TENS)}
_SCALE = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_ORDINAL = {"first": "one", "second": "two", "third": "three", "fifth": "five", "eighth": "eight", "ninth": "nine"}
_ORDINAL |= {"twelfth": "twelve"}
_ORDINAL |= {w + "th": w for w in [*_ONES, *_SCALE] if w not in _ORDINAL.values()}
_ORDINAL |= {w[:-1] + "ieth": w for w in _TENS}
_SYMBOLS = {"%": " percent ", "&": " and ", "+": " plus ", "=": " equals ", "@": " at ", "°": " degrees "}
_MONEY = {"$": ("dollar", "dollars"), "€": ("euro", "euros"), "£": ("pound", "pounds")}
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_TAILS = {
    "'ll": ("will", "shall"),
    "'re": ("are",),
    "'ve": ("have",),
    "'m": ("am",),
    "'s": ("is", "has", "us"),
    "'d": ("had", "would", "did"),
    "n't": ("not",),
}
_WHOLE = {
    "can't": ("cannot",),
    "won't": ("willnot",),
    "shan't": ("shallnot",),
    "gonna": ("goingto",),
    "wanna": ("wantto",),
    "gotta": ("gotto",),
    "alright": ("allright",),
    "ok": ("okay",),
    "okay": ("ok",),
}
_SPELLED = {"misses": "missus"}  # how a recogniser writes "Mrs."
_CLOCK = re.compile(r"(?<=\d)\.(?=\d\d\s?[ap]\.?m\b)", re.IGNORECASE)  # 2.15 pm
_LONGEST = 12  # words that may stand for one: the digits of a telephone number


def normal(text: str, spoken: Spoken | None = None) -> str:
    """The text in lower case, words apart by one space; empty where it holds neither a letter nor a digit.

    British spellings become American ones, and names that sound alike ("Allan", "Alan") become one. Raises
    MissingExtra without whisper-normalizer, which has the table of spellings.
    """
    text = unicodedata.normalize("NFKC", text)
    if spoken is not None:
        text = spoken(_CLOCK.sub(":", text))
    text = text.lower().replace("’", "'")
    text = re.sub(rf"([$€£])\s?({_NUMBER})", lambda m: f"{m[2]} {_MONEY[m[1]][m[2] != '1']}", text)
    for symbol, word in _SYMBOLS.items():
        text = text.replace(symbol, word)
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"(?<=\d)\.(?=\d)", " point ", text)
    text = re.sub(r"(?<=\d)(?=[^\W\d_])(?!(?:st|nd|rd|th)\b)", " ", text)
    text = "".join(c if c.isalnum() or c == "'" or unicodedata.category(c)[0] == "M" else " " for c in text)
    words = [w for w in (word.strip("'") for word in text.split()) if w]
    one = _one_spelling()
    return " ".join(_numbers([one.get(w, w) for w in words]))


def toward(said: str, heard: str) -> str:
    """`heard` in the spelling of `said`, both as `normal` writes them, wherever the two hold the same words.

    One word meets several: "i'll" and "i will", "icecream" and "ice cream", "fbi" and "f b i", "705" and "7 oh 5". What
    a contraction stands for is decided by the other side ("he'd" is "he had" there, and "he would" elsewhere). `said`
    is never touched, so its count of words does not depend on what was heard.
    """
    if said == heard:
        return heard
    a, b = said.split(), heard.split()
    steps = _same(a, b)
    # cost[i][j]: fewest wrong words between a[i:] and b[j:]; go[i][j]: how many words of each are passed there
    cost = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    go = [[(0, 0)] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a), -1, -1):
        for j in range(len(b), -1, -1):
            ways = [(cost[i + di][j + dj], di, dj) for di, dj in steps.get((i, j), ())]
            if i < len(a) and j < len(b):
                ways.append((cost[i + 1][j + 1] + (a[i] != b[j]), 1, 1))
            if i < len(a):
                ways.append((cost[i + 1][j] + 1, 1, 0))
            if j < len(b):
                ways.append((cost[i][j + 1] + 1, 0, 1))
            if ways:
                cost[i][j], *step = min(ways, key=lambda way: way[0])
                go[i][j] = (step[0], step[1])
    out: list[str] = []
    i = j = 0
    while i < len(a) or j < len(b):
        di, dj = go[i][j]
        out += a[i : i + di] if (di, dj) in steps.get((i, j), ()) else b[j : j + dj]
        i, j = i + di, j + dj
    return " ".join(out)


def _same(a: list[str], b: list[str]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """(i, j) -> (words of a, words of b) that say the same from there on, one of the two being a single word."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for one, many, turned in ((a, b, False), (b, a, True)):
        places: dict[str, list[int]] = defaultdict(list)
        for i, word in enumerate(one):
            for sound in _sounds(word):
                places[sound].append(i)
        for j in range(len(many)):
            for n in range(1, min(_LONGEST, len(many) - j) + 1):
                span = many[j : j + n]
                for i in sorted({i for joined in _joined(span) for i in places.get(joined, ())}):
                    if n > 1 or one[i] != span[0]:
                        place, step = ((j, i), (n, 1)) if turned else ((i, j), (1, n))
                        found[place].append(step)
    return found


def _sounds(word: str) -> Iterable[str]:
    """What one word may stand for, without spaces."""
    yield word
    yield from _WHOLE.get(word, ())
    for tail, meant in _TAILS.items():
        if word.endswith(tail) and len(word) > len(tail) and word not in _WHOLE:
            yield from (word.removesuffix(tail) + full for full in meant)


def _joined(span: list[str]) -> Iterable[str]:
    yield "".join(span)
    if any(w.isdigit() for w in span) and any(w in ("oh", "o") for w in span):
        yield "".join("0" if w in ("oh", "o") else w for w in span)


@cache
def _one_spelling() -> dict[str, str]:
    try:
        from whisper_normalizer.english import EnglishSpellingNormalizer
    except ModuleNotFoundError as error:
        raise MissingExtra("whisper-normalizer", "instruments", "comparing spellings") from error
    names = {
        other.lower(): row["name"].lower()
        for row in table("names")
        for other in row["respellings"].split(";")
        if other != "-" and other not in column("names")
    }
    return EnglishSpellingNormalizer().mapping | names | _SPELLED


def _numbers(words: list[str]) -> list[str]:
    """Number words as digits, everything else as it is."""
    out, i = [], 0
    while i < len(words):
        end, value, ordinal = _phrase(words, i)
        if end == i:
            out.append(words[i])
            i += 1
        else:
            out.append(f"{value}{_suffix(value)}" if ordinal else str(value))
            i = end
    return out


def _phrase(words: list[str], i: int) -> tuple[int, int, bool]:
    """The longest number that begins at word i: (word after it, value, is it an ordinal); (i, 0, False) for none."""
    total, part, last, start = 0, 0, None, i  # last: what the previous word was worth; None before the first
    smallest = 10**12  # each scale must be below the one before: "two thousand three thousand" is two numbers
    while i < len(words):
        word, ordinal = words[i], False
        if word in _ORDINAL:
            word, ordinal = _ORDINAL[word], True
        if word in _VALUE:
            value = _VALUE[word]
            if last is not None and not _follows(value, last):
                if not (10 <= value < 100 and 10 <= last < 100 and total == 0 and part < 100):
                    break
                part *= 100  # a year: nineteen eighty four
            part += value
            last = value
        elif word in _SCALE and last is not None and (part or total):
            scale = _SCALE[word]
            if scale == 100:
                if not 0 < part < 100:
                    break
                part *= 100
            else:
                if part == 0 or scale >= smallest:
                    break
                total, part, smallest = total + part * scale, 0, scale
            last = scale
        elif word == "and" and last in _SCALE.values() and i + 1 < len(words) and _continues(words[i + 1]):
            i += 1
            continue
        else:
            break
        i += 1
        if ordinal:
            return i, total + part, True
    return (i, total + part, False) if last is not None else (start, 0, False)


def _follows(value: int, last: int) -> bool:
    """May a number word of this value stand right after one worth `last`: "twenty one", "hundred five"?"""
    if last >= 100:
        return value > 0
    return 20 <= last < 100 and last % 10 == 0 and 0 < value < 10


def _continues(word: str) -> bool:
    return _ORDINAL.get(word, word) in _VALUE


def _suffix(value: int) -> str:
    if value % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
