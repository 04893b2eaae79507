"""Train the pocket codec on the training voice: first on spectra, then against judges of waveforms.

    python recipes/pocket_codec.py spectral    --clips CLIPS --runs RUNS [--steps N]
    python recipes/pocket_codec.py adversarial --clips CLIPS --runs RUNS [--steps N]
    python recipes/pocket_codec.py try         --clips CLIPS --runs RUNS      # held clips: distances, use of the books
    python recipes/pocket_codec.py save        --clips CLIPS --runs RUNS --out FOLDER     # the artifact

CLIPS is a folder of recipes/speak_voice.py. Each stage writes checkpoints and resumes; `adversarial` starts from what
`spectral` left and trains the decoder alone, so that codes and latents are final before it and the voice can be trained
beside it. Half of the items skip the discretisation, the others use all books or a drawn number of them. The
first codebook is asked for the phoneme of its frame (the voice's own times are exact), which stands in for Mimi's
distillation from a recogniser.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from legato.artifacts import Source, sha256_file
from legato.listen.capture import whole_lines
from legato.optim import Journal, checkpoint, cosine
from legato.pocket.codec import FRAME, RATE, Codec
from legato.pocket.quantiser import usage
from legato.pocket.voice_shelf import save_codec
from legato.speak.discriminators import MultiPeriod, MultiScale
from legato.speak.objectives import feature_matching, hinge_discriminator, hinge_generator, log_mel_distance

UNIT = 600  # samples of one unit of duration
CROP = 20  # codec frames of one training item
BATCH = 10
STEPS = {"spectral": 6000, "adversarial": 12000}
RATES = {"spectral": 6e-4, "adversarial": 2e-4}
JUDGE_RATE = 6e-4  # judges are smaller than the decoder and have to keep ahead of it
BETAS = {"spectral": (0.9, 0.95), "adversarial": (0.8, 0.95)}
MEL, PHASE, COMMIT, PHONE, ADVERSARIAL, FEATURES = 15.0, 1.0, 10.0, 0.3, 1.0, 2.0  # weights of the losses
JUDGES_FIRST = 300  # steps in which only the judges learn
GAIN_DB = (-9.0, 3.0)
EVERY = 500


class Clips:
    """Clips with their phonemes, read through memory maps."""

    def __init__(self, folder: Path, held: bool) -> None:
        self.folder = folder
        entries = [json.loads(line) for line in whole_lines(folder / "clips.jsonl")]
        signs = sorted({sign for e in entries for phonemes, _ in e["spoken"] for sign in phonemes})
        self.phones = {sign: n for n, sign in enumerate(signs, 1)}  # 0: the pads, nothing said
        self.entries = [e for e in entries if e["held"] == held and e["samples"] > 0.6 * RATE]
        self._maps: dict[str, np.memmap] = {}

    def wave(self, entry: dict[str, Any]) -> np.ndarray:
        """float32 (S,)."""
        shard = entry["shard"]
        if shard not in self._maps or entry["offset"] + entry["samples"] > len(self._maps[shard]):
            self._maps[shard] = np.memmap(self.folder / shard, "<i2", "r")
        return self._maps[shard][entry["offset"] : entry["offset"] + entry["samples"]].astype(np.float32) / 2**15

    def labels(self, entry: dict[str, Any]) -> np.ndarray:
        """The phoneme of every unit of 25 ms."""
        return np.concatenate([
            np.repeat([0, *(self.phones[sign] for sign in phonemes), 0], units) for phonemes, units in entry["spoken"]
        ])

    def batches(self, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless crops (B, S) and the phonemes at the middle of each frame (B, F), -100 where there is no sound."""
        rng = np.random.default_rng(seed)
        size = CROP * FRAME
        while True:
            waves, labels = np.zeros((BATCH, size), np.float32), np.full((BATCH, CROP), -100)
            for row in range(BATCH):
                entry = self.entries[rng.integers(len(self.entries))]
                wave, phones = self.wave(entry), self.labels(entry)
                start = int(rng.integers(-FRAME, max(1, len(wave) - size + FRAME)))
                part = wave[max(0, start) : start + size]
                at = max(0, -start)
                waves[row, at : at + len(part)] = part * 10 ** (rng.uniform(*GAIN_DB) / 20)
                middles = (start + FRAME // 2 + FRAME * np.arange(CROP)) // UNIT
                inside = (middles >= 0) & (middles < len(phones))
                labels[row, inside] = phones[middles[inside]]
            yield torch.from_numpy(waves.clip(-1, 1)), torch.from_numpy(labels)


def depths(books: int) -> tuple[Tensor, Tensor]:
    """Which items skip the discretisation (B,), and how many books the others use (B,)."""
    whole = torch.rand(BATCH) < 0.5
    depth = torch.where(torch.rand(BATCH) < 0.5, books, torch.randint(1, books + 1, (BATCH,)))
    return whole, depth


def train(stage: str, folder: Path, runs: Path, steps: int) -> None:
    clips = Clips(folder, held=False)
    torch.manual_seed(0)
    codec = Codec()
    phone = nn.Linear(codec.config.quantiser.projected, len(clips.phones) + 1)
    judges = nn.ModuleList((MultiPeriod(), MultiScale())) if stage == "adversarial" else None
    made = [*codec.parameters(), *phone.parameters()] if judges is None else [*codec.decoder.parameters()]
    rate, betas = RATES[stage], BETAS[stage]
    optimiser = torch.optim.AdamW(made, rate, betas, weight_decay=0.01, fused=True)
    judging = torch.optim.AdamW(judges.parameters(), JUDGE_RATE, betas, fused=True) if judges is not None else None
    run = runs / stage
    run.mkdir(parents=True, exist_ok=True)
    step = 0
    if (run / "state.pt").exists():
        state = torch.load(run / "state.pt", weights_only=True)
        step = state["step"]
        codec.load_state_dict(state["codec"])
        optimiser.load_state_dict(state["optimiser"])
        if judges is None or judging is None:
            phone.load_state_dict(state["phone"])
        else:
            judges.load_state_dict(state["judges"])
            judging.load_state_dict(state["judging"])
    elif stage == "adversarial":
        codec.load_state_dict(torch.load(runs / "spectral/state.pt", weights_only=True)["codec"])
    journal = Journal(run / "log.jsonl", step)
    batches = clips.batches(seed=step + (10**6 if judges is not None else 0))
    while step < steps:
        scale = cosine(step, steps, 200)
        for group in optimiser.param_groups:
            group["lr"] = rate * scale
        real, phones = next(batches)
        whole, depth = depths(codec.books)
        noted: dict[str, float] = {}
        loss = real.new_zeros(())
        if judges is None:
            with torch.autocast("cpu", torch.bfloat16):
                e = codec.latent(real)
            z, first, commitment, dead = codec.quantiser.train_step(e.float(), whole, depth, step)
            said = F.cross_entropy(phone(first).flatten(0, 1), phones.flatten(), ignore_index=-100)
            loss = COMMIT * commitment + PHONE * said
            noted |= {"commit": float(commitment.detach()), "phone": float(said.detach()), "dead": float(dead)}
        else:
            z = frozen(codec, real, whole, depth)
        with torch.autocast("cpu", torch.bfloat16):
            made_up = codec.decode(z)
        if judges is not None and judging is not None:
            judged = sum(_judge(judge, real, made_up.detach()) for judge in judges)
            judging.zero_grad(set_to_none=True)
            judged.backward()
            nn.utils.clip_grad_norm_(judges.parameters(), 10.0)
            judging.step()
            noted["judged"] = float(judged.detach())
        mel = log_mel_distance(made_up, real)
        loss = loss + MEL * mel
        if judges is None:
            loss = loss + PHASE * waves_apart(made_up, real)
        elif step >= JUDGES_FIRST:
            fooled, matched = _fool(judges, real, made_up)
            loss = loss + ADVERSARIAL * fooled + FEATURES * matched
            noted |= {"fooled": float(fooled.detach()), "matched": float(matched.detach())}
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(made, 5.0 if judges is None else 50.0)
        optimiser.step()
        step += 1
        journal.note(BATCH, mel=float(mel.detach()), norm=float(norm), **noted)
        if step % 50 == 0:
            line = journal.line(step)
            journal.write(line)
            print(json.dumps(line), flush=True)
        if step % EVERY == 0 or step == steps:
            state = {"step": step, "optimiser": optimiser.state_dict()}
            state |= {"codec": codec.state_dict(), "phone": phone.state_dict()}
            if judges is not None and judging is not None:
                state |= {"judges": judges.state_dict(), "judging": judging.state_dict()}
            checkpoint(run / "state.pt", state)


@torch.no_grad()
def frozen(codec: Codec, real: Tensor, whole: Tensor, depth: Tensor) -> Tensor:
    """What the decoder reads of real audio: items that skip the discretisation, and others by their number of books."""
    with torch.autocast("cpu", torch.bfloat16):
        e = codec.latent(real)
    z, codes = codec.unproject(codec.project(e.float())), codec.quantiser.encode(e.float())
    for row in (~whole).nonzero().flatten().tolist():
        z[row] = codec.lookup(codes[row : row + 1, : int(depth[row])])[0]
    return z


def waves_apart(made_up: Tensor, real: Tensor) -> Tensor:
    """Distance of complex spectra, as a share of their size: it is what ties the phase down while nobody judges."""
    window = torch.hann_window(1024)
    a, b = (torch.stft(x, 1024, 256, window=window, return_complex=True) for x in (made_up, real))
    return (a - b).abs().mean() / (b.abs().mean() + 1e-3)


def _judge(judge: nn.Module, real: Tensor, made_up: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        (of_real, _), (of_made, _) = judge(real), judge(made_up)
    return hinge_discriminator(of_real, of_made)


def _fool(judges: nn.ModuleList, real: Tensor, made_up: Tensor) -> tuple[Tensor, Tensor]:
    fooled = matched = made_up.new_zeros(())
    for judge in judges:
        judge.requires_grad_(False)
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                _, wanted = judge(real)
            verdicts, features = judge(made_up)
        judge.requires_grad_(True)
        fooled = fooled + hinge_generator(verdicts)
        matched = matched + feature_matching(wanted, features)
    return fooled, matched


@torch.inference_mode()
def attempt(folder: Path, runs: Path) -> None:
    """Held clips through the codec: mel distance unquantised and by number of books, use of the books, WAV files."""
    import soundfile

    clips = Clips(folder, held=True)
    stage = "adversarial" if (runs / "adversarial/state.pt").exists() else "spectral"
    codec = Codec().eval()
    state = torch.load(runs / stage / "state.pt", weights_only=True)
    codec.load_state_dict(state["codec"])
    out = runs / f"heard-{stage}"
    out.mkdir(exist_ok=True)
    found: dict[str, list[float]] = {}
    every = []
    for n, entry in enumerate(clips.entries[:100]):
        wave = torch.from_numpy(clips.wave(entry))[None]
        wave = F.pad(wave, (0, -wave.shape[1] % FRAME))
        e = codec.latent(wave)
        codes = codec.quantiser.encode(e)
        every.append(codes[0].T)
        ways = {"continuous": codec.quantiser.unproject(codec.quantiser.project(e))}
        ways |= {f"{k} books": codec.lookup(codes[:, :k]) for k in (1, 2, 4, 8, 16)}
        for name, z in ways.items():
            heard = codec.decode(z)
            found.setdefault(name, []).append(float(log_mel_distance(heard, wave)))
            if n < 8:
                soundfile.write(out / f"{n}-{name.replace(' ', '-')}.wav", heard[0].numpy(), RATE)
        if n < 8:
            soundfile.write(out / f"{n}-real.wav", wave[0].numpy(), RATE)
    print(stage, state["step"], {name: round(float(np.mean(values)), 4) for name, values in found.items()})
    entries = codec.config.quantiser.entries
    heard_codes = torch.cat(every)
    entropy = usage(heard_codes, entries)
    print("entropy", [round(float(x), 2) for x in entropy])
    used = [len(book.unique()) / entries for book in heard_codes.T]
    draw(runs, {name: float(np.mean(values)) for name, values in found.items()}, entropy.tolist(), used, out)


def draw(runs: Path, distances: dict[str, float], entropy: list[float], used: list[float], out: Path) -> None:
    """Training, distances by way, and use of the books, as one picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 3.6), layout="constrained")
    losses, ways, books = figure.subplots(1, 3)
    log = [json.loads(line) for line in whole_lines(runs / "spectral/log.jsonl")]
    steps = [line["step"] for line in log]
    losses.plot(steps, [line["mel"] for line in log], label="log mel distance")
    losses.plot(steps, [line["dead"] / 100 for line in log], label="entries replaced a step / 100")
    losses.set(xlabel="step", ylim=(0, 1.2), title="spectral stage, training clips")
    losses.legend()
    names = ["1 books", "2 books", "4 books", "8 books", "16 books", "continuous"]
    ways.bar([name.removesuffix(" books") for name in names], [distances[name] for name in names])
    ways.set(xlabel="books read", ylabel="log mel distance", title=f"held clips, {out.name.removeprefix('heard-')}")
    at = np.arange(1, len(entropy) + 1)
    books.bar(at - 0.2, entropy, 0.4, label="entropy of use, of the possible")
    books.bar(at + 0.2, used, 0.4, label="entries used")
    books.set(xlabel="book", ylim=(0, 1.3), yticks=(0, 0.5, 1), title="held clips")
    books.legend(loc="upper right")
    figure.savefig(out / "codec.png", dpi=110)


def save(clips: Path, runs: Path, out: Path) -> None:
    """What the last stage left; encoder and codebooks are of the spectral one either way."""
    codec, steps = Codec(), {}
    for stage in STEPS:
        if (path := runs / stage / "state.pt").exists():
            state = torch.load(path, weights_only=True)
            codec.load_state_dict(state["codec"])
            steps[stage] = state["step"]
    sources = (
        Source("training voice", "hibari-tts 0.2.1, voice heart", "Apache-2.0", training_voice()),
        Source("clips", "recipes/speak_voice.py on texts of recipes/voice_texts.py", "Apache-2.0; WordNet 3.0",
               sha256_file(clips / "clips.jsonl")),
    )
    recipe = "recipes/pocket_codec.py, " + ", ".join(f"{n} {stage} steps" for stage, n in steps.items())
    print(save_codec(out, codec, recipe=recipe, sources=sources).sha256)


def training_voice() -> str:
    """SHA-256 of the model of recipes/speak_voice.py."""
    from hibari import Hibari

    return sha256_file(Path(Hibari().model_path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=(*STEPS, "try", "save"))
    parser.add_argument("--clips", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.stage == "try":
        attempt(args.clips, args.runs)
    elif args.stage == "save":
        save(args.clips, args.runs, args.out)
    else:
        train(args.stage, args.clips, args.runs, args.steps or STEPS[args.stage])


if __name__ == "__main__":
    main()
