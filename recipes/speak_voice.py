"""Say the voice's texts with the training voice, and keep what was said when: 24 kHz speech with exact phoneme times.

    python recipes/speak_voice.py TEXTS.jsonl OUT [--follow]
    python recipes/speak_voice.py export CLIPS SPOKEN [--limit N]

The voice is "heart" of hibari-tts 0.2.1 (Apache-2.0; distilled from Kokoro-82M's af_heart, Apache-2.0). Its network
rounds how long each phoneme lasts to units of 25 ms, and that number is read off its graph, so nothing is aligned
by guessing. OUT gets int16 shards and `clips.jsonl`: the text, its phonemes (Kokoro's alphabet, a space between words),
units a phoneme (one more before and after), one list a sentence. Killed, it goes on where it was; with --follow it
waits for more texts until a file TEXTS.jsonl.done exists. About 100 times faster than speech on one core.

`export` turns such an OUT into a folder for `legato speak tap`: FLAC files and `spoken.jsonl`, in which each word of
the text stands with the second at which it begins. A clip that was spoken as another number of words is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from hibari import Hibari
from hibari.dsp import synth

from legato import audio
from legato.audio import Audio
from legato.listen.capture import whole_lines

RATE, UNIT = 24_000, 600  # samples a second, samples a unit of duration
DURATIONS = "/Clip_output_0"  # units of each id, in the graph of hibari 0.2.1
CLIPS_PER_SHARD = 1000
LEADING = 0.1  # seconds of silence that stay before the first word


class Voice:
    """hibari's heart, with its durations as one more output."""

    def __init__(self) -> None:
        self.hibari = Hibari()
        model = onnx.load(self.hibari.model_path)
        durations = onnx.helper.ValueInfoProto()
        durations.name = DURATIONS
        model.graph.output.append(durations)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options)

    def say(self, text: str, seed: int) -> tuple[np.ndarray, list[tuple[str, list[int]]]]:
        """-> samples (S,) float32 at 24 kHz; (phonemes, units of each, pads at both ends) a sentence."""
        rng = np.random.default_rng(seed)
        waves, spoken = [], []
        for phonemes in self.hibari.phonemize(text):
            phonemes = "".join(sign for sign in phonemes if sign in self.hibari.vocab)
            ids = self.hibari.ids(phonemes)
            if len(ids) < 3:
                continue
            *parts, frames = self.session.run(None, {"ids": np.array([ids]), "speed": np.ones(1, np.float32)})
            wave = synth(*(part[0] for part in parts), rng)
            lasting = frames.ravel().astype(int).tolist()
            assert len(lasting) == len(ids) and sum(lasting) * UNIT == len(wave), (text, len(wave), sum(lasting))
            waves.append(wave)
            spoken.append((phonemes, lasting))
        return np.concatenate(waves) if waves else np.zeros(0, np.float32), spoken


def begins(spoken: list[Any]) -> list[float]:
    """The second at which each word begins, over all sentences of a clip: [phonemes, units of each, pads included]."""
    found, at = [], 0
    for phonemes, units in spoken:
        at += units[0]
        before = " "
        for sign, unit in zip(phonemes, units[1:-1], strict=True):
            if sign != " " and before == " ":
                found.append(at * UNIT / RATE)
            before = sign
            at += unit
        at += units[-1]
    return found


def export(clips: Path, out: Path, limit: int | None) -> None:
    """Clips -> what `legato speak tap` reads. The same command goes on where a killed one stopped."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "spoken.jsonl"
    lines = whole_lines(path)
    done = {json.loads(line)["audio"] for line in lines}
    left_out = 0
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
        for n, line in enumerate(whole_lines(clips / "clips.jsonl")):
            if n == limit:
                break
            clip = json.loads(line)
            words, times = clip["text"].split(), begins(clip["spoken"])
            if len(words) != len(times):
                left_out += 1
                continue
            if (name := f"{clip['id']}.flac") in done:
                continue
            wave = np.fromfile(clips / clip["shard"], "<i2", clip["samples"], offset=2 * clip["offset"])
            cut = max(0, round((times[0] - LEADING) * RATE))
            audio.write(out / name, Audio((wave[cut:] / 32768).astype(np.float32)[None], RATE))
            timed = [[word, round(at - cut / RATE, 3)] for word, at in zip(words, times, strict=True)]
            file.write(json.dumps({"audio": name, "text": clip["text"], "words": timed}, ensure_ascii=False) + "\n")
            file.flush()
    print(f"{len(whole_lines(path))} clips, {left_out} left out: spoken as another number of words")


def main() -> None:
    if sys.argv[1:2] == ["export"]:
        parser = argparse.ArgumentParser(prog="speak_voice.py export")
        parser.add_argument("clips", type=Path)
        parser.add_argument("out", type=Path)
        parser.add_argument("--limit", type=int)
        args = parser.parse_args(sys.argv[2:])
        export(args.clips, args.out, args.limit)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--follow", action="store_true")
    args = parser.parse_args()
    onnxruntime.disable_telemetry_events()
    args.out.mkdir(parents=True, exist_ok=True)
    index = args.out / "clips.jsonl"
    done = [json.loads(line) for line in whole_lines(index)]
    known = {entry["text"] for entry in done}
    voice, count = Voice(), len(done)
    with index.open("r+b" if index.exists() else "wb") as lines:
        lines.truncate(sum(len(line.encode()) + 1 for line in whole_lines(index)))
        lines.seek(0, os.SEEK_END)
        while True:
            finished = not args.follow or Path(f"{args.texts}.done").exists()
            for line in whole_lines(args.texts):
                entry = json.loads(line)
                if entry["text"] in known:
                    continue
                known.add(entry["text"])
                wave, spoken = voice.say(entry["text"], count)
                if not len(wave):
                    continue
                shard = f"shard-{count // CLIPS_PER_SHARD:04d}.i16"
                with (args.out / shard).open("r+b" if (args.out / shard).exists() else "wb") as file:
                    last = done[-1] if done and done[-1]["shard"] == shard else None
                    offset = last["offset"] + last["samples"] if last else 0
                    file.seek(2 * offset)
                    file.write(np.rint(wave.clip(-1, 1) * 32767).astype("<i2").tobytes())
                found = {"id": f"{count:06d}", "text": entry["text"], "source": entry["source"], "held": entry["held"],
                         "shard": shard, "offset": offset, "samples": len(wave), "spoken": spoken}
                lines.write((json.dumps(found, ensure_ascii=False) + "\n").encode())
                lines.flush()
                done.append(found)
                count += 1
                if count % 500 == 0:
                    hours = sum(e["samples"] for e in done) / RATE / 3600
                    print(f"{count} clips, {hours:.2f} h", flush=True)
            if finished:
                break
            time.sleep(5)


if __name__ == "__main__":
    main()
