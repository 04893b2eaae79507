import pytest

from legato.corpora import world
from legato.evaluate.answers import (
    is_malformed,
    is_right,
    logit_letter,
    mentions,
    score,
    strict_letter,
    voicebench_letter,
)

LETTERS = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    "reply",
    [
        "Paris.",
        "paris",
        "It's Paris.",
        "In Paris!",
        "The answer is Paris.",
        "Well, it is Paris, which is in France.",
        "Paris is the capital of France.",
        "Paris, the capital of France.",
        "Paris (France).",
        "Paris, not Rome.",
        "Paris. It is the capital of France.",
        "PARIS IS THE CAPITAL",
    ],
)
def test_an_answer_that_comes_first_is_right(reply):
    assert is_right(reply, ["paris"])


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Rome.",
        "Paris or Rome",
        "Paris, or maybe Rome.",
        "Paris is it, or Rome.",
        "Paris and Rome",
        "Paris, and Rome",
        "Paris, Rome",
        "Paris, Rome, London.",
        "Paris: Rome",
        "Paris/Rome",
        "Paris-Rome",
        "Paris. Rome.",
        "Paris\nRome",
        "Paris maybe Rome",
        "Maybe Paris",
        "Not Paris",
        "Paris is not it",
        "Paris isn't it",
        "Parisian",
        "The capital is Paris",
    ],
)
def test_a_list_a_hedge_a_denial_or_a_late_answer_is_not_right(reply):
    assert not is_right(reply, ["paris"])


@pytest.mark.parametrize(
    ("reply", "accepted", "right"),
    [
        ("Mexico City", "mexico", False),
        ("Mexico is a country.", "mexico", True),
        ("seven hundred", "seven", False),
        ("Seven.", "seven", True),
        ("Twenty-one", "twenty", False),
        ("Twenty-one.", "twenty one", True),
        ("7.5", "7", False),
        ("7.", "7", True),
        ("-7", "7", False),
        ("7-8", "7", False),
        ("1,000.", "1000", True),
        ("C, A, T.", "c a t", True),
        ("São Tomé.", "sao tome", True),
        ("In the car.", "car", True),
        ("The bag, the car", "bag", False),
        ("Five o'clock", "five oclock", True),
        ("Łódź.", "łódź", True),
        ("東京", "東京", True),
        ("Tom is taller than Ben.", "tom", True),
    ],
)
def test_words_are_whole_and_numbers_are_not_extended(reply, accepted, right):
    assert is_right(reply, [accepted]) is right


@pytest.mark.parametrize("split", ["train", "final"])
def test_every_reference_answer_of_the_pocket_world_is_right(planted, split):
    for row in world.draw(400, seed=3, split=split):
        asked = {"accepted": row.accepted, "domain": row.domain, "kind": row.kind}
        assert score(planted(row.id, "large", row.answer, **asked)).right, row


def test_small_talk_may_say_it_anywhere(planted):
    assert score(planted("1", "small", "I am fine.", accepted=("fine",), domain="talk")).right
    assert not score(planted("1", "small", "I am fine.", accepted=("fine",), domain="facts")).right
    assert not score(planted("1", "small", "Goodbye.", accepted=("fine",), domain="talk")).right


def test_any_accepted_answer_counts():
    assert is_right("Eight.", ["8", "eight"])
    assert is_right("Red and white.", ["red", "red and white"])


def test_mentions_finds_what_strict_refuses():
    assert mentions("I think the capital is Paris.", ["paris"])
    assert not mentions("Parisian", ["paris"])


@pytest.mark.parametrize(
    ("reply", "tokens", "finish", "malformed"),
    [
        ("Paris.", [1, 2], "end", False),
        ("", [], "end", True),
        ("東京", [1], "end", False),
        (" ... ", [1, 2, 3], "end", True),
        ("Paris is", [1, 2], "limit", True),
        ("a b c d", [7, 7, 7, 7], "end", True),
        ("a b c", [7, 7, 7], "end", False),
        ("no no no no", [1, 2, 3, 4], "end", True),
        ("10000", [1, 0, 0, 0, 0], "end", False),  # digits are tokens of their own
    ],
)
def test_malformed(reply, tokens, finish, malformed):
    assert is_malformed(reply, tokens, finish) is malformed


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("B", "B"),
        ("b.", "B"),
        ("(B) because it is", "B"),
        ("B. A dog", "B"),
        ("The answer is B.", "B"),
        ("The correct answer is (C).", "C"),
        ("Option B", "B"),
        ("B, because C is wrong", "B"),
        ("A dog", None),
        ("a dog", None),
        ("A or B", None),
        ("B, C", None),
        ("B) or C)", None),
        ("E.", None),
        ("Apple", None),
        ("", None),
    ],
)
def test_strict_letter(reply, letter):
    assert strict_letter(reply, LETTERS) == letter


def test_the_voicebench_rule_reads_prose_as_a_letter_and_guesses_by_row():
    assert voicebench_letter("I say the answer is C. a, b", LETTERS, "r") == ("C", True)  # explicit forms win
    assert voicebench_letter("It was a, hmm, long day", LETTERS, "r") == ("A", True)  # its famous weakness
    assert voicebench_letter("d", LETTERS, "r") == ("D", True)
    guesses = [voicebench_letter("No idea", LETTERS, f"row {i}") for i in range(400)]
    assert not any(read for _, read in guesses)
    assert {letter: sum(g == letter for g, _ in guesses) > 70 for letter in LETTERS} == dict.fromkeys(LETTERS, True)
    assert voicebench_letter("Hm", LETTERS, "row 3")[0] == guesses[3][0]


def test_letters_are_scored_by_three_rules_side_by_side(planted):
    choices = {"A": "Rome", "B": "Paris"}
    r = planted("1", "small", "A, hmm", choices=choices, letter="B", letter_logits={"A": -1.0, "B": 2.0})
    s = score(r)
    assert (s.right, s.voicebench, s.voicebench_read, s.logit) == (False, False, True, True)
    assert logit_letter({"A": 0.0, "B": 0.0}) == "A"
    unread = score(planted("1", "small", "Hm", choices=choices, letter="B"))
    assert unread.voicebench_read is False
    assert unread.logit is None


def test_a_malformed_reply_is_never_right(planted):
    assert score(planted("1", "small", "Paris.")).right
    cut = score(planted("1", "small", "Paris.", finish="limit"))
    assert (cut.right, cut.malformed, cut.mentioned) == (False, True, True)
