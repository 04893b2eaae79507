"""Must text lead audio? Two small voices of one size and one training, text 0 steps and 12 steps (0.96 s) ahead.

    PYTHONPATH=recipes python experiments/lead.py --data DATA --codec RUNS/adversarial/state.pt --runs RUNS \
        --recogniser FOLDER [--steps N]

DATA is what recipes/pocket_voice.py prepared. Both voices are trained on the same clips by the same recipe; what is
compared is the loss of a frame's first code on held clips (teacher-forced) and, free-running, the words that a
recogniser hears in held sentences. Writes experiments/lead.json; trainings resume.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jiwer
import numpy as np
import torch
import torch.nn.functional as F

from legato.audio import Audio
from legato.evaluate.instruments.recogniser import Recogniser, whisper
from legato.evaluate.instruments.words import normal
from legato.pocket.codec import Codec
from legato.pocket.speaking import PocketVoice
from legato.pocket.voice import NONE, TEXTS, Voice, VoiceConfig
from legato.speak.harness import Harness, Sampling
from legato.speak.lead import Word
from legato.transformer import TransformerConfig
from pocket_voice import Spoken, first_logits, load_codec, train

LEADS = (0, 12)
BACKBONE = TransformerConfig(6, 256, 4, 4, 64, 688, TEXTS)
DEPTH = TransformerConfig(2, 192, 3, 3, 64, 512, TEXTS)
SEQUENCES, SENTENCES = 16, 40  # held; teacher-forced and free-running
SAMPLING = Sampling(temperature=0.3, stages=8)
OUT = Path(__file__).with_suffix(".json")


def restored(config: VoiceConfig, data: Path, runs: Path) -> Voice:
    voice = Voice(config, torch.load(data / "codebooks.pt", weights_only=True))
    voice.load_state_dict(torch.load(runs / "state.pt", weights_only=True)["mean"], strict=False)
    return voice.requires_grad_(False).eval()


@torch.inference_mode()
def first_loss(voice: Voice, spoken: Spoken) -> float:
    """Mean loss of the first codes of held sequences, true past given."""
    rng = np.random.default_rng(0)
    texts, found = map(torch.stack, zip(*(spoken.sequence(rng) for _ in range(SEQUENCES)), strict=True))
    logits = first_logits(voice, voice.states(texts[:, :-1], found[:, :-1]), texts[:, 1:])
    wanted = found[:, 1:, 0]
    return float(F.cross_entropy(logits[wanted != NONE], wanted[wanted != NONE]))


@torch.inference_mode()
def heard(voice: Voice, spoken: Spoken, codec: Codec, recogniser: Recogniser) -> list[dict[str, str]]:
    """What is understood of held sentences that the voice speaks by itself."""
    rng = np.random.default_rng(1)
    entries = [entry for entry in spoken.entries if entry["source"] in ("world", "written", "example")]
    said = []
    for n in rng.permutation(len(entries))[:SENTENCES]:
        entry = entries[n]
        words = [Word(tuple(ids), "") for _, ids in entry["pieces"] if ids]
        frames = list(Harness(PocketVoice(voice), SAMPLING).frames(words))
        codes = torch.stack([frame.codes[: SAMPLING.stages] for frame in frames], 1)[None]
        wave = codec.decode(codec.lookup(codes))[0].numpy()
        said.append({"text": entry["text"], "heard": recogniser(Audio(wave[None], codec.rate))})
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "codec", "runs", "recogniser"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    codec, recogniser, found = load_codec(args.codec), whisper(args.recogniser), {}
    for lead in LEADS:
        config, runs = VoiceConfig(BACKBONE, DEPTH, lead=lead), args.runs / f"lead-{lead}"
        train(args.data, runs, args.steps, config)
        voice, spoken = restored(config, args.data, runs), Spoken(args.data, config, held=True)
        said = heard(voice, spoken, codec, recogniser)
        wrong = jiwer.wer([normal(s["text"]) for s in said], [normal(s["heard"]) for s in said])
        found[f"lead {lead}"] = {
            "steps": args.steps, "first code loss, held, teacher-forced": round(first_loss(voice, spoken), 4),
            "word error, free-running": round(wrong, 4), "sentences": said,
        }  # fmt: skip
        print(f"lead {lead}: word error {wrong:.3f}")
    OUT.write_text(json.dumps({"recogniser": recogniser.name, **found}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
