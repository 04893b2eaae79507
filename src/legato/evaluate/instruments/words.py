"""Two texts made comparable: case, punctuation, symbols, and numbers in words or in digits.

Not a text front end: it decides only what counts as the same word when a recogniser's spelling meets the script's.
Numbers end as digits on both sides ("twenty-first" and "21st", "nineteen eighty-four" and "1984"), so one wrong number
is one wrong word. Two round numbers side by side ("two thousand three thousand") are not told apart. English only;
other scripts pass through untouched.
"""

from __future__ import annotations

import re
import unicodedata

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


def normal(text: str) -> str:
    """The text in lower case, words apart by one space; empty where it holds neither a letter nor a digit."""
    text = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    text = re.sub(rf"([$€£])\s?({_NUMBER})", lambda m: f"{m[2]} {_MONEY[m[1]][m[2] != '1']}", text)
    for symbol, word in _SYMBOLS.items():
        text = text.replace(symbol, word)
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"(?<=\d)\.(?=\d)", " point ", text)
    text = re.sub(r"(?<=\d)(?=[^\W\d_])(?!(?:st|nd|rd|th)\b)", " ", text)
    text = "".join(c if c.isalnum() or c == "'" or unicodedata.category(c)[0] == "M" else " " for c in text)
    words = [w for w in (word.strip("'") for word in text.split()) if w]
    return " ".join(_numbers(words))


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
