"""Words as the pocket voice says them: known ones as the lexicon has them, the others by their parts and letters."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.pocket import phonemes as module
from legato.pocket.letters import Letters, signs
from legato.pocket.phonemes import FOLDER, MARKS, lexicon, phonemes, sentence_phonemes


def of(sentence: str) -> list[str]:
    return sentence_phonemes(sentence.split())


ALPHABET = set("AIOWYæɑɔəɛɜɪʊʌᵻᵊɐiubdfhjklmnpstvwzðŋɡɹTʃʒʤʧθˈˌ") | set("ɒaeoxʔ̃")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("hello", "həlˈO"), ("world", "wˈɜɹld"), ("Paris", "pˈɛɹəs"), ("water", "wˈɔTəɹ"),
        ("cats", "kˈæts"), ("wishes", "wˈɪʃᵻz"), ("dog's", "dˈɔɡz"), ("wanted", "wˈɑntᵻd"), ("the", "ði"),
    ],
)  # fmt: skip
def test_known_words(word, said):
    assert phonemes(word) == said


def test_a_known_stem_carries_its_endings(monkeypatch):
    only = {"blick": "blˈɪk", "zat": "zˈæt", "stobe": "stˈOb", "lush": "lˈʌʃ"}
    monkeypatch.setattr(module, "lexicon", lambda: only)
    said = {w: phonemes(w) for w in ("blicks", "lushes", "zats", "zat's", "blicked", "zatted", "zatting", "stobing")}
    assert said == {
        "blicks": "blˈɪks", "lushes": "lˈʌʃᵻz", "zats": "zˈæts", "zat's": "zˈæts", "blicked": "blˈɪkt",
        "zatted": "zˈæTᵻd", "zatting": "zˈæTɪŋ", "stobing": "stˈObɪŋ",
    }  # fmt: skip


def test_two_words_written_as_one_share_one_stress():
    assert phonemes("waterhouse-keeper").count("ˈ") == 1
    said = phonemes("hello-world")
    assert said.count("ˈ") == 1 and said.replace("ˌ", "").replace("ˈ", "") == "həlOwɜɹld"


def test_little_words_hear_what_follows():
    assert of("the apple")[0] == "ði"
    assert of("the pear")[0] == "ðə"
    assert of("to eat to go to.")[::2] == ["tʊ", "tə", "tu."]
    assert of("A cat")[0] == "ɐ"
    assert of("vitamin A,")[1] == "ˈA,"
    assert of("I am here")[:2] == ["ˌI", "ɐm"]
    assert of("I used to use it")[1] == "jˈust"


@pytest.mark.parametrize(
    ("verb", "noun", "word"),
    [
        ("I want to record it.", "I broke the record.", "record"),
        ("They live in Rome.", "It was a live show.", "live"),
        ("We must object.", "Is it an object?", "object"),
        ("Close the door!", "It is close.", "close"),
        ("She has read it.", "You must read it.", "read"),
    ],
)
def test_which_of_two_readings_is_meant(verb, noun, word):
    def said(sentence: str) -> str:
        words = sentence.split()
        at = next(i for i, w in enumerate(words) if w.strip(MARKS).lower() == word)
        return sentence_phonemes(words)[at].rstrip(MARKS).replace("ˌ", "").lower()

    assert said(verb) != said(noun)


def test_spelled_letters_and_marks():
    assert of("the F B I. Really?") == ["ði", "ˌɛf", "bˌi", "ˈI.", "ɹˈiᵊli?"]
    assert phonemes("xkcd") == "ˌɛkskˌAsˌidˈi"


@settings(max_examples=50, deadline=None)
@given(st.from_regex(r"'?[A-Za-z]{1,14}(?:['-][A-Za-z]{1,8})?'?[,.?!;:]?", fullmatch=True))
def test_no_word_vanishes_and_no_strange_sign_appears(word):
    (said,) = sentence_phonemes([word])
    mark = word[-1] if word[-1] in MARKS else ""
    assert said.endswith(mark)
    assert said.rstrip(MARKS) and set(said.rstrip(MARKS)) <= ALPHABET


def test_a_word_without_end_is_read_to_its_end():
    assert len(phonemes("kalimbo" * 30)) > 200


def test_every_reading_in_the_lexicon_is_made_of_known_signs():
    readings = (r for entry in lexicon().values() for r in ([entry] if isinstance(entry, str) else entry.values()))
    assert not {sign for said in readings for sign in module._finished(said)} - ALPHABET


def test_unknown_words_are_read_as_often_right_as_the_card_says():
    """Of the words that were held out from learning, spread over the alphabet."""
    measured = json.loads((FOLDER / "measured.json").read_text())
    card = (FOLDER / "README.md").read_text()
    assert f"{100 * measured['by_letters']['words']:.1f} %" in card
    letters = module.letters()
    assert isinstance(letters, Letters)
    said = {w: letters(w) for w in ("banana", "thinking", "photograph", "nation")}
    assert all(re.search("ˈ", s) for s in said.values())
    assert said["thinking"] == "θˈɪŋkɪŋ"


def test_signs_keep_stress_with_the_vowel():
    assert signs("həlˈO") == ["h", "ə", "l", "ˈO"]
