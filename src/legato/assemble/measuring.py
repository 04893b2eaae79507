"""A voice as the judge takes it: free-running, seeded by the sentence, by head and by depth from one run of codes."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from legato import artifacts, presets
from legato.assemble.speech import load_speaker
from legato.audio import Audio
from legato.errors import BadInput
from legato.evaluate.saying.run import DEPTH, HEAD, Voice
from legato.pocket import shelf
from legato.speak.render import Renderer
from legato.speak.speaker import Speaker
from legato.speak.text import Reader


def load_voice(preset: str = "pocket", *, engine: str = "torch") -> Voice:
    """A preset's voice, every file checked. Raises as `speech.load_speaker` does."""
    speaker = load_speaker(preset, engine=engine)
    pins = presets.read(preset).speech
    hashes = {field.name: getattr(pins, field.name).weights for field in fields(pins)}
    return Voice(lambda text, seed: said(speaker, text, seed), spoken, hashes, settings(speaker) | {"engine": engine})


def voice_files(preset: str = "pocket") -> dict[str, Path]:
    """The weight files of a preset's voice by name: what a candidate freezes.

    Raises:
        BadInput: the preset has no voice, or no head yet.
        ArtifactError: a manifest is missing.
    """
    pins = presets.read(preset).speech
    found = {field.name: getattr(pins, field.name) for field in fields(presets.Speech)} if pins else {}
    if missing := [field.name for field in fields(presets.Speech) if found.get(field.name) is None]:
        raise BadInput(f"preset {preset!r} has no {missing[0]} yet, so there is no voice to freeze; train it first.")
    folders = {name: shelf.WEIGHTS / pin.folder for name, pin in found.items()}
    return {name: artifacts.read_manifest(folder).path("weights.safetensors") for name, folder in folders.items()}


def said(speaker: Speaker, text: str, seed: int) -> dict[str, Audio]:
    """One utterance, rendered in both ways. Raises BadInput where nothing can be spoken or the run does not end."""
    drawn = replace(
        speaker,
        harness=replace(speaker.harness, sampling=replace(speaker.harness.sampling, seed=seed)),
        renderers={name: _seeded(renderer, seed) for name, renderer in speaker.renderers.items()},
    )
    chunks = list(drawn.rendered(text, (HEAD, DEPTH)))
    sounds = (np.concatenate(column)[None] for column in zip(*chunks, strict=True))
    return {name: Audio(samples, speaker.rate) for name, samples in zip((HEAD, DEPTH), sounds, strict=True)}


def settings(speaker: Speaker) -> dict[str, Any]:
    """All that decides what is said beside files, text and seed, as plain JSON."""
    drawn = {key: value for key, value in asdict(speaker.harness.sampling).items() if key != "seed"}
    head = speaker.renderers[HEAD]
    walked = {key: getattr(head, key) for key in ("steps", "temperature", "level") if hasattr(head, key)}
    return {"sampling": drawn, "pacing": asdict(speaker.harness.pacing), "head": walked}


def spoken(text: str) -> str:
    """The words that a voice says for a text, as its front end reads them; empty where it can say nothing."""
    reader = Reader()
    try:
        return " ".join([*reader.feed(text), *reader.finish()])
    except BadInput:
        return ""


def _seeded(renderer: Renderer, seed: int) -> Renderer:
    return replace(renderer, seed=seed) if hasattr(renderer, "seed") else renderer  # the depth path draws nothing
