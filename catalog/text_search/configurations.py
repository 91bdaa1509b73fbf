"""Configurations and dictionaries: convert the tokens of a text to lexemes, as PostgreSQL's do.

The dictionary `simple` converts words to lower case. The dictionary of a language removes its stop words (PostgreSQL's
lists, in catalog/data/stop_words) and converts other words to their stem by Snowball's algorithms. All configurations
use `simple` for words with digits, addresses and numbers, and ignore tags, entities, protocols and white space.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

import snowballstemmer

from catalog.errors import SqlError
from catalog.functions.letter_case import lower
from catalog.text_search.parser import NUMBERS, tokens
from catalog.text_search.words import MOST_BYTES

_SIMPLE_CONFIGURATION, _SIMPLE_DICTIONARY = 3748, 3765
_FIRST_DICTIONARY = 13151  # alternates: a language's dictionary, its configuration
LANGUAGES = (
    "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german", "greek",
    "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip
UNACCENT = 14604
ADDED_DICTIONARIES: dict[int, str] = {UNACCENT: "unaccent"}
"""Those of extensions, for processes without a catalog (catalog/functions/added.py)."""
_ASCII_IN_ENGLISH = frozenset(("hindi", "russian"))  # ASCII words in these languages are English
CONFIGURATIONS: dict[int, str] = {_SIMPLE_CONFIGURATION: "simple"} | {
    _FIRST_DICTIONARY + 1 + 2 * place: language for place, language in enumerate(LANGUAGES)
}
DICTIONARIES: dict[int, str] = {_SIMPLE_DICTIONARY: "simple"} | {
    _FIRST_DICTIONARY + 2 * place: f"{language}_stem" for place, language in enumerate(LANGUAGES)
}
_ASCII_WORDS = frozenset(NUMBERS[name] for name in ("asciiword", "asciihword", "hword_asciipart"))
_WORDS = frozenset(NUMBERS[name] for name in ("word", "hword", "hword_part"))
_WITHOUT = frozenset(NUMBERS[name] for name in ("tag", "protocol", "blank", "entity"))


@cache
def _stop_words(language: str) -> frozenset[str]:
    path = pathlib.Path(__file__).resolve().parent.parent / "data" / "stop_words" / f"{language}.stop"
    return frozenset(path.read_text(encoding="utf-8").split()) if path.exists() else frozenset()


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    return lru_cache(maxsize=1 << 16)(snowballstemmer.stemmer(language).stemWord)


def lexize(dictionary: str, token: str) -> str | None:
    """Returns the lexeme of a token; None for a stop word."""
    word = lower(token)
    if dictionary == "simple":
        return word
    language = dictionary.removesuffix("_stem")
    return None if word in _stop_words(language) else _stemmer(language)(word)


@cache
def dictionary_for(configuration: str, kind: int) -> str | None:
    """Returns the dictionary for tokens of a type; None if the configuration ignores them."""
    if kind in _WITHOUT:
        return None
    if configuration == "simple" or kind not in _ASCII_WORDS | _WORDS:
        return "simple"
    if kind in _ASCII_WORDS and configuration in _ASCII_IN_ENGLISH:
        return "english_stem"
    return f"{configuration}_stem"


def lexemes(configuration: str, *texts: str) -> Iterator[tuple[str, int]]:
    """Yields the lexemes of texts with their positions (parsetext). Stop words have positions too. Between two texts
    one position stays free, so that no phrase matches across both."""
    position = 0
    for text in texts:
        found = False
        for lexeme in _words(configuration, text):
            position += 1
            if lexeme is not None:
                found = True
                yield lexeme, position
        position += found


def _words(configuration: str, text: str) -> Iterator[str | None]:
    """Yields a lexeme for each word, None for a stop word."""
    for kind, token in tokens(text):
        dictionary = dictionary_for(configuration, kind)
        if dictionary is not None and len(token.encode()) <= MOST_BYTES:
            yield lexize(dictionary, token)


def dictionary_options(dictionary: str) -> str | None:
    """pg_ts_dict.dictinitoption."""
    if dictionary == "simple":
        return None
    language = dictionary.removesuffix("_stem")
    stop_words = f", stopwords = '{language}'" if _stop_words(language) else ""
    return f"language = '{language}'{stop_words}"


def configuration_of(oid: int) -> str:
    """Returns the name of a configuration. Raises XX000 for another OID."""
    found = CONFIGURATIONS.get(oid)
    if found is None:
        raise SqlError("XX000", f"cache lookup failed for text search configuration {oid}")
    return found
