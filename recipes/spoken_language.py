"""Train the small classifier that tells spoken English from other languages and from no speech, on the frozen ear.

    python recipes/spoken_language.py OUT --english CLIPS... --select CLIPS --texts LOCALES [--try FOLDER...]

--english: folders of recipes/speak_questions.py, spoken by the training voices; 500 clips of each are heard. --select:
the selection clips, which say how strict it may be. --texts: a folder with `<language>/LC_MESSAGES/django.po` files
somewhere in it, the sentences that are spoken: the locale folders of the wheel Django 5.2 (BSD-3-Clause). espeak-ng
speaks them in every language it has, SVOX Pico in four; both and flite speak English ones too, or the voice would be
taken for the language, and very short ones, as questions may be. Half of all get pauses around or inside, silent or
with a room's noise. No speech: noises, tones, music and bumps drawn here. --try: folders of real recordings, judged at
the end and never trained on, the first 8 s of those of a second or more.

About 15 minutes on one core; what was made is kept beside OUT (`OUT/made-*.pt`) and not made again.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch
from scipy.signal import butter, sosfilt
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from legato.artifacts import Source
from legato.pocket.ear import Ear
from legato.pocket.language import CLASSES, Language, sounding_mean
from voices.conditions import RATE, apply_condition, draw_condition, limit_band, make_noise, trim
from voices.engines import Engine, Espeak, Flite, Pico
from voices.shards import read_clip, read_entries

ENGLISH_CLIPS = 500  # of each folder
VARIANTS = ("m1", "m2", "m3", "m7", "f2", "f4", "f5")  # espeak's
ESPEAK_LINES, PICO_LINES = 60, 700  # sentences of each language
ENGLISH = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp")
FLITE = ("rms", "slt", "kal16")
PICO = {"de": "de-DE", "es": "es-ES", "fr": "fr-FR", "it": "it-IT"}
NOISES = 4096  # clips without speech
ROOMS = ("white", "pink", "brown", "hum", "fan", "traffic", "rain")  # noises of pauses
SHORT = [
    "Who?", "What?", "Why?", "When?", "Where?", "How?", "Which?", "How many?", "How much?", "Yes.", "No.", "Please.",
    "Thanks.", "Thank you.", "Hello.", "Good morning.", "What is it?", "Who is it?", "Who was it?",
    "What time is it?", "Who wrote it?", "Say it.", "Spell it.", "Repeat.", "Again.", "One.", "Two.", "Ten.",
    "Monday.", "April.", "Paris.", "Rome.", "Gold.", "Red.", "Cats.", "Dogs.", "Who wrote Hamlet?", "How are you?",
    "What day is it?", "Where is it?", "Help.",
]
DECAY = 1e-3
WRONG = 0.01  # share of the selection's clips that may be doubted
BATCH, LONGEST = 16, 8.0  # clips; seconds


def messages(path: Path) -> Iterator[tuple[str, str]]:
    """(English, translation) of each entry of a gettext file."""
    text = path.read_text(encoding="utf-8")
    for entry in re.finditer(r'msgid ((?:"[^\n]*"\n)+)msgstr ((?:"[^\n]*"\n?)+)', text):
        yield tuple("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', part)) for part in entry.groups())  # type: ignore[misc]


def speakable(text: str) -> bool:
    return 8 < len(text) < 90 and not re.search(r"[%{}<\\/]", text)


def sentences(texts: Path) -> dict[str, list[str]]:
    """Sentences by language code; English ones under "en"."""
    found: dict[str, set[str]] = {"en": set()}
    for path in sorted(texts.glob("**/*/LC_MESSAGES/django.po")):
        language = path.parent.parent.name
        for english, said in messages(path):
            if said and said != english and speakable(said):
                found.setdefault(language, set()).add(said)
            if speakable(english) and " " in english:
                found["en"].add(english)
    return {language: sorted(said) for language, said in sorted(found.items())}


def speakers(texts: Path, rng: np.random.Generator) -> list[tuple[str, Callable[[], Engine], str]]:
    """(language, voice, sentence) of everything that is to be said, shuffled."""
    listed = subprocess.run(["espeak-ng", "--voices"], capture_output=True, text=True, check=True).stdout
    known = {line.split()[1] for line in listed.splitlines()[1:]}
    said: list[tuple[str, Callable[[], Engine], str]] = []

    for line in SHORT:
        said += [("en", lambda a=accent: _espeak(a, rng), line) for accent in ENGLISH for _ in range(3)]
        said += [("en", lambda v=voice: Pico(v), line) for voice in ("en-US", "en-GB") for _ in range(5)]
        said += [("en", lambda v=voice: Flite(v, False, False), line) for voice in FLITE for _ in range(2)]

    def some(lines: Sequence[str], most: int) -> list[str]:
        return [str(line) for line in rng.choice(lines, min(len(lines), most), replace=False)]

    for language, lines in sentences(texts).items():
        code = language.split("_")[0]
        if language == "en":
            for accent in ENGLISH:
                said += [("en", lambda a=accent: _espeak(a, rng), line) for line in some(lines, 250)]
            for voice in ("en-US", "en-GB"):
                said += [("en", lambda v=voice: Pico(v), line) for line in some(lines, 600)]
        elif code in known and code != "en" and len(lines) >= 30:
            said += [(language, lambda c=code: _espeak(c, rng), line) for line in some(lines, ESPEAK_LINES)]
            if language in PICO:
                said += [(language, lambda v=PICO[language]: Pico(v), line) for line in some(lines, PICO_LINES)]
    return [said[n] for n in rng.permutation(len(said))]


def _espeak(voice: str, rng: np.random.Generator) -> Espeak:
    return Espeak(f"{voice}+{rng.choice(VARIANTS)}")


def spoken(texts: Path) -> Iterator[tuple[str, np.ndarray]]:
    """(language, clip as float32 at 16 kHz) under the training conditions."""
    rng = np.random.default_rng(11)
    crowd: list[np.ndarray] = []  # the last voices, for babble
    for language, voice, sentence in tqdm(speakers(texts, rng), unit="sentence"):
        try:
            wave, rate = voice().say(sentence, rng.uniform(0.85, 1.2), rng.uniform(0.9, 1.1))
        except subprocess.CalledProcessError:
            continue  # a sentence that the engine cannot read
        wave = trim(_at_16_khz(wave, rate))[: int(LONGEST * RATE)]
        if len(wave) < RATE // 4:
            continue
        crowd = [*crowd, wave][-20:]
        if len(crowd) >= 5:
            clip = apply_condition(wave, draw_condition(rng, "train"), rng, crowd).astype(np.float32) / 2**15
            yield language, with_pauses(rng, clip)


def with_pauses(rng: np.random.Generator, clip: np.ndarray) -> np.ndarray:
    """One clip in two: a pause before, behind and in the middle, silent, or with noise in it or all through."""
    if rng.random() > 1 / 2:
        return clip
    before, behind, inside = (np.zeros(int(RATE * rng.uniform(0, 4)), np.float32) for _ in range(3))
    middle = len(clip) // 2 if rng.random() < 0.3 else 0  # 0: no pause inside
    parts = before, clip[:middle], inside if middle else inside[:0], clip[middle:], behind
    wave, kind = np.concatenate(parts), rng.random()
    if kind < 1 / 4:
        return wave
    noise = make_noise(rng, str(rng.choice(ROOMS)), len(wave), [])
    noise *= clip.std() * 10 ** (-rng.uniform(6, 45) / 20) / (noise.std() + 1e-9)
    if kind < 1 / 2:  # a recording cut into a room
        noise *= np.concatenate([np.full(len(part), n % 2 == 0) for n, part in enumerate(parts)])
    return np.clip(wave + noise, -1, 1).astype(np.float32)


def unspoken(count: int = NOISES) -> Iterator[tuple[str, np.ndarray]]:
    """("none", clip): noise, tones, sweeps, buzzes, beeps, bumps and music, at any level and length."""
    rng = np.random.default_rng(2)
    for _ in tqdm(range(count), unit="noise"):
        wave = _draw(rng, int(rng.uniform(0.4, 10) * RATE))
        wave = wave / (np.abs(wave).max() + 1e-9) * 10 ** (rng.uniform(-45, -1) / 20)
        if rng.random() < 0.3:
            wave = limit_band(rng, wave, str(rng.choice(("telephone", "narrow", "muffled"))))
        yield "none", np.round(wave * 32767).astype(np.float32) / 2**15


def _draw(rng: np.random.Generator, n: int) -> np.ndarray:
    t, kind = np.arange(n) / RATE, rng.integers(12)
    if kind < 5:
        names = ("white", "pink", "brown", "hum", "fan", "clicks", "traffic", "rain", "music")
        return make_noise(rng, str(rng.choice(names)), n, [])
    if kind == 5:  # steady tones
        pitches = np.exp(rng.uniform(np.log(60), np.log(6000), rng.integers(1, 5)))
        return sum(rng.uniform(0.2, 1) * np.sin(2 * np.pi * pitch * t) for pitch in pitches)
    if kind == 6:  # a siren
        pitch = np.exp(rng.uniform(np.log(80), np.log(3000)))
        return np.sin(_phase(pitch * (1 + rng.uniform(0.1, 0.8) * np.sin(2 * np.pi * rng.uniform(0.1, 6) * t))))
    if kind == 7:  # a voice-like buzz
        phase = _phase(rng.uniform(60, 400) * (1 + rng.uniform(0, 0.3) * np.sin(2 * np.pi * rng.uniform(0.1, 3) * t)))
        tilt = rng.uniform(0.5, 2)
        return sum(np.sin(k * phase) / k**tilt for k in range(1, 12))
    if kind == 8:  # bands of noise that come and go as syllables do
        low = rng.uniform(80, 2000)
        band = butter(2, (low, min(7900, low * rng.uniform(1.3, 6))), "band", fs=RATE, output="sos")
        on = np.sin(2 * np.pi * rng.uniform(0.5, 9) * t) > rng.uniform(-1, 0.6)
        return sosfilt(band, rng.standard_normal(n)) * on
    if kind == 9:  # beeps
        on = np.sin(2 * np.pi * rng.uniform(0.5, 6) * t) > rng.uniform(-0.5, 0.8)
        return np.sin(2 * np.pi * rng.uniform(300, 3000) * t) * on
    if kind == 10:  # bumps
        fading = np.exp(-8 * ((t * rng.uniform(0.5, 5)) % 1))
        return sosfilt(butter(2, rng.uniform(200, 6000), fs=RATE, output="sos"), rng.standard_normal(n) * fading)
    return sum(make_noise(rng, str(name), n, []) for name in rng.choice(("white", "pink", "fan", "rain", "hum"), 2))


def _phase(hz: np.ndarray) -> np.ndarray:
    return 2 * np.pi * np.cumsum(hz) / RATE


def _at_16_khz(wave: np.ndarray, rate: int) -> np.ndarray:
    return wave.astype(np.float32) if rate == RATE else soxr.resample(wave, rate, RATE).astype(np.float32)


def heard(ear: Ear, clips: Iterator[tuple[str, np.ndarray]]) -> tuple[Tensor, list[str]]:
    """Frame means (N, C) and labels of a stream of clips."""
    means: list[Tensor] = []
    labels: list[str] = []
    waiting: list[Tensor] = []

    def flush() -> None:
        for features, wave in zip(ear.features(waiting, BATCH), waiting, strict=True):
            means.append(sounding_mean(features, wave, ear.config.width))
        waiting.clear()

    for label, wave in clips:
        labels.append(label)
        waiting.append(torch.from_numpy(np.ascontiguousarray(wave)))
        if len(waiting) == 8 * BATCH:
            flush()
    flush()
    return torch.stack(means), labels


def clips(folders: Sequence[Path], most: int, pauses: bool) -> Iterator[tuple[str, np.ndarray]]:
    """("en", clip) of folders of clips, `most` of each."""
    rng = np.random.default_rng(0)
    for folder in folders:
        entries = read_entries(folder)
        for n in tqdm(rng.permutation(len(entries))[:most], unit="clip"):
            wave = read_clip(folder, entries[n]).astype(np.float32) / 2**15
            yield "en", with_pauses(rng, wave) if pauses else wave


def fit(x: Tensor, y: Tensor) -> Language:
    """Logistic regression on standardised means, classes weighed alike, folded into one matrix."""
    mean, deviation = x.mean(0), x.std(0).clamp_min(1e-4)
    z = (x - mean) / deviation
    weight = 1 / torch.bincount(y).float() / len(CLASSES)
    language = Language(x.shape[1])
    optimiser = torch.optim.LBFGS(language.parameters(), max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        lost = (F.cross_entropy(language.classify(z), y, reduction="none") * weight[y]).sum()
        lost = lost + DECAY * language.classify.weight.square().sum()
        lost.backward()
        return lost

    optimiser.step(loss)
    with torch.no_grad():
        language.classify.weight.div_(deviation)
        language.classify.bias.sub_(language.classify.weight @ mean)
    return language


def digest(texts: Path) -> str:
    """SHA-256 over all translations."""
    found = hashlib.sha256()
    for path in sorted(texts.glob("**/*/LC_MESSAGES/django.po")):
        found.update(path.read_bytes())
    return found.hexdigest()


def recordings(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Real recordings of a second or more, cut to eight."""
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".wav", ".ogg", ".oga", ".flac", ".gsm")):
        wave, rate = soundfile.read(path, dtype="float32", always_2d=True)
        if len(wave) >= rate and np.abs(wave).max() > 1e-3:
            yield folder.name, _at_16_khz(wave.mean(1)[: int(LONGEST * rate)], rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--english", type=Path, nargs="+", required=True)
    parser.add_argument("--select", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--try", dest="tried", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    args.out.mkdir(parents=True, exist_ok=True)
    ear = Ear.load(dtype=torch.bfloat16)
    made = {}
    for name, stream in (
        ("select", clips([args.select], 10**9, pauses=False)),
        ("english", clips(args.english, ENGLISH_CLIPS, pauses=True)),
        ("spoken", spoken(args.texts)),
        ("unspoken", unspoken()),
    ):
        path = args.out / f"made-{name}.pt"
        if not path.exists():
            torch.save(heard(ear, stream), path)
        made[name] = torch.load(path)
    english = made["english"][0]
    means, languages = made["spoken"]
    x = torch.cat((english, means, made["unspoken"][0]))
    y = [0] * len(english) + [int(language != "en") for language in languages] + [2] * len(made["unspoken"][1])
    language = fit(x, torch.tensor(y)).requires_grad_(False)
    select = language(made["select"][0]).exp()[:, 0]
    # As strict as the selection allows.
    language.least = round(min(0.5, float(select.quantile(WRONG))), 3)
    foreign = len(languages) - languages.count("en")
    print(f"English: {len(english)} clips and {languages.count('en')} sentences")
    print(f"{len(set(languages)) - 1} other languages: {foreign} sentences; {len(made['unspoken'][1])} noises")
    doubted = int((select < language.least).sum())
    print(f"doubt below P(English) = {language.least}; selection: {doubted} of {len(select)}")
    sources = (
        Source("pocket ear", "shipped beside it", "MIT", ear.manifest.sha256),
        Source("translations", "Django 5.2, its locale folders", "BSD-3-Clause", digest(args.texts)),
    )
    language.save(args.out, recipe="recipes/spoken_language.py", sources=sources)
    for folder in args.tried:
        means, _ = heard(ear, recordings(folder))
        shares = language(means).exp()
        doubted = shares[:, 0] < language.least
        found = torch.bincount(shares[doubted, 1:].argmax(1), minlength=2).tolist()
        print(f"{folder.name}: {len(means)} recordings, {sum(found)} doubted (other {found[0]}, none {found[1]})")


if __name__ == "__main__":
    main()
