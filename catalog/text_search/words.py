"""The syntax of operands of tsvector and tsquery: words, with or without quotes, and their suffixes."""

from __future__ import annotations

from catalog.errors import SqlError
from catalog.long_numbers import int_of

MOST_BYTES = 2046  # of a lexeme
LAST_POSITION = 16383
MOST_POSITIONS = 255
WEIGHTS = "DCBA"  # by number
_OPERATORS = frozenset("!&|()<")

Position = tuple[int, int]  # the position of a lexeme, and its weight


class WordReader:
    """Reads one word after the other (gettoken_tsvector). `of_query`: operators end a word, and positions are not read.
    `of_web`: quotes are not special within a word, and end it."""

    def __init__(self, text: str, at: int = 0, of_query: bool = False, of_web: bool = False) -> None:
        self.text = text
        self.at = at
        self._of_query = of_query
        self._of_web = of_web

    def error(self) -> SqlError:
        what = "tsquery" if self._of_query else "tsvector"
        return SqlError("42601", f'syntax error in {what}: "{self.text}"')

    def next(self) -> tuple[str, list[Position]] | None:
        """Returns the next word, unescaped, with its positions; None at the end. Raises 42601."""
        text = self.text
        while self.at < len(text) and text[self.at].isspace():
            self.at += 1
        if self.at == len(text):
            return None
        if self._of_query and text[self.at] in _OPERATORS:
            raise self.error()
        if text[self.at] == "'" and not self._of_web:
            word = self._quote()
        else:
            word = self._plain()
        if not word:
            raise self.error()
        if len(word.encode()) > MOST_BYTES:
            size = len(word.encode())
            raise SqlError("54000", f"word is too long ({size} bytes, max {MOST_BYTES} bytes)")
        if not self._of_query and text[self.at : self.at + 1] == ":":
            return word, self._positions()
        return word, []

    def _escape(self) -> str:
        self.at += 2
        if self.at > len(self.text):
            raise SqlError("42601", f'there is no escaped character: "{self.text}"')
        return self.text[self.at - 1]

    def _plain(self) -> str:
        found: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\\" and not self._of_web:
                found.append(self._escape())
                continue
            if found and (char.isspace() or char == ":" or (self._of_query and char in _OPERATORS)):
                break
            if self._of_web and char == '"':
                break
            found.append(char)
            self.at += 1
        return "".join(found)

    def _quote(self) -> str:
        found: list[str] = []
        self.at += 1
        while True:
            char = self.text[self.at : self.at + 1]
            if not char:
                raise self.error()
            if char == "\\":
                found.append(self._escape())
                continue
            self.at += 1
            if char == "'":
                if self.text[self.at : self.at + 1] != "'":
                    return "".join(found)
                self.at += 1
            found.append(char)

    def _positions(self) -> list[Position]:
        found: list[Position] = []
        while True:
            self.at += 1
            start = self.at
            while self.text[self.at : self.at + 1].isdecimal() and self.text[self.at].isascii():
                self.at += 1
            if start == self.at:
                raise self.error()
            number = min(int_of(self.text[start : self.at]), LAST_POSITION)
            if number == 0:
                raise SqlError("42601", f'wrong position info in tsvector: "{self.text}"')
            weight = 0
            letter = self.text[self.at : self.at + 1].upper()
            if letter and letter in "ABCD*":
                weight = 3 if letter == "*" else WEIGHTS.index(letter)
                self.at += 1
            found.append((number, weight))
            char = self.text[self.at : self.at + 1]
            if char == ",":
                continue
            if char and not char.isspace():
                raise self.error()
            return found


def quote_word(word: str) -> str:
    """Returns a lexeme as both types print it."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"
