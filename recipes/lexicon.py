"""Word lists for the ear: every name and word of the pocket world, spoken among others, many times and in many voices.

    python recipes/lexicon.py OUT.jsonl --lists 30000 [--seed 0]

A listener can only hear words it has heard before: the spelling projector missed 18 % of the tokens that stood in 64
and more training questions, and over 60 % of those in fewer than 16 (records/LOG.md). A question holds one or two rare
words, a list five to nine. Lists teach the *ear* only (`pocket_pair.py hear`): no answer, fact or story is in them, and
neither language model, map nor residual is trained on them. Words that stories hold out are spoken here as well: what
they hold out is every story with such a word.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from legato.corpora.rows import row_id
from legato.corpora.world import cast, echo, heard, order


def lexicon() -> list[str]:
    """Everything that may be said, each once."""
    words = {w for words in (*cast.WORD_LISTS, *echo.WORD_LISTS) for share in words.by_share.values() for w in share}
    return sorted({*heard.names(), *words, *order.DAYS, *order.MONTHS})


def lists(n: int, seed: int) -> list[dict[str, str]]:
    """n lists as {"id", "question"}; every word of the lexicon comes up equally often, in shuffled rounds."""
    rng = random.Random(f"lexicon:{seed}")
    words = lexicon()
    pool: list[str] = []
    made = []
    for _ in range(n):
        size = rng.randint(5, 9)
        while len(pool) < size:
            pool = rng.sample(words, len(words)) + pool
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
