"""The extension fuzzystrmatch (PostgreSQL 16 manual, F.16): edit distances, and the sounds of English words."""

from __future__ import annotations

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.registry import implement, implements, mark

_MAX_CHARACTERS = 255  # of the arguments of levenshtein
_MAX_BYTES = 255  # of the argument and the result of metaphone
_SOUNDEX_LENGTH = 4
_SOUNDEX_CODES = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230120022455012623010202", strict=True))
_VOWELS = frozenset("AEIOU")
_SOFTENING = frozenset("EIY")  # make a C or G before them soft
_SILENCING = frozenset("BDH")  # keep a later GH from becoming F
_BEFORE_H = frozenset("CGPST")  # an H after them is no sound of its own
_UNCHANGED = frozenset("FJLMNR")


# ---- levenshtein ----------------------------------------------------------------------------------------------------


def _levenshtein(source: str, target: str, insertion: int = 1, deletion: int = 1, substitution: int = 1) -> int:
    if not source:
        return len(target) * insertion
    if not target:
        return len(source) * deletion
    if len(source) > _MAX_CHARACTERS or len(target) > _MAX_CHARACTERS:
        raise SqlError("22023", f"levenshtein argument exceeds maximum length of {_MAX_CHARACTERS} characters")
    above = [place * deletion for place in range(len(source) + 1)]
    for char in target:
        row = [above[0] + insertion]
        for place, other in enumerate(source):
            changed = above[place] + (substitution if char != other else 0)
            row.append(min(above[place + 1] + insertion, row[place] + deletion, changed))
        above = row
    return above[-1]


def _levenshtein_within(source: str, target: str, insertion: int, deletion: int, substitution: int, most: int) -> int:
    """Returns the distance if it is at most `most`, else `most` + 1 (which may be less than the distance)."""
    found = _levenshtein(source, target, insertion, deletion, substitution)
    return found if most < 0 or not source or not target else min(found, most + 1)


# ---- soundex --------------------------------------------------------------------------------------------------------


def _upper(text: str) -> str:
    """The text with ASCII's letters in upper case; a character of several bytes becomes one that is no letter."""
    return "".join(char.upper() if char.isascii() else "\x7f" for char in text)


def _soundex(text: str) -> str:
    word = _upper(text)
    start = next((place for place, char in enumerate(word) if char in _SOUNDEX_CODES), len(word))
    found, before = word[start : start + 1], word[start : start + 1]
    if not found:
        return ""
    for char in word[start + 1 :]:
        code = _SOUNDEX_CODES.get(char)
        if code is not None and code not in ("0", _SOUNDEX_CODES.get(before, before)):
            found += code
        before = char
    return found[:_SOUNDEX_LENGTH].ljust(_SOUNDEX_LENGTH, "0")


def _difference(left: str, right: str) -> int:
    """Returns the number of equal places of the two codes. A text without letters has an empty code."""
    codes = (_soundex(left) or "\0" * _SOUNDEX_LENGTH, _soundex(right) or "\0" * _SOUNDEX_LENGTH)
    return sum(one == other for one, other in zip(*codes, strict=True))


# ---- metaphone ------------------------------------------------------------------------------------------------------


class _Metaphone:
    """Lawrence Philips' Metaphone, as Text::Metaphone of CPAN has it: X is 'sh', 0 is 'th'."""

    def __init__(self, text: str, most: int) -> None:
        self.word = _upper(text)
        self.most = most
        self.at = 0
        self.sounds = ""

    def _char(self, offset: int) -> str:
        place = self.at + offset
        return self.word[place] if 0 <= place < len(self.word) else ""

    def code(self) -> str:
        while self.at < len(self.word) and self.word[self.at] not in _SOUNDEX_CODES:
            self.at += 1
        self._begin()
        while self.at < len(self.word) and len(self.sounds) < self.most:
            char = self._char(0)
            if char in _SOUNDEX_CODES and (char != self._char(-1) or char == "C"):
                sound, skipped = self._sound(char)
                self.sounds += sound
                self.at += skipped
            self.at += 1
        return self.sounds[: self.most]

    def _begin(self) -> None:
        """The first letters have rules of their own."""
        char, following = self._char(0), self._char(1)
        if char in ("A", "E", "I", "O", "U"):
            self.sounds = "E" if char + following == "AE" else char
            self.at += 2 if char + following == "AE" else 1
        elif char + following in ("GN", "KN", "PN", "WH", "WR"):
            self.sounds = "N" if following == "N" else following
            self.at += 2
        elif char == "W" and following in _VOWELS:
            self.sounds = "W"
            self.at += 2
        elif char == "X":
            self.sounds = "S"
            self.at += 1

    def _sound(self, char: str) -> tuple[str, int]:
        """Returns the sound of a letter, and how many letters after it belong to the sound."""
        following, then = self._char(1), self._char(2)
        if char in _UNCHANGED:
            return char, 0
        if char in ("C", "G", "S", "T"):
            return getattr(self, f"_{char.lower()}")(following, then)  # type: ignore[no-any-return]
        if char == "D":
            return ("J", 1) if following == "G" and then in _SOFTENING else ("T", 0)
        if char in ("W", "Y"):
            return (char if following in _VOWELS else ""), 0
        if char == "H":
            return ("H" if following in _VOWELS and self._char(-1) not in _BEFORE_H else ""), 0
        if char in ("B", "K"):
            return ("" if self._char(-1) == {"B": "M", "K": "C"}[char] else char), 0
        if char == "P":
            return ("F" if following == "H" else "P"), 0
        return {"Q": "K", "V": "F", "X": "KS", "Z": "S"}.get(char, ""), 0

    def _c(self, following: str, then: str) -> tuple[str, int]:
        before = self._char(-1)
        if following in _SOFTENING:
            return ("X" if following + then == "IA" else "" if before == "S" else "S"), 0
        if following == "H":
            return ("K" if then == "R" or before == "S" else "X"), 1
        return "K", 0

    def _g(self, following: str, then: str) -> tuple[str, int]:
        if following == "H":
            silent = self._char(-3) in _SILENCING or self._char(-4) == "H"
            return ("", 0) if silent else ("F", 1)
        if following == "N":
            dropped = then not in _SOUNDEX_CODES or then + self._char(3) == "ED"
            return ("" if dropped else "K"), 0
        return ("J" if following in _SOFTENING and self._char(-1) != "G" else "K"), 0

    def _s(self, following: str, then: str) -> tuple[str, int]:
        if following == "I" and then in ("O", "A"):
            return "X", 0
        if following == "H":
            return "X", 1
        if following + then + self._char(3) == "CHW":
            return "X", 2
        return "S", 0

    def _t(self, following: str, then: str) -> tuple[str, int]:
        if following == "I" and then in ("O", "A"):
            return "X", 0
        return ("0", 1) if following == "H" else ("T", 0)


@implements("metaphone")
def _metaphone(text: str, most: int) -> str:
    size = len(text.encode())
    if not size:
        return ""
    if size > _MAX_BYTES:
        raise SqlError("22023", f"argument exceeds the maximum length of {_MAX_BYTES} bytes")
    if most > _MAX_BYTES:
        raise SqlError("22023", f"output exceeds the maximum length of {_MAX_BYTES} bytes")
    if most <= 0:
        raise SqlError("2200F", "output cannot be empty string")
    return _Metaphone(text, most).code()


implement("levenshtein", _levenshtein)
implement("levenshtein_with_costs", _levenshtein)
implement("levenshtein_less_equal", lambda source, target, most: _levenshtein_within(source, target, 1, 1, 1, most))
implement("levenshtein_less_equal_with_costs", _levenshtein_within)
implement("soundex", _soundex)
implement("difference", _difference)
mark(Trait.SLOW, "levenshtein", "levenshtein_with_costs", "levenshtein_less_equal", "levenshtein_less_equal_with_costs")
