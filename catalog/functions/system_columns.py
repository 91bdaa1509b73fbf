"""ctid, xmin, xmax, cmin and cmax of rows: inner functions, whose calls analysis makes (engine/sql/analyze/
system_columns.py). Nothing is stored for them.

    ctid      of a table whose key is one integer column, or the hidden row number: the number. Of another: the hash of
              the key, of 126 bits
    xmin      the hash of the row, so it changes with every change of a value
    the rest  0; of a row that an outer join has added: NULL

The first argument of all but the functions of ctid is the row's ctid, which is NULL in a row that an outer join has
added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from catalog.duckdb.nodes import Sql, fill
from catalog.functions.base import Function, Trait
from catalog.functions.registry import declare, implement
from catalog.types import lookup, oids
from catalog.types.base import TypeRef
from catalog.types.pseudo import parts_of_tid, tid_of

_HASHED_BITS = 126  # a tid has room for 128
_OFFSET_BITS = 16
_OFFSET = (1 << _OFFSET_BITS) - 1
_NEGATIVE = 1 << 64
_FIRST_NORMAL_XID = 3


def tid_of_number(number: int) -> bytes:
    """The row with this number, in blocks of 65536. Numbers below 0 are in blocks after all others."""
    if number < 0:
        number += _NEGATIVE
    return tid_of(number >> _OFFSET_BITS, number & _OFFSET)


def number_of_tid(tid: bytes) -> int | None:
    """The inverse of `tid_of_number`; None if no number of 8 bytes has this place."""
    block, offset = parts_of_tid(tid)
    number = block << _OFFSET_BITS | offset
    if number >= 1 << 63:
        number -= _NEGATIVE
    return number if -(1 << 63) <= number < 1 << 63 else None


def _number_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql:
    number = arguments[0]
    near = fill("unhex(lpad(hex({0}::BIGINT), 12, '0'))", number)
    positive = fill(f"(CASE WHEN {{0}} < 0 THEN {{0}}::HUGEINT + {_NEGATIVE} ELSE {{0}}::HUGEINT END)", number)
    far = fill("unhex('FFFFFFFFFFFF' || lpad(hex({0}), 32, '0'))", positive)
    return fill("(CASE WHEN {0} BETWEEN 0 AND 281474976710655 THEN {1} ELSE {2} END)", number, near, far)


def _hash_of_key(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., bytes | None]:
    encoders = [lookup(item.oid).key_encoder() or lookup(item.oid).text_encoder() for item in types]

    def place(*values: Any) -> bytes | None:
        digest = blake2b(digest_size=16)
        for value, encode in zip(values, encoders, strict=True):
            if value is None:
                return None
            part = encode(value)
            digest.update(len(part).to_bytes(4, "big") + part)
        number = int.from_bytes(digest.digest(), "big") >> 128 - _HASHED_BITS
        return tid_of(number >> _OFFSET_BITS, number & _OFFSET)

    return place


def _version(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., int | None]:
    # The stored form depends on no setting.
    encoders: list[Callable[[object], bytes]] = [lookup(item.oid).storage.save for item in types[1:]]

    def version(place: bytes | None, *values: Any) -> int | None:
        if place is None:
            return None
        digest = blake2b(digest_size=4)
        for value, encode in zip(values, encoders, strict=True):
            part = b"" if value is None else b"\1" + encode(value)
            digest.update(len(part).to_bytes(4, "big") + part)
        number = int.from_bytes(digest.digest(), "big")
        return max(number, _FIRST_NORMAL_XID)

    return version


def _declare(oid: int, name: str, result: int) -> Function:
    declared = Function(oid, name, name, "f", False, False, "i", (oids.ANY,), result, 0, 0)
    declare(declared, inner=True)
    return declared


CTID_OF_NUMBER = _declare(9800, "shoal_ctid_of_number", oids.TID)
CTID_OF_KEY = _declare(9801, "shoal_ctid_of_key", oids.TID)
XMIN = _declare(9802, "shoal_xmin", oids.XID)
NO_XID = _declare(9803, "shoal_no_xid", oids.XID)
NO_CMIN = _declare(9804, "shoal_no_cmin", oids.CID)
NO_CMAX = _declare(9805, "shoal_no_cmax", oids.CID)
NUMBER_OF_CTID = _declare(9806, "shoal_number_of_ctid", oids.INT8)
SYSTEM_COLUMNS = {
    CTID_OF_NUMBER.oid: "ctid", CTID_OF_KEY.oid: "ctid", XMIN.oid: "xmin", NO_XID.oid: "xmax", NO_CMIN.oid: "cmin",
    NO_CMAX.oid: "cmax",
}  # fmt: skip
"""The names of the columns that calls of these functions stand for, by OID."""
_SAFE = (Trait.NEVER_FAILS, Trait.NEVER_LARGER)
implement(
    "shoal_ctid_of_number", lambda number: None if number is None else tid_of_number(number), _number_side, traits=_SAFE
)
implement("shoal_ctid_of_key", python_for_types=_hash_of_key, traits=_SAFE)
implement("shoal_xmin", python_for_types=_version, traits=_SAFE)
for _name in ("shoal_no_xid", "shoal_no_cmin", "shoal_no_cmax"):
    implement(_name, lambda place: None if place is None else 0, "(CASE WHEN {0} IS NOT NULL THEN 0::BIGINT END)",
              traits=_SAFE)  # fmt: skip
implement("shoal_number_of_ctid", lambda tid: None if tid is None else number_of_tid(tid), traits=_SAFE)
