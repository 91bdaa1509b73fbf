"""The types' send functions as SQL functions: float4send(1.5) returns the binary form as bytea."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from catalog.errors import not_supported
from catalog.functions import registry
from catalog.types import by_oid, lookup, oids, pg_type_rows
from catalog.types.base import TypeRef


def _sender(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., object]:
    if types[0].oid == oids.RECORD:
        not_supported("record_send of a row of no declared type")
    return cast(Callable[..., object], lookup(types[0].oid).binary_encoder())


# Pseudo-types and types without a binary form have no send function.
_LEFT_OUT = frozenset((oids.RECORD, oids.VOID, oids.UNKNOWN, oids.CSTRING, oids.ANYARRAY, oids.PG_NODE_TREE))
_SOURCES = {
    registry.function(row.send).source
    for row in pg_type_rows
    if row.send and row.oid in by_oid and row.oid not in _LEFT_OUT
}
for _source in sorted({*_SOURCES, "enum_send", "record_send"}):
    registry.implement(_source, python_for_types=_sender)
