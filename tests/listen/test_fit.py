"""Fitting: planted maps are found, sums are those of the rows, and a choice asks generations last."""

import dataclasses

import pytest
import torch

from legato.errors import BadInput
from legato.listen import fit as fitting
from legato.listen.batch import answers
from legato.listen.capture import Capture, capture
from legato.listen.fit import FitReport, PairSums, choose, fit
from legato.listen.mapper import flatten, nearest
from legato.listen.replay import said
from legato.listen.ridge import RidgeSums
from legato.pocket.prompt import START

N, HELD = 60, 12


@pytest.fixture(scope="module")
def world(planted, tmp_path_factory):
    """(planted memories, their capture, sums to fit on, held sums)"""
    world = planted()
    found = world.capture(tmp_path_factory.mktemp("planted"), N)
    parts = found.entries[HELD:], found.entries[:HELD]
    return world, found, *(PairSums.gather(found, part) for part in parts)


def fitted(world, target="told", lam=1e-6, reads=None):
    planted, found, train, held = world
    return fit(found, train, held, reads or planted.reads, lam=lam, target=target, source=planted.source,
               small=planted.target)


@pytest.mark.parametrize("target", ("own", "told"))
def test_a_planted_map_is_found_in_both_parts(world, target):
    planted, found, *_ = world
    mapper, report = fitted(world, target)
    assert report.target == target and report.lam == 1e-6
    assert min(value for layers in report.r2.values() for both in layers for value in both) > 0.999
    for layer in range(planted.target.layers):
        for part, planted_as in (("question", "question"), ("tail", target)):
            weight = getattr(mapper, f"{part}_{layer}")
            torch.testing.assert_close(weight, planted.weights[planted_as][layer], rtol=0, atol=0.02)
    for i in (0, 1, 200):  # held out, held out, not in the capture at all
        pair = planted.pair(i, 3 + i % 3)
        got, wanted = flatten(mapper(pair.large))[0], flatten(pair.small.memory)[0].clone()
        if target == "told":
            wanted[-3:] = flatten(pair.told.memory)[0, -3:]
        torch.testing.assert_close(got, wanted, rtol=0, atol=0.05)
        assert (got[:2] - planted.start).abs().max() < 2e-3  # the header is copied; float16 lies between


def test_sums_are_those_of_the_rows(world):
    planted, found, train, _ = world
    x = torch.cat([found.large(e)[2 : 2 + e.question] for e in found.entries[HELD:]]).flatten(1).double()
    y = torch.cat([found.small(e)[2 : 2 + e.question] for e in found.entries[HELD:]]).flatten(1).double()
    assert train.question.n.tolist() == [len(x)]
    torch.testing.assert_close(train.question.xy, x.T @ y, rtol=1e-5, atol=1e-2)
    assert train.tail.n.tolist() == [N - HELD] * 3
    position = torch.stack([found.told(e)[1] for e in found.entries[HELD:]]).flatten(1).double().sum(0)
    torch.testing.assert_close(train.tail.y[1, 3 * 12 :], position, rtol=1e-5, atol=1e-3)


def test_pieces_do_not_matter(world, monkeypatch):
    planted, found, train, _ = world
    monkeypatch.setattr(fitting, "QUESTIONS_AT_ONCE", 7)
    again = PairSums.gather(found, found.entries[HELD:])
    torch.testing.assert_close(again.tail.xx, train.tail.xx, rtol=1e-6, atol=1e-4)
    torch.testing.assert_close(again.question.xy, train.question.xy, rtol=1e-6, atol=1e-4)


def test_words_stand_where_no_audio_ever_will(planted, tmp_path):
    world = planted()
    pairs = [world.pair(i, 4, heard=i < 3) for i in range(8)]
    capture(pairs, tmp_path / "both", tuple(range(4)), {})
    both = Capture(tmp_path / "both")
    sums = PairSums.gather(both, both.entries)
    assert sums.question.n.tolist() == [3 * 4] and sums.tail.n.tolist() == [8] * 3
    words = PairSums.gather(both, both.entries[3:])
    assert words.question.n.tolist() == [5 * 4]  # of words alone, words are what it is fitted on


def test_layers_that_read_the_same_are_solved_as_if_alone(world):
    every = ((0, 1, 2, 3),) * 3
    together, report = fitted(world, reads=every, lam=1e-3)
    for layer in range(3):
        other = tuple(every[0] if i == layer else (0,) for i in range(3))
        alone, lone = fitted(world, reads=other, lam=1e-3)
        for part in ("question", "tail"):
            one, two = getattr(together, f"{part}_{layer}"), getattr(alone, f"{part}_{layer}")
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
            assert report.r2[part][layer] == pytest.approx(lone.r2[part][layer], abs=1e-6)
        torch.testing.assert_close(together.target_mean[:, layer], alone.target_mean[:, layer])


def test_reported_r2_is_that_of_the_mapped_rows(planted, tmp_path):
    world = planted(noise=0.5)
    found = world.capture(tmp_path, 40)
    train, held = (PairSums.gather(found, part) for part in (found.entries[10:], found.entries[:10]))
    mapper, report = fitted((world, found, train, held), "own", lam=1e-2)
    errors, variations = torch.zeros(3, 2), torch.zeros(3, 2)
    for position in range(3):
        x = torch.stack([mapper.map(found.large(e)[None, :, 1:], e.question)[0, position - 3]
                         for e in found.entries[:10]])
        y = torch.stack([found.small(e)[position - 3] for e in found.entries[:10]])  # (10, L, G)
        errors += (x - y).square().unflatten(2, (2, 6)).sum((0, 3))
        variations += (y - y.mean(0)).square().unflatten(2, (2, 6)).sum((0, 3))
    wanted = 1 - errors / variations
    torch.testing.assert_close(torch.tensor(report.r2["tail"]), wanted, rtol=0, atol=1e-4)
    assert wanted.min() > 0.3 and wanted.max() < 0.95  # a bad fit would be seen
    assert report.mean == pytest.approx(torch.tensor(list(report.r2.values())).mean().item())


def test_between_equal_models_the_fitted_map_leaves_the_answers_alone(pair, paired, tmp_path):
    """The small model paired with itself: R2 is 1, and every answer of a held question is the same."""
    _, small = pair
    twins = [dataclasses.replace(p, large=p.small) for p in paired(60)]
    capture(twins, tmp_path, tuple(range(3)), {})
    found = Capture(tmp_path)
    train, held = (PairSums.gather(found, part) for part in (found.entries[10:], found.entries[:10]))
    geometry = small.geometry
    mapper, report = fit(found, train, held, nearest(geometry, geometry), lam=1e-7, target="own", source=geometry,
                         small=geometry)
    assert report.mean > 0.999
    mapped = [mapper(t.large) for t in twins[:10]]
    native = [t.large.memory for t in twins[:10]]
    one, other = (answers(small.model, memories, START, 6, small.end_ids) for memories in (mapped, native))
    assert one == other
    held = found.entries[:10]
    assert said(small.model, found, held, None, mapper, last_id=START, end_ids=small.end_ids, max_tokens=6) == {
        e.id: tokens for e, tokens in zip(held, other, strict=True)
    }


def test_what_cannot_be_fitted_is_refused(world):
    planted, found, *_ = world
    with pytest.raises(BadInput, match="target is mine, but it must be one of own, told"):
        fitted(world, "mine")
    with pytest.raises(BadInput, match="lambda is 0, but it must be above 0"):
        fitted(world, lam=0)
    with pytest.raises(BadInput, match="no question of .* to sum over"):
        PairSums.gather(found, [])


def test_layers_that_were_not_captured_are_named(planted, tmp_path):
    world = planted()
    capture([world.pair(i) for i in range(4)], tmp_path, (1, 2), {})
    found = Capture(tmp_path)
    sums = PairSums.gather(found, found.entries)
    with pytest.raises(BadInput, match=r"layers \[3\] of the large model were not captured; captured are \[1, 2\]"):
        fitted((world, found, sums, sums))
    partly, _ = fitted((world, found, sums, sums), reads=((2,), (1,), (2, 1)))
    assert partly.config.used == (1, 2)


def test_summing_only_what_is_read_gives_the_same_map(world):
    planted, found, train, held = world
    reads = ((2,), (0,), (2, 0))
    some = [PairSums.gather(found, part, layers={0, 2}) for part in (found.entries[HELD:], found.entries[:HELD])]
    assert some[0].question.xx.shape[0] < train.question.xx.shape[0]
    (whole, wanted), (part, report) = fitted(world, reads=reads), fitted((planted, found, *some), reads=reads)
    assert report == wanted
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(part.state_dict()[name], tensor)


def chosen(world, score, lams=(1e-6, 1e-2, 1.0, 100.0), **how):
    planted, found, train, held = world
    reads = {"right": planted.reads, "wrong": ((0,), (0,), (0,))}
    return choose(found, train, held, reads, lams, score, target="told", source=planted.source, small=planted.target,
                  **how)


def test_rows_propose_and_generations_decide(world):
    asked = []

    def score(mapper):
        asked.append(mapper)
        return 0.7 if mapper.config.reads == ((0,), (0,), (0,)) else 0.4  # against what the rows say

    mapper, report, trials = chosen(world, score, finalists=2)
    assert mapper.config.reads == ((0,), (0,), (0,)) and mapper in asked
    assert len(asked) == 4 and len(trials) == 8
    for name in ("right", "wrong"):
        mine = [t for t in trials if t.reads == name]
        assert [t.score is not None for t in mine] == [True, True, False, False]
        assert [t.r2 for t in mine] == sorted((t.r2 for t in mine), reverse=True)
    assert min(t.r2 for t in trials if t.reads == "right" and t.score) > max(t.r2 for t in trials if t.reads == "wrong")
    assert report.r2 == fit_report(world, mapper.config.reads, report.lam).r2


def fit_report(world, reads, lam) -> FitReport:
    return fitted(world, lam=lam, reads=reads)[1]


def test_among_equal_scores_the_rows_decide(world):
    mapper, report, trials = chosen(world, lambda mapper: 0.5)
    assert mapper.config.reads == world[0].reads and report.lam == 1e-6
    assert report.mean == max(t.r2 for t in trials)


def test_sums_can_be_kept_and_read_again(world, tmp_path):
    """A sweep gathers once."""
    *_, train, _ = world
    assert isinstance(train.tail, RidgeSums)
    torch.save(train, tmp_path / "sums.pt")
    again = torch.load(tmp_path / "sums.pt", weights_only=False)
    assert torch.equal(again.tail.xx, train.tail.xx) and torch.equal(again.header, train.header)
