"""WHERE CURRENT OF: cursors that know the places of their rows.

    DECLARE   an updatable cursor also selects the places of its rows, before its own columns: the primary key, or the
              hidden row number; for a table with partitions or children also tableoid
    FETCH     moves it; its rows are returned without the places
    UPDATE, DELETE ... WHERE CURRENT OF   get the key of the cursor's row (`current_row`)

PostgreSQL's rules (execCurrent.c) decide which cursors are updatable, and the errors of the others: with FOR UPDATE or
SHARE it is the locked table, otherwise the only table that the query scans. Shoal also accepts a cursor that sorts;
PostgreSQL accepts it only if an index gives the order.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from catalog.schema import Table
from catalog.types import lookup
from catalog.types.base import TypeRef
from catalog.types.oids import INT8, OID
from engine.sql import tree
from engine.storage.keys import row_key_encoder, row_number_key, storage_prefix

if TYPE_CHECKING:
    from engine.txn.transaction import Transaction

_LENGTH = struct.Struct(">i")
_COUNT = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Places:
    """The places of one table's rows in a cursor's result: these columns of it, from `first` on, counted from 0. They
    begin with tableoid if the table stands for others."""

    table: Table
    first: int
    columns: tuple[int, ...]
    locked: bool  # by FOR UPDATE or FOR SHARE, which name the tables

    @property
    def stands_for_others(self) -> bool:
        return self.columns[0] == tree.TABLE_OID

    def key(self, values: Sequence[bytes | None], member: Table) -> bytes:
        """The key of the row whose places, in binary, are among these values. If the row is not in `member`, the table
        or one that it stands for, it is a key that no row has."""
        own = values[self.first : self.first + len(self.columns)]
        places = {
            column: None if value is None else lookup(_place_type(self.table, column).oid).binary_decoder()(value)
            for column, value in zip(self.columns, own, strict=True)
        }
        if self.stands_for_others and places[tree.TABLE_OID] != member.oid:
            return storage_prefix(member.storage_id)
        if not member.key_columns:
            number = places[tree.ROW_NUMBER]
            assert isinstance(number, int)
            return row_number_key(member.storage_id, number)
        columns = [_own_column(self.table, member, number) for number in member.key_columns]
        types = [member.column_by_number(number).type for number in member.key_columns]
        return row_key_encoder(member.storage_id, types)([places[column] for column in columns])


@dataclass(slots=True)
class Positions:
    """The places of a cursor's rows: one list of binary values per row."""

    tables: tuple[Places, ...]
    transaction: Transaction
    rows: list[tuple[bytes | None, ...]]


def add_places(query: tree.Query, catalog: Catalog) -> tuple[tree.Query, tuple[Places, ...]]:
    """The query with the places of its rows before its columns; unchanged if it has none."""
    tables: list[Places] = []
    targets: list[tree.Target] = []
    for relation in _relations(query):
        entry = query.range_table[relation]
        if not isinstance(entry, tree.RangeTable) or not isinstance(entry.table, Table):
            continue
        table = entry.table
        if table.server:  # its rows have no places here
            continue
        stands = table.partitioning is not None or (table.oid in catalog.children and not entry.only)
        numbers = _places_in_family(table, catalog) if stands else table.key_columns or (tree.ROW_NUMBER,)
        if numbers is None:
            continue
        tables.append(Places(table, len(targets), numbers, bool(query.row_marks)))
        for number in numbers:
            name = "tableoid" if number == tree.TABLE_OID else "place"
            targets.append(tree.Target(tree.Var(relation, number, _place_type(table, number), 0, name), "place"))
    return (replace(query, targets=(*targets, *query.targets)) if tables else query), tuple(tables)


def _places_in_family(table: Table, catalog: Catalog) -> tuple[int, ...] | None:
    """tableoid, the hidden row number, and the columns of the keys of all members. None if the key of a member has a
    column that the table lacks."""
    found = dict.fromkeys((tree.TABLE_OID, tree.ROW_NUMBER))
    pending = [table]
    while pending:
        member = pending.pop()
        keys = [_own_column(table, member, number) for number in member.key_columns]
        if not all(keys):
            return None
        found.update(dict.fromkeys(keys))
        pending += [catalog.table(oid) for oid in catalog.children.get(member.oid, ())]
    return tuple(found)


def _own_column(table: Table, member: Table, number: int) -> int:
    """The number of a member's column in the table that stands for it; 0 if that has no such column."""
    column = table.column(member.column_by_number(number).name)
    return 0 if column is None else column.number


def _place_type(table: Table, number: int) -> TypeRef:
    if number == tree.TABLE_OID:
        return TypeRef(OID)
    return TypeRef(INT8) if number == tree.ROW_NUMBER else table.column_by_number(number).type


def _relations(query: tree.Query) -> list[int]:
    """The range table indexes of the relations whose rows correspond to rows of the result."""
    if query.row_marks:
        return [mark.relation for mark in query.row_marks]
    combined = query.has_aggregates or query.group_by or query.distinct is not None or query.set_operation is not None
    if combined or query.has_windows or query.has_set_functions or query.limit_with_ties:
        return []
    scanned = query.from_items[0] if len(query.from_items) == 1 else None
    return [scanned.relation] if isinstance(scanned, tree.FromRef) else []


def check_options(options: Sequence[str], query: tree.Query) -> None:
    """transformDeclareCursorStmt. Raises 42P11, 0A000."""
    for one, other in (("scroll", "no scroll"), ("asensitive", "insensitive")):
        if one in options and other in options:
            raise SqlError("42P11", f"cannot specify both {one.upper()} and {other.upper()}")
    if not query.row_marks:
        return
    strength = f"FOR {query.row_marks[0].strength.upper()}"
    for option, shown, which in (
        ("hold", "CURSOR WITH HOLD", "Holdable"),
        ("scroll", "SCROLL CURSOR", "Scrollable"),
        ("insensitive", "INSENSITIVE CURSOR", "Insensitive"),
    ):
        if option in options:
            state, what = ("42P11", "valid") if option == "insensitive" else ("0A000", "supported")
            message = f"DECLARE {shown} ... {strength} is not {what}"
            raise SqlError(state, message, detail=f"{which} cursors must be READ ONLY.")


def scrolls(query: tree.Query) -> bool:
    """Whether a cursor with neither SCROLL nor NO SCROLL can be read backwards: ExecSupportsBackwardScan for the plan
    that PostgreSQL would most likely have."""
    if query.row_marks or query.has_windows or query.has_set_functions:
        return False
    if query.order_by:
        return True
    if query.has_aggregates or query.group_by or query.distinct is not None:
        return False
    if query.set_operation is not None or len(query.from_items) != 1:
        return False
    item = query.from_items[0]
    if not isinstance(item, tree.FromRef):
        return False
    entry = query.range_table[item.relation]
    return scrolls(entry.query) if isinstance(entry, tree.RangeSubquery) else True


def separate_places(rows: list[bytes], width: int) -> tuple[list[bytes], list[tuple[bytes | None, ...]]]:
    """Separates DataRow messages, whose first `width` columns are places, into messages without them and places."""
    shown: list[bytes] = []
    places: list[tuple[bytes | None, ...]] = []
    for row in rows:
        position, values = 7, list[bytes | None]()
        for _ in range(width):
            length = _LENGTH.unpack_from(row, position)[0]
            position += 4
            values.append(None if length < 0 else row[position : position + length])
            position += max(length, 0)
        body = row[position:]
        count = _COUNT.unpack_from(row, 5)[0] - width
        shown.append(b"D" + _LENGTH.pack(len(body) + 6) + _COUNT.pack(count) + body)
        places.append(tuple(values))
    return shown, places


class Cursor(Protocol):
    """The parts of a portal that are needed here."""

    @property
    def rows(self) -> list[bytes] | None: ...
    @property
    def positions(self) -> Positions | None: ...
    @property
    def position(self) -> int: ...
    @property
    def holdable(self) -> bool: ...


def current_row(
    portals: Mapping[bytes, Cursor], transaction: Transaction | None, cursor: str | None, table: Table, catalog: Catalog
) -> bytes:
    """The key of the table's row at which the cursor is; one that no row has if the row is in another table. Raises
    42704 for a NULL, 34000 if there is no such cursor, 24000 if it is not at a row or has no places."""
    if cursor is None:
        raise SqlError("42704", "no value found for parameter 1")
    portal = portals.get(cursor.encode())
    if portal is None:
        raise SqlError("34000", f'cursor "{cursor}" does not exist')
    if portal.rows is None:
        not_supported("WHERE CURRENT OF a portal that was not declared")
    positions = portal.positions
    if portal.holdable and (positions is None or positions.transaction is not transaction):
        raise SqlError("24000", f'cursor "{cursor}" is held from a previous transaction')
    places = _places_of(cursor, table, positions, catalog)
    assert positions is not None
    if not 1 <= portal.position <= len(positions.rows):
        raise SqlError("24000", f'cursor "{cursor}" is not positioned on a row')
    return places.key(positions.rows[portal.position - 1], table)


def _has_rows_of(places: Places, table: Table, catalog: Catalog) -> bool:
    """Whether a cursor's result may have rows of a table."""
    if places.table.oid == table.oid:
        return True
    return places.stands_for_others and any(
        _has_rows_of(places, catalog.table(parent), catalog) for parent in table.parents
    )


def _places_of(cursor: str, table: Table, positions: Positions | None, catalog: Catalog) -> Places:
    found = [] if positions is None else [item for item in positions.tables if _has_rows_of(item, table, catalog)]
    if positions is not None and positions.tables[0].locked and len(found) != 1:
        what = "multiple FOR UPDATE/SHARE references" if found else "a FOR UPDATE/SHARE reference"
        verb = "has" if found else "does not have"
        raise SqlError("24000", f'cursor "{cursor}" {verb} {what} to table "{table.name}"')
    if not found:
        raise SqlError("24000", f'cursor "{cursor}" is not a simply updatable scan of table "{table.name}"')
    return found[0]
