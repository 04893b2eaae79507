"""The probe: which ways there are, and verdicts on figures made by hand."""

import numpy as np
import pytest
import torch

from legato.errors import BadInput
from legato.pocket.codec import FRAME, Codec, CodecConfig
from legato.pocket.quantiser import SplitQuantiserConfig
from legato.speak.entrance import Entrance, Statistics
from legato.speak.probe import CONTINUOUS, WRONG, Probed, books, in_order, probe, ways


@pytest.fixture(scope="module")
def entrance():
    torch.manual_seed(1)
    config = CodecConfig(
        latent=24, encoder_fast=16, encoder_slow=20, decoder_slow=20, decoder_fast=12, fast_blocks=1, slow_blocks=1,
        quantiser=SplitQuantiserConfig(books=6, entries=16, projected=8),
    )
    codec = Codec(config).requires_grad_(False).eval()
    for part in (codec.quantiser.first, codec.quantiser.rest):
        for book in part.books:
            book.entries.normal_()
    return Entrance(codec, Statistics.of([codec.project(codec.latent(0.1 * torch.randn(1, 40 * FRAME)))[0]]))


def test_books_double_up_to_all():
    assert books(16) == [1, 2, 4, 8, 16] and books(6) == [1, 2, 4, 6] and books(1) == [1]


def test_every_way_through_the_codec(entrance):
    audio = 0.1 * torch.randn(1, 3 * FRAME)
    found = dict(ways(entrance, audio))
    names = ["1 book", "2 books", "4 books", "6 books", CONTINUOUS, "5% noise", "10% noise", "20% noise", "40% noise",
             "60% noise", "80% noise", WRONG]
    assert list(found) == names and all(x.shape == audio.shape for x in found.values())
    codec = entrance.codec
    torch.testing.assert_close(found["6 books"], codec.decode(codec.lookup(codec.encode(audio))))
    torch.testing.assert_close(found[CONTINUOUS], codec.decode(codec.unproject(codec.project(codec.latent(audio)))),
                               atol=1e-5, rtol=1e-4)
    apart = [float((found[f"{p}% noise"] - found[CONTINUOUS]).square().mean()) for p in (5, 20, 80)]
    assert apart == sorted(apart) and apart[0] > 0


def test_scores_are_means_over_recordings_cut_to_their_length(entrance):
    lengths = []

    def score(made, real, rate):
        assert rate == 24_000 and len(made) == len(real)
        lengths.append(len(real))
        return float(len(real))

    found = probe(entrance, [np.zeros(3000, np.float32), np.ones(5000, np.float32)], {"length": score})
    assert set(lengths) == {3000, 5000} and found.recordings == 2
    assert found.scores[CONTINUOUS]["length"] == 4000



def test_verdicts():
    base = {"1_book": 9.0, "16_books": 3.0, CONTINUOUS: 2.0, "5%_noise": 2.1, "40%_noise": 2.9, "80%_noise": 5.0}
    good = Probed({k.replace("_", " "): {"error": v} for k, v in (base | {WRONG: 20.0}).items()}, 1)
    assert good.verdict("error") == (
        "error: unquantised is better than 16 books, and bears 40% noise before it is worse than 16 books"
    )
    broken = Probed({k.replace("_", " "): {"error": v} for k, v in (base | {WRONG: 1.0}).items()}, 1)
    assert broken.verdict("error") == "error: worthless, the wrong space scores no worse than the right one"
    flipped = Probed({k.replace("_", " "): {"error": -v} for k, v in (base | {WRONG: 20.0}).items()}, 1)
    assert flipped.verdict("error", lower_is_better=False).startswith("error: unquantised is better")


def test_what_cannot_be_measured_judges_nothing():
    ways = {"1 book": 9.0, "16 books": 3.0, CONTINUOUS: 2.0, "5% noise": 2.1}

    def probed(right, wrong):
        return Probed.of([{w: {"error": v} for w, v in (ways | {CONTINUOUS: right, WRONG: wrong}).items()}])

    assert probed(2.0, 3.0).failed("error") is True and probed(2.0, 1.0).failed("error") is False
    assert probed(2.0, None).failed("error") is True  # so far off that nothing can be measured in it
    assert probed(None, 3.0).failed("error") is None
    assert probed(None, 3.0).verdict("error") == "error: could not be measured on these recordings"
    assert Probed.of([{CONTINUOUS: {"error": 1.0}}]).failed("error") is None  # it was not tried


def test_means_are_over_the_recordings_that_could_be_measured():
    found = Probed.of([{"1 book": {"a": 1.0, "b": None}}, {"1 book": {"a": 3.0, "b": 5.0, "c": 7.0}}])
    assert found.scores == {"1 book": {"a": 2.0, "b": 5.0, "c": 7.0}} and found.recordings == 2


def test_ways_are_shown_from_few_books_to_much_noise():
    names = ["1 book", "2 books", "4 books", "6 books", CONTINUOUS, "5% noise", "80% noise", WRONG]
    assert in_order(sorted(names), 6) == names


def test_nothing_to_probe_is_refused(entrance):
    with pytest.raises(BadInput, match="at least one recording and one instrument"):
        probe(entrance, [], {"x": lambda *_: 0.0})
