"""What the pocket voice is taught to say: texts of the pocket world, and everyday sentences around many words.

    python recipes/voice_texts.py OUT.jsonl [--world N] [--written N] [--wordnet FOLDER]

One JSON line a text: {"text", "source", "held"}. "world": questions and answers of the world's train split, one text a
sentence group as it stands. "written": sentences that the base model (SmolLM2-135M-Instruct, Apache-2.0) writes about
two of the world's words, so that the voice meets sounds and clauses that no template has. "example" and "meaning":
phrases in which WordNet 3.0 (Princeton's licence; Debian's wordnet-base, /usr/share/wordnet) uses its words, and what
they mean. One text in forty is held out by the hash of its letters; the tests say only those. Killed, it goes on where
it was: texts follow from the numbers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from tqdm import tqdm

from legato.cache import Cache, Space
from legato.corpora.world import draw
from legato.listen.batch import answers
from legato.listen.capture import whole_lines
from legato.pocket.pair import load_base
from legato.pocket.prompt import END
from legato.transformer import Transformer

BATCH = 64
LIMIT = 36  # tokens of one sentence
ASKED = (
    "Write one short everyday sentence with the words {a} and {b}.",
    "Use {a} and {b} in one short spoken sentence.",
    "Write one short question with the words {a} and {b}.",
    "Say something friendly in one sentence about {a} and {b}.",
    "Explain {a} in one short sentence, and mention {b}.",
    "Write one short sentence about the past with {a} and {b}.",
    "Write one short sentence with a number, {a} and {b}.",
)
HELD = 40  # one in so many
SENTENCE = re.compile(r"[A-Z][A-Za-z0-9 ,;:'’$%-]{10,110}[.!?]")


def held(text: str) -> bool:
    letters = re.sub(r"[^a-z0-9]", "", text.lower())
    return int(hashlib.sha256(letters.encode()).hexdigest(), 16) % HELD == 0


def world(count: int) -> Iterator[str]:
    """Questions and answers; the short answers come up more than once and are wanted once."""
    for row in draw(count, seed="voice", split="train"):
        yield row.question
        yield row.answer


def world_words(count: int) -> list[str]:
    words = {w for text in world(count) for w in re.findall(r"[a-z]{3,12}", text)}
    return sorted(words)


@torch.inference_mode()
def written(words: list[str], start: int, count: int) -> Iterator[str | None]:
    """Sentence number `start`, `start + 1`, ...; None where what was written is no plain sentence."""
    model, tokenizer = load_base(torch.bfloat16)
    for at in range(start, count, BATCH):
        prompts = []
        for n in range(at, min(at + BATCH, count)):
            rng = random.Random(f"voice {n}")
            a, b = rng.sample(words, 2)
            asked = f"<|im_start|>user\n{rng.choice(ASKED).format(a=a, b=b)}<|im_end|>\n<|im_start|>assistant\n"
            prompts.append(tokenizer.encode(asked).ids)
        last = prompts[0][-1]
        for ids in answers(model, memories(model, prompts), last, LIMIT, {END}):
            found = SENTENCE.match(tokenizer.decode(ids).strip().strip('"'))
            yield found[0] if found and len(ids) < LIMIT else None


def wordnet(folder: Path) -> Iterator[tuple[str, str]]:
    """(source, text), in an order that mixes both."""
    found: list[tuple[str, str]] = []
    for name in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{name}").read_text(encoding="utf-8").splitlines():
            if line.startswith(" "):
                continue  # the licence
            entry, gloss = line.split(" | ", 1)
            parts = entry.split()
            word = parts[4].split("(")[0].replace("_", " ")
            meaning = gloss.split(';')[0].split('"')[0].strip(" ;:")
            for example in re.findall(r'"([^"]+)"', gloss):
                found.append(("example", sentence(example)))
            if name in ("noun", "adj") and 2 <= len(meaning.split()) <= 14:
                found.append(("meaning", sentence(f"{word} means {meaning}")))
    random.Random("wordnet").shuffle(found)
    return ((source, text) for source, text in found if re.fullmatch(r"[A-Za-z0-9 ,;:'’.?!-]{6,140}", text))


def sentence(text: str) -> str:
    text = text.strip().rstrip(";:,-")
    return text[:1].upper() + text[1:] + ("" if text[-1:] in ".?!" else ".")


def memories(model: Transformer, prompts: list[list[int]]) -> list[Cache]:
    """Content caches of all but the last token of each prompt."""
    lengths = [len(ids) - 1 for ids in prompts]
    padded = torch.zeros(len(prompts), max(lengths), dtype=torch.int64)
    for row, ids in zip(padded, prompts, strict=True):
        row[: len(ids) - 1] = torch.tensor(ids[:-1])
    cache, _ = model.prefill(model.embed(padded), space=Space.CONTENT)
    return [
        Cache(cache.keys[:, b : b + 1], cache.values[:, b : b + 1], length, Space.CONTENT)
        for b, length in enumerate(lengths)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--world", type=int, default=6000, help="rows of the world: a question and an answer each")
    parser.add_argument("--written", type=int, default=16000)
    parser.add_argument("--wordnet", type=Path)
    args = parser.parse_args()
    lines = [json.loads(line) for line in whole_lines(args.out)]
    seen = {line["text"] for line in lines}
    done = max((line["n"] + 1 for line in lines if line["source"] == "written"), default=0)
    with args.out.open("a", encoding="utf-8") as out:

        def keep(text: str | None, source: str, n: int) -> None:
            if text is None or text in seen:
                return
            seen.add(text)
            line = {"text": text, "source": source, "n": n, "held": held(text)}
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            out.flush()

        if not lines:
            for n, text in enumerate(world(args.world)):
                keep(text, "world", n)
        if args.wordnet is not None:
            for n, (source, text) in enumerate(wordnet(args.wordnet)):
                keep(text, source, n)
        sentences = written(world_words(args.world), done, args.written)
        for n, text in enumerate(tqdm(sentences, initial=done, total=args.written), done):
            keep(text, "written", n)


if __name__ == "__main__":
    main()
