"""Details of errors that show values of a row: as much of it as the user may read (execMain.c, genam.c, ri_triggers.c).

The creator of the error does not know the reader. So the detail names the columns that it shows, and the session
narrows it when it sends the error: the whole row if the user may read the table; otherwise the columns that he may read
or that the statement itself has set, by their names; a key completely or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.privileges import may, may_columns
from catalog.schema import Role, Table

Given = Callable[[Table], frozenset[int]]
"""The columns (attnums) of a table that the statement has given values."""


class ShownKey(str):
    """A detail with values of a key; `hidden` replaces it for users who may not read all of them. `numbers`: the key's
    columns; 0 is an expression, which needs the privilege on the whole table."""

    table: Table
    numbers: Sequence[int]
    hidden: str | None

    def narrow(self, catalog: Catalog, role: Role, given: Given) -> str | None:
        """The detail for a role."""
        readable = may(catalog, self.table, role, "r") or (
            0 not in self.numbers and may_columns(catalog, self.table, role, "r", frozenset(self.numbers))
        )
        return str(self) if readable else self.hidden


class ShownRow(str):
    """'Failing row contains (1, null).' `values`: the texts of the columns, by their numbers."""

    table: Table
    values: Mapping[int, str]

    def narrow(self, catalog: Catalog, role: Role, given: Given) -> str | None:
        """The detail for a role."""
        if may(catalog, self.table, role, "r"):
            return str(self)
        told = given(self.table)
        seen = {
            self.table.column_by_number(number).name: text
            for number, text in self.values.items()
            if number in told or may_columns(catalog, self.table, role, "r", frozenset([number]))
        }
        return f"Failing row contains ({', '.join(seen)}) = ({', '.join(seen.values())})." if seen else None


def shown_key(table: Table, numbers: Sequence[int], text: str, hidden: str | None = None) -> ShownKey:
    """The detail of an error about a key."""
    found = ShownKey(text)
    found.table, found.numbers, found.hidden = table, numbers, hidden
    return found


def shown_row(table: Table, values: Mapping[int, str]) -> ShownRow:
    """The detail of an error about a row."""
    found = ShownRow(f"Failing row contains ({', '.join(values.values())}).")
    found.table, found.values = table, values
    return found


def constraint_error(
    sqlstate: str, message: str, catalog: Catalog, table: Table, constraint: str, detail: str | None = None
) -> SqlError:
    """An error of class 23 with the names of the table and of its constraint."""
    schema = catalog.schema_name(table.schema)
    return SqlError(sqlstate, message, detail=detail, schema=schema, table=table.name, constraint=constraint)
