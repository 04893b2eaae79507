"""Written text as it is spoken: what is said for what stands there, when it is certain, and that nothing breaks it."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.errors import BadInput
from legato.speak.spoken import say
from legato.speak.text import LONGEST, Reader, sentences

SPOKEN = re.compile(r"'?[A-Za-z]+(?:['-]+[A-Za-z]+)*'?[,.?!;:]?")

CASES = {
    # numbers
    "I have 3 apples and 1,234,567.89.": "I have three apples and one million two hundred thirty four thousand five "
    "hundred sixty seven point eight nine.",
    "It is -5, 0.50 and 007.": "It is minus five, zero point five zero and zero zero seven.",
    "the 1st, 2nd, 23rd and 100th": "the first, second, twenty third and one hundredth",
    "1/2, 3/4 and 7/128 of 2 1/2 kg or 3½ cups": "one half, three quarters and seven over one hundred twenty eight of "
    "two and a half kilograms or three and a half cups",
    "5-10 of 3:1": "five to ten of three to one",
    # years and dates
    "In 1999, 2005, 1900 or 1066 people died.": "In nineteen ninety nine, two thousand five, nineteen hundred or one "
    "thousand sixty six people died.",
    "5280 feet": "five thousand two hundred eighty feet",
    "the 1990s, the '90s, the 80s and the 2000s": "the nineteen nineties, the nineties, the eighties and the two "
    "thousands",
    "On March 5, 2024 or Mar. 5th": "On March fifth, twenty twenty four or March fifth",
    "5 March 2024": "the fifth of March, twenty twenty four",
    "2024-03-05, 12/25/2024, 25.12.2024": "March fifth, twenty twenty four, December twenty fifth, twenty twenty four, "
    "December twenty fifth, twenty twenty four",
    # times
    "at 3:05 pm, 15:30, 12:00, 9 a.m. or 3pm": "at three oh five P M, fifteen thirty, twelve o'clock, nine A M or "
    "three P M",
    # money
    "$5.50, $0.99, $1, -$5, €20, £1,000.01 and 20¢": "five dollars and fifty cents, ninety nine cents, one dollar, "
    "minus five dollars, twenty euros, one thousand pounds and one penny and twenty cents",
    "$3.5 million, $5bn, 5 € or 50k USD": "three point five million dollars, five billion dollars, five euros or fifty "
    "thousand dollars",
    # measures
    "60 mph, 10 m/s, 5 m², 1 km, 2.4 GHz, 5'10\"": "sixty miles per hour, ten meters per second, five square meters, "
    "one kilometer, two point four gigahertz, five feet ten inches",
    "-5°C, 98.6° outside, 5–10%": "minus five degrees Celsius, ninety eight point six degrees outside, five to ten "
    "percent",
    # short forms
    "Dr. Smith lives at 10 Main St., St. Paul, e.g. here.": "Doctor Smith lives at ten Main Street, Saint Paul, for "
    "example here.",
    "NASA and the FBI met the CEOs of IBM in the U.S. with COVID-19.": "Nasa and the F B I met the C E O's of I B M in "
    "the U S with Covid nineteen.",
    "HTML, MP3, H2O and GPT-4": "H T M L, M P three, H two O and G P T four",
    "THIS IS A BIG WARNING.": "this is a big warning.",
    "Henry VIII, Louis XIV's, World War II, Chapter IV and I": "Henry the eighth, Louis the fourteenth's, World War "
    "two, Chapter four and I",
    # addresses
    "Mail john.doe@example.co.uk or see https://www.example.com/a_2.": "Mail john dot doe at example dot co dot U K or "
    "see W W W dot example dot com slash A underscore two.",
    "Call (555) 123-4567.": "Call five five five, one two three, four five six seven.",
    "It runs on 192.168.1.1": "It runs on one hundred ninety two point one hundred sixty eight point one point one",
    # symbols
    "2 + 2 = 4, 3 x 4, 5 > 3, x^2, 10^6, 7 - 2": "two plus two equals four, three times four, five greater than three, "
    "x squared, ten to the power of six, seven minus two",
    "#1 #AI & @bob w/ C++ and/or C#": "number one hashtag A I and at bob with C plus plus and or C sharp",
    "**Bold** and `code` and [a link](http://x.y) _it_ :)": "Bold and code and a link it",
    "“Hello,” she said — “well…”": "Hello, she said, well.",
    "😀👍 Great job! 🎉": "Great job!",
    "the boys' toys, 'tis John's mother-in-law": "the boys' toys, 'tis John's mother-in-law",
    "a well-'known' one, A-'A": "a well-known one, A-A",
    # other scripts
    "Привет, café naïve 北京": "Privet, cafe naive BeiJing",
}  # fmt: skip


@pytest.mark.parametrize("written", CASES)
def test_it_is_said_as_a_person_would(written):
    assert say(written) == CASES[written]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**30))
def test_a_number_of_any_length_is_said_in_words(n):
    spoken = say(f"{n} things, {n:,} and {n}th")
    assert re.fullmatch(r"[a-z ,]+", spoken)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60) | st.text("aA1'’\"-–.,:/$ ", max_size=20))
def test_whatever_is_written_comes_out_as_plain_words(text):
    for word in say(text).split():
        assert SPOKEN.fullmatch(word), (text, word)


@settings(max_examples=150, deadline=None)
@given(st.text("aZ1 .,:;$€%/-+&@#'\"()½²°\n…!?", max_size=40))
def test_so_does_every_mixture_of_signs(text):
    for word in say(text).split():
        assert SPOKEN.fullmatch(word), (text, word)


TEXT = """Dr. Smith, who was born on March 5, 2024, paid $3.5 million. "Really?" she said. He left the U.S. Army base...
No. 5 is alive. I saw J. R. R. Tolkien at 5 p.m. The end, e.g. this. 3.5 is a number. It was 1999. Then 2000! The rest

- first item
- second item, which is rather longer than the first one, and more
1. One
2. Two
A hard
wrapped line. Версия 2。你好！世界 :) 😀"""


def test_sentences_end_where_they_end():
    assert list(sentences([TEXT])) == [
        "Doctor Smith, who was born on March fifth, twenty twenty four,", "paid three point five million dollars.",
        "Really?", "she said.", "He left the U S Army base.", "Number five is alive.",
        "I saw J R R Tolkien at five P M.", "The end, for example this.", "three point five is a number.",
        "It was nineteen ninety nine.", "Then two thousand!", "The rest", "first item",
        "second item, which is rather longer than the first one,", "and more", "one, One",
        "two, Two A hard wrapped line.", "Versiya two.", "NiHao!", "ShiJie",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_it_does_not_matter_where_the_pieces_are_cut(seed):
    rng, pieces, at = random.Random(seed), [], 0
    while at < len(TEXT):
        size = rng.choice([1, 1, 2, 3, 5, 9])
        pieces.append(TEXT[at : at + size])
        at += size
    assert list(sentences(pieces)) == list(sentences([TEXT]))


def test_a_sentence_is_out_as_soon_as_the_next_begins():
    reader = Reader()
    assert reader.feed("It costs 3.") == []
    assert reader.feed("5 dollars") == []
    assert reader.feed(".") == []
    assert reader.feed(" We") == ["It costs three point five dollars."]
    assert reader.finish() == ["We"]


def test_a_clause_does_not_wait_for_its_sentence():
    reader = Reader()
    said = reader.feed("As far as anyone could tell that morning, the")
    assert said == ["As far as anyone could tell that morning,"]


def test_text_without_a_stop_is_cut_between_words():
    said = list(sentences(["word " * 1000]))
    assert " ".join(said).split() == ["word"] * 1000
    assert max(map(len, said)) <= LONGEST


@pytest.mark.parametrize("text", ["", " \n\t", "?!...", "😀👍", "\x00\x1b\u200b", "—", "()"])
def test_nothing_to_say_is_told_in_one_sentence(text):
    with pytest.raises(BadInput, match=f"nothing in this text can be spoken: .* its {len(text)} characters"):
        list(sentences([text]))


@pytest.mark.parametrize("sign", ["a", "?", "9", "一", "a.b@", "$1.", "x.com/", "\ud800b"])
def test_a_hundred_thousand_of_anything(sign):
    said = list(sentences([sign * (100_000 // len(sign)), "\n\nend"]))
    assert said[-1] == "end"


def test_control_characters_and_lone_surrogates_are_passed_over():
    assert list(sentences(["a\x00b \x1b[31mred\ud800 \u202eflip"])) == ["a b red flip"]
