"""Thesauri (dict_thesaurus.c): replace phrases by other words, by the rules of a file.

    supernovae stars : *sn          two words become one, which * exempts from the subdictionary
    booking ? tickets : order       ? is any stop word

The words of phrases are compared as lexemes of the subdictionary. A thesaurus may need the tokens that follow, so it
works by steps: `step` gets one token and the rules that are still possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalog.errors import SqlError
from catalog.text_search.dictionaries import Dictionary, Given, Lexeme, Lexemes, Options, Resolve
from catalog.text_search.files import lines_of, stamp_of

_Key = tuple[str | None, int, int]  # lexeme or None for a stop word, its position, the number of lexemes with it


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step. `found`: the lexemes of a whole phrase. `rules`: those that another token may complete, at
    `position`; empty if no other token is wanted."""

    found: Lexemes | None
    rules: frozenset[int]
    position: int


def _bad(message: str, hint: str | None = None) -> SqlError:
    return SqlError("F0000", message, hint=hint)


class Thesaurus:
    """The template thesaurus."""

    def __init__(self, oid: int, options: Options, resolve: Resolve) -> None:
        given = Given("Thesaurus", options, {"dictfile": "DictFile", "dictionary": "Dictionary"})
        file = given.need("dictfile", "DictFile")
        stamp = stamp_of(file, "ths", "thesaurus")
        rules = _read(lines_of(stamp))
        self.oid = oid
        self._below: Dictionary = resolve(given.need("dictionary", "Dictionary"))
        self._rules: dict[_Key, set[int]] = {}
        self._last: list[int] = []
        self._results: list[Lexemes] = []
        for number, (phrase, _) in enumerate(rules, 1):
            self._last.append(len(phrase) - 1)
            for position, word in enumerate(phrase):
                self._compile(number, position, word)
        for number, (_, words) in enumerate(rules, 1):
            self._results.append(self._substitute(number, words))

    def _compile(self, number: int, position: int, word: str) -> None:
        if word == "?":
            self._rules.setdefault((None, position, 1), set()).add(number - 1)
            return
        found = self._below.lexize(word)
        if found is None:
            raise _bad(f'thesaurus sample word "{word}" isn\'t recognized by subdictionary (rule {number})')
        if not found:
            hint = 'Use "?" to represent a stop word within a sample phrase.'
            raise _bad(f'thesaurus sample word "{word}" is a stop word (rule {number})', hint)
        for lexeme in found:
            together = sum(1 for other in found if other.variant == lexeme.variant)
            self._rules.setdefault((lexeme.text, position, together), set()).add(number - 1)

    def _substitute(self, number: int, words: Sequence[tuple[str, bool]]) -> Lexemes:
        made: list[Lexeme] = []
        for word, as_is in words:
            found: Lexemes | None = (Lexeme(word),) if as_is else self._below.lexize(word)
            if found is None:
                raise _bad(f'thesaurus substitute word "{word}" isn\'t recognized by subdictionary (rule {number})')
            if not found:
                raise _bad(f'thesaurus substitute word "{word}" is a stop word (rule {number})')
            first, *rest = found
            made += [replace(first, moves=bool(made)), *rest]
        return tuple(made)

    def step(self, token: str, before: Step | None = None) -> Step:
        """Continues with a token. `before`: the step for the token before it, in the same phrase."""
        position = 0 if before is None else before.position + 1
        found = self._below.lexize(token)
        possible: set[int] = set()
        if found == ():
            possible = self._possible(((None, position, 1),))
        elif found is not None:
            for variant in dict.fromkeys(lexeme.variant for lexeme in found):
                together = [lexeme.text for lexeme in found if lexeme.variant == variant]
                possible |= self._possible([(text, position, len(together)) for text in together])
        if before is not None:
            possible &= before.rules
        matched = sorted((rule for rule in possible if self._last[rule] == position), reverse=True)
        result = self._results[matched[0]] if matched else None
        more = frozenset(rule for rule in possible if self._last[rule] > position)
        return Step(result, more, position)

    def _possible(self, keys: Sequence[_Key]) -> set[int]:
        found = [self._rules.get(key, set()) for key in keys]
        return set.intersection(*found) if found else set()

    def lexize(self, token: str) -> Lexemes | None:
        return self.step(token).found


def _read(lines: Sequence[str]) -> list[tuple[list[str], list[tuple[str, bool]]]]:
    """thesaurusRead: the phrase and the substitute of each rule. Raises F0000."""
    found = []
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        left, colon, right = line.partition(":")
        phrase = left.split()
        if colon and not phrase:
            raise _bad("unexpected delimiter")
        if not colon:
            raise _bad("unexpected end of line or lexeme")
        words = []
        for word in right.split():
            as_is = word.startswith("*")
            plain = word.removeprefix("*").removeprefix("\\") if as_is or word.startswith("\\") else word
            if not plain:
                raise _bad("unexpected end of line or lexeme")
            words.append((plain, as_is))
        if not words:
            raise _bad("unexpected end of line")
        found.append((phrase, words))
    return found
