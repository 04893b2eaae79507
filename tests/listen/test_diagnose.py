"""The diagnosis against answers that are known: what is hidden cannot matter, what is told is spoken."""

import dataclasses
import sys

import pytest
import torch

from legato.cache import Cache, Space
from legato.errors import BadInput, MissingExtra
from legato.listen import diagnose
from legato.listen.batch import answers
from legato.listen.capture import Capture, capture
from legato.listen.diagnose import VIEWS, Probe, hidden, oracle, plot, probe, said, speaks, view
from legato.pocket.prompt import END, HEADER, START


def test_views_of_one_memory(captured):
    e = captured.entries[1]  # 3 header, 4 question, 14 tail tokens
    assert (e.question, e.length) == (4, 21)
    shown = {name: "".join("#" if seen else "." for seen in view(name, e, len(HEADER))) for name in VIEWS}
    assert shown == {
        "everything": "### #### ##############".replace(" ", ""),
        "tail only": "### .... ##############".replace(" ", ""),
        "question only": "### #### ..............".replace(" ", ""),
        "without the last position": "### #### #############.".replace(" ", ""),
        "header only": "### .... ..............".replace(" ", ""),
    }
    with pytest.raises(BadInput, match="no view 'all'; choose one of everything, tail only"):
        view("all", e, 3)


def test_what_may_not_be_seen_cannot_matter(pair, captured):
    """Hidden positions are filled with large numbers: every verdict stays; shown, they change what is said."""
    model = pair[1].model
    noise = torch.Generator().manual_seed(3)
    for e in captured.entries[:4]:
        memory = captured.small(e)
        for name in VIEWS[1:]:
            seen = view(name, e, len(HEADER))
            poisoned = torch.where(seen[:, None, None], memory, 50 * torch.randn(memory.shape, generator=noise))
            spoken = continued(model, memory, seen, 4)
            assert continued(model, poisoned, seen, 4) == spoken != continued(model, poisoned, seen | True, 4)
            both = torch.stack((seen, seen | True))
            assert speaks(model, poisoned, both, START, spoken) == [True, False]


def continued(model, memory, seen, n) -> list[int]:
    """n greedy tokens, one at a time, from what may be seen."""
    tokens = []
    keys, values = diagnose.unflatten(memory[None], model.config.geometry)
    for _ in range(n):
        ids = torch.tensor([[START, *tokens]])
        A = ids.shape[1]
        mask = torch.cat((seen.expand(A, -1), torch.ones(A, A, dtype=torch.bool).tril()), dim=1)
        states = model(model.embed(ids), memory=(keys, values), mask=mask[None, None])
        tokens.append(int(model.logits(states[0, -1]).argmax()))
    return tokens


def test_a_model_that_sees_everything_says_what_it_said(pair, captured):
    for which, model in zip(("large", "small"), pair, strict=True):
        shares = hidden(model.model, captured, which, captured.entries, START)
        assert list(shares) == list(VIEWS)
        assert shares["everything"] == 1
        assert shares["header only"] < 0.5  # it says one thing to everyone


def test_all_layers_are_needed_to_ask_the_large_model(pair, paired, tmp_path):
    capture(paired(2), tmp_path, (0, 2), {})
    few = Capture(tmp_path)
    with pytest.raises(BadInput, match="holds 2 of the large model's 5 layers; capture all"):
        hidden(pair[0].model, few, "large", few.entries, START)


def test_the_oracle_counts_what_a_told_tail_makes_the_model_say(pair, paired, tmp_path):
    small = pair[1]
    changed = []
    for i, p in enumerate(paired(6)):
        keys, values = (t.clone() for t in p.small.memory.filled())
        tail = p.small.memory.length - p.small.prompt.audio.stop
        for into, told in zip((keys, values), p.told.memory.filled(), strict=True):
            into[..., -tail:, :] = told[..., -tail:, :]
        spliced = Cache(keys, values, p.small.memory.length, Space.CONTENT)
        spoken = answers(small.model, [spliced], START, 3, {END})[0]
        changed.append(dataclasses.replace(p, answer=tuple(spoken) if i < 4 else (spoken[0] + 1,)))
    capture(changed, tmp_path, (0,), {})
    found = Capture(tmp_path)
    before = found.small(found.entries[0])
    assert oracle(small.model, found, found.entries, START) == pytest.approx(4 / 6)
    assert torch.equal(found.small(found.entries[0]), before)


def test_own_answers_by_name(captured):
    e = captured.entries[0]
    assert said(e, "large") == e.answer and said(e, "small") == e.own


@pytest.mark.parametrize("which", ("large", "small"))
def test_a_planted_code_is_found_where_it_stands(planted, tmp_path, which):
    """At one layer and position of pure noise the answer's token is written; only there can it be read."""
    world, embedding = planted(), torch.randn(30, 12, generator=torch.Generator().manual_seed(8))
    layer, position = (2, -2) if which == "large" else (1, -4)  # the last but one of the tail; the question's last
    codes = torch.randn(30, 12, generator=torch.Generator().manual_seed(9))
    pairs = []
    for i in range(200):
        pair = world.pair(i, 3 + i % 2)
        memory = getattr(pair, which).memory
        for t in (memory.keys, memory.values):
            t.copy_(torch.randn(t.shape, generator=torch.Generator().manual_seed(i)))
        flat = torch.cat([t[layer, 0, :, position].flatten() for t in (memory.keys, memory.values)])
        flat[:12] = codes[20 + i % 5] + 0.1 * flat[:12]
        for half, t in zip(flat.chunk(2), (memory.keys, memory.values), strict=True):
            t[layer, 0, :, position] = half.view(t.shape[2], -1)
        pairs.append(pair)
    capture(pairs, tmp_path, (3, 2, 0), {})
    found = Capture(tmp_path)
    result = probe(found, which, found.entries, {e.id: e.answer[0] for e in found.entries}, embedding,
                   question_tokens=2)
    assert result.positions == ("question -2", "question -1", "tail 0", "tail 1", "tail 2")
    assert result.layers == ((3, 2, 0) if which == "large" else (0, 1, 2))
    at = result.layers.index(layer), len(result.positions) + position
    assert result.accuracy[at] == 1
    rest = result.accuracy.clone()
    rest[at] = 0
    assert rest.max() < 0.5  # chance is 0.2


def test_too_few_long_questions_are_refused(captured, pair):
    labels = {e.id: 1 for e in captured.entries}
    with pytest.raises(BadInput, match="0 questions have 6 tokens, too few to probe"):
        probe(captured, "small", captured.entries, labels, pair[1].model.embedding.weight, question_tokens=6)


FOUND = {"large": Probe(torch.rand(4, 3), (0, 2, 4, 6), ("question -1", "tail 0", "tail 1"))}
SHARES = {"large": dict.fromkeys(VIEWS, 0.5), "small": dict.fromkeys(VIEWS, 0.2)}


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    plot(FOUND, SHARES, tmp_path / "one.png")
    plot({**FOUND, "small": FOUND["large"]}, SHARES, tmp_path / "two.png")
    sizes = [(tmp_path / name).read_bytes()[16:20] for name in ("one.png", "two.png")]  # the width in a PNG's header
    assert [int.from_bytes(size) for size in sizes] == [12 * 120, 18 * 120]


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'legato\[plots\]'"):
        plot(FOUND, SHARES, tmp_path / "plot.png")
