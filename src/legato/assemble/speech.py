"""The voice: text to sound, put together from a preset's codec, voice and head.

    speaker = load_speaker("pocket")
    for chunk in speaker.speak("The capital of France is Paris."): ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from legato import runtime
from legato.assemble import parts
from legato.errors import BadInput
from legato.pocket import voice_shelf
from legato.pocket.codec_step import DecoderStep
from legato.pocket.phonemes import letters, lexicon, sentence_phonemes
from legato.pocket.script import pieces
from legato.pocket.speaking import PocketVoice
from legato.speak import port, shelf
from legato.speak.entrance import Entrance
from legato.speak.harness import Harness, Sampling
from legato.speak.lead import Word
from legato.speak.ported import PortedCodec, PortedRenderer
from legato.speak.render import DepthRenderer, HeadRenderer, Renderer
from legato.speak.speaker import Speaker
from legato.speak.text import sentences

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ENGINES = ("torch", "onnx")


@dataclass(frozen=True)
class Front:
    """Text to the words of a pocket voice. Callable as `speak.speaker.Front`."""

    tokenizer: Tokenizer

    def warm(self) -> None:
        """Read the lexicon and the letters' sounds now: they would keep the first words waiting for seconds."""
        lexicon(), letters()

    def __call__(self, texts: Iterable[str]) -> Iterator[Word]:
        for said in sentences(texts):
            spelled = said.split()
            for text, sounding in zip(spelled, sentence_phonemes(spelled), strict=True):
                if ids := pieces(self.tokenizer, sounding):
                    yield Word(tuple(ids), text)


def load_speaker(
    preset: str = "pocket", *, sampling: Sampling | None = None, threads: int | None = None, engine: str = "torch",
    port_folder: Path | None = None,
) -> Speaker:
    """Assemble a preset's voice, every weight file checked by SHA-256. It renders by "head" and by "depth".

    Args:
        threads: see `runtime.choose`.
        engine: "torch", or "onnx", in which head and decoder run in ONNX Runtime; the first time they are exported.
        port_folder: where the exported files are kept; None: in the user's cache.

    Raises:
        BadInput: no such preset or engine, or the preset has no voice.
        MissingExtra: the extra `onnx` is not installed, and it is asked for.
        ChecksumMismatch: a weight file is not the one that the preset pins; the message names it and both hashes.
        ArtifactError: weights are missing or damaged.
    """
    if engine not in ENGINES:
        raise BadInput(f"there is no engine {engine!r}; choose one of {', '.join(ENGINES)}.")
    found = parts.spoken(preset)
    chosen = runtime.choose("cpu", "float32", threads).apply()
    hashes = {name: parts.weight_hash(part) for name, part in found.items()}
    codec = voice_shelf.load_codec(found["codec"])
    voice, tokenizer = voice_shelf.load_voice(found["voice"], codec, hashes["codec"])
    head, statistics, steps = shelf.load_head(found["head"], {name: hashes[name] for name in ("voice", "codec")})
    entrance = Entrance(codec, statistics)
    renderers: dict[str, Renderer]
    if engine == "onnx":
        made_from = {name: hashes[name] for name in ("head", "codec")}
        ported = port.open_port(
            port_folder, head, entrance, DecoderStep(codec), steps=steps, made_from=made_from, threads=chosen.threads
        )
        renderers = {"head": PortedRenderer(ported), "depth": DepthRenderer(PortedCodec(codec, ported))}
    else:
        renderers = {"head": HeadRenderer(head, entrance, steps), "depth": DepthRenderer(codec)}
    front = Front(tokenizer)
    front.warm()
    return Speaker(front, Harness(PocketVoice(voice), sampling or Sampling()), renderers, codec.rate)
