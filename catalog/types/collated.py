"""Text under an ICU collation, as the executors see it: a type of its own, which no user ever sees.

Analysis knows text and its collations (engine/sql/analyze/collations.py). Where a collation decides (a comparison, an
ORDER BY, a key of an index), a value is relabelled from text to the *collated type* of that collation: the same `str`,
whose `sort_key` and `key_encoder` are ICU's. Everything that compares by the type's key, as for citext, then does
what the collation says, on both paths, and knows nothing of collations.

    deterministic      key = ICU's sort key, then the text itself: texts that ICU takes for equal are still two
    nondeterministic   key = ICU's sort key: what ICU takes for equal is equal

Their OIDs are given out by this process, one run of four (text, text[], char, char[]) for each locale and kind; they
are stored nowhere. The worker learns them with the query that uses them (catalog/type_descriptions.py).
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
    """What decides how texts compare: an ICU locale, and whether different texts can be equal."""

    locale: str
    deterministic: bool = True


class CollatedText(Text):
    """Internal form `str`. `padded`: char(n), whose trailing blanks do not count."""

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
    """The collated type that stands for text, char(n) or an array of them (`oid`) under these rules."""
    first = _runs.get(rules)
    if first is None:
        first = FIRST_OID + RUN * len(_runs)
        learn(first, rules)
    return TypeRef(first + KINDS[oid])


def learn(first: int, rules: Rules) -> None:
    """These rules have the run of OIDs that begins with `first`: in this process, or in the one that it works for."""
    _runs[rules] = first
    for padded in (False, True):
        scalar = CollatedText(first + 2 * padded, rules, padded)
        _types[scalar.oid] = scalar
        _types[scalar.array_oid] = ArrayType(scalar.array_oid, f"_{scalar.name}", scalar)
        add_collated(scalar, _types[scalar.array_oid])


def rules_of(oid: int) -> Rules | None:
    """The rules of a collated type, or of an array of one; None for any other type."""
    if oid < FIRST_OID:
        return None
    found = _types.get(oid)
    scalar = found.element if isinstance(found, ArrayType) else found
    return scalar.rules if isinstance(scalar, CollatedText) else None


def shown_type(type_: TypeRef) -> TypeRef:
    """The type as clients are told of it: the plain one in place of a collated one."""
    return type_ if type_.oid < FIRST_OID else TypeRef(plain(type_.oid))
