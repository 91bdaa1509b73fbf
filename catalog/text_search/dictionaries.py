"""Dictionaries by their templates (dict_simple.c, dict_synonym.c, dict_snowball.c): the options of each template, and
what a dictionary returns for a token. Thesauri are in thesaurus.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Protocol

import snowballstemmer

from catalog.errors import SqlError
from catalog.functions.letter_case import lower
from catalog.text_search.files import Stamp, lines_of, stamp_of


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A lexeme of a token. `variant`: alternatives have different numbers. `prefix`: it stands for the words that
    begin with it. `moves`: its position is the next one. `filtered`: not a lexeme, but a token for the dictionaries
    that follow."""

    text: str
    variant: int = 0
    prefix: bool = False
    moves: bool = False
    filtered: bool = False


Lexemes = tuple[Lexeme, ...]


class Dictionary(Protocol):
    """`lexize` returns the lexemes of a token: () for a stop word, None for an unknown token."""

    oid: int

    def lexize(self, token: str) -> Lexemes | None: ...


Options = Sequence[tuple[str, str, str]]  # name, value, kind
Resolve = Callable[[str], Dictionary]

_TRUE, _FALSE = ("true", "on"), ("false", "off")


def bool_of(name: str, value: str, kind: str) -> bool:
    """defGetBoolean. Raises 42601."""
    if kind == "number":
        if value in ("0", "1"):
            return value == "1"
    elif kind == "none" or value.lower() in _TRUE:
        return True
    elif value.lower() in _FALSE:
        return False
    raise SqlError("42601", f"{name} requires a Boolean value")


class Given:
    """The options of a dictionary as its template reads them. Raises 22023 for unknown ones, and for repetitions."""

    def __init__(self, template: str, options: Options, shown: Mapping[str, str]) -> None:
        self.values: dict[str, tuple[str, str]] = {}
        for name, value, kind in options:
            if name not in shown:
                raise SqlError("22023", f'unrecognized {template} parameter: "{name}"')
            if name in self.values:
                raise SqlError("22023", f"multiple {shown[name]} parameters")
            self.values[name] = (value, kind)

    def text(self, name: str) -> str | None:
        found = self.values.get(name)
        return None if found is None else found[0]

    def flag(self, name: str, default: bool) -> bool:
        found = self.values.get(name)
        return default if found is None else bool_of(name, *found)

    def need(self, name: str, shown: str) -> str:
        found = self.text(name)
        if found is None:
            raise SqlError("22023", f"missing {shown} parameter")
        return found


@lru_cache(64)
def _stop_words(stamp: Stamp) -> frozenset[str]:
    return frozenset(lower(word) for line in lines_of(stamp) if (word := line.rstrip().split(" ")[0]))


def stop_words(name: str | None) -> frozenset[str]:
    """readstoplist. Raises 22023, F0000."""
    return frozenset() if name is None else _stop_words(stamp_of(name, "stop", "stop-word"))


class Simple:
    """The template simple: the word in lower case."""

    def __init__(self, oid: int, options: Options = ()) -> None:
        given = Given("simple dictionary", options, {"stopwords": "StopWords", "accept": "Accept"})
        self.oid = oid
        self._stops = stop_words(given.text("stopwords"))
        self._accepts = given.flag("accept", True)

    def lexize(self, token: str) -> Lexemes | None:
        word = lower(token)
        if not word or word in self._stops:
            return ()
        return (Lexeme(word),) if self._accepts else None


@cache
def stemmer(language: str) -> Callable[[str], str]:
    return lru_cache(maxsize=1 << 16)(snowballstemmer.stemmer(language).stemWord)


class Snowball:
    """The template snowball: stems of words by Snowball's algorithms."""

    def __init__(self, oid: int, options: Options, languages: Sequence[str]) -> None:
        given = Given("Snowball", options, {"stopwords": "StopWords", "language": "Language"})
        language = given.need("language", "Language")
        if language not in languages:
            message = f'no Snowball stemmer available for language "{language}" and encoding "UTF8"'
            raise SqlError("42704", message)
        self.oid = oid
        self._stops = stop_words(given.text("stopwords"))
        self._stem = stemmer(language)

    def lexize(self, token: str) -> Lexemes | None:
        word = lower(token)
        if not word or word in self._stops:
            return ()
        return (Lexeme(self._stem(word) if len(word.encode()) <= 1000 else word),)


@lru_cache(64)
def _synonyms(stamp: Stamp, case_sensitive: bool) -> dict[str, Lexeme]:
    found: dict[str, Lexeme] = {}
    for line in lines_of(stamp):
        words = line.split()
        if len(words) < 2:
            continue
        word, synonym = words[0], words[1]
        prefix = len(synonym) > 1 and synonym.endswith("*")
        synonym = synonym[:-1] if prefix else synonym
        if not case_sensitive:
            word, synonym = lower(word), lower(synonym)
        found.setdefault(word, Lexeme(synonym, prefix=prefix))
    return found


class Synonym:
    """The template synonym: pairs of words in a file."""

    def __init__(self, oid: int, options: Options) -> None:
        given = Given("synonym", options, {"synonyms": "Synonyms", "casesensitive": "CaseSensitive"})
        name = given.need("synonyms", "Synonyms")
        self.oid = oid
        self._sensitive = given.flag("casesensitive", False)
        self._known = _synonyms(stamp_of(name, "syn", "synonym"), self._sensitive)

    def lexize(self, token: str) -> Lexemes | None:
        found = self._known.get(token if self._sensitive else lower(token)) if token else None
        return None if found is None else (found,)


class Filter:
    """A dictionary that changes a token for the dictionaries that follow it (unaccent)."""

    def __init__(self, oid: int, change: Callable[[str], str]) -> None:
        self.oid = oid
        self._change = change

    def lexize(self, token: str) -> Lexemes | None:
        changed = self._change(token)
        return None if changed == token else (Lexeme(changed, filtered=True),)
