"""Functions of macaddr and macaddr8 (PostgreSQL 16 manual, 9.12). A value is bytes, and in DuckDB a text of hexadecimal
digits, which has the same order."""

from __future__ import annotations

from catalog.errors import SqlError
from catalog.functions.integers import comparisons
from catalog.functions.registry import implement


def _and(left: bytes, right: bytes) -> bytes:
    return bytes(one & other for one, other in zip(left, right, strict=True))


def _or(left: bytes, right: bytes) -> bytes:
    return bytes(one | other for one, other in zip(left, right, strict=True))


def _short(value: bytes) -> bytes:
    if value[3:5] != b"\xff\xfe":
        hint = (
            "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example "
            "xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr."
        )
        raise SqlError("22003", "macaddr8 data out of range to convert to macaddr", hint=hint)
    return value[:3] + value[5:]


for _name in ("macaddr", "macaddr8"):
    comparisons(_name + "_{}")
    implement(f"{_name}_cmp", lambda left, right: (left > right) - (left < right))
    implement(f"{_name}_not", lambda value: bytes(255 - octet for octet in value))
    implement(f"{_name}_and", _and)
    implement(f"{_name}_or", _or)
    implement(f"{_name}_trunc", lambda value: value[:3] + bytes(len(value) - 3))
implement("macaddrtomacaddr8", lambda value: value[:3] + b"\xff\xfe" + value[3:])
implement("macaddr8tomacaddr", _short)
implement("macaddr8_set7bit", lambda value: bytes((value[0] | 2,)) + value[1:])
