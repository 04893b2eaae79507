"""A measured run: every sentence said once, rendered by head and by depth from the same codes, heard and measured.

No retries, ever: a run that ends in an error, or in silence, is recorded as a failure and stays one. What a kill
interrupted was never recorded; the same command says that sentence and the rest, with the same seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from legato import audio as sounds
from legato.audio import Audio
from legato.errors import BadInput, LegatoError, MissingExtra, SealError
from legato.evaluate.instruments import grid, noise
from legato.evaluate.instruments.intelligibility import match
from legato.evaluate.instruments.recogniser import Recogniser
from legato.evaluate.instruments.words import Spoken
from legato.evaluate.saying import measure, record
from legato.evaluate.saying.record import Record, Sound
from legato.evaluate.saying.sentences import Sentence

HEAD, DEPTH, CEILING = "head", "depth", "ceiling"
Say = Callable[[str, int], Mapping[str, Audio]]  # text, seed -> the renderings of one run, HEAD and DEPTH


@dataclass(frozen=True)
class Voice:
    """What is judged. say: one free-running utterance. spoken: its front end. artifacts: its files, name -> SHA-256.
    settings: all else that decides what is said but the seed, as plain JSON."""

    say: Say
    spoken: Spoken
    artifacts: Mapping[str, str]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Done:
    """What a call of `run` did. repaired: what was done to a torn last line, one sentence, or None."""

    path: Path
    said: int
    kept: int
    repaired: str | None


def ceilings(folder: Path, sentences: Sequence[Sentence]) -> dict[str, Path]:
    """id -> the codec's own decode of a real recording of that sentence, of those that are there.

    Raises BadInput where the folder has none of them.
    """
    found = {s.id: path for s in sentences if (path := folder / f"{s.id}.wav").is_file()}
    if not found:
        raise BadInput(f"{folder} holds no <id>.wav of these sentences; give the codec's decode of real recordings.")
    return found


def run(
    voice: Voice,
    sentences: Sequence[Sentence],
    recogniser: Recogniser,
    path: Path,
    *,
    name: str,
    seal: str | None = None,
    ceiling: Mapping[str, Path] | None = None,
    keep: Path | None = None,
    progress: bool = True,
) -> Done:
    """Say, hear and measure every sentence that `path` does not hold yet, and append the records.

    Args:
        ceiling: from `ceilings`; without it no deficit is measured.
        keep: folder for the sounds, <renderer>/<id>.wav: what a listening sheet is made of.

    Raises:
        BadInput: `path` holds records of another run or is written by another process; the voice's rate is not 24 kHz.
        SealError: what was recorded before is not what would be said now.
        MissingExtra: an instrument's package is not installed.
    """
    with record.Writer(path) as writer:
        kept = _kept(path, name, seal, sentences, voice, recogniser)
        if writer.repaired and progress:
            tqdm.write(writer.repaired, file=sys.stderr)
        due = [s for s in sentences if s.id not in kept]
        shown = tqdm(due, initial=len(kept), total=len(sentences), disable=None if progress else True, unit="sentence")
        for sentence in shown:
            said, broke = _say(voice, sentence)
            real = sounds.read(ceiling[sentence.id]) if ceiling and sentence.id in ceiling else None
            if keep is not None:
                for renderer, audio in said.items():
                    (keep / renderer).mkdir(parents=True, exist_ok=True)
                    sounds.write(keep / renderer / f"{sentence.id}.wav", audio)
            measured = _measured(sentence, said, real, voice, recogniser)
            writer.write(_record(name, seal, sentence, measured, broke, voice, recogniser))
    return Done(path, len(due), len(kept), writer.repaired)


def _say(voice: Voice, sentence: Sentence) -> tuple[Mapping[str, Audio], str | None]:
    """The renderings, or the sentence in which the voice refused."""
    try:
        said = voice.say(sentence.text, sentence.seed)
    except MissingExtra:
        raise
    except LegatoError as error:
        return {}, str(error)
    assert set(said) == {HEAD, DEPTH}, set(said)
    for renderer, audio in said.items():
        if audio.rate != grid.RATE:
            raise BadInput(f"{renderer} renders {audio.rate:,} samples a second; the instruments take {grid.RATE:,}.")
    return said, None


def _measured(
    sentence: Sentence, said: Mapping[str, Audio], real: Audio | None, voice: Voice, recogniser: Recogniser
) -> dict[str, Sound]:
    found: dict[str, Sound] = {}
    hnr = None
    if real is not None:
        real = real.mono() if real.rate == grid.RATE else real.mono().resample(grid.RATE)
        found[CEILING] = measure.sound(real, sentence.text, recogniser, voice.spoken)
        hnr = noise.ratio(real) if measure.audible(real) else None
    for renderer in (HEAD, DEPTH):
        if renderer not in said:
            found[renderer] = measure.broken(sentence.text, voice.spoken)
            continue
        depth = said[DEPTH] if renderer == HEAD else None
        found[renderer] = measure.sound(
            said[renderer], sentence.text, recogniser, voice.spoken, depth=depth, ceiling_hnr=hnr
        )
    return found


def _record(
    name: str,
    seal: str | None,
    sentence: Sentence,
    measured: Mapping[str, Sound],
    broke: str | None,
    voice: Voice,
    recogniser: Recogniser,
) -> Record:
    script = match(sentence.text, "", voice.spoken)
    return Record(
        run=name,
        seal=seal,
        id=sentence.id,
        kind=sentence.kind,
        text=sentence.text,
        content_sha256=sentence.content_sha256,
        said=script.said,
        words=script.words,
        characters=script.characters,
        seed=sentence.seed,
        broke=broke,
        recogniser={"name": recogniser.name, "sha256": recogniser.sha256},
        artifacts=dict(voice.artifacts),
        settings=dict(voice.settings),
        sounds=measured,
    )


def _kept(
    path: Path,
    name: str,
    seal: str | None,
    sentences: Sequence[Sentence],
    voice: Voice,
    recogniser: Recogniser,
) -> set[str]:
    """Ids of what is said already, each compared with what would be said now."""
    by_id = {s.id: s for s in sentences}
    kept = set()
    for r in record.scan(path).records:
        if (r.run, r.seal) != (name, seal) or r.id not in by_id:
            raise BadInput(
                f"{path.name} holds run {r.run!r}, seal {r.seal!r}, sentence {r.id}, which is not part of run {name!r} "
                f"with seal {seal!r}; choose a new run id."
            )
        if r.content_sha256 != by_id[r.id].content_sha256:
            raise SealError(f"{path.name} said sentence {r.id} in other words; choose a new run id.")
        if dict(r.artifacts) != dict(voice.artifacts):
            raise SealError(f"{path.name} was said by other files than these; restore them or choose a new run id.")
        if dict(r.settings) != dict(voice.settings):
            raise SealError(f"{path.name} was said with {r.settings}, not {voice.settings}; choose a new run id.")
        if r.recogniser["sha256"] != recogniser.sha256:
            raise SealError(f"{path.name} was heard by another recogniser; give that one or choose a new run id.")
        kept.add(r.id)
    return kept
