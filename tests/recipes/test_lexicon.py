"""Word lists for the ear: everything is said, as often as it is asked with, and nothing is asked or answered."""

import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))

from legato.corpora.world import draw, names
from lexicon import lexicon, lists


def test_words_are_said_as_often_as_they_are_meant_to_be():
    words, made = lexicon(), lists(8000, seed=0)
    said = Counter(w.lower() for one in made for w in one["question"].rstrip(".").split(", "))
    meant = Counter()
    for word, often in words.items():
        meant[word.lower()] += often
    rounds = sum(said.values()) / sum(words.values())
    assert rounds > 2
    assert set(said) <= set(meant)
    assert sum(word not in said for word in meant) < 0.5 * len(meant)  # the rarest come up once in ten rounds
    for often in (0.5, 5.0):
        mine = [said[word] for word, each in meant.items() if each == often]
        assert len(mine) > 500 and abs(sum(mine) / len(mine) - rounds * often) < 0.15 * rounds * often
    assert set(names()) <= set(words)


def test_lists_are_the_same_each_time_and_speakable():
    made = lists(50, seed=1)
    assert made == lists(50, seed=1) != lists(50, seed=2)
    assert all(re.fullmatch(r"[A-Za-z ,.'-]+", one["question"]) for one in made)
    assert len({one["id"] for one in made}) == 50


def test_no_list_is_a_question_of_select_or_final():
    asked = {row.question for split in ("select", "final") for row in draw(2000, seed=0, split=split)}
    assert not asked & {one["question"] for one in lists(2000, seed=0)}
