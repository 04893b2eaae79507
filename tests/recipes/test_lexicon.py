"""Word lists for the ear: everything is said, equally often, and nothing is asked or answered."""

import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))

from legato.corpora.world import draw, names
from lexicon import lexicon, lists


def test_every_word_is_said_and_none_much_oftener():
    words = lexicon()
    made = lists(4000, seed=0)
    said = Counter(w.lower() for one in made for w in one["question"].rstrip(".").split(", "))
    counts = [said[w.lower()] for w in {w.lower(): w for w in words}.values()]
    assert min(counts) >= 2
    assert sum(counts) == sum(said.values())
    assert set(names()) <= set(words)


def test_lists_are_the_same_each_time_and_speakable():
    made = lists(50, seed=1)
    assert made == lists(50, seed=1) != lists(50, seed=2)
    assert all(re.fullmatch(r"[A-Za-z ,.'-]+", one["question"]) for one in made)
    assert len({one["id"] for one in made}) == 50


def test_no_list_is_a_question_of_select_or_final():
    asked = {row.question for split in ("select", "final") for row in draw(2000, seed=0, split=split)}
    assert not asked & {one["question"] for one in lists(2000, seed=0)}
