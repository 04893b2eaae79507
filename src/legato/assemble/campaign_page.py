"""A probe as one page that needs nothing else: verdicts, pictures, means, and players for every way of every kept clip.

Pictures and sound stand in the page itself, so that it can be sent as one file. It draws and decides nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from legato.artifacts import write_atomic
from legato.assemble import campaign_scores as scores
from legato.speak import plots
from legato.speak.probe import CONTINUOUS, WRONG, Probed, Scores

COLOURS = {"book": "tab:blue", CONTINUOUS: "tab:green", "noise": "tab:orange", WRONG: "tab:red"}
WIDE = 20.0  # largest over smallest figure, from which an axis is logarithmic
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222;
  background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.verdict { padding: .6rem .9rem; border-left: 5px solid #2a7; background: #f2faf6; margin: .5rem 0; }
.verdict.bad { border-color: #c22; background: #fdf0f0; font-weight: 600; }
.verdict.unknown { border-color: #999; background: #f4f4f4; }
.note { color: #555; }
img { max-width: 100%; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; } th, td { padding: .3rem .6rem; text-align: right;
  border-bottom: 1px solid #ddd; white-space: nowrap; } th:first-child { text-align: left; }
tr.wrong th, tr.wrong td { color: #b00; } tr.right th, tr.right td { font-weight: 600; }
audio { width: 13rem; height: 2rem; }
"""


def draw(name: str, each: Mapping[str, Scores], probed: Probed, path: Path) -> None:
    """One instrument: every recording as a dot, the means as marks. Raises: MissingExtra without matplotlib."""
    ways = list(probed.scores)
    figure = plots.figure(1, "drawing a probe", width=9, height=3.6)
    axes = figure.subplots()
    shown = []
    for n, way in enumerate(ways):
        colour = next(c for part, c in COLOURS.items() if part in way)
        found = [v for of in each.values() if (v := of[way].get(name)) is not None]
        axes.plot(n + np.linspace(-0.15, 0.15, len(found)), found, ".", color=colour, alpha=0.3)
        mean = probed.scores[way][name]
        if mean is None:
            axes.text(n, 0.5, "not to be\nmeasured", color=colour, ha="center", va="center", fontsize=8,
                      transform=axes.get_xaxis_transform())
        else:
            axes.plot(n, mean, "_", color=colour, markersize=26, markeredgewidth=3)
            axes.annotate(f"{mean:.3g}", (n, mean), (0, 6), textcoords="offset points", ha="center", fontsize=8)
        shown += found
    if (full := probed.scores[probed.full][name]) is not None:
        axes.axhline(full, color="grey", linestyle="--", linewidth=0.8, label=f"what {probed.full} give")
        axes.legend(fontsize=8)
    if shown and min(shown) > 0 and max(shown) > WIDE * min(shown):
        axes.set_yscale("log")
    better = "lower" if scores.lower_is_better(name) else "higher"
    axes.set(xticks=range(len(ways)), xlim=(-0.6, len(ways) - 0.4), ylabel=f"{scores.UNITS[name]} ({better} is better)")
    axes.set_xticklabels(ways, rotation=35, ha="right", fontsize=8)
    axes.set_title(name)
    figure.savefig(path, dpi=120)


def write(
    path: Path, probed: Probed, verdicts: Sequence[str], missing: Sequence[str], pictures: Mapping[str, Path],
    sounds: Mapping[str, Mapping[str, Path]],
) -> Path:
    """sounds[recording][way]: FLAC files that go into the page."""
    told = [f'<p class="verdict{_kind(v)}">{escape(_sentence(v))}</p>' for v in verdicts]
    notes = [f'<p class="note">{escape(_sentence(m))}</p>' for m in missing]
    images = [
        f'<img alt="{escape(name)} of every way" src="data:image/png;base64,{_inline(file)}">'
        for name, file in pictures.items()
    ]
    body = "\n".join((
        "<h1>Does this codec's decoder take what it has only seen quantised?</h1>",
        f'<p class="note">{probed.recordings} recordings through the decoder in {len(probed.scores)} ways. '
        f"“{CONTINUOUS}” keeps the quantiser's projections and leaves out the cutting up; noise is Gaussian, "
        "in shares of the latent's own deviation; the “wrong space” leaves the projections out too, and must "
        "fail, or nothing here means anything. Each is compared with its recording.</p>",
        *told, *notes,
        "<h2>Means</h2>", _table(probed, list(pictures)),
        "<h2>Instruments</h2>", *images,
        "<h2>Listen</h2>", _players(sounds),
    ))
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Probe of a codec</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body>\n{body}\n</body></html>\n"
    )
    write_atomic(path, page.encode())
    return path


def _kind(verdict: str) -> str:
    if "DO NOT" in verdict or "worthless" in verdict:
        return " bad"
    return " unknown" if "could not be measured" in verdict or "not tried" in verdict else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _row(way: str) -> str:
    return {WRONG: ' class="wrong"', CONTINUOUS: ' class="right"'}.get(way, "")


def _table(probed: Probed, names: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(name)}<br>{escape(scores.UNITS[name])}</th>" for name in names)
    rows = [
        f"<tr{_row(way)}><th>{escape(way)}</th>"
        + "".join(f"<td>{'–' if (v := figures[name]) is None else f'{v:.3g}'}</td>" for name in names)
        + "</tr>"
        for way, figures in probed.scores.items()
    ]
    return f'<div class="wide"><table><tr><th>way</th>{head}</tr>{"".join(rows)}</table></div>'


def _players(sounds: Mapping[str, Mapping[str, Path]]) -> str:
    ways = list(dict.fromkeys(way for files in sounds.values() for way in files))
    head = "".join(f"<th>{escape(name)}</th>" for name in sounds)
    rows = []
    for way in ways:
        cells = "".join(f"<td>{_player(f'{name}, {way}', files.get(way))}</td>" for name, files in sounds.items())
        rows.append(f"<tr{_row(way)}><th>{escape(way)}</th>{cells}</tr>")
    return f'<div class="wide"><table><tr><th>way</th>{head}</tr>{"".join(rows)}</table></div>'


def _player(label: str, file: Path | None) -> str:
    if file is None:
        return "no sound"
    return (
        f'<audio controls preload="none" aria-label="{escape(label)}" src="data:audio/flac;base64,{_inline(file)}">'
        "</audio>"
    )


def _inline(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
