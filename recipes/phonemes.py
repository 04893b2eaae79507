"""Build what the pocket voice pronounces words by: a lexicon, and letters to sounds for the words that are not in it.

    python recipes/phonemes.py build OUT
    python recipes/phonemes.py measure OUT
    python recipes/phonemes.py agree TEXTS.txt

The lexicon is misaki's of American English (hexgrad, Apache-2.0; `us_gold` and `us_silver` of 0.9.4, unchanged in
hibari-tts 0.2.1), so that words sound as in the clips the voice was trained on; names of the pocket world that it lacks
are added as hibari's own network (Apache-2.0) reads them. The letters are learnt from the lexicon's words: each letter
is aligned with none, one or two phonemes (EM, best path), then pairs of letter and phonemes are modelled as an
interpolated Kneser-Ney n-gram (joint sequence model, Bisani and Ney 2008), pruned to size. One word in fifty, dealt by
hash, is not learnt from and measures accuracy. Pure Python, under a CPU-minute.

`build` makes lexicon.xz (word, tab, phonemes; a line each) and letters.xz, `measure` writes measured.json. `agree` says
texts, one a line, both with hibari's whole front end and with ours, and counts the words that are equal and the edits
a phoneme (a vowel with its stress is one; marks count). hibari-tts 0.2.1 has to be there (pip install --no-deps
hibari-tts==0.2.1 onnxruntime); our package never needs it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import hibari
from hibari.g2p import G2P
from hibari.g2p.oov import OOV
from rapidfuzz.distance import Levenshtein

from legato.errors import BadInput
from legato.pocket import phonemes as front
from legato.pocket.letters import EMPTY, FIRST, LAST, ORDER, STEP, STRESSES, Letters, signs
from legato.speak.text import sentences
from legato.speak.wordlists import ABBREVIATIONS
from lexicon import lexicon as said_in_the_world

ASSETS = Path(hibari.__file__).parent / "assets"
HELD = 50
ROUNDS = 4  # of EM
ALIGNED_FROM = 15_000  # words that EM looks at
DISCOUNT = 0.8
PRUNE = 1.2  # nats that an n-gram must save over all its uses
MOST = 2  # phonemes of one letter
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]

Reading = str | dict[str, str | None]


def held(word: str) -> bool:
    return int(hashlib.sha256(word.encode()).hexdigest(), 16) % HELD == 0


def read(assets: Path) -> tuple[dict[str, Reading], dict[str, Reading]]:
    def one(name: str) -> dict[str, Reading]:
        with gzip.open(assets / f"lexicon_us_{name}.json.gz", "rt", encoding="utf-8") as file:
            return json.load(file)

    return one("gold"), one("silver")


def default(reading: Reading) -> str:
    return reading if isinstance(reading, str) else reading["DEFAULT"]


# -- alignment ---------------------------------------------------------------------------------------------------------


def align(word: str, said: list[str], cost: dict[tuple[str, str], float], unseen: float) -> list[str] | None:
    """The phonemes of each letter, as one string a letter; None where there are too many phonemes."""
    n, m = len(word), len(said)
    if m > MOST * n:
        return None
    best: list[dict[int, tuple[float, int]]] = [{0: (0.0, 0)}]
    for i, letter in enumerate(word):
        row: dict[int, tuple[float, int]] = {}
        for j, (so_far, _) in best[i].items():
            for take in range(min(MOST, m - j) + 1):
                if m - j - take > MOST * (n - i - 1):
                    continue
                chunk = "".join(said[j : j + take]) or EMPTY
                new = so_far + cost.get((letter, chunk), unseen * (1 + take))
                if j + take not in row or new < row[j + take][0]:
                    row[j + take] = (new, take)
        best.append(row)
    j, chunks = m, []
    for i in range(n, 0, -1):
        take = best[i][j][1]
        chunks.append("".join(said[j - take : j]) or EMPTY)
        j -= take
    return chunks[::-1]


def costs(pairs: list[tuple[str, list[str]]]) -> dict[tuple[str, str], float]:
    """-log p(phonemes | letter) after a few rounds, begun from an even spread of phonemes over letters."""
    counts: Counter[tuple[str, str]] = Counter()
    for word, said in pairs:
        for j, sign in enumerate(said):
            counts[word[j * len(word) // len(said)], sign] += 1
        for letter in word:
            counts[letter, EMPTY] += 0.3
    for _ in range(ROUNDS):
        totals: Counter[str] = Counter()
        for (letter, _chunk), n in counts.items():
            totals[letter] += n
        cost = {key: -math.log(n / totals[key[0]]) for key, n in counts.items()}
        counts = Counter()
        for word, said in pairs:
            counts.update(zip(word, align(word, said, cost, 9.0) or [], strict=False))
        counts = Counter({key: n for key, n in counts.items() if n > 1})
    return cost


# -- n-grams -----------------------------------------------------------------------------------------------------------


def ngrams(sequences: list[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Strings of one sign a pair -> log p of every n-gram kept, and log back-off weight of every context kept."""
    counts: list[Counter[str]] = [Counter() for _ in range(ORDER + 1)]
    for seq in sequences:
        seq = FIRST + seq + LAST
        for i in range(1, len(seq)):
            lo = max(0, i - ORDER + 1)
            counts[i - lo + 1][seq[lo : i + 1]] += 1  # the longest; shorter ones count what stands before them
    for n in range(ORDER, 1, -1):
        for gram in counts[n]:
            counts[n - 1][gram[1:]] += 1
    logp: dict[str, float] = {}
    back: dict[str, float] = {}
    total = sum(counts[1].values())
    for gram, c in counts[1].items():
        logp[gram] = math.log(c / total)
    for n in range(2, ORDER + 1):
        sums: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        for gram, c in counts[n].items():
            sums[gram[:-1]] += c
            kinds[gram[:-1]] += 1
        weight = {ctx: DISCOUNT * kinds[ctx] / sums[ctx] for ctx in sums}
        for gram, c in counts[n].items():
            lower = math.exp(score(gram[1:], logp, back))
            logp[gram] = math.log((c - DISCOUNT) / sums[gram[:-1]] + weight[gram[:-1]] * lower)
        back |= {ctx: math.log(w) for ctx, w in weight.items()}
    used: Counter[str] = Counter()  # contexts of what is kept
    for n in range(ORDER, 1, -1):
        for gram, c in counts[n].items():
            saves = c * (logp[gram] - back.get(gram[:-1], 0.0) - score(gram[1:], logp, back))
            if gram in used or n == 2 or saves > PRUNE:
                used[gram[:-1]] += 1
            else:
                del logp[gram]
    return logp, renormalised(logp)


def renormalised(logp: dict[str, float]) -> dict[str, float]:
    """Back-off weights that make every context sum to one again after pruning."""
    kept: dict[str, list[str]] = defaultdict(list)
    for gram in logp:
        if len(gram) > 1:
            kept[gram[:-1]].append(gram)
    back: dict[str, float] = {}
    for ctx in sorted(kept, key=len):
        mass = sum(math.exp(logp[g]) for g in kept[ctx])
        lower = sum(math.exp(score(g[1:], logp, back)) for g in kept[ctx])
        back[ctx] = math.log(max(1e-4, 1 - mass) / max(1e-4, 1 - lower))
    return back


def score(gram: str, logp: dict[str, float], back: dict[str, float]) -> float:
    total = 0.0
    while gram not in logp:
        if len(gram) == 1:
            return total - 12.0
        total += back.get(gram[:-1], 0.0)
        gram = gram[1:]
    return total + logp[gram]


def pack(pairs: list[str], logp: dict[str, float], back: dict[str, float]) -> bytes:
    """First line: the pairs, by their sign. Then every n-gram in order: shared length, rest, log p, back-off."""
    lines, before = [], ""
    for gram in sorted(logp):
        shared = next(
            (i for i, (a, b) in enumerate(zip(gram, before, strict=False)) if a != b), min(len(gram), len(before))
        )
        p = min(255, round(-logp[gram] / STEP))
        b = min(255, max(0, 128 + round(back.get(gram, 0.0) / STEP)))
        lines.append((shared, gram[shared:], p, b))
        before = gram
    head = json.dumps(pairs, ensure_ascii=False)
    columns = (
        bytes(shared for shared, *_ in lines),
        "".join(rest + "\n" for _, rest, *_ in lines).encode("utf-16-le"),
        bytes(p for *_, p, _ in lines),
        bytes(b for *_, b in lines),
    )
    return b"".join(len(part).to_bytes(4, "little") + part for part in (head.encode(), *columns))


def squeeze(data: bytes) -> bytes:
    return lzma.compress(data, lzma.FORMAT_XZ, filters=FILTERS)


def rows(entries: dict[str, Reading]) -> str:
    lines = []
    for word, reading in sorted(entries.items()):
        if isinstance(reading, dict):
            reading = "|".join(f"{tag}={said or ''}" for tag, said in reading.items())
        lines.append(f"{word}\t{reading}\n")
    return "".join(lines)


def world_names(known: dict[str, Reading]) -> dict[str, Reading]:
    """What the world or `speak.text` says and neither a lexicon nor an ending covers."""
    network = OOV()
    texts = (*said_in_the_world(), *ABBREVIATIONS.values())
    words = {word for text in texts for word in re.findall(r"[A-Za-z]{2,}", text)}
    front.lexicon = lambda: known
    return {w: said for w in sorted(words) if not front._known(w, None) and (said := network(w))}


def build(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    begun = time.time()
    gold, silver = read(ASSETS)
    both = silver | gold
    names = world_names(both)
    print(f"{len(both)} words and {len(names)} names", flush=True)
    (out / "lexicon.xz").write_bytes(squeeze(rows(both | names).encode()))

    learn = [(w, signs(said)) for w, said in plain(both).items() if not held(w)]
    cost = costs(learn[:: max(1, len(learn) // ALIGNED_FROM)])
    aligned = [(w, chunks) for w, said in learn if (chunks := align(w, said, cost, 9.0))]
    print(f"{len(aligned)} of {len(learn)} words aligned, {time.time() - begun:.0f} s", flush=True)
    seen = Counter(pair for word, chunks in aligned for pair in zip(word, chunks, strict=True))
    pairs = sorted(pair for pair, n in seen.items() if n > 3)
    sign = {pair: chr(0x100 + i) for i, pair in enumerate(pairs)}
    sequences = []
    for word, chunks in aligned:
        found = [sign.get(pair) for pair in zip(word, chunks, strict=True)]
        if None not in found:
            sequences.append("".join(found))
    logp, back = ngrams(sequences)
    print(f"{len(pairs)} pairs, {len(sequences)} words, {len(logp)} n-grams, {time.time() - begun:.0f} s", flush=True)
    (out / "letters.xz").write_bytes(squeeze(pack([a + b for a, b in pairs], logp, back)))


def plain(words: dict[str, Reading]) -> dict[str, str]:
    """Those of letters only, not in capitals, as they are read where nothing is known of the words around."""
    return {w.lower(): default(r) for w, r in words.items() if re.fullmatch("[A-Za-z][a-z]+", w)}


def measure(out: Path) -> None:
    gold, silver = read(ASSETS)
    test = {w: said for w, said in plain(gold).items() if w in gold and held(w)}
    wider = {w: said for w, said in plain(silver | gold).items() if held(w)}
    letters, known = Letters.load(out / "letters.xz"), front.lexicon()
    unknown = {w: r for w, r in known.items() if not held(w.lower())}
    front.letters, front.lexicon = lambda: letters, lambda: unknown  # as if the held words were in no lexicon
    measured = {
        "held_words": len(test),
        "by_letters": accuracy(test, letters),
        "by_endings_and_letters": accuracy(test, front.phonemes),
        "by_hibaris_network": accuracy(test, OOV()),
        "held_words_with_silver": len(wider),
        "with_silver_by_endings_and_letters": accuracy(wider, front.phonemes),
        "lexicon": {"words": len(known), "bytes": (out / "lexicon.xz").stat().st_size},
        "letters": {"bytes": (out / "letters.xz").stat().st_size},
    }
    (out / "measured.json").write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(measured, indent=2))


def accuracy(test: dict[str, str], reader: Callable[[str], str]) -> dict[str, float]:
    """Shares of words that are right, with stress and without, and edits a phoneme. Taps and stops count as t."""
    edits = length = right = unstressed = 0
    taps, bare = str.maketrans("ɾTʔ", "ttt"), str.maketrans("", "", STRESSES)
    for word, want in test.items():
        said, want = reader(word).translate(taps), want.translate(taps)
        edits += Levenshtein.distance(signs(said), signs(want))
        length += len(signs(want))
        right += said == want
        unstressed += said.translate(bare) == want.translate(bare)
    n = len(test)
    return {"words": round(right / n, 4), "words_without_stress": round(unstressed / n, 4),
            "phoneme_error": round(edits / length, 4)}  # fmt: skip


def agree(texts: Path) -> None:
    theirs = G2P()
    words = same = unstressed = edits = length = 0
    differ: Counter[tuple[str, str, str]] = Counter()
    bare = str.maketrans("", "", STRESSES)
    for text in texts.read_text(encoding="utf-8").splitlines():
        try:
            said = list(sentences([text]))
        except BadInput:
            continue
        ours = [one for clause in said for one in front.sentence_phonemes(clause.split())]
        want = theirs(" ".join(said), normalize_text=False).replace("—", ",").split()
        spelled = " ".join(said).split()
        heard, meant = signs("".join(ours)), signs("".join(want))
        edits += Levenshtein.distance(heard, meant)
        length += len(meant)
        words += len(ours)
        for kind, a, b, c, d in Levenshtein.opcodes(want, ours):
            if kind == "equal":
                same += d - c
                unstressed += d - c
            else:
                pairs = list(zip(spelled[c:d], want[a:b], ours[c:d], strict=False))
                unstressed += sum(x.translate(bare) == y.translate(bare) for _, x, y in pairs)
                differ.update(pairs)
    print(f"{words} words; {same / words:.4f} equal, {unstressed / words:.4f} without stress")
    print(f"{length} phonemes; {edits / length:.4f} wrong")
    for (word, want, got), n in differ.most_common(60):
        print(n, word, want, got)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "measure", "agree"))
    parser.add_argument("path", type=Path)
    args = parser.parse_args()
    {"build": build, "measure": measure, "agree": agree}[args.step](args.path)


if __name__ == "__main__":
    main()
