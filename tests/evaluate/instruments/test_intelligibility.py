"""Word and character error: known counts, numbers in either spelling, failures, totals and pairs."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from legato.audio import Audio
from legato.errors import BadInput, MissingExtra
from legato.evaluate.instruments.intelligibility import listen, match, totals, versus
from legato.evaluate.instruments.words import normal

SAID = "The quick brown fox jumps over the lazy dog."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Hello, World!", "hello world"),
        ("It’s fine", "it's fine"),
        ("'Quoted'", "quoted"),
        ("It costs $5.", "it costs five dollars"),
        ("$1", "one dollar"),
        ("50%", "fifty percent"),
        ("3.5 degrees", "three point five degrees"),
        ("the 21st day", "the twenty-first day"),
        ("the 3rd of May", "the third of may"),
        ("on the 40th", "on the fortieth"),
        ("in 1984", "in nineteen eighty-four"),
        ("1,234,567", "one million two hundred and thirty-four thousand five hundred and sixty seven"),
        ("105 men", "one hundred and five men"),
        ("2000th", "two thousandth"),
        ("ten and five", "10 and 5"),
        ("one two three", "1 2 3"),
        ("a hundred", "a hundred"),
        ("zero", "0"),
        ("5km", "5 km"),
        ("twenty one", "21"),
        ("two thousand and twenty six", "2026"),
    ],
)
def test_one_number_in_two_spellings_is_one_word(one: str, other: str) -> None:
    assert normal(one) == normal(other) != ""


@pytest.mark.parametrize(
    ("one", "other"), [("fifteen", "fifty"), ("third", "three"), ("one hundred", "one thousand"), ("won", "one")]
)
def test_different_words_stay_different(one: str, other: str) -> None:
    assert normal(one) != normal(other)


def test_number_phrases_end_where_the_number_ends() -> None:
    assert normal("seven five") == "7 5"
    assert normal("a thousand and one nights") == "a thousand and 1 nights"
    assert normal("zero hundred") == "0 hundred"
    assert normal("five million five") == "5000005"


def test_normal_of_other_scripts_keeps_their_letters_and_of_emoji_nothing() -> None:
    assert normal("Привет, мир!") == "привет мир"
    assert normal("नमस्ते") == "नमस्ते"
    assert normal("😀 … !") == ""


def test_counts_apart() -> None:
    h = match(SAID, "the quick brown box jumps over lazy dog again now")
    assert (h.words, h.substitutions, h.deletions, h.insertions) == (9, 1, 1, 2)
    assert h.wer == pytest.approx(4 / 9) and h.score == pytest.approx(5 / 9)


def test_a_perfect_sentence_and_a_hopeless_one() -> None:
    assert match(SAID, SAID.upper()).wer == match(SAID, SAID).cer == 0
    assert match(SAID, SAID).failure is None
    assert match("Yes.", "no oh no no").score == 0  # more errors than words: not below 0


@pytest.mark.parametrize(
    ("heard", "why"),
    [
        ("", "nothing heard"),
        ("...", "nothing heard"),
        ("something else is what a listener has heard here", "all wrong"),
        ("the quick brown fox jumps over the lazy dog", None),
        ("the quick brown fox", None),  # eight words are missing and one is right: an error, not a failure
    ],
)
def test_failures(heard: str, why: str | None) -> None:
    assert match(SAID, heard).failure == why


def test_right_words_said_too_often_fail() -> None:
    h = match("no", "no no no")
    assert h.failure == "all wrong" and h.deletions == 0 and h.insertions == 2


def test_a_script_without_words_is_refused() -> None:
    with pytest.raises(BadInput, match="holds no word"):
        match("?!", "yes")


def test_silence_is_a_failure_and_the_recogniser_is_not_asked() -> None:
    def never(audio: Audio) -> str:
        raise AssertionError

    assert listen(Audio(np.zeros((1, 24_000), np.float32), 24_000), "Yes.", never).failure == "nothing heard"
    tone = 0.1 * np.sin(np.arange(24_000)).astype(np.float32)[None]
    assert listen(Audio(tone, 24_000), "Yes.", lambda audio: "yes").wer == 0
    with pytest.raises(BadInput, match="16,000 samples a second"):
        listen(Audio(np.zeros((1, 16_000), np.float32), 16_000), "Yes.", never)


def test_totals_weigh_words_and_scores_weigh_sentences() -> None:
    t = totals([match("yes", "no"), match("one two three four five six seven eight nine", "1 2 3 4 5 6 7 8 9")])
    assert t.words == 10 and t.wer == pytest.approx(0.1) and t.score.value == pytest.approx(0.5)
    assert t.substitutions == 1 and t.failed == 1 and t.failures.value == 0.5
    with pytest.raises(BadInput, match="no sentence"):
        totals([])


def test_versus_finds_a_difference_and_no_difference() -> None:
    good = [match(f"{w} was the name of the ship", f"{w} was the name of the ship") for w in "abcdefghijklmnop"]
    poor = [match(h.said, h.said.replace("name", "game")) for h in good]
    v = versus(good, poor)
    assert v.score.value == pytest.approx(1 / 7) and v.wer.value == pytest.approx(-1 / 7)
    assert v.p < 0.001 and v.score.low > 0 and v.failures.fixed == v.failures.regressed == 0
    same = versus(good, good)
    assert same.p == 1 and same.score.value == 0
    with pytest.raises(BadInput, match="not the same"):
        versus(good, poor[1:])


def test_missing_jiwer_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(MissingExtra, match=r"pip install 'legato\[instruments\]'"):
        match("yes", "yes")
