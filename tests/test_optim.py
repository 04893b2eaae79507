"""Masters, the rate curve, checkpoints and the journal: what every training here relies on."""

import json

import pytest
import torch
from torch import nn

from legato import optim
from legato.optim import Journal, Masters, checkpoint, cosine


def parameters(dtype=torch.float32):
    draw = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=draw).to(dtype)) for shape in ((5, 3), (4,))]


def gradients(params, step, size=0.1):
    draw = torch.Generator().manual_seed(100 + step)
    for p in params:
        p.grad = (size * torch.randn(p.shape, generator=draw)).to(p.dtype)


def test_in_float32_it_is_adamw():
    ours, theirs = parameters(), parameters()
    masters = Masters([(ours[:1], 1e-2), (ours[1:], 1e-3)], weight_decay=0.1)
    groups = [{"params": [p], "lr": rate} for p, rate in zip(theirs, (1e-2, 1e-3), strict=True)]
    adamw = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.1)
    for step in range(20):
        gradients(ours, step), gradients(theirs, step)
        for group, rate in zip(adamw.param_groups, (1e-2, 1e-3), strict=True):
            group["lr"] = rate * cosine(step, 20, 5)
        masters.step(cosine(step, 20, 5))
        adamw.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_updates_below_a_bfloat16_step_add_up():
    p = nn.Parameter(torch.full((3,), 100.0, dtype=torch.bfloat16))  # its next values are 0.5 away
    masters = Masters([([p], 0.01)])
    for _ in range(100):
        p.grad = torch.ones_like(p)
        masters.step(1.0)
    assert p.dtype == torch.bfloat16 and (p == 99).all()


def test_gradients_are_clipped_to_norm_one_and_used_up():
    small, large = parameters(), parameters()
    a, b = Masters([(small, 0.1)]), Masters([(large, 0.1)])
    gradients(small, 0, size=1.0)
    gradients(large, 0, size=1000.0)
    norms = a.step(1.0), b.step(1.0)
    assert norms[1] == pytest.approx(1000 * norms[0], rel=1e-4) and norms[0] > 1
    for p, q in zip(small, large, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
        assert p.grad is None and q.grad is None


def test_a_parameter_without_gradient_stays():
    params = parameters()
    before = params[1].detach().clone()
    masters = Masters([(params, 0.1)], weight_decay=0.1)
    gradients(params[:1], 0)
    masters.step(1.0)
    assert torch.equal(params[1], before)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_a_loaded_state_goes_on_bit_for_bit(dtype, tmp_path):
    whole = parameters(dtype)
    masters = Masters([(whole, 1e-2)], 0.1)
    for step in range(6):
        gradients(whole, step)
        masters.step(cosine(step, 6, 2))
        if step == 2:
            checkpoint(tmp_path / "state.pt", {"masters": masters.state(), "step": 3})
    other = [nn.Parameter(torch.zeros_like(p)) for p in whole]
    again = Masters([(other, 1e-2)], 0.1)
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    again.load(saved["masters"])
    for step in range(saved["step"], 6):
        gradients(other, step)
        again.step(cosine(step, 6, 2))
    assert all(torch.equal(a, b) for a, b in zip(whole, other, strict=True))


def test_the_rate_rises_in_line_and_falls_by_a_cosine_to_a_tenth():
    assert [cosine(step, 100, 4) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert cosine(4, 100, 4) == 1.0 and cosine(0, 100, 0) == 1.0
    assert cosine(52, 100, 4) == pytest.approx(0.55)
    assert cosine(100, 100, 4) == pytest.approx(0.1) == cosine(500, 100, 4)
    falling = [cosine(step, 100, 4) for step in range(4, 101)]
    assert falling == sorted(falling, reverse=True)


def test_a_checkpoint_is_the_old_one_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "state.pt"
    checkpoint(path, {"step": 1})

    def dying(content, file):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(optim.torch, "save", dying)
    with pytest.raises(KeyboardInterrupt):
        checkpoint(path, {"step": 2})
    monkeypatch.undo()
    assert torch.load(path, weights_only=True) == {"step": 1}
    checkpoint(path, {"step": 3})
    assert torch.load(path, weights_only=True) == {"step": 3}
    assert [p.name for p in tmp_path.iterdir()] == ["state.pt"]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_journal_tells_means_since_the_line_before(tmp_path):
    path = tmp_path / "log.jsonl"
    journal = Journal(path, 0)
    for step, loss in enumerate((1.0, 2.0, 3.0, 7.0), 1):
        journal.note(8, loss=loss, guard=loss / 3)
        if step % 2 == 0:
            line = journal.line(step)
            assert line.pop("examples_per_s") > 0
            journal.write(line | {"more": step})
    assert lines(path) == [{"step": 2, "loss": 1.5, "guard": 0.5, "more": 2},
                           {"step": 4, "loss": 5.0, "guard": 1.6667, "more": 4}]  # fmt: skip


def test_a_resumed_journal_tells_every_step_once(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 2}\n{"step": 4}\n{"step": 6}\n{"st')  # killed at 7, the checkpoint is of 4
    journal = Journal(path, 4)
    journal.note(1, loss=1.0)
    journal.write({"step": 6})
    assert [line["step"] for line in lines(path)] == [2, 4, 6]
    Journal(path, 0)
    assert path.read_text() == ""
