"""Reading an answer out of a reply. Pure functions of text and token ids; the raw record keeps the reply itself.

Open questions are scored by `is_right`, strictly: an assistant answers first. The reply must begin with an accepted
answer as whole words once leading fillers ("the", "it is", "in") are dropped, and must not go on as if it had more
than one candidate: "Paris.", "It's Paris.", "Paris is the capital of France." and "Paris, the capital of France." are
right; "Paris or Rome", "Paris, Rome", "Paris/Rome", "Paris and Rome", "Paris. Rome.", "Maybe Paris", "Paris is not
it", "Mexico City" (for Mexico) and "seven hundred" (for seven) are not. A malformed reply is never right. `mentions`
is the lenient companion: the answer occurs somewhere, so the difference between the two is form, not knowledge. Small
talk has no one answer and no place for it ("I am fine", "Very well, thanks"), so there mentioning is being right.

Multiple choice with letters has three readings side by side: `strict_letter`, `voicebench_letter` (the rule by which
public VoiceBench figures are made, with its famous guess) and `logit_letter`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from legato.evaluate.record import RawRecord

OPEN = frozenset({"talk"})  # domains whose questions have no single answer
REPEATS = 4  # so many times the same token in a row is a stuck decoder

_WORD = re.compile(
    r"(?<![^\W_])[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![^\W_])"  # 7, -3, 1,000, 3.5
    r"|[^\W_]+(?:['’][^\W_]+)*"  # letters and digits of any script
)


@dataclass(frozen=True)
class _Word:
    word: str  # folded: no case, no marks, no apostrophes, no thousands commas
    spelt: str  # as it stood in the reply
    gap: str  # what stood between the word before and this one


def _words(text: str) -> list[_Word]:
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    found, end = [], 0
    for match in _WORD.finditer(plain):
        folded = re.sub(r"[,'’]", "", match[0].casefold().replace("−", "-"))
        found.append(_Word(folded, match[0], plain[end : match.start()]))
        end = match.end()
    return found


def words(text: str) -> list[str]:
    """The words of a text as they are compared: without case, marks, apostrophes and thousands commas."""
    return [w.word for w in _words(text)]


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FILLERS: tuple[list[str], ...] = (  # longest first
    *(["the", "answer", "is"], ["it", "is"], ["that", "is"], ["this", "is"], ["they", "are"], ["he", "is"]),
    *(["she", "is"], ["there", "is"], ["there", "are"]),
    *(
        [word]
        for word in sorted(_listed("the a an its thats theyre hes shes in on at answer well oh um uh okay ok so sure"))
    ),
)
_ARTICLES = _listed("the a an")
# what may follow the answer after a comma without being another candidate
_OPENERS = _listed(
    "which who whose where when because since as so not it its this that these he she they there here of in on at "
    "with for from by to i you we if though although thank thanks please right"
)
_HEDGES = _listed("or and maybe perhaps possibly versus vs")
_BE = _listed("is was are were does do did has have had can could will would")
_NUMBERS = _listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion "
    "point half"
)
_STOP = re.compile(r"[.!?\n]")
_JOINS = re.compile(r"[/&+|]|^[-–]$")  # the last: a hyphen without spaces
_COMMA = re.compile(r"[,;:]|\s[-–—]\s|—")


def is_right(reply: str, accepted: Iterable[str]) -> bool:
    """Does the reply give an accepted answer, first and alone? See the module's docstring for the rule."""
    said = _words(reply)
    answers = [answer for text in accepted if (answer := words(text))]
    start: int | None = 0
    while start is not None:
        for answer in answers:
            end = start + len(answer)
            if [w.word for w in said[start:end]] == answer and _stands_alone(said, end, reply):
                return True
        start = _behind_filler(said, start)
    return False


def first_word(reply: str) -> str | None:
    """The first word behind leading fillers; None where there is none."""
    said, start = _words(reply), 0
    while (behind := _behind_filler(said, start)) is not None:
        start = behind
    return said[start].word if start < len(said) else None


def _behind_filler(said: list[_Word], start: int) -> int | None:
    """Where the words go on behind a filler at `start`; None where there is no filler."""
    for filler in _FILLERS:
        if [w.word for w in said[start : start + len(filler)]] == filler:
            return start + len(filler)
    return None


def _stands_alone(said: list[_Word], end: int, reply: str) -> bool:
    """Is the answer that ends before word `end` whole, affirmed, and the only candidate?"""
    if end == len(said):
        return True
    after = said[end]
    if _STOP.search(after.gap):
        fragment = _until(said, end, _STOP)
        return len(fragment) > 2  # "Paris. Rome." lists in sentences what "Paris, Rome" lists with commas
    sentence = _until(said, end, _STOP)
    if any(w.word == "or" for w in sentence):
        return False
    if _JOINS.search(after.gap) or after.word in _HEDGES:
        return False
    if _COMMA.search(after.gap):
        clause = _until(said, end, _COMMA, _STOP)
        return after.word in _OPENERS or (after.word in _ARTICLES and len(clause) >= 4)
    number = after.word in _NUMBERS or after.word.lstrip("-")[0].isdigit()
    if number and (said[end - 1].word in _NUMBERS or said[end - 1].word[-1].isdigit()):
        return False  # "seven hundred" is not seven
    name = after.gap.isspace() and after.spelt[0].isupper() and after.word not in ("i", "im") and not reply.isupper()
    if name and not number:
        return False  # "Mexico City" is not Mexico
    denied = after.word.endswith("nt") and after.word[:-2] in _BE or after.word in ("cant", "wont")
    denied = denied or (after.word in _BE and end + 1 < len(said) and said[end + 1].word in ("not", "never"))
    return not denied


def _until(said: list[_Word], start: int, *stops: re.Pattern[str]) -> list[_Word]:
    """Words from `start` up to the first later gap in which any of `stops` occurs."""
    for i in range(start + 1, len(said)):
        if any(stop.search(said[i].gap) for stop in stops):
            return said[start:i]
    return said[start:]


def mentions(reply: str, accepted: Iterable[str]) -> bool:
    """Does an accepted answer occur anywhere, as whole words? Lenient: a list of candidates passes."""
    said = f" {' '.join(words(reply))} "
    return any(f" {' '.join(answer)} " in said for text in accepted if (answer := words(text)))


def is_malformed(reply: str, tokens: Sequence[int], finish: str) -> bool:
    """Is this no finished utterance: no word in it, cut off by the limit, or one token or word four times running?

    A tokenizer that spells numbers digit by digit repeats a token honestly in "10000": where a numeral does that, only
    words are counted.
    """
    said = words(reply)
    if finish == "limit" or not said:
        return True
    spelt_number = re.search(r"(\d)(?:,?\1){3}", reply) is not None
    return _longest_run(said) >= REPEATS or (not spelt_number and _longest_run(tokens) >= REPEATS)


def _longest_run(items: Sequence[object]) -> int:
    longest = run = 0
    for i, item in enumerate(items):
        run = run + 1 if i and item == items[i - 1] else 1
        longest = max(longest, run)
    return longest


def strict_letter(reply: str, letters: Sequence[str]) -> str | None:
    """The one letter a reply commits to at its start, else None.

    "B", "(B) because ...", "B. Paris", "The answer is B." and "Option B" commit. "A dog" does not (an article), nor
    does "A or B".
    """
    pattern = (
        r"^\W*(?:(?:so|well|okay|sure)\W+)?(?:(?:the|my)\s+)?(?:(?:correct|right|best)\s+)?(?:(?:answer|option|choice)\s*)?"
        r"(?:(?:is|would be|it is|it's|[:=])\s*)?(?:(?:option|choice|letter)\s+)?\(?([A-Z])\b(?P<rest>.*)$"
    )
    match = re.match(pattern, reply.strip(), re.IGNORECASE | re.DOTALL)
    if match is None:
        return None
    letter = match[1].upper()
    rest = match["rest"]
    bare = rest == "" or rest[0] in ".,:;)!?\n" or re.match(r"\s*(?:[-–—]|\(|is\b|because\b)", rest) is not None
    if letter not in letters or not bare or (match[1].islower() and not (rest == "" or rest[0] in ".):")):
        return None
    listed = re.match(
        rf"[).]?\s*(?:,|/|&|or\b|and\b)\s*(?:(?:or|and)\s+)?(?:option\s+)?\(?[{''.join(letters)}](?=$|\W*$|[.,:;)!?/]|\s+or\b)",
        rest,
    )
    return None if listed else letter


# Explicit statements first, bare marks last: the first form that occurs for any letter decides, so the order matters.
_VOICEBENCH_FORMS = (
    "the correct answer is {}", "the right answer is {}", "the best answer is {}", "the answer is {}",
    "the correct answer is: {}", "the answer is: {}", "the correct answer is ({})", "the answer is ({})",
    "the correct answer is option {}", "the answer is option {}", "the correct option is {}", "the right option is {}",
    "the correct choice is {}", "the right choice is {}", "the best option is {}", "the best choice is {}",
    "correct answer: {}", "answer: {}", "answer is {}", "answer would be {}", "option is {}", "choice is {}",
    "i would choose {}", "i choose {}", "i would pick {}", "i pick {}", "i would say {}", "i think it is {}",
    "i think it's {}", "it is option {}", "it's option {}", "option {}", "choice {}", "letter {}",
    "({})", "{})", "**{}**", "{} is correct", "{} is right", "{} is the correct", "{} is the right", "{} is the answer",
    " {}.", " {},", " {}:",
)  # fmt: skip


def voicebench_letter(reply: str, letters: Sequence[str], row: str) -> tuple[str, bool]:
    """The letter that a VoiceBench-like reading gives, and whether it could read one at all.

    The behaviour: lower case; an ordered list of templates, each tried with every letter as a plain substring (so
    " a," in ordinary prose reads as A); then a reply that is a bare letter, or a letter with one mark; else a guess.
    The templates are our own, not the benchmark's, so a figure may differ from it by a few replies. Its guess is
    random; ours is drawn from the row's id, so that it is the same for every arm and every time.
    """
    said = reply.lower().strip()
    for form in _VOICEBENCH_FORMS:
        for letter in letters:
            if form.format(letter.lower()) in said:
                return letter, True
    for letter in letters:
        if said == letter.lower() or said[:2] in {letter.lower() + mark for mark in ".,:)"}:
            return letter, True
    guess = int.from_bytes(hashlib.sha256(f"guess|{row}".encode()).digest()[:8], "big") % len(letters)
    return letters[guess], False


def logit_letter(logits: Mapping[str, float]) -> str:
    """The letter that the model finds likeliest where its answer starts: no parsing, so no form enters."""
    return max(sorted(logits), key=lambda letter: logits[letter])


@dataclass(frozen=True)
class Score:
    """What one raw record is worth by every rule; None where the question has no letters (or no logits were kept)."""

    right: bool  # the headline: strict, and never for a malformed reply
    malformed: bool
    mentioned: bool
    voicebench: bool | None = None
    voicebench_read: bool | None = None  # False: the letter is a guess
    logit: bool | None = None


def score(record: RawRecord) -> Score:
    """Apply every rule to one record."""
    malformed = is_malformed(record.reply, record.tokens, record.finish)
    mentioned = mentions(record.reply, record.accepted)
    if record.choices is None:
        said = mentioned if record.domain in OPEN else is_right(record.reply, record.accepted)
        return Score(not malformed and said, malformed, mentioned)
    letters = tuple(sorted(record.choices))
    guess, read = voicebench_letter(record.reply, letters, record.row)
    return Score(
        right=not malformed and strict_letter(record.reply, letters) == record.letter,
        malformed=malformed,
        mentioned=mentioned,
        voicebench=guess == record.letter,
        voicebench_read=read,
        logit=None if record.letter_logits is None else logit_letter(record.letter_logits) == record.letter,
    )
