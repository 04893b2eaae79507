"""What is written short and said long: titles, abbreviations, units, money, symbols, initials. Tables only."""

from __future__ import annotations


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
MONTH_SHORT = {m[:3]: m for m in MONTHS} | {"Sept": "September"}

# Before a name, so that the stop behind one never ends a sentence.
TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Mx": "Mix", "Dr": "Doctor", "Prof": "Professor", "St": "Saint",
    "Mt": "Mount", "Ft": "Fort", "Gen": "General", "Gov": "Governor", "Sen": "Senator", "Rep": "Representative",
    "Capt": "Captain", "Lt": "Lieutenant", "Col": "Colonel", "Sgt": "Sergeant", "Rev": "Reverend", "Hon": "Honorable",
    "Pres": "President", "Maj": "Major", "Adm": "Admiral", "Cmdr": "Commander", "Messrs": "Messieurs", "Fr": "Father",
}  # fmt: skip

# With their stop, said at any place; the last word of a street or a firm is among them.
ABBREVIATIONS = {
    "e.g.": "for example", "i.e.": "that is", "etc.": "et cetera", "et al.": "and others", "cf.": "compare",
    "vs.": "versus", "approx.": "approximately", "Jr.": "Junior", "Sr.": "Senior", "Ave.": "Avenue",
    "Blvd.": "Boulevard", "Rd.": "Road", "Hwy.": "Highway", "Apt.": "Apartment", "Bldg.": "Building", "St.": "Street",
    "Ltd.": "Limited", "Inc.": "Incorporated", "Corp.": "Corporation", "Co.": "Company", "Bros.": "Brothers",
    "Dept.": "Department", "Univ.": "University", "Assn.": "Association", "est.": "established", "vol.": "volume",
    "Vol.": "Volume", "fig.": "figure", "Fig.": "Figure", "ch.": "chapter", "Ch.": "Chapter", "pp.": "pages",
    "ed.": "edition", "max.": "maximum", "min.": "minimum", "temp.": "temperature", "incl.": "including",
    "tel.": "telephone", "Mon.": "Monday", "Tue.": "Tuesday", "Tues.": "Tuesday", "Wed.": "Wednesday",
    "Thu.": "Thursday", "Thurs.": "Thursday", "Fri.": "Friday", "Sat.": "Saturday", "Sun.": "Sunday",
    "a.k.a.": "also known as", "Ph.D.": "P H D",
} | {f"{short}.": long for short, long in MONTH_SHORT.items() if short != "May"}  # fmt: skip
BARE = {"vs": "versus", "w/": "with", "w/o": "without", "aka": "also known as", "approx": "approximately", "OK": "okay"}
NUMBERED = {"No": "Number", "no": "number", "Nos": "Numbers", "p": "page", "Fig": "Figure", "Vol": "Volume"}

# one, many; written exactly so behind a number
UNITS = {
    "km": ("kilometer", "kilometers"), "m": ("meter", "meters"), "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"), "µm": ("micrometer", "micrometers"), "nm": ("nanometer", "nanometers"),
    "mi": ("mile", "miles"), "ft": ("foot", "feet"), "yd": ("yard", "yards"), "in.": ("inch", "inches"),
    "kg": ("kilogram", "kilograms"), "g": ("gram", "grams"), "mg": ("milligram", "milligrams"),
    "µg": ("microgram", "micrograms"), "mcg": ("microgram", "micrograms"), "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"), "oz": ("ounce", "ounces"), "l": ("liter", "liters"), "L": ("liter", "liters"),
    "ml": ("milliliter", "milliliters"), "mL": ("milliliter", "milliliters"), "cl": ("centiliter", "centiliters"),
    "gal": ("gallon", "gallons"), "ha": ("hectare", "hectares"), "s": ("second", "seconds"),
    "sec": ("second", "seconds"), "secs": ("second", "seconds"), "ms": ("millisecond", "milliseconds"),
    "µs": ("microsecond", "microseconds"), "ns": ("nanosecond", "nanoseconds"), "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"), "h": ("hour", "hours"), "hr": ("hour", "hours"), "hrs": ("hour", "hours"),
    "mph": ("mile per hour", "miles per hour"), "kph": ("kilometer per hour", "kilometers per hour"),
    "rpm": ("revolution per minute", "revolutions per minute"), "fps": ("frame per second", "frames per second"),
    "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"), "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"), "dB": ("decibel", "decibels"), "V": ("volt", "volts"), "W": ("watt", "watts"),
    "kW": ("kilowatt", "kilowatts"), "MW": ("megawatt", "megawatts"), "GW": ("gigawatt", "gigawatts"),
    "kWh": ("kilowatt hour", "kilowatt hours"), "mA": ("milliamp", "milliamps"), "mAh": ("milliamp hour",
    "milliamp hours"), "J": ("joule", "joules"), "kJ": ("kilojoule", "kilojoules"), "N": ("newton", "newtons"),
    "Pa": ("pascal", "pascals"), "hPa": ("hectopascal", "hectopascals"), "kPa": ("kilopascal", "kilopascals"),
    "kcal": ("kilocalorie", "kilocalories"), "cal": ("calorie", "calories"), "KB": ("kilobyte", "kilobytes"),
    "kB": ("kilobyte", "kilobytes"), "MB": ("megabyte", "megabytes"), "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"), "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"), "px": ("pixel", "pixels"), "K": ("K", "K"),
    "ppm": ("part per million", "parts per million"),
}  # fmt: skip
POWERS = {"²": "square", "³": "cubic", "^2": "square", "^3": "cubic"}

# the coin, the small coin; one and many
MONEY = {
    "$": ("dollar", "dollars", "cent", "cents"), "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"), "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"), "₩": ("won", "won", "jeon", "jeon"),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"), "₿": ("bitcoin", "bitcoins", "cent", "cents"),
}  # fmt: skip
CODES = {
    "USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "KRW": "₩", "RUB": "₽", "US$": "$", "Rs": "₹",
    "Rs.": "₹",
}  # fmt: skip
MAGNITUDES = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "bn": "billion", "b": "billion",
              "B": "billion", "T": "trillion"}  # fmt: skip

SYMBOLS = {
    "&": "and", "+": "plus", "=": "equals", "@": "at", "%": "percent", "‰": "per mille", "°": "degrees", "#": "number",
    "<": "less than", ">": "greater than", "≤": "at most", "≥": "at least", "≈": "about", "~": "about",
    "≠": "is not equal to", "±": "plus or minus", "×": "times", "·": "times", "÷": "divided by", "−": "minus",
    "√": "the square root of", "∞": "infinity", "π": "pi", "∑": "the sum of", "∫": "the integral of", "∆": "delta",
    "→": "to", "⇒": "implies", "↔": "to and from", "©": "copyright", "§": "section", "¶": "paragraph", "№": "number",
    "$": "dollars", "£": "pounds", "€": "euros", "¥": "yen", "¢": "cents", "₹": "rupees", "₩": "won", "₽": "rubles",
    "₿": "bitcoin", "^": "to the power of", "∈": "in", "∪": "union", "∩": "intersection", "′": "prime", "µ": "micro",
    "Ω": "ohm",
}  # fmt: skip

# Initials that are said as a word although they look as if they were spelled, and the other way round.
AS_WORDS = _set(
    "NASA NATO UNESCO UNICEF OPEC FIFA COVID SARS AIDS RAM ROM PIN SIM GIF RADAR LASER SONAR SCUBA SWAT FEMA NAFTA "
    "ASCII LAN WAN MAC BIOS SCOTUS POTUS ASEAN CERN NOAA OSHA REST SOAP RAID CAPTCHA DOS ZIP BASIC COBOL "
    "FORTRAN MIDI HAL NIMBY UEFA IKEA FIAT SEAT GIMP SOFIA"
)
RESPELLED = {
    "JSON": "Jason", "SQL": "sequel", "JPEG": "jay peg", "GUI": "gooey", "IEEE": "I triple E", "WYSIWYG": "wizzy wig",
    "WiFi": "why fie", "Wi-Fi": "why fie", "iOS": "I O S", "macOS": "mac O S", "PhD": "P H D", "LaTeX": "lay tech",
    "WWI": "World War one", "WWII": "World War two", "AT&T": "A T and T", "IPv4": "I P V four", "IPv6": "I P V six",
}  # fmt: skip
SPELLED = _set("ASAP UCLA IEEE AOL EULA USAF IOU DIY UFO USA UAE ATM EU UK UN US IT TV ID AI OK")
SHORT_WORDS = _set(
    "A I AM AN AND ARE AS AT BE BUT BY CAN DID DO FOR GET GO GOT HAD HAS HE HER HIM HIS HOW IF IN IS LET ME MY NEW NO "
    "NOT NOW OF OFF OH OLD ON ONE OR OUR OUT PUT SEE SHE SO THE TO TOO TWO UP US WAS WAY WE WHO WHY YES YET YOU ALL "
    "ANY BIG DAY END HI HEY MAN NEVER RUN SAY STOP TEN TOP TRY USE WON ACT ADD AGO AIR ART ASK BAD BED BOX BOY BUY CAR "
    "CUT DOG EAT EYE FAR FUN GUN HIT HOT JOB KEY LAW LOT LOW MAY MEN MOM OWN PAY PER RED SET SIX SON SUN TAX WAR WIN"
)

REGNAL = _set(
    "Henry Louis Edward George William Charles James Richard Elizabeth Napoleon Pius Benedict Leo Paul John Ramses "
    "Frederick Philip Alexander Nicholas Peter Catherine Ivan Umberto Emmanuel Gustav Christian Ferdinand Pope King "
    "Queen Margaret Mary Francis Gregory Innocent Urban Clement Leopold Wilhelm Otto Harald Olav Carl Alfonso Juan "
    "Felipe Cleopatra Ptolemy Constantine Justinian Darius Xerxes Sixtus Julius Albert Rainier Mehmed Suleiman"
)

# What three digits behind these are its name, and said in two parts.
CALLED = _set(
    "Room room Flight flight Boeing Highway highway Route route Suite Apartment Error error Gate gate "
    "Extension extension"
)

# Behind these four digits are a year whatever follows; before these they are a count.
YEAR_BEFORE = _set(
    "in since of by from until till year around before after circa summer winter spring fall autumn early late mid "
    "during"
)
COUNTED = _set("people men women children percent times feet")
PLURAL_LOOKALIKES = _set("was is has as his this its us does plus across towards always perhaps thus")

DOMAINS = _set("com org net edu gov io dev ai app uk de fr eu us ca au jp info biz me tv co")
DOMAIN_WORDS = _set("com org net info biz gov dev app co")
