"""Converts the texts in binary values for clients whose encoding is not UTF8: finds the bytes of a type's binary form
that are text (textsend, textrecv and similar functions)."""

from __future__ import annotations

from collections.abc import Callable

from catalog.errors import not_supported
from catalog.types import element_of, lookup, oids

_TEXTS = oids.COLLATABLE | {oids.UNKNOWN, oids.JSON}
_AFTER_VERSION = frozenset((oids.JSONB, oids.JSONPATH))  # text after a version byte

Turn = Callable[[bytes], bytes]


def binary_turn(oid: int, turn: Turn) -> Turn | None:
    """A function that converts binary values of a type by `turn`; None if the type contains no text. For arrays and
    composite values, the function does not convert but raises 0A000 for texts that are not ASCII."""
    if oid in _TEXTS or lookup(oid).category in "SE":
        return turn
    if oid in _AFTER_VERSION:
        return lambda value: value[:1] + turn(value[1:])
    if lookup(oid).category in "ACPR" or lookup(oid).name == "hstore":

        def only_ascii(value: bytes) -> bytes:
            if _holds_text(oid) and not value.isascii():
                not_supported(f"type {lookup(oid).sql_name} in binary with another client encoding than UTF8")
            return value

        return only_ascii
    return None


def _holds_text(oid: int) -> bool:
    """Whether a value may contain texts, unlike arrays of numbers or dates."""
    element = element_of(oid)
    return not element or binary_turn(element, lambda value: value) is not None
