"""Encodes whole rows of one table for storage: keys, stored rows, index entries."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from catalog.catalog import Catalog
from catalog.schema import Table
from catalog.types.base import DEFAULT_FORMAT, FormatSettings
from engine.bulk.rows import RowSet
from engine.execute.writer import IndexWriter, TableWriter
from engine.storage.columns import Column, binary_array
from engine.storage.keys import PREFIX_BYTES, encode_index_entries, encode_keys, encode_row_numbers
from engine.storage.rows import RowCodec


class TableEncoder:
    """Created once for each statement. `writer` is the table's row-at-a-time side, which names constraints in
    errors."""

    def __init__(self, catalog: Catalog, table: Table, settings: FormatSettings = DEFAULT_FORMAT) -> None:
        self.catalog = catalog
        self.table = table
        self.writer = TableWriter(catalog, table, settings)
        self.codec = RowCodec(table)
        self.key_types = [table.column_by_number(number).type for number in table.key_columns]
        self.indexes = self.writer.indexes

    def keys(self, rows: RowSet, first_number: int = 0) -> Column:
        """The rows' keys. Without a primary key they are numbers from `first_number`."""
        if not self.table.key_columns:
            return encode_row_numbers(self.table.storage_id, first_number, rows.count)
        if rows.in_columns:
            columns = [rows.column(number) for number in self.table.key_columns]
            return encode_keys(self.table.storage_id, self.key_types, columns)
        return binary_array([self.writer.key_of(row) or b"" for row in rows.tuples()])

    def rows(self, rows: RowSet) -> Column:
        """The stored rows."""
        if rows.in_columns:
            return self.codec.batches.encode(rows.batch())
        return binary_array(list(map(self.codec.encode, rows.tuples())))

    def entries(self, index: IndexWriter, rows: RowSet, keys: Column) -> tuple[Column, Column, Any]:
        """(keys, values, places) of the rows' entries in an index. `places` (None: all) are the positions of the rows
        that have one."""
        if rows.in_columns and not index.on_expressions:
            definition = index.index
            columns = [rows.column(column.number) for column in definition.columns]
            entries, values = encode_index_entries(
                definition.storage_id, index.key_types, columns, keys, definition.unique, definition.nulls_not_distinct
            )
            return entries, values, None
        found: list[bytes] = []
        values_found: list[bytes] = []
        places: list[int] = []
        for place, (row, key) in enumerate(zip(rows.tuples(), keys.to_pylist(), strict=True)):
            entry = index.entry(row, key)
            if entry is not None:
                found.append(entry)
                values_found.append(key[PREFIX_BYTES:])
                places.append(place)
        return binary_array(found), binary_array(values_found), pa.array(places, pa.int64())
