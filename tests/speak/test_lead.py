"""The text stream: what is forced, what is free, and that nothing is asked for before it is wanted."""

import pytest

from legato.speak.lead import Lead, Pacing, Word

PAD, WORD = 0, 1


def words(*pieces, padding=0):
    return [Word(tuple(p), f"w{n}", padding) for n, p in enumerate(pieces)]


def run(lead, begins, steps):
    """Free choices are `begins(step)`."""
    out = []
    for step in range(steps):
        may_wait, may_begin = lead.choices()
        out.append(lead.step(begins(step) if may_wait and may_begin else may_begin))
    return out


def test_an_eager_voice_says_word_after_word_with_their_pieces_behind_them():
    lead = Lead(words((5, 6), (7,)), PAD, WORD, Pacing(initial=2))
    assert run(lead, lambda _: True, 9) == [PAD, PAD, WORD, 5, 6, WORD, 7, PAD, PAD]
    assert lead.spoken == [("w0", 2), ("w1", 5)] and lead.ended == 7


def test_a_voice_that_only_waits_is_made_to_go_on():
    lead = Lead(words((5,), (6,)), PAD, WORD, Pacing(initial=1, patience=3))
    assert run(lead, lambda _: False, 12) == [PAD, PAD, PAD, PAD, WORD, 5, PAD, PAD, PAD, WORD, 6, PAD]


def test_a_break_is_forced_behind_its_word_and_behind_every_word_where_pacing_says_so():
    lead = Lead(words((5,), (6,), padding=2), PAD, WORD, Pacing(initial=0, between=1))
    assert run(lead, lambda _: True, 10) == [WORD, 5, PAD, PAD, PAD, WORD, 6, PAD, PAD, PAD]
    assert lead.ended is None
    assert lead.step(True) == PAD and lead.ended == 10


def test_words_are_asked_for_one_by_one_and_only_when_wanted():
    asked = []

    def stream():
        for n in range(3):
            asked.append(n)
            yield Word((9,), str(n))

    lead = Lead(stream(), PAD, WORD, Pacing(initial=2))
    run(lead, lambda _: True, 2)
    assert asked == []
    run(lead, lambda _: True, 1)
    assert asked == [0]
    run(lead, lambda _: True, 1)
    assert asked == [0]


def test_nothing_to_say_ends_at_once():
    lead = Lead([], PAD, WORD, Pacing(initial=1))
    assert run(lead, lambda _: True, 4) == [PAD] * 4 and lead.ended == 1


def test_a_choice_that_is_not_open_is_a_bug_of_ours():
    with pytest.raises(AssertionError):
        Lead(words((5,)), PAD, WORD, Pacing(initial=1)).step(True)
