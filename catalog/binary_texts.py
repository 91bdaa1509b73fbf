"""Texts within values in binary, for clients of another encoding than UTF8: which bytes of a type's binary form are a
text that has to be turned (textsend, textrecv and their kin)."""

from __future__ import annotations

from collections.abc import Callable

from catalog.errors import not_supported
from catalog.types import element_of, lookup, oids

_TEXTS = oids.COLLATABLE | {oids.UNKNOWN, oids.JSON}
_AFTER_VERSION = frozenset((oids.JSONB, oids.JSONPATH))  # text behind a version byte

Turn = Callable[[bytes], bytes]


def binary_turn(oid: int, turn: Turn) -> Turn | None:
    """What turns values of a type in binary; None where they have nothing to be turned. It refuses (0A000) texts beyond
    ASCII within arrays and composite values."""
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
    """Whether there may be texts within: not in arrays and ranges of numbers, dates and the like."""
    element = element_of(oid)
    return not element or binary_turn(element, lambda value: value) is not None
