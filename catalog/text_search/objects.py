"""Text search configurations and dictionaries of users, as schema objects (catalog/schema.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextSearchDictionary:
    """CREATE TEXT SEARCH DICTIONARY. `template`: an OID of pg_ts_template. `options`: name, value and kind (number or
    string) of each option."""

    oid: int
    schema: int
    name: str
    template: int
    options: tuple[tuple[str, str, str], ...] = ()
    owner: int = 10  # the first role
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class TokenMapping:
    """The dictionaries (OIDs) of a text search configuration for tokens of a type."""

    token: int
    dictionaries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TextSearchConfiguration:
    """CREATE TEXT SEARCH CONFIGURATION, with the default parser. `mappings` are in the order of their tokens."""

    oid: int
    schema: int
    name: str
    mappings: tuple[TokenMapping, ...] = ()
    owner: int = 10  # the first role
    comment: str | None = None


TextSearchObject = TextSearchDictionary | TextSearchConfiguration
TEXT_SEARCH = (TextSearchDictionary, TextSearchConfiguration)
