"""The content of virtual tables in the form that the worker reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from catalog import types
from catalog.schema import VirtualTable
from engine.columnar.worker.values import to_arrow


def batch_of(relation: VirtualTable, columns: Sequence[Sequence[object]]) -> Any:
    """A pyarrow RecordBatch with a column c<attnum> for every column of the relation, in DuckDB's types.

    `columns` are internal-form values (None for NULL), column by column in the relation's order.
    """
    arrays = [
        to_arrow(values, column.type.oid, types.lookup(column.type.oid).duckdb_type(column.type.typmod))
        for column, values in zip(relation.columns, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{column.number}" for column in relation.columns])
