"""The voices: engine, licence, split and share. Held voices are never heard in training, not even in its babble.

Licences, for NOTICE (only the audio they make is used; no voice is shipped):
- flite rms, slt, kal16, awb: CMU Flite and its voices, permissive CMU licence.
- festival kal, ked, slt-hts: Festival (X11-like, University of Edinburgh and CMU); kal_diphone permissive CMU licence;
  ked_diphone (festvox-kdlpc16k) free of restriction, CSTR Edinburgh; cmu_us_slt_arctic_hts (CMU ARCTIC) permissive,
  its HTS engine BSD.
- heart (wheel hibari-tts): Apache-2.0, distilled from Kokoro-82M af_heart, Apache-2.0.
- Kokoro-82M jm_kumo, jf_gongitsune, jf_nezumi, jf_alpha: Apache-2.0.
- Piper joe: data CC0; the model was fine-tuned from lessac, whose licence is for research; run by our own code.
- RHVoice alan, bdl, clb (Debian contrib rhvoice, rhvoice-english): library and these voices LGPL-2.1+, its tools GPL-3;
  run as a program. Its voices evgeniy-eng and lyubov are CC-BY-NC-ND and are not used.
- pico-us, pico-gb: SVOX Pico (Debian non-free libttspico-utils), Apache-2.0; its language files come without sources.
- espeak-ng: a GPL-3 program, run as a program; its output is not covered by its licence.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from voices.engines import Engine, Espeak, Festival, Flite, Pico, RHVoice
from voices.neural import Hibari, Kokoro, Piper


@dataclass(frozen=True)
class Voice:
    """One voice. `share` is its part of the clips of its split, up to scale; `bend` how far warp may take it."""

    name: str
    engine: str
    licence: str
    split: str  # "train" or "held"
    share: float
    make: Callable[[], Engine]
    bend: tuple[float, float]


# How far warp may take a voice: women become larger people more often than smaller ones, men the reverse, so that both
# ends stay voices that a listener meets.
WOMAN, MAN, HELD = (0.82, 1.10), (0.90, 1.20), (0.92, 1.08)
CMU, APACHE, GPL = "CMU permissive", "Apache-2.0", "GPL-3 program, output free"
LGPL, PICO = "LGPL-2.1+ program and voice, output free", "Apache-2.0, language files without source"

VOICES: dict[str, Voice] = {
    voice.name: voice
    for voice in (
        Voice("heart", "hibari", APACHE, "train", 0.16, Hibari, WOMAN),
        Voice("rms", "flite", CMU, "train", 0.10, partial(Flite, "rms", False, False), MAN),
        Voice("slt", "flite", CMU, "train", 0.05, partial(Flite, "slt", True, True), WOMAN),
        Voice("kal16", "flite", CMU, "train", 0.05, partial(Flite, "kal16", True, True), MAN),
        Voice("kal-diphone", "festival", CMU, "train", 0.05, partial(Festival, "kal_diphone", 105.0), MAN),
        Voice(
            "ked-diphone", "festival", "CSTR permissive", "train", 0.07, partial(Festival, "ked_diphone", 105.0), MAN
        ),
        Voice("slt-hts", "festival", CMU, "train", 0.05, partial(Festival, "cmu_us_slt_arctic_hts", None), WOMAN),
        Voice("alan", "rhvoice", LGPL, "train", 0.09, partial(RHVoice, "alan"), MAN),
        Voice("bdl", "rhvoice", LGPL, "train", 0.09, partial(RHVoice, "bdl"), MAN),
        Voice("clb", "rhvoice", LGPL, "train", 0.09, partial(RHVoice, "clb"), WOMAN),
        Voice("pico-us", "pico", PICO, "train", 0.08, partial(Pico, "en-US"), WOMAN),
        Voice("pico-gb", "pico", PICO, "train", 0.08, partial(Pico, "en-GB"), WOMAN),
        *(
            Voice(
                f"espeak-{accent}+{variant}",
                "espeak-ng",
                GPL,
                "train",
                0.004,
                partial(Espeak, f"{accent}+{variant}"),
                WOMAN if variant[0] == "f" else MAN,
            )
            for accent, variant in (
                ("en-us", "m3"),
                ("en-us", "f2"),
                ("en-gb", "m7"),
                ("en-gb", "f4"),
                ("en-gb-x-rp", "m1"),
                ("en-gb-scotland", "m2"),
                ("en-us", "f5"),
            )
        ),
        Voice("jf_nezumi", "kokoro", APACHE, "train", 0.015, partial(Kokoro, "jf_nezumi"), WOMAN),
        Voice("jf_alpha", "kokoro", APACHE, "train", 0.005, partial(Kokoro, "jf_alpha"), WOMAN),
        Voice("jf_nezumi+alpha", "kokoro", APACHE, "train", 0.01, partial(Kokoro, "jf_nezumi", "jf_alpha"), WOMAN),
        # Held shares follow how well Whisper base's own recogniser understands a voice (records/LOG.md).
        Voice("joe", "piper", "CC0 data", "held", 0.60, Piper, HELD),
        Voice("awb", "flite", CMU, "held", 0.06, partial(Flite, "awb", False, True), HELD),
        Voice("jm_kumo", "kokoro", APACHE, "held", 0.22, partial(Kokoro, "jm_kumo"), HELD),
        Voice("jf_gongitsune", "kokoro", APACHE, "held", 0.12, partial(Kokoro, "jf_gongitsune"), HELD),
    )
}


def voices_of(split: str, without: tuple[str, ...] = ()) -> list[Voice]:
    """The voices a split is spoken by, those with a share only; none of the engines in `without`."""
    return [v for v in VOICES.values() if v.split == split and v.share > 0 and v.engine not in without]


@cache
def _engine(name: str, process: int) -> Engine:
    return VOICES[name].make()


def engine(name: str) -> Engine:
    """The warm engine of a voice, made at first use in each process."""
    return _engine(name, os.getpid())


def order_voices(rng: np.random.Generator, split: str, without: tuple[str, ...] = ()) -> list[Voice]:
    """All voices of a split in a random order in which larger shares tend to stand first (exponential race)."""
    voices = voices_of(split, without)
    times = rng.exponential(1.0, len(voices)) / np.array([voice.share for voice in voices])
    return [voices[n] for n in np.argsort(times)]
