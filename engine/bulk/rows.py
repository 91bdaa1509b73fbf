"""The rows of one table before they are stored: whole Arrow columns, or tuples for values that columns cannot hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from catalog.errors import SqlError
from catalog.schema import Table
from catalog.types.base import is_stored
from engine.storage.columns import Column, Numbers, ShapedArray, column_form, from_values, one_array, to_values
from engine.storage.row_batches import column_name

Row = tuple[object, ...]

_NO_COLUMN = "no column"  # of a batch that has only a length


class RowSet:
    """`count` rows. Columns have DuckDB's types (catalog/types, 'Values in columns'), by column number. An absent
    column is NULL. Tuples are whole rows in internal form, in the order of `table.columns`."""

    def __init__(
        self, table: Table, count: int, columns: Mapping[int, Any] | None = None, tuples: list[Row] | None = None
    ) -> None:
        self.table = table
        self.count = count
        self._columns: dict[int, Column] | None = (
            None if columns is None else {number: one_array(column) for number, column in columns.items()}
        )
        self._tuples = tuples

    @classmethod
    def of_values(cls, table: Table, count: int, values: Mapping[int, Sequence[object]]) -> RowSet:
        """Makes a RowSet from lists of internal-form values by column number."""
        try:
            return cls(table, count, {number: _in_column(table, number, items) for number, items in values.items()})
        except SqlError as error:
            if error.sqlstate != "0A000":
                raise
        nothing = [None] * count
        return cls(
            table,
            count,
            None,
            list(zip(*(values.get(column.number, nothing) for column in table.columns), strict=True)),
        )

    @property
    def in_columns(self) -> bool:
        return self._columns is not None

    def has(self, number: int) -> bool:
        """Whether the column is present. Otherwise it is NULL in every row."""
        return self._columns is None or number in self._columns

    def column(self, number: int) -> Column:
        """One column as an Arrow array. Raises 0A000 for values that columns cannot hold."""
        if self._columns is not None:
            found = self._columns.get(number)
            return found if found is not None else self._nulls(number)
        return from_values(self.values(number), self.table.column_by_number(number).type.oid)

    def _nulls(self, number: int) -> Column:
        return pa.nulls(self.count, column_form(self.table.column_by_number(number).type.oid).arrow_type)

    def values(self, number: int) -> list[Any]:
        """One column in internal form."""
        if self._columns is not None:
            found = self._columns.get(number)
            if found is None:
                return [None] * self.count
            return to_values(found, self.table.column_by_number(number).type.oid)
        assert self._tuples is not None
        place = next(place for place, column in enumerate(self.table.columns) if column.number == number)
        return [row[place] for row in self._tuples]

    def valid(self, number: int) -> Numbers | None:
        """Booleans, False where the column is NULL; None if it has no NULL."""
        if self._columns is None:
            valid = np.fromiter((value is not None for value in self.values(number)), np.bool_, self.count)
            return None if valid.all() else valid
        found = self._columns.get(number)
        if found is None:
            return np.zeros(self.count, np.bool_) if self.count else None
        return found.is_valid().to_numpy(zero_copy_only=False) if found.null_count else None

    def with_columns(self, more: Mapping[int, Sequence[object] | Column]) -> RowSet:
        """The rows with additional columns, as Arrow arrays or as lists of internal-form values."""
        if not more:
            return self
        if self._columns is not None:
            try:
                made = {
                    number: item
                    if isinstance(item, (pa.Array, pa.ChunkedArray))
                    else _in_column(self.table, number, item)
                    for number, item in more.items()
                }
                return RowSet(self.table, self.count, {**self._columns, **made})
            except SqlError as error:
                if error.sqlstate != "0A000":
                    raise
        parts = []
        for column in self.table.columns:
            item = more.get(column.number)
            if isinstance(item, (pa.Array, pa.ChunkedArray)):
                item = to_values(one_array(item), column.type.oid)
            parts.append(self.values(column.number) if item is None else item)
        rows: list[Row] = list(zip(*parts, strict=True)) if parts else [()] * self.count
        return RowSet(self.table, self.count, None, rows)

    def tuples(self) -> list[Row]:
        """Every row as a tuple."""
        if self._tuples is None:
            parts = [self.values(column.number) for column in self.table.columns]
            self._tuples = list(zip(*parts, strict=True)) if parts else [()] * self.count
        return self._tuples

    def row(self, place: int) -> Row:
        """One row as a tuple."""
        return self.take(np.array([place])).tuples()[0] if self._columns is not None else self.tuples()[place]

    def take(self, places: Numbers) -> RowSet:
        """The rows at these positions."""
        if self._columns is not None:
            wanted = pa.array(places)
            return RowSet(
                self.table, len(places), {number: column.take(wanted) for number, column in self._columns.items()}
            )
        rows = self.tuples()
        return RowSet(self.table, len(places), None, [rows[place] for place in places.tolist()])

    def batch(self) -> Any:
        """The columns as a pyarrow RecordBatch with names c<number>."""
        assert self._columns is not None
        if not self._columns:  # a batch without columns has no length
            return pa.RecordBatch.from_arrays([pa.nulls(self.count)], names=[_NO_COLUMN])
        return pa.RecordBatch.from_arrays(
            list(self._columns.values()), names=[column_name(number) for number in self._columns]
        )


def _in_column(table: Table, number: int, values: Sequence[object]) -> Column:
    """Internal-form values as a column. Raises 0A000 for values that a column cannot hold, or could hold only by
    decoding a long stored value."""
    if any(map(is_stored, values)):
        raise ShapedArray
    return from_values(values, table.column_by_number(number).type.oid)
