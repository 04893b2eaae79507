"""Do both pocket models pass what must hold before any map is fitted? Measures the shipped pair, writes the record.

    python recipes/pocket_gates.py OUT.json --rows SELECT.jsonl [--clips CLIPS --features FEATURES] [--drawn N]

The gates and their bounds: `legato.pocket.gates`. Questions are the selection's, read as words and, with --clips,
heard. The lens is fitted on N other questions (4,000), drawn from the train split and read as words.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from legato.assemble.transfer import load_pair
from legato.corpora.rows import read_rows
from legato.corpora.world import draw
from legato.pocket.examples import Example, encode
from legato.pocket.features import Features
from legato.pocket.gates import read_out, told_oracle
from legato.pocket.listener import PocketListener
from legato.pocket.pair import READ
from legato.pocket.train import key_accuracy
from voices.shards import read_entries

VIEWS = {"everything": {}, "tail only": {"tail_only": True}, "tail hidden": {"tail_hidden": True}}
ORACLE = 300  # questions


def views(model: PocketListener, examples: Sequence[Example], features: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Key accuracy under each mask, [right, n], in all and by domain."""
    return {
        name: key_accuracy(model.model, model.projector, list(examples), features, **view)
        for name, view in VIEWS.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--clips", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--drawn", type=int, default=4000)
    args = parser.parse_args()
    large, small, hashes = load_pair()
    rows = {row.id: row for row in read_rows(args.rows)}
    read = [encode(row, small.tokenizer) for row in rows.values()]
    features: Mapping[str, torch.Tensor] = {}
    ways = {"read": read}
    if args.clips:
        features = Features(args.features)
        clips = read_entries(args.clips)
        ways["heard"] = [encode(rows[c["row"]], small.tokenizer, audio=c["id"]) for c in clips]
    fit_on = [encode(row, small.tokenizer) for row in draw(args.drawn, seed=11, split="train")]
    found: dict[str, Any] = {"weights": hashes}
    for name, model in (("large", large), ("small", small)):
        found[name] = {way: views(model, examples, features) for way, examples in ways.items()}
        layers = READ if name == "large" else range(model.geometry.layers)
        slots, said = read_out(model.model, model.projector, fit_on, read, {}, tuple(layers))
        found[name]["first token by a lens at each slot"] = slots
        found[name]["first token said at the start mark"] = said
        print(json.dumps({name: found[name]}), flush=True)
    asked = read[:ORACLE]
    found["small"]["told oracle"] = {
        "share": told_oracle(small.model, small.projector, asked, {}, small.tokenizer),
        "n": len(asked),
    }
    print(json.dumps(found["small"]["told oracle"]))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
