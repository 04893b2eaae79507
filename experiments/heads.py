"""Heads that differ in one thing: the same tap, training and sentences, each speaking freely. Used by its neighbours.

Every head is trained anew (and resumed, under RUNS) with each of SEEDS. Then the frozen voice speaks held sentences
once, and every head renders that one run on its own past, eight steps a frame, by the unfused sampler, which serves
plain heads too. Written: the teacher-forced loss on held frames with their own state and with another frame's, and,
free-running, the words that a recogniser hears wrong and the ratio of harmonics to noise.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import jiwer
import numpy as np
import torch
from torch import Tensor

from legato.assemble import campaign
from legato.assemble.campaign_shelf import Tap
from legato.assemble.measuring import spoken
from legato.assemble.speech import Front
from legato.audio import Audio
from legato.evaluate.instruments.noise import ratio
from legato.evaluate.instruments.recogniser import whisper
from legato.evaluate.instruments.words import normal, toward
from legato.speak.entrance import Entrance
from legato.speak.flow import sample
from legato.speak.harness import Harness, Sampling
from legato.speak.head import Head, HeadConfig
from legato.speak.history import DROPPED, History, bucket, corrupt
from legato.speak.train import HeadTraining, train_head

SENTENCES = Path(__file__).resolve().parents[1] / "records/say/select.jsonl"
SEEDS = (0, 1)
FLOW_STEPS, TEMPERATURE, LEVEL = 8, 0.5, 0.05
SAMPLING = Sampling(temperature=0.3)


@torch.inference_mode()
def rendered(head: Head, entrance: Entrance, states: Tensor, seed: int) -> np.ndarray:
    """States (F, C) of one run -> samples (S,), the head on its own past."""
    c, draw = head.config, torch.Generator().manual_seed(seed)
    history, level = History(c.history, c.latent), torch.tensor([LEVEL])
    found = []
    for n, h in enumerate(states):
        told = bucket(level) if n else torch.tensor([DROPPED])
        condition = head.condition(h[None], corrupt(history.past, level, draw), told)
        noise = TEMPERATURE**0.5 * torch.randn(1, c.latent, generator=draw)
        x = sample(lambda x, s, t, y=condition: head(x, s, t, y), noise, FLOW_STEPS)
        history.push(x)
        found.append(x[0])
    return entrance.decode(torch.stack(found, 1)[None])[0].numpy()


def compare(out: Path, description: str, variants: Mapping[str, Mapping[str, Any]]) -> None:
    """variants: by name, what differs in `HeadConfig`. Writes `out`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tap", "runs", "recogniser"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--sentences", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(1)
    source = Tap(args.tap)
    statistics = source.statistics()
    learned, held = (source.tapped(source.chosen(held=side), statistics) for side in (False, True))
    sizes = source.about["widths"]
    organs, ear = campaign.load_organs("pocket"), whisper(args.recogniser)
    entrance = Entrance(organs.codec, statistics)

    texts = [json.loads(line)["text"] for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    texts = texts[:: len(texts) // args.sentences][: args.sentences]
    harness, front = Harness(organs.voice, SAMPLING), Front(organs.tokenizer)
    runs = [torch.stack([frame.state for frame in harness.frames(front([text]))]) for text in texts]
    said = [normal(text, spoken) for text in texts]

    found: dict[str, Any] = {}
    for name, differs in variants.items():
        found[name] = []
        for seed in SEEDS:
            folder = args.runs / f"{out.stem}-{name.replace(' ', '-')}-{seed}"
            config = HeadConfig(sizes["latents"], sizes["states"], **differs)
            how = HeadTraining(steps=args.steps, seed=seed)
            head = train_head(config, learned, held, how, folder, lambda line: None)
            losses = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])
            sounds = [Audio(rendered(head, entrance, states, seed)[None], organs.codec.rate) for states in runs]
            heard = [toward(a, normal(ear(sound), spoken)) for a, sound in zip(said, sounds, strict=True)]
            found[name].append({
                "seed": seed, "held": losses["held"], "another's state": losses["another's state"],
                "word error, free-running": round(jiwer.wer(said, heard), 4),
                "harmonics to noise, dB": round(fmean(r for s in sounds if (r := ratio(s)) is not None), 2),
                "heard": heard,
            })  # fmt: skip
            print(name, {key: value for key, value in found[name][-1].items() if key != "heard"}, flush=True)
    about = {"frames": len(learned.states), "steps": args.steps, "texts": texts, "recogniser": ear.name,
             "made from": source.made_from}
    out.write_text(json.dumps(about | {"heads": found}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
