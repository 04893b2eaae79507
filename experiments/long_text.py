"""Three minutes of text in one breath: is its end as intelligible as its start, and is there a click or a cut end?

    python experiments/long_text.py --recogniser FOLDER [--minutes 3] [--keep FOLDER]

Sentences of records/say/select.jsonl, without the short ones, one after the other until the text is long enough, said
by the shipped voice in one run. Each sentence is cut out where its first word begins and heard by itself; what is
compared is the word error of the first and of the last third of them. Written: long_text.json beside this file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jiwer
import numpy as np

from legato import audio
from legato.assemble.measuring import spoken
from legato.assemble.speech import load_speaker
from legato.audio import Audio
from legato.evaluate.instruments import levels
from legato.evaluate.instruments.recogniser import whisper
from legato.evaluate.instruments.words import normal, toward
from legato.evaluate.statistics import bootstrap
from legato.speak.harness import Sampling

SENTENCES = Path(__file__).resolve().parents[1] / "records/say/select.jsonl"
OUT = Path(__file__).with_suffix(".json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recogniser", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--keep", type=Path, help="folder for the sound")
    args = parser.parse_args()
    rows = [json.loads(line) for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    texts = [row["text"] for row in rows if row["kind"] != "short"]
    speaker, ear = load_speaker("pocket", sampling=Sampling(seed=1)), whisper(args.recogniser)
    frame = speaker.harness.model.layout

    said: list[str] = []
    begun: list[int] = []  # the word with which each sentence begins

    def written():
        """Until the sound is long enough."""
        n = 0
        while len(chunks) * 0.08 < 60 * args.minutes:
            text = texts[n % len(texts)]
            said.append(text)
            n += 1
            yield text + " "

    chunks: list[np.ndarray] = []
    for chunk in speaker.speak(written()):
        chunks.append(chunk)
    wave = np.concatenate(chunks)
    words, at = speaker.harness.lead.spoken, 0
    for text in said:
        begun.append(words[at][1])
        at += len(" ".join(spoken(text).split()).split())
    assert at == len(words), f"{at} words written and {len(words)} said"
    starts = [max(0, step - 2) * len(chunks[0]) for step in begun]  # a word's sound begins with its step, less the lead
    errors = []
    for text, start, end in zip(said, starts, [*starts[1:], len(wave)], strict=True):
        reference = normal(text, spoken)
        heard = toward(reference, normal(ear(Audio(wave[None, start:end], speaker.rate)), spoken))
        counted = jiwer.process_words(reference, heard)
        errors.append((counted.substitutions + counted.deletions + counted.insertions, len(reference.split()), heard))
    third = len(errors) // 3
    shares = {}
    for name, part in (("first third", errors[:third]), ("last third", errors[-third:])):
        wrong, long = (np.array(column, float) for column in list(zip(*part, strict=True))[:2])
        found = bootstrap(lambda w, n, axis: w.sum(axis) / n.sum(axis), [wrong, long])
        shares[name] = {"word error": found.value, "ci95": [found.low, found.high], "sentences": third}
    whole = Audio(wave[None], speaker.rate)
    end = levels.ending(whole)
    joins = range(len(chunks[0]), len(wave), len(chunks[0]))
    record = {
        "seconds": whole.seconds, "sentences": len(said), "recogniser": ear.name, "lead": frame.delays[0], **shares,
        "clicks at joins": len(levels.clicks(whole, joins)), "ends in static": end.is_static, "end is cut": end.is_cut,
        "heard": [heard for *_, heard in errors],
    }  # fmt: skip
    OUT.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in record.items() if key != "heard"}, indent=1))
    if args.keep is not None:
        audio.write(args.keep / "long.wav", whole)


if __name__ == "__main__":
    main()
