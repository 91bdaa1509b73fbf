"""websearch_to_tsquery: the syntax of a search box, which has no errors.

"a phrase"    its words in sequence
or            at least one of both sides
-word         not this word
"""

from __future__ import annotations

from catalog.text_search.configurations import Configuration
from catalog.text_search.queries import (
    AND,
    NOT,
    OR,
    PHRASE,
    Builder,
    Hole,
    Query,
    print_query,
    without_holes,
    words_of,
)
from catalog.text_search.words import WordReader

_SIGNS = frozenset("!&|()<")


def web_query(configuration: Configuration, text: str) -> str:
    """websearch_to_tsquery."""
    return print_query(without_holes(_Reader(configuration, text).read()))


class _Reader:
    def __init__(self, configuration: Configuration, text: str) -> None:
        self._configuration = configuration
        self._text = text
        self._at = 0
        self._builder = Builder()

    def read(self) -> Query | None:
        first = True
        while self._operand(first):
            first = False
            if not self._operator():
                break
        return self._builder.result()

    def _operand(self, first: bool) -> bool:
        """Reads up to the end of an operand. False at the end of the text."""
        while True:
            char = self._text[self._at : self._at + 1]
            if char == "-":
                self._at += 1
                self._builder.operator(NOT)
                first = False
            elif char == '"':
                end = self._text.find('"', self._at + 1)
                end = len(self._text) if end < 0 else end
                self._push(self._text[self._at + 1 : end])
                self._at = end + 1
                return True
            elif char and (char in _SIGNS or char.isspace()):
                self._at += 1
            else:
                return self._word(first)

    def _word(self, first: bool) -> bool:
        reader = WordReader(self._text, self._at, of_query=True, of_web=True)
        found = reader.next()
        self._at = reader.at
        if found is None:
            if not first:
                self._builder.operand(Hole())
            return False
        self._push(found[0])
        return True

    def _push(self, text: str) -> None:
        self._builder.operand(words_of(self._configuration, text, PHRASE))

    def _operator(self) -> bool:
        """Reads the operator after an operand. False at the end of the text."""
        while True:
            char = self._text[self._at : self._at + 1]
            if not char:
                return False
            if char.isspace() or char in _SIGNS:
                self._at += 1
            else:
                self._builder.operator(OR if self._takes_or() else AND)
                return True

    def _takes_or(self) -> bool:
        """parse_or_operator: reads the word `or`, if another operand can follow it."""
        rest = self._text[self._at + 2 :]
        if self._text[self._at : self._at + 2].lower() != "or" or not rest.strip():
            return False
        if rest[0] in "-_" or rest[0].isalnum():
            return False
        self._at += 2
        return True
