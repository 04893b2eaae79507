"""Text to sound, the whole path: how much faster than speech, and how long until the first of it is heard.

    python benchmarks/say.py [--repeats 20] [--threads N] [--engine torch onnx] [--stages N] [--json]

Sentences of records/say/select.jsonl by the shipped voice, after one that warms up. For every sentence: seconds from
the text to the first chunk, to the first chunk that sounds (over -40 dB to full scale; a sentence begins with up to
0.1 s of silence), and to the last; and how long the same run takes with nothing rendered, which is what the backbone
and the depth model cost. Medians and quartiles over sentences; the speed is seconds of sound a second of work.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from legato.assemble.speech import ENGINES, load_speaker
from legato.evaluate.speed import spread
from legato.speak.harness import Sampling

SENTENCES = Path(__file__).resolve().parents[1] / "records/say/select.jsonl"
SOUNDS = 10 ** (-40 / 20)
UNITS = {"first chunk": "ms", "first sound": "ms", "speed": "x", "speed, nothing rendered": "x"}


def measured(speaker, text: str) -> dict[str, float]:
    """One sentence."""
    begun = time.perf_counter()
    times: dict[str, float] = {}
    samples = 0
    for chunk in speaker.speak(text):
        now = 1000 * (time.perf_counter() - begun)
        times.setdefault("first chunk", now)
        if np.abs(chunk).max() > SOUNDS:
            times.setdefault("first sound", now)
        samples += len(chunk)
    seconds = samples / speaker.rate
    times["speed"] = seconds / (time.perf_counter() - begun)
    begun = time.perf_counter()
    for _ in speaker.harness.frames(speaker.front([text])):
        pass
    return times | {"speed, nothing rendered": seconds / (time.perf_counter() - begun)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20, help="sentences")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=["torch"])
    parser.add_argument("--stages", type=int)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    texts = [json.loads(line)["text"] for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    texts = texts[:: len(texts) // args.repeats][: args.repeats]
    found = {}
    for engine in args.engine:
        speaker = load_speaker("pocket", threads=args.threads, engine=engine, sampling=Sampling(stages=args.stages))
        measured(speaker, texts[0])
        rows = [measured(speaker, text) for text in texts]
        found[engine] = {name: spread([row[name] for row in rows], warm_up=0) for name in UNITS}
    if args.json:
        print(json.dumps({engine: {name: asdict(s) for name, s in kinds.items()} for engine, kinds in found.items()}))
        return
    for engine, kinds in found.items():
        print(f"{engine}, {args.repeats} sentences")
        for name, s in kinds.items():
            print(f"  {name:<24}{s.median:8.1f} {UNITS[name]:<3} (quartiles {s.q1:.1f} to {s.q3:.1f})")


if __name__ == "__main__":
    main()
