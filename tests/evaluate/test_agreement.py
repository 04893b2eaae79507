import pytest

from legato.errors import BadInput
from legato.evaluate.agreement import agreement, compare


def test_closed_forms(planted):
    large = planted("1", "large", "Paris is the capital", tokens=(1, 2, 3, 4))
    near = compare(planted("1", "small", "The Paris is a capital!", tokens=(1, 2, 9, 4, 5)), large)
    assert near.first_answer
    assert near.prefix == pytest.approx(2 / 5)
    assert near.similarity == pytest.approx(1 - 2 / 5)  # "the" added, "the" to "a"
    assert not near.same
    same = compare(planted("1", "small", "paris is THE capital.", tokens=(1, 2, 3, 4)), large)
    assert (same.first_answer, same.prefix, same.similarity, same.same) == (True, 1.0, 1.0, True)
    empty = compare(planted("1", "small", "", tokens=()), large)
    assert (empty.first_answer, empty.prefix, empty.similarity) == (False, 0.0, 0.0)


def test_means_per_arm_and_a_missing_reference(planted):
    records = [planted(str(i), "large", "Paris.") for i in range(4)]
    records += [planted(str(i), "transfer", "Paris." if i else "Rome.") for i in range(4)]
    result = agreement(records)
    assert result["transfer"]["n"] == 4
    assert result["transfer"]["first_answer"]["value"] == 0.75
    with pytest.raises(BadInput, match="needs 'large'"):
        agreement(records[4:])
    with pytest.raises(BadInput, match="no reply to row 0"):
        agreement(records[1:])
