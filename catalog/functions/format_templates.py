"""Parses templates of to_char, to_date, to_timestamp and to_number (parse_format of formatting.c).

A template is a list of nodes: actions (a key word with its prefixes and suffixes), separators, spaces and other
characters. Key words are matched in either case as a whole, the longest first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from catalog.errors import SqlError
from catalog.text_caches import remembering

ACTION, SEPARATOR, SPACE, CHARACTER = range(4)


@dataclass(frozen=True, slots=True)
class Node:
    """One item of a template; `text` is the key word, in its letter case, or the character."""

    type: int
    text: str
    fill: bool = False  # FM
    translated: bool = False  # TM
    ordinal: str = ""  # 'TH' or 'th'


# ---- dates and times ----

_DATE_WORDS = (
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "Day", "Dy", "D", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM",
    "MONTH", "MON", "MS", "Month", "Mon", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ",
    "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y",
)  # fmt: skip


def _alternatives(words: Sequence[str]) -> str:
    return "|".join(re.escape(word) for word in words)


_DATE_TOKEN = re.compile(
    r"(?P<prefix>FM|fm|TM|tm)|(?P<word>"
    + _alternatives(_DATE_WORDS)
    + "|"
    + _alternatives([word.lower() for word in _DATE_WORDS if word == word.upper()])
    + r")"
)
_DATE_SUFFIX = re.compile(r"TH|th|SP|sp")


def is_separator(char: str) -> bool:
    """Whether the character is printable ASCII and neither letter nor digit."""
    return " " < char < "\x7f" and not char.isalnum()


@remembering(512)
def date_template(template: str) -> tuple[Node, ...]:
    """Returns the nodes of a template of dates and times."""
    nodes: list[Node] = []
    position = 0
    while position < len(template):
        fill = translated = False
        match = _DATE_TOKEN.match(template, position)
        if match is not None and match["prefix"]:
            fill, translated = match["prefix"] in ("FM", "fm"), match["prefix"] in ("TM", "tm")
            position = match.end()
            match = _DATE_TOKEN.match(template, position)
            if match is not None and match["prefix"]:
                match = None
        if match is not None:
            position = match.end()
            suffix = _DATE_SUFFIX.match(template, position)
            ordinal = ""
            if suffix is not None and suffix[0] != "sp":
                position = suffix.end()
                ordinal = suffix[0] if suffix[0] in ("TH", "th") else ""
            nodes.append(Node(ACTION, match["word"], fill, translated, ordinal))
        elif position < len(template):
            position = _literal(template, position, nodes, separators=True)
    return tuple(nodes)


def _literal(template: str, position: int, nodes: list[Node], separators: bool) -> int:
    """Reads one character, or a string in double quotes, and returns the position after it."""
    if template[position] == '"':
        position += 1
        while position < len(template):
            if template[position] == '"':
                return position + 1
            if template[position] == "\\" and position + 1 < len(template):
                position += 1
            nodes.append(Node(CHARACTER, template[position]))
            position += 1
        return position
    if template[position] == "\\" and template[position + 1 : position + 2] == '"':
        position += 1
    char = template[position]
    kind = CHARACTER
    if separators and is_separator(char):
        kind = SEPARATOR
    elif char in " \t\n\v\f\r":
        kind = SPACE
    nodes.append(Node(kind, char))
    return position + 1


# ---- numbers ----

_NUMBER_WORDS = (",", ".", "0", "9", "B", "C", "D", "EEEE", "FM", "G", "L", "MI", "PL", "PR", "RN", "SG", "SP", "S",
                 "TH", "V")  # fmt: skip
_NUMBER_TOKEN = re.compile(
    _alternatives(_NUMBER_WORDS) + "|" + _alternatives([word.lower() for word in _NUMBER_WORDS if word.isalpha()])
)
SIGN_NONE, SIGN_BEFORE, SIGN_AFTER = "", "before", "after"


@dataclass(slots=True)
class NumberDescription:
    """The properties of a whole template of numbers (NUMDesc)."""

    pre: int = 0  # digits before the point
    post: int = 0
    sign_place: str = SIGN_NONE  # of S
    digits_before_sign: int = 0
    multiplier: int = 0  # digits after V
    zero_start: int = 0
    zero_end: int = 0
    decimal: bool = False
    zero: bool = False
    blank: bool = False
    fill: bool = False
    local_sign: bool = False
    bracket: bool = False
    minus: bool = False
    plus: bool = False
    roman: bool = False
    multiplied: bool = False
    exponent: bool = False

    def take(self, word: str) -> None:
        """Adds the next key word. Raises 42601 if the key word is not allowed at this position."""
        if self.exponent and word != "EEEE":
            raise _misuse('"EEEE" must be the last pattern used')
        handler = _TAKERS.get(word)
        if handler is not None:
            handler(self)

    def _digit(self) -> None:
        if self.bracket:
            raise _misuse('"9" must be ahead of "PR"')
        if self.multiplied:
            self.multiplier += 1
        elif self.decimal:
            self.post += 1
        else:
            self.pre += 1

    def _zero(self) -> None:
        if self.bracket:
            raise _misuse('"0" must be ahead of "PR"')
        if not self.zero and not self.decimal:
            self.zero, self.zero_start = True, self.pre + 1
        if self.decimal:
            self.post += 1
        else:
            self.pre += 1
        self.zero_end = self.pre + self.post

    def _blank(self) -> None:
        if self.pre == 0 and self.post == 0 and not self.zero:
            self.blank = True

    def _point(self) -> None:
        if self.decimal:
            raise _misuse("multiple decimal points")
        if self.multiplied:
            raise _misuse('cannot use "V" and decimal point together')
        self.decimal = True

    def _fill(self) -> None:
        self.fill = True

    def _sign(self) -> None:
        if self.local_sign:
            raise _misuse('cannot use "S" twice')
        if self.plus or self.minus or self.bracket:
            raise _misuse('cannot use "S" and "PL"/"MI"/"SG"/"PR" together')
        if not self.decimal:
            self.sign_place, self.digits_before_sign = SIGN_BEFORE, self.pre
        elif not self.sign_place:
            self.sign_place = SIGN_AFTER
        self.local_sign = True

    def _minus(self) -> None:
        if self.local_sign:
            raise _misuse('cannot use "S" and "MI" together')
        self.minus = True

    def _plus(self) -> None:
        if self.local_sign:
            raise _misuse('cannot use "S" and "PL" together')
        self.plus = True

    def _either_sign(self) -> None:
        if self.local_sign:
            raise _misuse('cannot use "S" and "SG" together')
        self.minus = self.plus = True

    def _bracket(self) -> None:
        if self.local_sign or self.plus or self.minus:
            raise _misuse('cannot use "PR" and "S"/"PL"/"MI"/"SG" together')
        self.bracket = True

    def _roman(self) -> None:
        self.roman = True

    def _multiplier(self) -> None:
        if self.decimal:
            raise _misuse('cannot use "V" and decimal point together')
        self.multiplied = True

    def _exponent(self) -> None:
        if self.exponent:
            raise _misuse('cannot use "EEEE" twice')
        if (self.blank or self.fill or self.local_sign or self.bracket or self.minus or self.plus or self.roman
                or self.multiplied):  # fmt: skip
            raise SqlError(
                "42601",
                '"EEEE" is incompatible with other formats',
                detail='"EEEE" may only be used together with digit and decimal point patterns.',
            )
        self.exponent = True


def _misuse(message: str) -> SqlError:
    return SqlError("42601", message)


_TAKERS = {
    "9": NumberDescription._digit,
    "0": NumberDescription._zero,
    "B": NumberDescription._blank,
    "D": NumberDescription._point,
    ".": NumberDescription._point,
    "FM": NumberDescription._fill,
    "S": NumberDescription._sign,
    "MI": NumberDescription._minus,
    "PL": NumberDescription._plus,
    "SG": NumberDescription._either_sign,
    "PR": NumberDescription._bracket,
    "RN": NumberDescription._roman,
    "V": NumberDescription._multiplier,
    "EEEE": NumberDescription._exponent,
}


@remembering(512)
def number_template(template: str) -> tuple[tuple[Node, ...], NumberDescription]:
    """Returns the nodes of a template of numbers, and its description. The result is cached: callers that change the
    description copy it. Raises 42601."""
    nodes: list[Node] = []
    description = NumberDescription()
    position = 0
    while position < len(template):
        match = _NUMBER_TOKEN.match(template, position)
        if match is None:
            position = _literal(template, position, nodes, separators=False)
            continue
        position = match.end()
        description.take(match[0].upper())
        nodes.append(Node(ACTION, match[0]))
    return tuple(nodes), description
