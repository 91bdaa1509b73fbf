"""Configurations: which dictionaries convert the tokens of a text to lexemes, as PostgreSQL's do.

A token goes through the dictionaries of its type until one knows it; a filter changes it for those that follow; a
thesaurus may take several tokens. The built-in configurations use one dictionary for a token: `simple` for words with
digits, addresses and numbers, and that of the language for words. They ignore tags, entities, protocols and white
space.

A `Lexicon` has the configurations and dictionaries of a database: the built-in ones, and those of users. A function
takes it when it is planned (`current`), and a change of any of them makes a new plan. So a transaction sees its own
changes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from catalog.errors import SqlError, not_supported
from catalog.functions import added
from catalog.identifiers import quote_identifier, split_name
from catalog.text_search.dictionaries import (
    Dictionary,
    Filter,
    Lexeme,
    Lexemes,
    Options,
    Resolve,
    Simple,
    Snowball,
    Synonym,
    stop_words,
)
from catalog.text_search.objects import (
    TextSearchConfiguration,
    TextSearchDictionary,
    TextSearchObject,
)
from catalog.text_search.parser import NUMBERS, TOKEN_TYPES, tokens
from catalog.text_search.thesaurus import Step, Thesaurus
from catalog.text_search.unaccented import without_accents
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
_OIDS = {name: oid for oid, name in CONFIGURATIONS.items()}
_OIDS_OF_DICTIONARIES = {name: oid for oid, name in DICTIONARIES.items()}
SIMPLE, SYNONYM, ISPELL, THESAURUS, SNOWBALL, UNACCENT_TEMPLATE = 3727, 3730, 3733, 3742, 13150, 14605
_ASCII_WORDS = frozenset(NUMBERS[name] for name in ("asciiword", "asciihword", "hword_asciipart"))
_WORDS = frozenset(NUMBERS[name] for name in ("word", "hword", "hword_part"))
_WITHOUT = frozenset(NUMBERS[name] for name in ("tag", "protocol", "blank", "entity"))


# ---- built-in ones --------------------------------------------------------------------------------------------------


@cache
def dictionary_for(configuration: str, kind: int) -> str | None:
    """Returns the dictionary of a built-in configuration for tokens of a type; None if it ignores them."""
    if kind in _WITHOUT:
        return None
    if configuration == "simple" or kind not in _ASCII_WORDS | _WORDS:
        return "simple"
    if kind in _ASCII_WORDS and configuration in _ASCII_IN_ENGLISH:
        return "english_stem"
    return f"{configuration}_stem"


def dictionary_options(dictionary: str) -> str | None:
    """pg_ts_dict.dictinitoption of a built-in dictionary."""
    found = _options(dictionary)
    return ", ".join(f"{name} = '{value}'" for name, value, _ in found) or None


@cache
def _options(dictionary: str) -> Options:
    if dictionary == "simple":
        return ()
    language = dictionary.removesuffix("_stem")
    try:
        stop_words(language)
    except SqlError:
        return (("language", language, "string"),)
    return (("language", language, "string"), ("stopwords", language, "string"))


@cache
def _built_in_dictionary(name: str) -> Dictionary:
    oid = _OIDS_OF_DICTIONARIES[name]
    return Simple(oid) if name == "simple" else Snowball(oid, _options(name), LANGUAGES)


@cache
def _built_in(name: str) -> Configuration:
    kinds = range(1, len(TOKEN_TYPES) + 1)
    names = {kind: found for kind in kinds if (found := dictionary_for(name, kind)) is not None}
    return Configuration(_OIDS[name], {kind: (_built_in_dictionary(found),) for kind, found in names.items()})


# ---- configurations -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Configuration:
    """The dictionaries for the tokens of each type; a type that is ignored has none."""

    oid: int
    dictionaries: Mapping[int, Sequence[Dictionary]]

    def words(self, text: str) -> Iterator[Lexemes]:
        """Yields the lexemes of each word that a dictionary knows: () for a stop word."""
        for _, found in self.take_words(text):
            if found is not None:
                yield found

    def take_words(self, text: str) -> Iterator[tuple[list[tuple[int, str]], Lexemes | None]]:
        """Yields tokens with their lexemes: () for a stop word, None for tokens that are ignored or unknown."""
        if any(isinstance(item, Thesaurus) for found in self.dictionaries.values() for item in found):
            yield from self._by_phrases(list(tokens(text)))
            return
        for kind, token in tokens(text):
            yield [(kind, token)], self._lexize(kind, token) if len(token.encode()) <= MOST_BYTES else None

    def _lexize(self, kind: int, token: str) -> Lexemes | None:
        for dictionary in self.dictionaries.get(kind, ()):
            found = dictionary.lexize(token)
            if found and found[0].filtered:
                token = found[0].text
            elif found is not None:
                return found
        return None

    def _by_phrases(self, found: list[tuple[int, str]]) -> Iterator[tuple[list[tuple[int, str]], Lexemes | None]]:
        """LexizeExec with dictionaries that may take several tokens."""
        at = 0
        while at < len(found):
            kind, token = found[at]
            taken, lexemes = 1, None
            if len(token.encode()) <= MOST_BYTES:
                for dictionary in self.dictionaries.get(kind, ()):
                    if isinstance(dictionary, Thesaurus):
                        lexemes, taken = self._phrase(dictionary, token, found, at)
                    else:
                        lexemes = dictionary.lexize(token)
                    if lexemes and lexemes[0].filtered:
                        token, lexemes = lexemes[0].text, None
                    elif lexemes is not None:
                        break
                else:
                    taken, lexemes = 1, None
            yield found[at : at + taken], lexemes
            at += taken

    def _phrase(
        self, thesaurus: Thesaurus, token: str, found: list[tuple[int, str]], at: int
    ) -> tuple[Lexemes | None, int]:
        """The lexemes of the longest phrase that begins at a token, and the number of its tokens."""
        step: Step = thesaurus.step(token)
        best, end = step.found, at + 1
        place = at + 1
        while step.rules and place < len(found):
            kind, next_token = found[place]
            place += 1
            known = self.dictionaries.get(kind, ())
            if not known or len(next_token.encode()) > MOST_BYTES:
                continue
            if thesaurus not in known:
                return (best, end - at) if best is None else (None, 1)
            step = thesaurus.step(next_token, step)
            if step.found is not None:
                best, end = step.found, place
        return best, end - at


def place_lexemes(configuration: Configuration, *texts: str) -> Iterator[tuple[Lexeme, int]]:
    """Yields the lexemes of texts with their positions (parsetext). Stop words have positions too. Between two texts
    one position stays free, so that no phrase matches across both."""
    position = 0
    for text in texts:
        found = False
        for word in configuration.words(text):
            position += 1
            for lexeme in word:
                found = True
                position += lexeme.moves
                yield lexeme, position
        position += found


def lexemes(configuration: Configuration, *texts: str) -> Iterator[tuple[str, int]]:
    """`place_lexemes`, with the texts of the lexemes."""
    return ((lexeme.text, position) for lexeme, position in place_lexemes(configuration, *texts))


# ---- the lexicon of a database --------------------------------------------------------------------------------------


def make_dictionary(item: TextSearchDictionary, resolve: Resolve) -> Dictionary:
    """The dictionary of a definition. Raises errors of its options, and 0A000 for ispell."""
    if item.template == SIMPLE:
        return Simple(item.oid, item.options)
    if item.template == SYNONYM:
        return Synonym(item.oid, item.options)
    if item.template == SNOWBALL:
        return Snowball(item.oid, item.options, LANGUAGES)
    if item.template == THESAURUS:
        return Thesaurus(item.oid, item.options, resolve)
    if item.template == UNACCENT_TEMPLATE:
        for name, value, _ in item.options:
            if name != "rules":
                raise SqlError("22023", f'unrecognized Unaccent parameter: "{name}"')
            if value != "unaccent":
                not_supported(f'rules "{value}" of a dictionary unaccent')
        if not item.options:
            raise SqlError("22023", "missing Rules parameter")
        return Filter(item.oid, without_accents)
    not_supported("a text search dictionary with the template ispell")


class Lexicon:
    """The configurations and dictionaries of a database. They are made at their first use."""

    def __init__(self, items: Mapping[int, TextSearchObject], names: Mapping[tuple[str, str], int]) -> None:
        self._items = items
        self._names = names  # of configurations, by schema and name
        self._configurations: dict[int, Configuration] = {}
        self._dictionaries: dict[int, Dictionary] = {}

    def configuration(self, oid: int) -> Configuration:
        """The configuration with an OID. Raises XX000."""
        found = self._configurations.get(oid)
        if found is None:
            item = self._items.get(oid)
            if oid in CONFIGURATIONS:
                found = _built_in(CONFIGURATIONS[oid])
            elif isinstance(item, TextSearchConfiguration):
                found = Configuration(
                    oid, {row.token: tuple(map(self.dictionary, row.dictionaries)) for row in item.mappings}
                )
            else:
                raise SqlError("XX000", f"cache lookup failed for text search configuration {oid}")
            self._configurations[oid] = found
        return found

    def oid_of(self, name: str) -> int:
        """The OID of default_text_search_config, a name with its schema. Raises 42704."""
        *schema, bare = split_name(name)
        found = _OIDS.get(bare) if schema in ([], ["pg_catalog"]) else self._names.get((schema[-1], bare))
        if found is None:
            raise SqlError("42704", f'text search configuration "{name}" does not exist')
        return found

    def find_named(self, name: str) -> Configuration:
        """The configuration of default_text_search_config. Raises 42704."""
        return _built_in(name) if name in _OIDS else self.configuration(self.oid_of(name))

    def dictionary(self, oid: int) -> Dictionary:
        """The dictionary with an OID. Raises XX000, F0000 for a missing file."""
        found = self._dictionaries.get(oid)
        if found is None:
            item = self._items.get(oid)
            if oid in DICTIONARIES:
                found = _built_in_dictionary(DICTIONARIES[oid])
            elif oid == UNACCENT:
                found = Filter(oid, without_accents)
            elif isinstance(item, TextSearchDictionary):
                found = make_dictionary(item, self._below)
            else:
                raise SqlError("XX000", f"cache lookup failed for text search dictionary {oid}")
            self._dictionaries[oid] = found
        return found

    def _below(self, name: str) -> Dictionary:
        """The subdictionary of a thesaurus. Raises 42704."""
        *schemas, bare = split_name(name)
        oid = _OIDS_OF_DICTIONARIES.get(bare) if schemas[-1:] in ([], ["pg_catalog"]) else None
        oid = oid or added.dictionary_named(bare, schemas[-1:])
        if oid is None:
            raise SqlError("42704", f'text search dictionary "{name}" does not exist')
        return self.dictionary(oid)


def qualified_name(text: str) -> str | None:
    """The name of a configuration with its schema, for default_text_search_config; None for an unknown one."""
    try:
        *schemas, bare = split_name(text)
    except SqlError:
        return None
    if bare in _OIDS and schemas in ([], ["pg_catalog"]):
        return f"pg_catalog.{bare}"
    oid = added.configuration_named(bare, schemas[-1:])
    found, _ = added.current()
    return None if oid is None else ".".join(map(quote_identifier, found.configurations[oid]))


BUILT_IN = Lexicon({}, {})


def current() -> Lexicon:
    """The lexicon of the statement that is planned."""
    found, _ = added.current()
    return lexicon_of(found) if found.text_search else BUILT_IN


def lexicon_of(found: added.Added) -> Lexicon:
    """The lexicon of a database's objects."""
    known = found.derived.get("lexicon")
    if not isinstance(known, Lexicon):
        known = Lexicon(found.text_search, {name: oid for oid, name in found.configurations.items()})
        found.derived["lexicon"] = known
    return known


def configuration_of(oid: int) -> Configuration:
    """Returns a configuration. Raises XX000 for another OID."""
    return current().configuration(oid)
