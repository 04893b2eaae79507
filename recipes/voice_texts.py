"""What the pocket voice is taught to say: texts of the pocket world, and everyday sentences around many words.

    python recipes/voice_texts.py OUT.jsonl [--world N] [--written N] [--everyday N] [--wordnet FOLDER]
        [--avoid records/say/final.jsonl]

One JSON line a text: {"text", "source", "held"}. "world": questions and answers of the world's train split, one text a
sentence group as it stands. "written": sentences that the base model (SmolLM2-135M-Instruct, Apache-2.0) writes about
two of the world's words, so that the voice meets sounds and clauses that no template has. "everyday": numbers, dates,
prices, measures, and every name and city of the world's tables, said in a few ways. "example" and "meaning":
phrases in which WordNet 3.0 (Princeton's licence; Debian's wordnet-base, /usr/share/wordnet) uses its words, and what
they mean. One text in forty is held out by the hash of its letters; the tests say only those. Killed, it goes on where
it was: texts follow from the numbers.
"""

from __future__ import annotations

import argparse
import calendar
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from tqdm import tqdm

from legato.cache import Cache, Space
from legato.corpora.identity import normalise
from legato.corpora.world import draw
from legato.corpora.world.tables import column
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
EVERYDAY: tuple[Callable[[Callable[[str], str], Callable[..., int]], str], ...] = (
    lambda one, n: f"{one('names')}.",
    lambda one, n: f"It's {one('names')}, not {one('names')}.",
    lambda one, n: f"{one('cities')}.",
    lambda one, n: f"It's in {one('cities')}, {one('countries')}.",
    lambda one, n: f"{one('names')} flew from {one('cities')} to {one('cities')} with {one('names')}.",
    lambda one, n: f"Is {one('names')} still in {one('cities')}?",
    lambda one, n: f"Tell {one('names')} that {one('names')} is at the {one('places')}.",
    lambda one, n: f"Mr. {one('names')} and Mrs. {one('names')} like {one('cities')} best.",
    lambda one, n: f"{n(1000)}.",
    lambda one, n: f"That makes {n(10000):,} {one('plurals')}.",
    lambda one, n: f"It's ${n(1, 200)}.{n(100):02}.",
    lambda one, n: f"{one('names')} owes me ${n(1, 100)},{n(1000):03}.",
    lambda one, n: f"On {one('month')} {n(1, 32)}, {n(1700, 2040)}, {one('names')} moved to {one('countries')}.",
    lambda one, n: f"The next one is on {one('month')} {n(1, 29)}.",
    lambda one, n: f"{one('cities')} was founded in {n(1100, 1990)}.",
    lambda one, n: f"It's {n(1, 13)}:{n(60):02} in {one('cities')}.",
    lambda one, n: f"Call {one('names')} at {n(1, 13)}:{n(12) * 5:02} {('am', 'pm')[n(2)]}.",
    lambda one, n: f"The {one('animals')} is {n(1, 10)}.{n(10)} m tall and {n(1, 100)} years old.",
    lambda one, n: f"{n(1, 100)}% of the {one('plurals')} and {n(1, 100)}% of the {one('plurals')} are gone.",
    lambda one, n: f"It's {n(-20, 45)}°C in {one('countries')}.",
    lambda one, n: f"The {one('places')} is {n(2, 1000)} km away, the {one('places')} {n(2, 1000)} miles.",
    lambda one, n: f"The {one('objects')} weighs {n(1, 1000)} g, the {one('objects')} {n(2, 50)} kg.",
    lambda one, n: f"{one('names')} is {('1st', '2nd', '3rd', '5th', '8th', '9th', '12th', '20th', '31st')[n(9)]} in "
    f"the {one('places')}.",
    lambda one, n: f"The {one('objects')}, the {one('objects')} and the {one('plurals')}.",
)  # fmt: skip
HELD = 40  # one in so many
SENTENCE = re.compile(r"[A-Z][A-Za-z0-9 ,;:'’$%-]{10,110}[.!?]")


def held(text: str) -> bool:
    letters = re.sub(r"[^a-z0-9]", "", text.lower())
    return int(hashlib.sha256(letters.encode()).hexdigest(), 16) % HELD == 0


def world(count: int, seed: str) -> Iterator[str]:
    """Questions and answers; the short answers come up more than once and are wanted once."""
    for row in draw(count, seed=seed, split="train"):
        yield row.question
        yield row.answer


def world_words(count: int) -> list[str]:
    words = {w for text in world(count, "voice") for w in re.findall(r"[a-z]{3,12}", text)}
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


def everyday(count: int) -> Iterator[str]:
    """Sentence after sentence, one form after the other, its words drawn from whole tables."""
    rng = random.Random("voice everyday")
    tables = "names", "cities", "countries", "places", "objects", "plurals", "animals"
    listed = {name: column(name) for name in tables}
    listed["month"] = list(calendar.month_name[1:])

    def one(what: str) -> str:
        return rng.choice(listed[what])

    for n in range(count):
        said = EVERYDAY[n % len(EVERYDAY)](one, rng.randrange)
        yield said[:1].upper() + said[1:]


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
    parser.add_argument("--seed", default="voice", help="of the world's rows")
    parser.add_argument("--written", type=int, default=16000)
    parser.add_argument("--everyday", type=int, default=0)
    parser.add_argument("--wordnet", type=Path)
    parser.add_argument("--avoid", type=Path, action="append", default=[], help="JSON lines with text; may be repeated")
    args = parser.parse_args()
    avoided = [normalise(json.loads(line)["text"]) for path in args.avoid for line in whole_lines(path)]
    longer, whole = [f" {text} " for text in avoided if len(text.split()) >= 3], set(avoided)
    lines = [json.loads(line) for line in whole_lines(args.out)]
    seen = {line["text"] for line in lines}
    done = max((line["n"] + 1 for line in lines if line["source"] == "written"), default=0)
    with args.out.open("a", encoding="utf-8") as out:

        def keep(text: str | None, source: str, n: int) -> None:
            if text is None or text in seen:
                return
            plain = normalise(text)
            if plain in whole or any(sentence in f" {plain} " for sentence in longer):
                return
            seen.add(text)
            line = {"text": text, "source": source, "n": n, "held": held(text)}
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            out.flush()

        if not lines:
            for n, text in enumerate(world(args.world, args.seed)):
                keep(text, "world", n)
            for n, text in enumerate(everyday(args.everyday)):
                keep(text, "everyday", n)
        if args.wordnet is not None:
            for n, (source, text) in enumerate(wordnet(args.wordnet)):
                keep(text, source, n)
        sentences = written(world_words(args.world), done, args.written)
        for n, text in enumerate(tqdm(sentences, initial=done, total=args.written), done):
            keep(text, "written", n)


if __name__ == "__main__":
    main()
