"""Write what is generated in README.md, and docs/race.svg: race and speed from raw records, the tree from docstrings.

    python recipes/readme_tables.py [--check]

With --check nothing is written; it fails when a part is stale. No figure is typed by hand: the race re-derives from
`records/` as `legato eval report` does, the speed from what the benchmarks printed as JSON on the machine it names, the
tree from the first sentence of each module.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
TREES = ("src/legato", "recipes", "benchmarks", "docs", "examples", "records", "tests")
PLAIN = {  # what a file or folder without a docstring is; a folder named here is one line, its files are not listed
    "src/legato/corpora/world/data": "the world's tables: countries, cities, words; sources in SOURCES.md",
    "src/legato/pocket/weights": "the shipped weights, a folder an artifact, each with its manifest",
    "src/legato/pocket/pronunciation": "lexicon and letters of the voice, with a card that says how well they read",
    "src/legato/serve/static": "the pages: plain HTML, CSS and JavaScript, nothing from elsewhere",
    "src/legato/presets/pocket.toml": "the pocket pair's weights by SHA-256",
    "docs/architecture.md": "the house: rooms, import rules, one question's way through it",
    "docs/diagnosis.png": "where each pocket model holds its answer, drawn by `legato listen diagnose`",
    "docs/race.svg": "the picture above, drawn from the records",
    "docs/residual.png": "the residual against questions and rank, drawn from records/transfer",
    "examples/questions": "spoken questions for `make ask`",
    "records": "the log, the ledger, seals, candidates and raw records",
    "tests": "mirrors the package; contracts/ is one suite that every organ passes",
}
TOP = {
    "Makefile": "one-word tasks",
    ".ci/run": "what continuous integration runs",
    "pyproject.toml": "package, dependencies with their reasons, import rules",
    "constraints.txt": "the exact versions that are tested",
    "CONTRIBUTING.md": "how to test, the rules, how to add records",
    "CHANGELOG.md": "what changed, for people",
    "SECURITY.md": "what is checked and what is trusted",
    "LICENSE": "Apache-2.0",
    "NOTICE": "every source and its licence",
}
LONGEST = 96  # characters of a line's text in the tree
COLOURS = {  # the steps of a turn in their order
    "hears": "#4c78a8",
    "maps": "#e45756",
    "corrects": "#f58518",
    "places": "#eeca3b",
    "starts": "#72b7b2",
    "goes on": "#bab0ac",
}


def first_sentence(path: Path) -> str:
    """What a module says it is; a long sentence is cut where it pauses."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    sentence = re.split(r"(?<=[.?])\s+(?=[A-Z`])|\n\n", doc, maxsplit=1)[0]
    sentence = " ".join(sentence.split()).rstrip(".:")
    assert sentence, f"{path} has no docstring"
    if len(sentence) > LONGEST:
        sentence = re.sub(r"[:;,][^:;,]*$", "", sentence[:LONGEST])
    return sentence


def tree(root: Path = ROOT) -> str:
    """The file tree, a line a file."""
    lines = [f"{name:<42} {what}" for name, what in TOP.items()]
    for top in TREES:
        if (root / top).is_dir():
            lines += ["", *_branch(root, root / top, 0)]
    return "```\n" + "\n".join(lines) + "\n```"


def _branch(root: Path, folder: Path, depth: int) -> list[str]:
    name, inside = folder.relative_to(root).as_posix(), "  " * depth
    shown = f"{inside}{name if depth == 0 else folder.name}/"
    if name in PLAIN:
        return [f"{shown:<42} {PLAIN[name]}"]
    package = folder / "__init__.py"
    lines = [f"{shown:<42} {first_sentence(package)}" if package.is_file() else shown]
    entries = sorted(path for path in folder.iterdir() if path.name != "__init__.py" and not _hidden(path))
    for path in sorted(entries, key=Path.is_dir):  # files first
        relative = path.relative_to(root).as_posix()
        if path.is_dir():
            lines += _branch(root, path, depth + 1)
        elif path.suffix == ".py" or relative in PLAIN:
            what = PLAIN.get(relative) or first_sentence(path)
            lines.append(f"{inside + '  ' + path.name:<42} {what}")
        else:
            raise SystemExit(f"{relative} has no line in the README's tree; add it to PLAIN in {Path(__file__).name}.")
    return lines


def _hidden(path: Path) -> bool:
    return path.name.startswith((".", "__pycache__"))


def race(report: Mapping[str, Any]) -> str:
    """The race as Markdown tables, a final each, the newest last."""
    parts = [_table(final) for final in report["finals"]]
    if not parts:
        return "No final has been run yet."
    return "\n\n".join(parts) + "\n\n![median time of each arm, step by step](docs/race.svg)"


def _table(final: Mapping[str, Any]) -> str:
    outside = final["outside_every_fit"]
    beyond = outside["n"] if outside else 0
    rows = [
        f"Final `{final['seal']}`: {final['n']:,} spoken questions, {beyond:,} of them about facts outside every fit. "
        "Right answers with 95 % intervals; medians of the same turns.",
        "",
        "| arm | right | right outside every fit | malformed | first token, ms | whole answer, ms | tokens/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm, figures in final["arms"].items():
        speed = final["speed"][arm]
        unseen = _percent(outside["arms"][arm]) if outside else "-"
        rows.append(
            f"| {arm} | {_percent(figures)} | {unseen} | {figures['malformed']} | {speed['first_token_ms']:.0f} "
            f"| {speed['total_ms']:.0f} | {speed['decode_tokens_per_s']:.0f} |"
        )
    for name, part in {"all questions": final, "outside every fit": outside or {}}.items():
        said = []
        for other in ("small", "control"):
            if versus := part.get(f"transfer_vs_{other}"):
                counts = f"{versus['fixed']} fixed, {versus['regressed']} regressed"
                said.append(f"against {other} {counts}, exact McNemar two-sided p = {versus['mcnemar_two_sided']:.2g}")
        if gap := part.get("gap_recovered"):
            low, high = gap["ci95"]
            said.append(f"of the gap between small and large {gap['value']:.0%} ({low:.0%} to {high:.0%}) recovered")
        if said:
            rows += ["", f"Transfer, {name}: {'; '.join(said)}."]
    return "\n".join(rows)


def _percent(figures: Mapping[str, Any]) -> str:
    low, high = figures["ci95"]
    return f"{figures['accuracy']:.1%} ({low:.1%} to {high:.1%})"


def speed(listen: Mapping[str, Any], decode: Mapping[str, Any]) -> str:
    """What `legato bench listen --json` and `benchmarks/decode.py --json` found, as one Markdown table."""
    machine, share, first = listen["machine"], listen["share_of_memory_bandwidth"], decode["results"][0]
    ratios = {
        "decode speed, transfer : small": listen["decode_speed_transfer_to_small"],
        "decode speed, transfer : large": listen["decode_speed_transfer_to_large"],
        "map + correct + place : large prefill": listen["handoff_to_large_prefill"],
    }
    for r in decode["results"]:
        ratios[f"our loop : `transformers.generate`, {r['layers']} layers, {r['dtype']}"] = r["speedup"]
    rows = [f"| {what} | {r['value']:.3f} | {r['low']:.3f} to {r['high']:.3f} |" for what, r in ratios.items()]
    return "\n".join(
        [
            f"{machine['cpu']}, {machine['threads']} threads, torch {machine['torch']}, transformers "
            f"{decode['transformers']}. Between arms: {listen['repeats']} turns of {listen['tokens']} tokens in "
            f"{machine['dtype']}; against `transformers`: {first['repeats']} of {first['tokens']}.",
            "",
            "| ratio of medians | | 95 % interval |",
            "|---|---|---|",
            *rows,
            "",
            f"A token of the small model used {share['transfer']:.0%} of the memory's bandwidth as a probe read it in "
            f"the same turns, one of the large model {share['large']:.0%}.",
        ]
    )


def picture(final: Mapping[str, Any]) -> str:
    """SVG, the same bytes each time: a bar an arm, what its median turn spends on each step, how often it is right."""
    arms, speed = final["arms"], final["speed"]
    longest = max(speed[arm]["total_ms"] for arm in arms)
    left, wide, high, row = 80, 560, 46 + 34 * len(arms), 34
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="{high}" font-family="sans-serif" font-size="13">',
        f'<rect width="800" height="{high}" fill="white"/>',
    ]
    for i, (arm, figures) in enumerate(arms.items()):
        y, at = 12 + row * i, 0.0
        out.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(arm)}</text>')
        for (step, colour), end in zip(COLOURS.items(), _ends(speed[arm]), strict=True):
            width = wide * max(0.0, end - at) / longest
            if width > 0:
                x = left + wide * at / longest
                title = f"<title>{step}: {end - at:.1f} ms</title>"
                out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="20" fill="{colour}">{title}</rect>')
            at = max(at, end)
        words = f"{speed[arm]['total_ms']:.0f} ms, {figures['accuracy']:.0%} right"
        out.append(f'<text x="{left + wide * at / longest + 6:.1f}" y="{y + 15}">{words}</text>')
    x = left
    for step, colour in COLOURS.items():
        out += [
            f'<rect x="{x}" y="{high - 24}" width="12" height="12" fill="{colour}"/>',
            f'<text x="{x + 16}" y="{high - 14}">{step}</text>',
        ]
        x += 30 + 8 * len(step)
    return "\n".join([*out, "</svg>", ""])


def _ends(speed: Mapping[str, float | None]) -> list[float]:
    """When each step of COLOURS ends, from the medians of the steps."""
    ends, at = [], 0.0
    for step in ("prefill_ms", "map_ms", "correct_ms", "place_ms"):
        at += speed[step] or 0.0
        ends.append(at)
    return [*ends, speed["first_token_ms"] or at, speed["total_ms"] or at]


def filled(text: str, region: str, content: str) -> str:
    """`text` with everything between <!-- region --> and <!-- /region --> replaced."""
    pattern = rf"(<!-- {region} -->\n).*?(<!-- /{region} -->)"
    assert len(re.findall(pattern, text, re.DOTALL)) == 1, f"README.md needs exactly one region {region}"
    return re.sub(pattern, lambda match: f"{match[1]}{content}\n{match[2]}", text, flags=re.DOTALL)


def generated(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file and what it must hold."""
    from legato.evaluate.report import report

    found = report(root / "records")
    files = {}
    if found["finals"]:
        files[root / "docs/race.svg"] = picture(found["finals"][-1])
    readme = (root / "README.md").read_text(encoding="utf-8")
    measured = (json.loads((root / f"records/speed/{name}.json").read_text("utf-8")) for name in ("listen", "decode"))
    for region, content in {"race": race(found), "speed": speed(*measured), "tree": tree(root)}.items():
        readme = filled(readme, region, content)
    files[root / "README.md"] = readme
    return files


def main() -> None:
    files = generated()
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        if stale:
            sys.exit(f"{', '.join(path.name for path in stale)} is stale; run: make docs")
        return
    for path in stale:
        path.write_text(files[path], encoding="utf-8")
        print(f"{path.relative_to(ROOT)} rewritten")


if __name__ == "__main__":
    main()
