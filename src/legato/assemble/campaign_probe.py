"""The probe of a preset's codec, before anything is trained: does its decoder take what it has only seen cut up?

Writes into its folder what each recording scored in each way (`recordings.jsonl` as it goes, `probe.json` at the end),
a picture an instrument, the sound of the first recordings in every way, and a page that shows all of it. No head and no
voice take part. The ways are those of `speak.probe`, the instruments those of `campaign_scores`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from legato import audio
from legato.artifacts import sha256_file
from legato.assemble import campaign_page as page
from legato.assemble import campaign_scores as scores
from legato.assemble.campaign import load_codec
from legato.assemble.campaign_shelf import claim
from legato.audio import Audio
from legato.errors import BadInput
from legato.evaluate import lines
from legato.evaluate.instruments.recogniser import Recogniser, whisper
from legato.organs import Codec
from legato.speak import plots
from legato.speak.entrance import Entrance, Statistics
from legato.speak.probe import CONTINUOUS, WRONG, Probed, Score, Scores, in_order, score_ways

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
SHORTEST, LONGEST = 0.5, 10.0  # s: below it nothing has a melody; of longer ones the beginning is taken
LIMIT = 50
KEPT = 3  # recordings whose sound is kept
EACH = "recordings.jsonl"


@dataclass(frozen=True)
class Result:
    """verdicts: sentences, the wrong space's first. page: where all is shown. missing: what was not measured, and why.
    """

    probed: Probed
    verdicts: tuple[str, ...]
    missing: tuple[str, ...]
    page: Path


def probe(
    recordings: Path,
    out: Path,
    *,
    limit: int = LIMIT,
    recogniser: Path | None = None,
    preset: str = "pocket",
    progress: bool = True,
) -> Result:
    """Probe a preset's codec with a folder of recordings.

    Args:
        limit: so many of them at most, in the order of their names.
        recogniser: folder of a Whisper model; with it, recordings that have a transcript (`<name>.txt`) are heard too.

    Raises: BadInput for recordings that cannot be used; MissingExtra without matplotlib, or without what the recogniser
        needs.
    """
    files = _files(recordings)[:limit]
    plots.figure(1, "drawing a probe")  # said before the work, not after it
    codec, sha = load_codec(preset)
    hearing = None if recogniser is None else whisper(recogniser)
    settings = {
        "codec": sha, "recordings": {file.name: sha256_file(file) for file in files},
        "recogniser": None if hearing is None else hearing.sha256,
    }
    entrance = Entrance(codec, _statistics(codec, files))  # before the folder is claimed: all of them can be used
    claim(out, "probe", settings)
    measured = scores.instruments()
    (out / "audio").mkdir(exist_ok=True)
    with lines.Appender(out / EACH) as kept:
        done = _done(out)
        bar = tqdm(files, disable=not progress, unit="recording")
        for n, file in enumerate(bar):
            if file.name not in done:
                wave = _sound(file, codec.rate)
                keep = _keeper(out, n, codec.rate)
                keep("recording", wave)
                asked = dict(measured.scores) | _understood(file, hearing)
                kept.append({"recording": file.name, "scores": score_ways(entrance, wave, asked, n, keep)})
    return _report(out, _done(out), [file.name for file in files], codec, settings, _missing(measured, files, hearing))


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}; give one with recordings.")
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
    if not found:
        raise BadInput(f"{folder} holds no recordings; put {', '.join(SUFFIXES)} files of speech there.")
    return found


def _sound(file: Path, rate: int) -> np.ndarray:
    """Samples (S,) float32 of its first seconds."""
    read = audio.read(file).mono()
    if read.seconds < SHORTEST:
        raise BadInput(f"{file} lasts {read.seconds:.3f} s, too short to probe with; take it out or record more.")
    cut = Audio(read.samples[:, : round(LONGEST * read.rate)], read.rate)
    if audio.loudness_dbfs(cut) < audio.SILENCE_DBFS:
        raise BadInput(f"nothing is to be heard in the first {LONGEST:g} s of {file}; take it out or record it again.")
    return cut.resample(rate).samples[0]


@torch.inference_mode()
def _statistics(codec: Codec, files: list[Path]) -> Statistics:
    waves = (torch.from_numpy(_sound(file, codec.rate))[None] for file in files)
    return Statistics.of(codec.project(codec.latent(wave))[0] for wave in waves)


def _understood(file: Path, hearing: Recogniser | None) -> dict[str, Score]:
    said = file.with_suffix(".txt")
    if hearing is None or not said.exists():
        return {}
    try:
        text = said.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise BadInput(f"{said} is not UTF-8 text ({error}); save it again.") from None
    if not text:
        raise BadInput(f"{said} is empty; write what is said in {file.name}, or remove it.")
    return {scores.INTELLIGIBILITY: scores.intelligible(text, hearing)}


def _missing(measured: scores.Instruments, files: list[Path], hearing: Recogniser | None) -> tuple[str, ...]:
    scripts = sum(file.with_suffix(".txt").exists() for file in files)
    if hearing is None and scripts:
        return (*measured.missing, f"{scores.INTELLIGIBILITY} was not measured: {scripts} recordings have a "
                "transcript, and --recogniser was not given")
    if hearing is not None and not scripts:
        return (*measured.missing, f"{scores.INTELLIGIBILITY} was not measured: no recording has a transcript "
                "beside it (<name>.txt)")
    return measured.missing


def _keeper(out: Path, n: int, rate: int) -> Any:
    def keep(way: str, wave: np.ndarray) -> None:
        if n < KEPT and np.isfinite(wave).all():
            audio.write(_kept(out, n, way), Audio(np.clip(wave, -1, 1)[None], rate))

    return keep


def _kept(out: Path, n: int, way: str) -> Path:
    return out / "audio" / f"{n + 1}-{way.replace(' ', '-').replace('%', 'pc')}.flac"


def _done(out: Path) -> dict[str, Scores]:
    path = out / EACH
    read = [lines.parse(line, f"{path}, line {n}") for n, line in enumerate(lines.read(path).whole, 1)]
    return {line["recording"]: line["scores"] for line in read}


def _report(
    out: Path, each: dict[str, Scores], names: list[str], codec: Codec, settings: dict[str, Any],
    missing: tuple[str, ...],
) -> Result:
    each = {name: {way: each[name][way] for way in in_order(each[name], codec.books)} for name in names}
    probed = Probed.of(list(each.values()))
    asked = [name for name in scores.UNITS if any(name in figures for figures in probed.scores.values())]
    verdicts = (_wrong(probed, asked), *(probed.verdict(name, scores.lower_is_better(name)) for name in asked))
    lines.write_whole(out / "probe.json", {
        **settings, "verdicts": list(verdicts), "not measured": list(missing), "means": probed.scores, "scores": each,
    })
    drawn = [name for name in asked if any(figures[name] is not None for figures in probed.scores.values())]
    pictures = {name: out / f"{name.replace(' ', '-')}.png" for name in drawn}
    for name, path in pictures.items():
        page.draw(name, each, probed, path)
    sounds = {
        name: {way: path for way in ("recording", *each[name]) if (path := _kept(out, n, way)).exists()}
        for n, name in enumerate(names[:KEPT])
    }
    shown = page.write(out / "index.html", probed, verdicts, missing, pictures, sounds)
    return Result(probed, verdicts, missing, shown)


def _wrong(probed: Probed, asked: list[str]) -> str:
    """The check of the check: the encoder's own latent, without the projections, must be garbage to the decoder."""
    if WRONG not in probed.scores:
        return "the wrong space was not tried: this codec's encoder and decoder are of different widths"
    found = {name: probed.failed(name, scores.lower_is_better(name)) for name in asked}
    judging = [name for name, failed in found.items() if failed is not None]
    if not judging:
        return "DO NOT BELIEVE THIS PROBE: no instrument could measure the right space; give other recordings"
    if passed := [name for name in judging if not found[name]]:
        return (
            f"DO NOT BELIEVE THIS PROBE: the wrong space is no worse than the right one by {', '.join(passed)}; "
            "the entrance, or the recordings, are not what they should be"
        )
    first = judging[0]
    wrong, right = (probed.scores[way][first] for way in (WRONG, CONTINUOUS))
    worse = "cannot even be measured" if wrong is None else f"{wrong:.2f} against {right:.2f} {scores.UNITS[first]}"
    return f"the wrong space fails, as it must, by all {len(judging)} instruments ({first}: {worse})"
