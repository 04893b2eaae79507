"""Number words."""

from __future__ import annotations

_SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = [".", ".", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def words(n: int) -> str:
    """0..9999 in words: 21 -> "twenty-one", 105 -> "one hundred five"."""
    if n < 20:
        return _SMALL[n]
    if n < 100:
        return _TENS[n // 10] + (f"-{_SMALL[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{_SMALL[n // 100]} hundred" + (f" {words(n % 100)}" if n % 100 else "")
    assert n < 10_000
    return f"{_SMALL[n // 1000]} thousand" + (f" {words(n % 1000)}" if n % 1000 else "")


def spoken(n: int) -> list[str]:
    """Accepted answers for a number: the words, the digits, and British "and" above a hundred."""
    forms = [words(n), str(n)]
    if n > 100 and n % 100:
        forms.append(f"{words(n - n % 100)} and {words(n % 100)}")
    return forms + [f"a {f.removeprefix('one ')}" for f in forms if f.startswith(("one hundred", "one thousand"))]
