"""shoal_key_ranges(): ranges of a table's primary key with about equal numbers of rows, without reading the table.

Keys are stored in order. Evenly chosen keys of the tree's leaves and of the memtables are the cuts
(`Tablespace.sample_keys`). A cut is an existing row, whose key values are written as SQL. A table without a primary key
or without storage has one range.

The conditions cover all rows, whatever the samples are: `key < a`, `key >= a AND key < b`, `key >= b`. A primary key
has no NULLs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.identifiers import quote_identifier, quote_literal
from catalog.schema import Table, View
from catalog.system.relations import system_relations
from catalog.types import format_type, lookup
from engine.storage.rows import RowCodec

if TYPE_CHECKING:
    from engine.session.session import Session

MOST_PARTS = 10_000
_HASHED = 511  # bytes: a longer key ends in a hash, which has no order
_WHOLE = "true"


def key_ranges(session: Session, oid: int, parts: int) -> Sequence[str]:
    """One condition for each range, at most `parts` of them, in key order. Raises 42P01, 42501, 22023."""
    table = session.catalog.get(oid)
    is_system = any(relation.oid == oid for relation in system_relations().values())
    if not is_system and not isinstance(table, Table | View):
        raise SqlError("42P01", f"relation with OID {oid} does not exist")
    if not 1 <= parts <= MOST_PARTS:
        raise SqlError("22023", f"the number of ranges must be from 1 to {MOST_PARTS}")
    if not isinstance(table, Table | View):
        return (_WHOLE,)
    session.identity.check_letters(table, "r", [column.number for column in table.columns])
    if not isinstance(table, Table) or not table.key_columns or parts == 1:
        return (_WHOLE,)
    if session.identity.check_row_security(table):
        return (_WHOLE,)  # the cuts are keys of existing rows
    columns = [table.column_by_number(number) for number in table.key_columns]
    names = _row([quote_identifier(column.name) for column in columns])
    types = [(lookup(column.type.oid), format_type(column.type.oid, column.type.typmod)) for column in columns]
    cuts = []
    for row in _cuts(session, table, parts):
        values = [
            f"{quote_literal(kind.text_encoder()(value).decode())}::{name}"
            for (kind, name), value in zip(types, row, strict=True)
        ]
        cuts.append(_row(values))
    ranges = []
    for low, high in zip([None, *cuts], [*cuts, None], strict=True):
        bounds = [f"{names} >= {low}"] if low else []
        bounds += [f"{names} < {high}"] if high else []
        ranges.append(" AND ".join(bounds) or _WHOLE)
    return ranges


def _row(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _cuts(session: Session, table: Table, parts: int) -> Iterator[tuple[object, ...]]:
    """The key values of the first rows of all ranges except the first."""
    members = list(_members(session, table))
    samples = sorted(
        (key[4:], weight, place)
        for place, member in enumerate(members)
        for key, weight in session.node.store.of(member.storage_id).sample_keys(member.storage_id)
        if len(key) < _HASHED
    )
    whole = sum(weight for _, weight, _ in samples)
    codecs = [RowCodec(member) for member in members]
    reached, cut = 0.0, 1
    for number, (key, weight, place) in enumerate(samples):
        if number and reached >= whole * cut / parts:
            member = members[place]
            stored = session.node.store.current.get(member.storage_id.to_bytes(4, "big") + key)
            if stored is not None:
                row = codecs[place].decode(stored)
                positions = {column.number: position for position, column in enumerate(member.columns)}
                yield tuple(row[positions[key_column]] for key_column in member.key_columns)
                while reached >= whole * cut / parts:
                    cut += 1
        reached += weight


def _members(session: Session, table: Table) -> Iterator[Table]:
    """The tables with its rows: itself, and its partitions and children with the same key."""
    if table.partitioning is None:
        yield table
    names = [table.column_by_number(number).name for number in table.key_columns]
    for child in session.catalog.by_kind.get(Table, ()):
        if isinstance(child, Table) and table.oid in child.parents:
            own = [child.column_by_number(number).name for number in child.key_columns]
            if own == names or child.partitioning is not None:
                yield from _members(session, child)
