"""Numbers in English words, as an American says them: "one hundred five", "nineteen oh five", "three point one four".

Own code because the kept libraries do not fit: num2words is LGPL, inflect pulls a type checker into every import.
Digits are strings throughout, so a number of any length is said and never becomes a float.
"""

from __future__ import annotations

ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES = (
    "thousand", "million", "billion", "trillion", "quadrillion", "quintillion", "sextillion", "septillion",
    "octillion", "nonillion", "decillion",
)  # fmt: skip
ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
LONGEST = 3 * (len(SCALES) + 1)  # digits that still have a name; more are said one by one


def digits(number: str) -> str:
    """Each digit by its name: "305" -> "three zero five"; anything else in between is passed over."""
    return " ".join(ONES[int(sign)] for sign in number if sign.isdecimal())


def cardinal(number: str | int) -> str:
    """ "1234" -> "one thousand two hundred thirty four"; a leading zero is a code and said digit by digit."""
    number = str(number)
    if len(number) > LONGEST or (len(number) > 1 and number[0] == "0"):
        return digits(number)
    n, words = int(number), []
    if n == 0:
        return ONES[0]
    for scale in reversed(range(len(SCALES) + 1)):
        group = n // 1000**scale % 1000
        if group:
            words += _below_thousand(group)
            if scale:
                words.append(SCALES[scale - 1])
    return " ".join(words)


def _below_thousand(n: int) -> list[str]:
    words = [ONES[n // 100], "hundred"] if n >= 100 else []
    n %= 100
    if n >= 20:
        words.append(TENS[n // 10])
        n %= 10
    if n:
        words.append(ONES[n])
    return words


def ordinal(number: str | int) -> str:
    """ "21" -> "twenty first"."""
    *before, last = cardinal(number).split()
    regular = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return " ".join((*before, ORDINALS.get(last, regular)))


def year(number: str) -> str:
    """Four digits as a year: "1905" -> "nineteen oh five", "2000" -> "two thousand", "1900" -> "nineteen hundred"."""
    century, rest = number[:2], int(number[2:])
    if century[1] == "0" and rest < 10:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def decimal(number: str) -> str:
    """ "1,234.50" -> "one thousand two hundred thirty four point five zero"; ".5" -> "point five"."""
    whole, _, part = number.replace(",", "").partition(".")
    words = cardinal(whole) if whole else ""
    return f"{words} point {digits(part)}".strip() if part else words


def plural(word: str) -> str:
    """Of the words that this package itself counts with."""
    if word.endswith("y") and word[-2] not in "aeo":
        return f"{word[:-1]}ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def fraction(above: str, below: str) -> str:
    """ "3", "4" -> "three quarters"; "1", "128" -> "one over one hundred twenty eight"."""
    a, b = int(above), int(below)
    if b < 2 or b > 20 or a >= 100:
        return f"{cardinal(above)} over {cardinal(below)}"
    name = {2: "half", 4: "quarter"}.get(b) or ordinal(b)
    return f"{cardinal(above)} {name if a == 1 else 'halves' if b == 2 else plural(name)}"


ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


def roman(numeral: str) -> int:
    """A well-formed numeral below four hundred -> its value."""
    values = [ROMAN[sign] for sign in numeral]
    return sum(-v if any(w > v for w in values[i + 1 : i + 2]) else v for i, v in enumerate(values))
