"""One written sentence -> the words a person would say for it, in American English.

Rules, first to last: what has a shape of its own (addresses, telephone numbers, dates, times, money, measures) before
plain numbers, then abbreviations, initials, symbols, last any other script in Latin letters (by anyascii, ISC). What
comes out is words of the letters a-z with apostrophes and hyphens inside, and the marks , . ? ! ; : behind a word.
Letters that are spelled stand alone and large: "F B I". Emoji, control characters and quotation marks are not said.

Own code: the permissive normalisers are a few months old (spokenform), 128 MB (damga) or need pynini (NeMo).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from anyascii import anyascii

from legato.speak import numbers as say_number
from legato.speak.numbers import cardinal, decimal, digits, fraction, ordinal, year
from legato.speak.wordlists import (
    ABBREVIATIONS,
    AS_WORDS,
    BARE,
    CALLED,
    CODES,
    COUNTED,
    DOMAIN_WORDS,
    DOMAINS,
    MAGNITUDES,
    MONEY,
    MONTH_SHORT,
    MONTHS,
    NUMBERED,
    PLURAL_LOOKALIKES,
    POWERS,
    REGNAL,
    RESPELLED,
    SHORT_WORDS,
    SPELLED,
    SYMBOLS,
    TITLES,
    UNITS,
    YEAR_BEFORE,
)

Match = re.Match[str]
Rule = tuple[re.Pattern[str], Callable[[Match], str]]


def _any(words: object) -> str:
    return "|".join(re.escape(w) for w in sorted(words, key=len, reverse=True))  # type: ignore[call-overload]


NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
FREE = r"(?<![\w.,])"  # no number goes on to the left
MONTH = rf"(?:{_any([*MONTHS, *MONTH_SHORT])})\b\.?"
COINS = rf"[{''.join(MONEY)}]"
LARGE = rf"(?:\s?(hundred|thousand|million|billion|trillion|(?:{_any(MAGNITUDES)})\b))?"
UNIT = _any(UNITS)


# -- addresses ---------------------------------------------------------------------------------------------------------


def _address(m: Match) -> str:
    text = re.sub(r"^[a-z]+://", "", m[0], flags=re.I)
    kept = text.rstrip(".,;:!?)/")
    spoken = []
    for part in re.findall(r"[A-Za-z]+|\d+|[^\w\s]|_", kept):
        if part.isdecimal():
            spoken.append(cardinal(part) if len(part) < 3 else digits(part))
        elif part.isalpha():
            known = part.lower() in DOMAINS and part.lower() not in DOMAIN_WORDS
            vowels = re.search("[aeiouy]", part, re.I)
            spoken.append(
                _letters(part) if part.lower() == "www" or known or not vowels or len(part) == 1 else part.lower()
            )
        else:
            named = {".": "dot", "/": "slash", "-": "dash", "_": "underscore", ":": "colon", "?": "question mark"}
            spoken.append(named.get(part) or SYMBOLS.get(part, ""))
    return f" {' '.join(spoken)}{text[len(kept) :].replace('/', '')}"


def _letters(word: str) -> str:
    return " ".join(word.upper())


def _telephone(m: Match) -> str:
    groups = [digits(group) for group in re.findall(r"\d+", m[0])]
    return f" {'plus ' if m[0].lstrip().startswith('+') else ''}{', '.join(groups)}"


# -- calendar and clock ------------------------------------------------------------------------------------------------


def _date(month: int, day: str, in_year: str | None, whole: str) -> str:
    if not (1 <= month <= 12 and 1 <= int(day) <= 31):
        return whole
    return f"{MONTHS[month - 1]} {ordinal(int(day))}" + (f", {_year(in_year)}" if in_year else "")


def _year(written: str) -> str:
    return year(written) if len(written) == 4 else year(("19" if int(written) > 40 else "20") + written)


def _american(m: Match) -> str:
    """12/25/2024; 25/12/2024 where only that can be meant."""
    a, b = int(m[1]), int(m[2])
    return _date(a, m[2], m[3], m[0]) if a <= 12 else _date(b, m[1], m[3], m[0])


def _named_month(written: str) -> int:
    written = written.rstrip(".")
    return MONTHS.index(MONTH_SHORT.get(written, written)) + 1


def _day_month(m: Match) -> str:
    if not 1 <= int(m[1]) <= 31:
        return m[0]
    of = f"the {ordinal(int(m[1]))} of {MONTHS[_named_month(m[2]) - 1]}"
    return of + (f", {_year(m[3])}" if m[3] else "")


def _clock(m: Match) -> str:
    hour, minute, second, half = int(m[1]), int(m[2]), m[3], m[4]
    if hour > 24 or minute > 59 or int(second or 0) > 59:
        return m[0]
    words = cardinal(hour)
    if minute or second:
        words += f" {'oh ' if 0 < minute < 10 else ''}{cardinal(minute) if minute else 'hundred'}"
    elif not half:
        words += " o'clock" if 1 <= hour <= 12 else " hundred"
    if second:
        words += f" and {cardinal(int(second))} second{'' if int(second) == 1 else 's'}"
    return words + _half(half, m)


def _half(half: str | None, m: Match) -> str:
    """The stop of "p.m." ends the sentence where nothing follows."""
    if not half:
        return ""
    return f" {half[0].upper()} M" + ("." if m[0].endswith(".") and not m.string[m.end() :].strip() else "")


def _decade(m: Match) -> str:
    century, tens = m[1] or "", m[2]
    words = f"{cardinal(century)} " if century else ""
    if tens == "0":
        return "two thousands" if century in (None, "20") else f"{words}hundreds"
    return words + say_number.plural(say_number.TENS[int(tens)])


# -- counted -----------------------------------------------------------------------------------------------------------


def _count(number: str, forms: tuple[str, str]) -> str:
    return f"{decimal(number)} {forms[0] if number in ('1', '1.0') else forms[1]}"


def _money(coin: str, number: str, large: str | None) -> str:
    one, many, small, smalls = MONEY[coin]
    if large:
        return f"{decimal(number)} {MAGNITUDES.get(large, large)} {many}"
    whole, _, part = number.replace(",", "").partition(".")
    if len(part) != 2 or many == one:
        return _count(number, (one, many))
    said = [] if int(whole or 0) == 0 and int(part) else [_count(whole or "0", (one, many))]
    if int(part):
        said.append(_count(str(int(part)), (small, smalls)))
    return " and ".join(said)


def _price(m: Match) -> str:
    minus, coin, number, large = m[1], CODES.get(m[2], m[2]), m[3], m[4]
    return f"{'minus ' if minus else ''}{_money(coin, number, large)}"


def _price_behind(m: Match) -> str:
    return f"{'minus ' if m[1] else ''}{_money(CODES.get(m[4], m[4]), m[2], m[3])}"


def _measure(m: Match) -> str:
    minus, number, unit, power, per = m[1], m[2], m[3], m[4], m[5]
    one, many = UNITS[unit]
    if power:
        one, many = f"{POWERS[power]} {one}", f"{POWERS[power]} {many}"
    tail = f" per {UNITS[per][0]}" if per else ""
    return f"{'minus ' if minus else ''}{_count(number, (one, many))}{tail}"


def _degrees(m: Match) -> str:
    scale = {"C": " Celsius", "F": " Fahrenheit", None: ""}[m[3]]
    return f"{'minus ' if m[1] else ''}{_count(m[2], ('degree', 'degrees'))}{scale}"


def _plain(m: Match) -> str:
    """A number that nothing else has claimed; four digits are a year unless things are counted with them."""
    number = m[1]
    if re.fullmatch(r"1\d\d\d|20\d\d", number):
        before = re.search(r"(\w+)\W*$", m.string[: m.start()])
        after = re.match(r"\s+([a-z]+)", m.string[m.end() :])
        counted = after and (
            after[1] in COUNTED or (re.search(r"[^s]s$", after[1]) and after[1] not in PLURAL_LOOKALIKES)
        )
        if (before and before[1].lower() in YEAR_BEFORE) or (not counted and number[:2] != "10"):
            return f" {year(number)} "
    return f" {decimal(number)} "


def _room(m: Match) -> str:
    """747 as the name of something: "seven forty seven", "four oh four"."""
    rest = m[3] if m[3] == "00" else int(m[3])
    said = "hundred" if rest == "00" else f"oh {cardinal(rest)}" if rest < 10 else cardinal(rest)
    return f"{m[1]} {cardinal(m[2])} {said}"


def _mixed(m: Match) -> str:
    part = fraction(m[2], m[3])
    unit = f" {UNITS[m[4]][1]}" if m[4] else ""
    return f"{cardinal(m[1])} and {'a half' if part == 'one half' else part}{unit}"


def _part(m: Match) -> str:
    """3/4 kg."""
    part, one = fraction(m[1], m[2]), UNITS[m[3]][0]
    return f"{'half' if part == 'one half' else f'{part} of'} {'an' if one[0] in 'aeiou' or m[3] == 'h' else 'a'} {one}"


def _fraction(m: Match) -> str:
    if m[0] in ("24/7", "9/11", "50/50"):
        return f"{cardinal(m[1])} {cardinal(m[2])}"
    return f" {fraction(m[1], m[2])} "


# -- words -------------------------------------------------------------------------------------------------------------


def _abbreviation(m: Match) -> str:
    said = ABBREVIATIONS[m[0]]
    return said + ("." if not m.string[m.end() :].strip() else "")


def _dotted(m: Match) -> str:
    """U.S.A. and J. R. R.: letters; the last stop ends the sentence only where nothing follows."""
    return " ".join(re.findall("[A-Za-z]", m[0])).upper() + ("." if not m.string[m.end() :].strip() else "")


def _regnal(m: Match) -> str:
    if not re.fullmatch("X{0,3}(?:IX|IV|V?I{0,3})", m[2]):
        return m[0]
    value = say_number.roman(m[2])
    return f"{m[1]} the {ordinal(value)}" if m[1] in REGNAL else f"{m[1]} {cardinal(value)}"


def _capitals(m: Match) -> str:
    """Initials are spelled, words in capitals are said: by lists, and by whether a mouth could say them."""
    word, many = m[1], m[2] or ""
    if word in AS_WORDS:
        return word.capitalize() + many
    said = word in SHORT_WORDS or (len(word) > 3 and _sayable(word))
    if said and word not in SPELLED:
        return word.lower() + many
    return " ".join(word) + ("'s" if many else "")


def _sayable(word: str) -> bool:
    """Could a mouth say these capitals as one word?"""
    return bool(re.search("[AEIOUY]", word)) and not re.search(
        r"[^AEIOUY]{4}|^[^AEIOUY]{3}|[AEIOUY]{4}|^(?!S[CHKLMNPQTW]|[TCKGPBFWD][RLHWN])[^AEIOUY]{2}", word
    )


def _quiet(text: str) -> str:
    """A sentence in nothing but capitals is loud, not initials."""
    words = re.findall(r"[A-Z]{2,}", text)
    if len(words) < 3 or re.search(r"[a-z]", text):
        return text
    loud = (w for w in re.findall(r"[A-Z]+", text))
    if sum(w in SHORT_WORDS or (len(w) > 3 and _sayable(w)) for w in loud) < 3:
        return text
    return re.sub(
        r"\bA\b|[A-Z]{2,}",
        lambda m: m[0] if m[0] in AS_WORDS or not _sayable(m[0]) and m[0] != "A" else m[0].lower(),
        text,
    )


def _letters_and_digits(m: Match) -> str:
    """MP3, H2O, A380, GPT-4: letters and numbers apart."""
    return re.sub(r"(?<=[A-Za-z])-?(?=\d)|(?<=\d)-?(?=[A-Za-z])", " ", m[0])


RULES: tuple[Rule, ...] = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"!?\[([^\]]+)\]\([^)\s]*\)", lambda m: m[1]),  # markdown
        (r"^\s*(?:#{1,6}|[-*•+>])\s+", lambda m: ""),
        (r"^(\d{1,3})[.)]\s+(?=\S)", lambda m: f"{cardinal(m[1])}, "),  # a list's number
        (r"(?<!\w)[:;=]-?[)(DPpO|/\\](?!\w)", lambda m: ""),  # a face
        (r"\*\*|__|`+|(?<!\w)[*_](?=\w)|(?<=[\w.,!?])[*_](?!\w)", lambda m: " " if m[0][0] == "`" else ""),
        (r"(?i)\b(?:https?|ftp)://\S+|\bwww\.\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", _address),
        (rf"(?i)(?<![\w.@])(?:[a-z0-9-]+\.)+(?:{_any(DOMAINS)})\b(?![.\w]*\w)(?:/[^\s,;!?]*)?", _address),
        (r"(?<![\w.])(?:\+\d{1,3}[ .-]?)?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])", _telephone),
        (r"(?<![\w.-])\d{3}-\d{4}(?![\w-])|(?<!\w)\+\d{1,3}(?:[ -]?\d{2,}){2,}(?!\w)", _telephone),
        (r"\b(\d{4})-(\d\d)-(\d\d)(?:T(?=\d))?", lambda m: _date(int(m[2]), m[3], m[1], m[0]) + " "),
        (r"(?<![\w/])(\d\d?)/(\d\d?)/(\d{4}|\d\d)(?![\w/])", _american),
        (r"(?<![\w.])(\d\d?)\.(\d\d?)\.(\d{4})(?!\w)", lambda m: _date(int(m[2]), m[1], m[3], m[0])),
        (rf"\b({MONTH}) (\d\d?)(?:st|nd|rd|th)?(?!\d|:\d|[.,]\d)(?:,? (\d{{4}})\b)?",
         lambda m: _date(_named_month(m[1]), m[2], m[3], m[0])),
        (rf"(?<!\w)(?:(?i:the) )?(\d\d?)(?:st|nd|rd|th)? (?:of )?({MONTH})(?:,? (\d{{4}})\b)?", _day_month),
        (rf"\b({_any(MONTH_SHORT)})\. (?=\d{{4}})", lambda m: MONTH_SHORT[m[1]] + " "),
        (r"(?i)(?<=[\dm])\s?[-–]\s?(?=\d\d?(?::\d\d|\s?[ap]\.?m\b))", lambda m: " to "),
        (r"(?<![\w:.])(\d\d?):(\d\d)(?::(\d\d))?(?:\s?([AaPp])\.?[Mm]\b\.?)?(?![:\d])", _clock),
        (r"(?<![\w:.])(\d\d?)\s?([AaPp])(?:\.[Mm]\.|[Mm]\b)", lambda m: cardinal(m[1]) + _half(m[2], m)),
        (r"(?<!\w)(?:(1\d|20)|['’])?(\d)0(?:'|’)?s\b", _decade),
        (r"(?<!\w)(\d)['′](\d\d?)(?:\"|″|'')",
         lambda m: f"{_count(m[1], UNITS['ft'])} {_count(m[2], UNITS['in.'])}"),
        (r"(?<=€)(\d+),(\d\d)(?!\d)", lambda m: f"{m[1]}.{m[2]}"),
        (rf"(?<!\w)([-−])?(US\$|{COINS}|(?:USD|EUR|GBP|JPY|INR|Rs\.?)(?=\s?\d))\s?({NUMBER}){LARGE}(?!\d)", _price),
        (rf"{FREE}([-−])?({NUMBER}){LARGE}\s?({COINS}|{_any(c for c in CODES if c.isalpha())})(?!\w)", _price_behind),
        (rf"{FREE}({NUMBER})\s?¢", lambda m: _count(m[1], ("cent", "cents"))),
        (rf"{FREE}([-−])?({NUMBER})\s?[°º](?:\s?([CF])\b)?", _degrees),
        (rf"(?<![\w/])(\d+)[ -](\d{{1,3}})/(\d{{1,3}})(?:\s?({UNIT}))?(?![\w/])", _mixed),
        (rf"(?<![\w/.])(\d{{1,3}})/(\d{{1,3}})\s?({UNIT})(?![\w/])", _part),
        (rf"(?<=\d)\s?[-–]\s?(?=(?:{NUMBER})\s?(?:%|(?:{UNIT})\b))", lambda m: " to "),
        (rf"{FREE}([-−])?({NUMBER})\s?({UNIT})(?<!\d[K])(²|³|\^2|\^3)?(?:/({UNIT}))?(?![\w'’])", _measure),
        (rf"(?<![\w.])([-−])?({NUMBER})\s?%", lambda m: f"{'minus ' if m[1] else ''}{decimal(m[2])} percent"),
        (r"(?<=[\dA-Za-z)])²", lambda m: " squared"),
        (r"(?<=[\dA-Za-z)])³", lambda m: " cubed"),
        (r"(?<=\w)\^2\b", lambda m: " squared"),
        (r"(?<=\w)\^3\b", lambda m: " cubed"),
        (rf"\b({_any(NUMBERED)})\. ?(?=\d)", lambda m: NUMBERED[m[1]] + " "),
        (r"\b([CF])#(?!\w)", lambda m: f"{m[1]} sharp"),
        (r"#(?=\d)", lambda m: "number "),
        (r"(?<!\w)#(?=[A-Za-z])", lambda m: "hashtag "),
        (rf"\b({_any(TITLES)})\b\.? (?=[A-Z]|(?:&|and) (?:{_any(TITLES)})\b)", lambda m: f"{TITLES[m[1]]} "),
        (rf"(?<![\w.])(?:{_any(ABBREVIATIONS)})(?!\w)", _abbreviation),
        (rf"(?<![\w/.])({_any(BARE)})(?![\w/])", lambda m: BARE[m[1]]),
        (rf"\b(?:{_any(RESPELLED)})\b", lambda m: RESPELLED[m[0]]),
        (r"\b(?:[A-Za-z]\.){2,}|\b[A-Z]\.(?: [A-Z]\.)*(?= [A-Z])", _dotted),
        (rf"\b({_any([*REGNAL])}|World War|[Cc]hapter|[Pp]art|Act|Scene|[Ss]ection|[Vv]olume|Book|Phase|[Aa]rticle|"
         r"Super Bowl|Apollo|Episode|Type|Stage|Class|Rocky|Mark|Elizabeth|Final Fantasy) "
         r"([IVX]+)\b(?!'[a-rt-z])", _regnal),
        (r"\b([A-Z][a-z]+) ([IVX]{2,})\b", _regnal),
        (r"(?<![\w/.])(\d{1,3})/(\d{1,3})(?![\w/])", _fraction),
        (r"(?<=[\d)]) ?[*x×·] ?(?=[\d(])", lambda m: " times "),
        (r"(?<=[\dA-Za-z)]) [-−–] (?=\d)|(?<=\d) [-−–] (?=[\dA-Za-z(])", lambda m: " minus "),
        (r"(?<=\d) ?/ ?(?=[\d(])", lambda m: " divided by "),
        (r"(?<=\d)\s?[-–]\s?(?=\d)|(?<=\d):(?=\d)", lambda m: " to "),
        (r"(?<![\w)])[-−](?=[\d.]*\d)", lambda m: " minus "),
        (r"(?<![\w,.])(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b", lambda m: ordinal(m[1].replace(",", ""))),
        (rf"{FREE}({NUMBER})x\b", lambda m: f"{decimal(m[1])} times"),
        (r"(?<![\w.])(\d(?:\.\d+)?)e([+-]?)(\d{1,3})\b", lambda m: f"{decimal(m[1])} times ten to the power of "
         f"{'minus ' if m[2] == '-' else ''}{cardinal(int(m[3]))}"),
        (r"\b((?i:zip|zip code)|[A-Z]{2}) (\d{5})\b(?:-(\d{4}))?(?![\d,.]\d)",
         lambda m: f"{m[1]} {digits(m[2])}" + (f", {digits(m[3])}" if m[3] else "")),
        (rf"\b({_any(CALLED)}) ([1-9])(\d\d)\b(?![,.]?\d)", _room),
        (r"(?<![\w.,$-])911\b(?![,.]?\d)", lambda m: digits(m[0])),
        (r"(?<!\w)([A-F])[-−](?=[\s.,;:!?]|$)", lambda m: f"{m[1]} minus"),
        (r"\b(?=\w*[A-Za-z])(?=\w*\d)\w+\b|\b[A-Z]+-\d+\b", _letters_and_digits),
        (r"(?<![\d.])(\d+(?:\.\d+){2,})(?![\d])", lambda m: " point ".join(cardinal(n) for n in m[1].split("."))),
        (rf"({NUMBER})", _plain),
        (r"(?<=\w)[/\\](?=\w)", lambda m: " "),
        (r"(?<=[A-Za-z])\.(?=[a-z]{1,4}\b)", lambda m: " dot "),  # node.js, notes.txt
        (r"\b([A-Z]{2,})('?s)?\b(?!['’]?[a-z])", _capitals),
    )
)  # fmt: skip

VULGAR = {c: f" {a}/{b}" for c, a, b in (
    ("½", 1, 2), ("⅓", 1, 3), ("⅔", 2, 3), ("¼", 1, 4), ("¾", 3, 4), ("⅕", 1, 5), ("⅖", 2, 5), ("⅗", 3, 5),
    ("⅘", 4, 5), ("⅙", 1, 6), ("⅚", 5, 6), ("⅛", 1, 8), ("⅜", 3, 8), ("⅝", 5, 8), ("⅞", 7, 8),
)}  # fmt: skip
SPECIAL = str.maketrans(VULGAR | {
    "’": "'", "‘": "'", "ʼ": "'", "“": " ", "”": " ", "„": " ", "«": " ", "»": " ", "—": ", ", "―": ", ",
    "…": "...", "™": "", "®": "", "•": " ", "|": ", ", "\u00ad": "", "。": ". ", "、": ", ", "，": ", ", "？": "? ",
    "！": "! ", "；": "; ", "：": ": ", "؟": "? ", "،": ", ", "।": ". ", "¿": "", "¡": "", "\u2011": "-", "\u2010": "-",
    "µ": "µ", "μ": "µ",
})  # fmt: skip
KEPT = "²³µ"  # what NFKC would flatten, and a rule reads


COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # what a terminal is sent besides text


def _clean(text: str) -> str:
    """One kind of quote, dash and space; no control characters, emoji or lone surrogates."""
    out = []
    for sign in unicodedata.normalize("NFC", COLOURS.sub("", text)).translate(SPECIAL):
        kind = unicodedata.category(sign)
        if kind in ("Cc", "Zl", "Zp", "Zs") or (kind in ("Sk", "So") and sign not in SYMBOLS and sign not in "`"):
            out.append(" ")
        elif kind in ("Cf", "Cs", "Co", "Cn"):
            continue
        else:
            out.append(sign if sign in KEPT else unicodedata.normalize("NFKC", sign))
    return "".join(out)


def _word(word: str) -> str:
    """The last letters that are none of ours, in ours."""
    if word.isascii():
        return word
    return re.sub(r"[^A-Za-z' -]", " ", anyascii(word))


def say(sentence: str) -> str:
    """Spoken words with their marks, a space between; empty where nothing can be said."""
    text = _quiet(_clean(sentence))
    for pattern, put in RULES:
        text = pattern.sub(put, text)
    text = "".join(f" {SYMBOLS[sign]} " if sign in SYMBOLS else sign for sign in text)
    text = re.sub(r"\s[-–]+\s|--+|[()\[\]{}]", ", ", text)
    text = re.sub(
        r"[^\W\d_]+(?:['-][^\W\d_]+)*|\d+|[_\W]", lambda m: digits(m[0]) if m[0].isdecimal() else _word(m[0]), text
    )
    text = re.sub(r"[^A-Za-z',.?!;: -]", " ", text)
    text = re.sub(r"(?<=[A-Za-z])['-]*-['-]*(?=[A-Za-z])", "-", text)
    text = re.sub(r"(?<![A-Za-z])['-]+|['-]+(?![A-Za-z'])", lambda m: "'" if _apostrophe(m) else " ", text)
    return _marks(text)


def _apostrophe(m: Match) -> bool:
    """'em and the boys' keep theirs."""
    before, after = m.string[: m.start()], m.string[m.end() :]
    return m[0] == "'" and (before[-1:] == "s" or bool(re.match(r"(?:em|til|cause|tis|twas|round)\b", after)))


def _marks(text: str) -> str:
    """At most one mark behind a word, and none in front of the first."""
    said: list[str] = []
    for part in re.findall(r"[A-Za-z'-]+|[,.?!;:]+", text):
        if part[0].isalpha() or (part[0] == "'" and len(part) > 1):
            said.append(part)
        elif said and part.strip(",.?!;:") == "":
            last = said[-1].rstrip(",.?!;:")
            held = said[-1][len(last) :] + part
            strongest = next((mark for mark in "?!.;:," if mark in held), "")
            more = len(held) > 1 and "..." in held
            said[-1] = last + ("," if more and not text.rstrip().endswith(part) else strongest)
    return " ".join(said)
