"""The offsets of the parts of a jsonb value in PostgreSQL's binary form, by which .keyvalue() identifies objects.

A container has a header of four bytes, an entry of four bytes for every element (two for every member of an object: all
keys, then all values), and then the data of the entries; numbers and containers begin at multiples of four (jsonb.h,
jsonb_util.c).
"""

from __future__ import annotations

from decimal import Decimal

_SHORT_SCALE = 63
_NBASE_DIGITS = 4


def offset_of(document: object, value: object) -> int:
    """Returns the offset in bytes of the container `value`, which is an object within `document`."""
    found = _find(document, value, 0)
    return 0 if found is None else found


def _find(container: object, value: object, start: int) -> int | None:
    if container is value:
        return start
    entries = _entries(container)
    if entries is None:
        return None
    data, offset = start + 4 + 4 * len(entries), 0
    for entry in entries:
        if isinstance(entry, (list, dict)):
            found = _find(entry, value, data + _align(offset))
            if found is not None:
                return found
        offset = _end(entry, offset)
    return None


def _entries(container: object) -> list[object] | None:
    if isinstance(container, dict):
        return [*container, *container.values()]
    return container if isinstance(container, list) else None


def _end(entry: object, offset: int) -> int:
    """Returns the end of the data of an entry that begins at `offset`."""
    if isinstance(entry, str):
        return offset + len(entry.encode())
    if isinstance(entry, Decimal):
        return _align(offset) + _numeric_size(entry)
    entries = _entries(entry)
    if entries is None:
        return offset  # null, true and false are in the entry itself
    inner = 0
    for item in entries:
        inner = _end(item, inner)
    return _align(offset) + 4 + 4 * len(entries) + inner


def _align(offset: int) -> int:
    return (offset + 3) & ~3


def _numeric_size(value: Decimal) -> int:
    """Returns the size in bytes of a numeric with its length word; it has base-10000 digits without zeros at either
    end."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return 4 + 2
    fraction = max(0, -exponent)
    text = "".join(map(str, digits)) + "0" * max(0, exponent)
    whole, decimals = (text[:-fraction], text[-fraction:]) if fraction else (text, "")
    whole = whole.lstrip("0")
    decimals = decimals.rjust(fraction, "0")
    whole = whole.rjust(-(-len(whole) // _NBASE_DIGITS) * _NBASE_DIGITS, "0")
    decimals = decimals.ljust(-(-len(decimals) // _NBASE_DIGITS) * _NBASE_DIGITS, "0")
    groups = [(whole + decimals)[at : at + 4] for at in range(0, len(whole + decimals), 4)]
    weight = len(whole) // _NBASE_DIGITS - 1
    while groups and groups[0] == "0000":
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == "0000":
        groups.pop()
    short = fraction <= _SHORT_SCALE and -64 <= weight <= 63
    return 4 + (2 if short else 4) + 2 * len(groups)
