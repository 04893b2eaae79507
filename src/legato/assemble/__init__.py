"""The composition root: the only room that knows both who is frozen and who does the work.

`load` reads a preset, checks every weight file against it, and puts the pair, the mapper and the residuals together
into the five arms. Fitting and training such parts is composed in `transfer`. Only who meets whom is decided here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from legato import audio, runtime
from legato.audio import Audio
from legato.errors import BadInput, ChecksumMismatch
from legato.evaluate.answers import is_malformed
from legato.organs import Answer, Arm

# Which artifacts each arm is built from; the base model is part of every one.
USES: Mapping[str, tuple[str, ...]] = {
    "small": ("ear", "small"),
    "mapped": ("ear", "large", "small", "mapper"),
    "control": ("ear", "small", "control"),
    "transfer": ("ear", "large", "small", "mapper", "residual"),
    "large": ("ear", "large"),
}


@dataclass(frozen=True, kw_only=True)
class Reply(Answer):
    """An answer, by whom, and whether it is no finished utterance (cut off by the limit, stuck, or without a word)."""

    arm: str
    malformed: bool


@dataclass(frozen=True)
class System:
    """Warm organs behind one call. One question at a time; not thread-safe."""

    name: str
    arms: Mapping[str, Arm]
    artifacts: Mapping[str, str]  # name -> SHA-256 of the weight file, the base model's among them
    dtype: str  # in which the models compute

    def answer(
        self,
        question: str | os.PathLike[str] | Audio,
        arm: str = "transfer",
        max_tokens: int = 48,
        force_tokens: int | None = None,
        name: str | None = None,
    ) -> Reply:
        """Answer a spoken question: a recording's path, or `Audio`.

        Args:
            arm: small, mapped, control, transfer or large.
            max_tokens: an answer ends here at the latest.
            force_tokens: say exactly so many tokens, past any end mark; for speed measurements.
            name: what a refusal calls the recording; by default its path.

        Raises:
            BadInput: the recording cannot be a question (unreadable, silent, over 30 s), it does not sound like one
                (noise, music, another language), or there is no such arm.
        """
        if arm not in self.arms:
            raise BadInput(f"there is no arm {arm!r}; choose one of {', '.join(self.arms)}.")
        said = self.arms[arm].answer(hear(question), max_tokens=max_tokens, force_tokens=force_tokens)
        if said.doubt is not None:
            name = name or ("the audio" if isinstance(question, Audio) else os.fspath(question))
            name = " ".join(name.split())  # a refusal is one line, whatever a file is called
            raise BadInput(f"no question found in {name}: {said.doubt}; ask in English and record it again.")
        values = {field.name: getattr(said, field.name) for field in fields(Answer)}
        return Reply(**values, arm=arm, malformed=is_malformed(said.text, said.tokens, said.finish))

    def warm(self, names: Iterable[str]) -> None:
        """One turn through each of these arms, so that no measured answer pays for first-time set-up."""
        from legato.listen.arms import warm

        warm(self.arms[name] for name in names)

    def require(self, frozen: Mapping[str, str]) -> None:
        """Raises ChecksumMismatch unless the frozen hashes (name -> SHA-256) are those of the weights in use."""
        for name, sha in frozen.items():
            if self.artifacts.get(name) != sha:
                raise ChecksumMismatch(name, sha, self.artifacts.get(name, "no such weights"))


def hear(question: str | os.PathLike[str] | Audio) -> Audio:
    """A recording that can be a spoken question.

    Raises:
        BadInput: it cannot be read, is shorter than 0.2 s or longer than 30 s, or nothing is to be heard in it.
    """
    if isinstance(question, Audio):
        audio.check_question(question)
        return question
    heard = audio.read(question, max_seconds=audio.MAX_QUESTION_SECONDS)
    audio.check_question(heard, name=os.fspath(question))
    return heard


def files(preset: str = "pocket") -> dict[str, Path]:
    """The weight file of each artifact by name: what a candidate freezes. Raises ArtifactError when one is missing."""
    from legato.assemble import parts

    return parts.weight_files(preset)


def load(preset: str = "pocket", *, dtype: str | None = None, threads: int | None = None) -> System:
    """Assemble a system by the name of its preset, every weight file checked by SHA-256.

    Args:
        dtype, threads: see `runtime.choose`; by default what this machine does best.

    Raises:
        BadInput: no such preset, or a setting that this machine does not have.
        ChecksumMismatch: a weight file is not the one that the preset pins; the message names it and both hashes.
        ArtifactError: weights are missing or damaged, or the base model is not installed.
    """
    from legato.assemble import parts
    from legato.listen import arms, shelf
    from legato.pocket.pair import BASE_SHA256

    found = parts.stored(preset, *parts.NAMES)
    chosen = runtime.choose("cpu", dtype, threads).apply()
    large, small = parts.pair(preset, found, chosen.dtype)
    mapper = shelf.load_mapper(found["mapper"], chosen.dtype)
    residual, control = (shelf.load_residual(found[name], chosen.dtype) for name in ("residual", "control"))
    hashes = {"base": BASE_SHA256, **{name: parts.weight_hash(part) for name, part in found.items()}}
    five = arms.five(small, large, mapper, residual, control)
    return System(preset, five, hashes, str(chosen.dtype).removeprefix("torch."))
