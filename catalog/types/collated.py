"""Text under an ICU collation, as an internal type for the executors, which users never see.

Analysis derives collations (engine/sql/analyze/collations.py). If an operation depends on a collation (a comparison, an
ORDER BY, a key of an index), analysis relabels a value from text to the *collated type* of this collation: the same
`str`, whose `sort_key` and `key_encoder` are ICU's. So code that compares by the type's key, as for citext, applies the
collation on both paths without further support.

    deterministic      key = ICU's sort key, then the text itself: texts that are equal in ICU may still differ
    nondeterministic   key = ICU's sort key: texts that are equal in ICU are equal

This process assigns their OIDs, a run of four (text, text[], char, char[]) for each locale and kind; they are never
stored. The worker gets them with the query that uses them (catalog/type_descriptions.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from catalog import icu
from catalog.types.array import ArrayType
from catalog.types.base import TypeRef
from catalog.types.collated_oids import FIRST_OID, KINDS, RUN, plain
from catalog.types.registry import add_collated
from catalog.types.text import Text
from catalog.types.texts import text_key


class Rules(NamedTuple):
    """The rules of comparison: an ICU locale, and whether different texts can be equal."""

    locale: str
    deterministic: bool = True


class CollatedText(Text):
    """Text under a collation. Internal form `str`. `padded`: char(n), whose trailing blanks are ignored."""

    def __init__(self, oid: int, rules: Rules, padded: bool) -> None:
        super().__init__(oid, oid + 1, "bpchar" if padded else "text", sql_name="character" if padded else "text")
        self.rules = rules
        self.padded = padded

    def _key(self) -> Callable[[Any], bytes]:
        collate = icu.sort_key_maker(self.rules.locale)
        if self.padded:
            if self.rules.deterministic:
                return lambda value: collate(stripped := value.rstrip(" ")) + text_key(stripped)
            return lambda value: collate(value.rstrip(" "))
        if self.rules.deterministic:
            return lambda value: collate(value) + text_key(value)
        return collate

    def sort_key(self) -> Callable[[Any], object]:
        return self._key()

    def key_encoder(self) -> Callable[[Any], bytes]:
        return self._key()


_runs: dict[Rules, int] = {}
_types: dict[int, CollatedText | ArrayType] = {}


def with_collation(oid: int, rules: Rules) -> TypeRef:
    """Returns the collated type of text, char(n) or an array of them (`oid`) under these rules."""
    first = _runs.get(rules)
    if first is None:
        first = FIRST_OID + RUN * len(_runs)
        learn(first, rules)
    return TypeRef(first + KINDS[oid])


def learn(first: int, rules: Rules) -> None:
    """Registers the run of OIDs that begins with `first` for these rules. The worker calls this with the engine's
    OIDs."""
    _runs[rules] = first
    for padded in (False, True):
        scalar = CollatedText(first + 2 * padded, rules, padded)
        _types[scalar.oid] = scalar
        _types[scalar.array_oid] = ArrayType(scalar.array_oid, f"_{scalar.name}", scalar)
        add_collated(scalar, _types[scalar.array_oid])


def rules_of(oid: int) -> Rules | None:
    """Returns the rules of a collated type or of an array of one; None for other types."""
    if oid < FIRST_OID:
        return None
    found = _types.get(oid)
    scalar = found.element if isinstance(found, ArrayType) else found
    return scalar.rules if isinstance(scalar, CollatedText) else None


def shown_type(type_: TypeRef) -> TypeRef:
    """Returns the type that clients see: the plain type instead of a collated one."""
    return type_ if type_.oid < FIRST_OID else TypeRef(plain(type_.oid))
