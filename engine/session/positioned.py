"""WHERE CURRENT OF: cursors that know the places of their rows.

    DECLARE   an updatable cursor also selects the places of its rows, before its own columns: the primary key, or the
              hidden row number
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

from catalog.errors import SqlError, not_supported
from catalog.schema import Table
from catalog.types import lookup
from engine.sql import tree
from engine.sql.table_subqueries import row_columns
from engine.storage.keys import row_key_encoder, row_number_key

if TYPE_CHECKING:
    from engine.txn.transaction import Transaction

_LENGTH = struct.Struct(">i")
_COUNT = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Places:
    """The places of one table's rows in a cursor's result: its `width` columns from `first`, counted from 0."""

    table: Table
    first: int
    width: int

    def key(self, values: Sequence[bytes | None]) -> bytes:
        """The key of the row whose places, in binary, are among these values."""
        own = values[self.first : self.first + self.width]
        types = [type_ for _, type_ in row_columns(self.table)]
        decoded = [
            lookup(type_.oid).binary_decoder()(value)
            for type_, value in zip(types, own, strict=True)
            if value is not None
        ]
        if not self.table.key_columns:
            number = decoded[0]
            assert isinstance(number, int)
            return row_number_key(self.table.storage_id, number)
        return row_key_encoder(self.table.storage_id, types)(decoded)


@dataclass(slots=True)
class Positions:
    """The places of a cursor's rows: one list of binary values per row."""

    tables: tuple[Places, ...]
    locked: bool  # by FOR UPDATE or FOR SHARE, which name the tables
    transaction: Transaction
    rows: list[tuple[bytes | None, ...]]


def add_places(query: tree.Query) -> tuple[tree.Query, tuple[Places, ...]]:
    """The query with the places of its rows before its columns; unchanged if it has none."""
    tables: list[Places] = []
    targets: list[tree.Target] = []
    for relation in _relations(query):
        entry = query.range_table[relation]
        if not isinstance(entry, tree.RangeTable) or not isinstance(entry.table, Table):
            continue
        table = entry.table
        columns = row_columns(table)
        tables.append(Places(table, len(targets), len(columns)))
        targets += (tree.Target(tree.Var(relation, number, type_), "place") for number, type_ in columns)
    return (replace(query, targets=(*targets, *query.targets)) if tables else query), tuple(tables)


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


def current_row(portals: Mapping[bytes, Cursor], transaction: Transaction | None, cursor: str, table: Table) -> bytes:
    """The key of the table's row at which the cursor is. Raises 34000 if there is no such cursor, 24000 if it is not at
    a row or has no places."""
    portal = portals.get(cursor.encode())
    if portal is None:
        raise SqlError("34000", f'cursor "{cursor}" does not exist')
    if portal.rows is None:
        not_supported("WHERE CURRENT OF a portal that was not declared")
    positions = portal.positions
    if portal.holdable and (positions is None or positions.transaction is not transaction):
        raise SqlError("24000", f'cursor "{cursor}" is held from a previous transaction')
    places = _places_of(cursor, table, positions)
    assert positions is not None
    if not 1 <= portal.position <= len(positions.rows):
        raise SqlError("24000", f'cursor "{cursor}" is not positioned on a row')
    return places.key(positions.rows[portal.position - 1])


def _places_of(cursor: str, table: Table, positions: Positions | None) -> Places:
    found = [] if positions is None else [item for item in positions.tables if item.table.oid == table.oid]
    if positions is not None and positions.locked and len(found) != 1:
        what = "multiple FOR UPDATE/SHARE references" if found else "a FOR UPDATE/SHARE reference"
        verb = "has" if found else "does not have"
        raise SqlError("24000", f'cursor "{cursor}" {verb} {what} to table "{table.name}"')
    if not found:
        raise SqlError("24000", f'cursor "{cursor}" is not a simply updatable scan of table "{table.name}"')
    return found[0]
