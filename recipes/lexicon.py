"""Word lists for the ear: every name and word of the pocket world, spoken among others, many times and in many voices.

    python recipes/lexicon.py OUT.jsonl --lists 30000 [--seed 0]

A listener can only hear words it has heard before: the spelling projector missed 18 % of the tokens that stood in 64
and more training questions, and over 60 % of those in fewer than 16 (records/LOG.md). A question holds one or two rare
words, a list five to nine. How often a word is said follows how often the world asks with it: story words stand in two
questions of five, and of the names the world's weights prefer some by far. Lists teach projectors only (`pocket_pair.py
hear` and `joint`): no answer, fact or story is in them, and neither language model, map nor residual is trained on
them. Words that stories hold out are spoken here as well: what they hold out is every story with such a word.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from pathlib import Path

from legato.corpora.rows import row_id
from legato.corpora.world import cast, echo, heard, order

MOST, LEAST = 5.0, 0.1  # times that a word is said in a round
PER_USE = 20.0  # by a name's part in the kinds of facts, in units of one kind of weight 1


def lexicon() -> dict[str, float]:
    """Everything that may be said, each with how many times it is said in a round, on average."""
    said = dict.fromkeys((*order.DAYS, *order.MONTHS), 1.0)
    for words, often in ((echo.WORD_LISTS, 0.5), (cast.WORD_LISTS, MOST)):
        said |= {w: often for each in words for share in each.by_share.values() for w in share}
    use: dict[str, float] = defaultdict(float)
    for kind in heard.fact_kinds():
        total = sum(fact.weight for fact in kind.facts)
        for fact in kind.facts:
            for name in {heard.bare_name(slot) for slot in (*fact.slots.values(), *fact.accepted)}:
                use[name] += kind.weight * fact.weight / total
    for name in heard.names():
        said[name] = max(said.get(name, 0.0), min(MOST, LEAST + PER_USE * use[name]))
    return dict(sorted(said.items()))


def lists(n: int, seed: int) -> list[dict[str, str]]:
    """n lists as {"id", "question"}, of words drawn in shuffled rounds."""
    rng = random.Random(f"lexicon:{seed}")
    words = lexicon()
    pool: list[str] = []
    made = []
    for _ in range(n):
        size = rng.randint(5, 9)
        while len(pool) < size:
            turn = [w for w, often in words.items() for _ in range(int(often + rng.random()))]
            rng.shuffle(turn)
            pool = turn + pool
        said = ", ".join(pool.pop() for _ in range(size)) + "."
        said = said[0].upper() + said[1:]
        made.append({"id": row_id("word-list", said, ""), "question": said})
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lists", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    made = lists(args.lists, args.seed)
    args.out.write_text("".join(json.dumps(one) + "\n" for one in made), encoding="utf-8")
    print(f"{len(lexicon())} words in {len(made)} lists")


if __name__ == "__main__":
    main()
