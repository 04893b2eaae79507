"""Training of the head: what its past is, that it learns, that it goes on after a kill, and that it stops when deaf."""

import pytest
import torch

from legato.errors import BadInput, ConditionIgnored
from legato.speak import train
from legato.speak.flow import sample
from legato.speak.head import HeadConfig
from legato.speak.history import DROPPED
from legato.speak.train import HeadTraining, Tapped, train_head

CONFIG = HeadConfig(latent=4, state=8, width=32, layers=2, history=3)


def frames(n=2000, told=True, seed=0):
    """Latents that the states say exactly, or that nothing says."""
    draw = torch.Generator().manual_seed(seed)
    h = torch.randn(n, 8, generator=draw)
    said = torch.randn(8, 4, generator=torch.Generator().manual_seed(9)) / 8**0.5
    latents = h @ said if told else torch.randn(n, 4, generator=draw)
    return Tapped(h, latents, torch.arange(n) % 50 == 0)


def test_the_past_stops_where_an_utterance_begins():
    latents = torch.arange(6.0)[:, None] + 1
    tapped = Tapped(torch.zeros(6, 1), latents, torch.tensor([True, False, False, True, False, False]))
    past = tapped.past(torch.tensor([0, 2, 3, 5]), 3)[..., 0]
    assert past.tolist() == [[0, 0, 0], [0, 1, 2], [0, 0, 0], [0, 4, 5]]


def test_frames_that_do_not_fit_together_are_refused():
    with pytest.raises(BadInput, match="do not fit together"):
        Tapped(torch.zeros(3, 1), torch.zeros(4, 1), torch.zeros(3, dtype=torch.bool))


def test_it_learns_to_say_what_the_state_says(tmp_path):
    lines = []
    how = HeadTraining(steps=800, batch=128, rate=3e-3)
    head = train_head(CONFIG, frames(), frames(seed=1), how, tmp_path, lines.append)
    held = frames(200, seed=2)
    condition = head.condition(held.states, torch.zeros(200, 3, 4), torch.full((200,), DROPPED))
    with torch.no_grad():
        made = sample(lambda x, s, t: head(x, s, t, condition), torch.randn(200, 4), 8)
    # Another frame's latent would be twice the variance away.
    assert (made - held.latents).square().mean() < 1.0 * held.latents.square().mean()
    assert lines[4]["another's state"] > 1.3 * lines[4]["held"]


def test_a_killed_training_goes_on(tmp_path):
    how = HeadTraining(steps=600, batch=16, draws=1)
    done = []

    def kill(line):
        done.append(line["step"])
        if line["step"] == 600:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_head(CONFIG, frames(), frames(seed=1), how, tmp_path, kill)
    train_head(CONFIG, frames(), frames(seed=1), how, tmp_path, lambda line: done.append(line["step"]))
    assert done == [100, 200, 300, 400, 500, 600, 600]  # the last checkpoint was at 500


def test_a_head_that_ignores_its_state_is_stopped_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "CHECKED_AT", 500)
    how, deaf = HeadTraining(steps=600, batch=16, draws=1), frames(told=False, seed=1)
    with pytest.raises(ConditionIgnored, match="its condition is ignored"):
        train_head(CONFIG, frames(told=False), deaf, how, tmp_path, lambda _: None)
