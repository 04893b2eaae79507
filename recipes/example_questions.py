"""Speak the bundled questions of `make ask` with held voices, in the conditions that their names draw.

    python recipes/example_questions.py

Needs the engines of `voices/`. The same samples each time; a question is spoken anew only when it is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from legato.audio import Audio, write

sys.path.insert(0, str(Path(__file__).parent))
from speak_questions import speak_one

FOLDER = Path(__file__).resolve().parents[1] / "examples/questions"
QUESTIONS = {  # file name -> words, voice: picked by hand to show what works and, with the last two, what does not
    "bookshop": ("Becky is at the temple, Ruth at the bookshop, and Zara at the hall. Where is Ruth?", "jm_kumo"),
    "capital": ("What is the capital of France?", "jm_kumo"),
    "language": ("Which language do people speak in Brazil?", "jm_kumo"),
    "month": ("Tell me the month after March.", "jm_kumo"),
    "pencils": ("Sheila has some pencils. Heidi has a lemon. What does Sheila have?", "awb"),
    "silver": ("Repeat after me, silver mirror.", "jf_gongitsune"),
    "taller": ("Anna is taller than Tom. Who is shorter?", "jf_gongitsune"),
    "currency": ("Which currency is used in Japan?", "jf_gongitsune"),
    "sum": ("What is seven plus eight?", "awb"),
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (words, voice) in QUESTIONS.items():
        path = FOLDER / f"{name}.flac"
        if path.exists():
            continue
        clip = speak_one({"id": f"example-{name}", "question": words}, "held", seed=0, voice_name=voice)
        samples = np.asarray(clip.samples, dtype=np.float32)[None] / 32768
        write(path, Audio.fitted(samples, 16_000))
        print(f"{path.name}: {samples.shape[1] / 16_000:.1f} s, {voice}, {clip.record['condition']}")


if __name__ == "__main__":
    main()
