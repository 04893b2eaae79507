"""Tap the pocket voice and train the head that renders its frames.

    python recipes/pocket_head.py tap   --data DATA --voice RUNS/state.pt --out TAP [--sequences N]
    python recipes/pocket_head.py train --tap TAP --runs RUNS [--steps N] [--plain] [--unannounced]

`tap` runs the frozen backbone over true codes (teacher-forced) and keeps, for every frame, the state from which the
depth model completes it, with the frame's continuous latent. `train` is `legato.speak.train`; --plain and --unannounced
are the seed's first two rules broken, for experiments.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch

from legato.pocket.script import track
from legato.pocket.voice import Voice, VoiceConfig, delayed
from legato.speak.entrance import Statistics
from legato.speak.head import HeadConfig
from legato.speak.train import HeadTraining, Tapped, train_head
from pocket_voice import STEPS_LONG, Spoken, parts

HELD = 40  # sequences of held clips


@torch.inference_mode()
def tap(data: Path, state: Path, out: Path, sequences: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    config = VoiceConfig()
    voice = Voice(config, torch.load(data / "codebooks.pt", weights_only=True)).eval()
    loaded = torch.load(state, weights_only=True)
    voice.load_state_dict(loaded["mean"], strict=False)
    behind = max(config.delays)
    for name, held, count in (("train", False, sequences), ("held", True, HELD)):
        spoken = Spoken(data, config, held)
        latents = [
            np.memmap(part / "latents.f16", "<f2", "r", shape=(len(codes), 2 * config.projected))
            for part, codes in zip(parts(data), spoken.codes, strict=True)
        ]
        rng = np.random.default_rng(7 + held)
        states, targets, firsts = [], [], []
        for _ in range(count):
            said, drawn, true, long = [], [], [], 0
            while long < STEPS_LONG:
                entry = spoken.entries[rng.integers(len(spoken.entries))]
                said += [(math.floor(long + at), ids) for at, ids in entry["pieces"] if ids]
                drawn.append(spoken.frames(entry))
                true.append(latents[entry["part"]][entry["start"] : entry["start"] + entry["frames"]])
                long += entry["frames"]
            codes = torch.from_numpy(np.concatenate(drawn).astype(np.int64)).T
            text, streams = track(said, STEPS_LONG), delayed(codes, config.delays, STEPS_LONG)
            with torch.autocast("cpu", torch.bfloat16):
                h = voice.states(text[None, :-1], streams[None, :-1])[0].float()  # of steps 1 .. T - 1
            complete = STEPS_LONG - behind  # frames whose last code lies within
            states.append(h[behind - 1 :])
            targets.append(torch.from_numpy(np.concatenate(true)[:complete].astype(np.float32)))
            firsts.append(torch.arange(complete) == 0)
        if name == "train":
            statistics = Statistics.of([t.T for t in targets])
            torch.save({"mean": statistics.mean, "deviation": statistics.deviation, "step": loaded["step"]},
                       out / "statistics.pt")
        u = torch.cat(targets)
        torch.save({"states": torch.cat(states), "latents": statistics.normalise(u.T).T.contiguous(),
                    "firsts": torch.cat(firsts)}, out / f"{name}.pt")
        print(f"{name}: {len(u)} frames", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("tap", "train"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--voice", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tap", type=Path)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--sequences", type=int, default=400)
    parser.add_argument("--steps", type=int, default=HeadTraining.steps)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--unannounced", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.stage == "tap":
        tap(args.data, args.voice, args.out, args.sequences)
        return
    tapped, held = (Tapped(**torch.load(args.tap / f"{name}.pt", weights_only=True)) for name in ("train", "held"))
    config = HeadConfig(tapped.latents.shape[1], tapped.states.shape[1], modulated=not args.plain,
                        announced=not args.unannounced)
    train_head(config, tapped, held, HeadTraining(steps=args.steps), args.runs,
               lambda line: print(json.dumps(line), flush=True))


if __name__ == "__main__":
    main()
