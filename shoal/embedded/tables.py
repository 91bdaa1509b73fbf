"""The key-value interface: rows of a table by primary key, without writing SQL.

    accounts = db.table("accounts")
    accounts.put({"id": 1, "owner": "ann", "balance": 10})
    accounts.get(1)                        {'id': 1, 'owner': 'ann', 'balance': 10}
    accounts.upsert({"id": 1, "balance": 20})
    accounts.delete(1)
    for row in accounts.scan(10, 20): ...

A key is a value, or a tuple of them where the primary key has several columns. Everything is checked, locked and
committed as SQL is: each call is a statement that is prepared once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.identifiers import quote_identifier
from shoal.embedded.connection import Connection
from shoal.embedded.errors import ProgrammingError

Row = dict[str, Any]

SCAN_ROWS = 1000  # rows that one statement of a scan reads

_COLUMNS = """
SELECT a.attname, i.indkey
FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum"""
_KEY = """
SELECT a.attname FROM pg_index i, pg_attribute a, unnest(i.indkey::int2[]) WITH ORDINALITY k (number, place)
WHERE i.indrelid = %s::regclass AND i.indisprimary AND a.attrelid = i.indrelid AND a.attnum = k.number
ORDER BY k.place"""


class Table:
    """A table, by its name as in SQL ('accounts', 'sales.orders', '"Odd Name"')."""

    def __init__(self, connection: Connection, name: str) -> None:
        """Raises ProgrammingError for a table that does not exist or has no primary key."""
        self.name = name
        self._connection = connection
        self.key = [row[0] for row in connection.execute(_KEY, (name,))]
        if not self.key:
            raise ProgrammingError(f"table {name} has no primary key: use SQL")
        where = " AND ".join(f"{quote_identifier(column)} = %s" for column in self.key)
        self._get = f"SELECT * FROM {name} WHERE {where}"
        self._delete = f"DELETE FROM {name} WHERE {where}"
        self._columns = [row[0] for row in connection.execute(_COLUMNS, (name,))]

    def get(self, key: Any) -> Row | None:
        """The row with this key, or None."""
        cursor = self._connection.execute(self._get, self._parts(key))
        row = cursor.fetchone()
        return None if row is None else _row_of(cursor.description, row)

    def put(self, row: Mapping[str, Any]) -> None:
        """Stores a whole row, in place of one with the same key. Columns that are not given get their defaults."""
        rest = [column for column in self._columns if column not in self.key]
        self._write(row, {column: "EXCLUDED." + quote_identifier(column) for column in rest})

    def upsert(self, row: Mapping[str, Any]) -> None:
        """Stores a row, or changes the given columns of the row with the same key."""
        self._write(row, {column: "EXCLUDED." + quote_identifier(column) for column in row if column not in self.key})

    def insert(self, row: Mapping[str, Any]) -> None:
        """Stores a new row. Raises IntegrityError if the key exists."""
        self._connection.execute(self._insert(row), list(row.values()))

    def delete(self, key: Any) -> bool:
        """Deletes the row with this key. Returns whether there was one."""
        return self._connection.execute(self._delete, self._parts(key)).rowcount > 0

    def scan(self, low: Any = None, high: Any = None, *, reverse: bool = False) -> Iterator[Row]:
        """The rows with low <= key < high, in the order of the key. They are read in pieces. Outside of a transaction
        each piece has its own snapshot."""
        keys = ", ".join(quote_identifier(column) for column in self.key)
        order = ", ".join(quote_identifier(column) + (" DESC" if reverse else "") for column in self.key)
        bounds = [("<", high)] if high is not None else []
        bounds += [(">=", low)] if low is not None else []
        last: tuple[Any, ...] | None = None
        while True:
            wanted = list(bounds)
            if last is not None:
                wanted = [bound for bound in bounds if (bound[0] == "<") != reverse]
                wanted.append(("<" if reverse else ">", last))
            places = ", ".join(["%s"] * len(self.key))
            where = " AND ".join(f"({keys}) {sign} ({places})" for sign, _ in wanted) or "true"
            values = [part for _, bound in wanted for part in self._parts(bound)]
            sql = f"SELECT * FROM {self.name} WHERE {where} ORDER BY {order} LIMIT {SCAN_ROWS}"
            cursor = self._connection.execute(sql, values)
            description = cursor.description
            rows = cursor.fetchall()
            for row in rows:
                yield _row_of(description, row)
            if len(rows) < SCAN_ROWS:
                return
            final = _row_of(description, rows[-1])
            last = tuple(final[column] for column in self.key)

    def _parts(self, key: Any) -> tuple[Any, ...]:
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) != len(self.key):
            raise ProgrammingError(f"the key of {self.name} is ({', '.join(self.key)}): give {len(self.key)} values")
        return parts

    def _insert(self, row: Mapping[str, Any]) -> str:
        columns = ", ".join(quote_identifier(column) for column in row)
        return f"INSERT INTO {self.name} ({columns}) VALUES ({', '.join(['%s'] * len(row))})"

    def _write(self, row: Mapping[str, Any], changes: Mapping[str, str]) -> None:
        assignments = ", ".join(f"{quote_identifier(column)} = {value}" for column, value in changes.items())
        action = f"UPDATE SET {assignments}" if changes else "NOTHING"
        target = ", ".join(quote_identifier(column) for column in self.key)
        self._connection.execute(f"{self._insert(row)} ON CONFLICT ({target}) DO {action}", list(row.values()))


def _row_of(description: list[tuple[Any, ...]] | None, row: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(description or (), row, strict=True)}
