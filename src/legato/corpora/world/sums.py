"""Sums, differences, products, doubles and halves of small numbers.

A sum and its two differences are one fact ("sum:3+5"), a product in either order is one fact.
"""

from __future__ import annotations

from legato.corpora.world.frame import Fact, Kind, Table, fact
from legato.corpora.world.numbers import spoken, words

_SUM = (
    "What is {a} plus {b}?",
    "How much is {a} plus {b}?",
    "What is {a} and {b} together?",
    "Add {a} and {b}.",
    "What do you get when you add {b} to {a}?",
    "{a} plus {b}, please.",
    "What is the sum of {a} and {b}?",
    "Tell me what {a} plus {b} makes.",
)
_DIFFERENCE = (
    "What is {a} minus {b}?",
    "How much is {a} minus {b}?",
    "Take {b} from {a}. What is left?",
    "Take {b} away from {a}.",
    "Subtract {b} from {a}.",
    "{a} minus {b}, please.",
    "What is {a} less {b}?",
    "Tell me what {a} minus {b} is.",
)
_PRODUCT = (
    "What is {a} times {b}?",
    "How much is {a} times {b}?",
    "Multiply {a} by {b}.",
    "{a} times {b}, please.",
    "What is the product of {a} and {b}?",
    "Tell me what {a} times {b} is.",
    "What do you get when you multiply {a} by {b}?",
)
_DOUBLE = ("What is twice {a}?", "What is double {a}?", "Double the number {a}.", "What is {a} doubled?",
           "What is two times as much as {a}?")  # fmt: skip
_HALF = ("What is half of {a}?", "How much is half of {a}?", "Halve the number {a}.", "What is {a} divided by two?",
         "Tell me half of {a}.")  # fmt: skip
_BIGGER = ("Which is more, {a} or {b}?", "Which number is bigger, {a} or {b}?", "What is larger, {a} or {b}?",
           "Tell me the greater number, {a} or {b}.", "{a} or {b}, which is the bigger number?")  # fmt: skip
_SMALLER = ("Which is less, {a} or {b}?", "Which number is smaller, {a} or {b}?",
            "Tell me the smaller number, {a} or {b}.", "What is fewer, {a} or {b}?",
            "{a} or {b}, which is the smaller number?")  # fmt: skip


def _ask(identity: str, result: int, weight: float, a: int, b: int = 0) -> Fact:
    return fact(identity, spoken(result), weight, a=words(a), b=words(b))


def _pair(name: str, a: int, b: int) -> str:
    return f"{name}:{min(a, b)},{max(a, b)}"


def _weight(a: int, b: int) -> float:
    """Small numbers are asked more often."""
    return 4.0 if max(a, b) <= 10 else 1.5 if max(a, b) <= 20 else 0.15


def kinds() -> list[Kind]:
    """The kinds of this family."""
    grid = [(a, b) for a in range(1, 51) for b in range(1, 51) if min(a, b) <= 20]
    order = [(a, b) for a in range(1, 100) for b in range(1, 100) if a != b]
    return [
        Table("sum", "skills", _SUM, "{answer}.", 5, facts=[
            _ask(_pair("sum", a, b), a + b, _weight(a, b), a, b) for a, b in grid
        ]),
        Table("difference", "skills", _DIFFERENCE, "{answer}.", 4, facts=[
            _ask(_pair("sum", a, b), a, _weight(a, b), a + b, b) for a, b in grid
        ]),
        Table("product", "skills", _PRODUCT, "{answer}.", 3, facts=[
            _ask(_pair("product", a, b), a * b, _weight(a, b), a, b) for a in range(2, 13) for b in range(2, 13)
        ]),
        Table("double", "skills", _DOUBLE, "{answer}.", 0.7, facts=[
            _ask(f"double:{a}", 2 * a, 1, a) for a in range(1, 51)
        ]),
        Table("half", "skills", _HALF, "{answer}.", 0.7, facts=[
            _ask(f"double:{a}", a, 1, 2 * a) for a in range(1, 51)
        ]),
        Table("bigger", "skills", _BIGGER, "{answer}.", 0.7, facts=[
            _ask(_pair("compare", a, b), max(a, b), 1, a, b) for a, b in order
        ]),
        Table("smaller", "skills", _SMALLER, "{answer}.", 0.7, facts=[
            _ask(_pair("compare", a, b), min(a, b), 1, a, b) for a, b in order
        ]),
    ]
