"""What a sweep's picture shows: one line a rank, in the order of the questions, and a level line for each other arm."""

import pytest

from legato.listen import plots
from legato.listen.plots import Swept

matplotlib = pytest.importorskip("matplotlib")


def test_a_sweep_draws_every_point_once(tmp_path, monkeypatch):
    made = []
    figure = plots._figure

    def kept(columns, purpose):
        made.append(figure(columns, purpose))
        return made[-1]

    monkeypatch.setattr(plots, "_figure", kept)
    points = [Swept(16, 2000, 0.4), Swept(16, 320, 0.3), Swept(None, 2000, 0.6), Swept(64, 2000, 0.5)]
    plots.sweep(points, {"native small": 0.25, "control": 0.26}, tmp_path / "sweep.svg")
    assert (tmp_path / "sweep.svg").read_bytes().startswith(b"<?xml")
    data, ranks = made[0].axes
    lines = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in data.get_lines()}
    assert lines["rank 16"] == [(320, 0.3), (2000, 0.4)]
    assert lines["full map"] == [(2000, 0.6)]
    assert [y for _, y in lines["native small"]] == [0.25, 0.25]
    assert list(ranks.get_lines()[0].get_ydata()) == [0.4, 0.5, 0.6]  # by rank, the full map last
    assert [label.get_text() for label in ranks.get_xticklabels()] == ["16", "64", "full"]
