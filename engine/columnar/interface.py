"""The columnar path as the session sees it, and the words that the parts of it exchange.

generate.py   Query -> `ColumnarQuery`: DuckDB SQL over internal table names, plus what it reads
feed.py       which changes each loaded table still lacks, collected from every commit
client.py     the engine's side of the worker: brings tables up to date, sends queries, streams results
worker/       the process: DuckDB, its tables, the encoder of results. Talks to client.py by frames over a socket pair

Names inside DuckDB: a stored table is `t<storage_id>`, its columns `c<attnum>`, its hidden row number `r`; a virtual
table is `v<oid>`. A query names tables through `{t<storage_id>}` placeholders, so that the client can put the plain
table there or, for a transaction with own writes or an old snapshot, a merged view of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from catalog.schema import Table, VirtualTable
from catalog.types.base import FormatSettings, TypeRef


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A result column: its SQL type, and the DuckDB type in which the generated SQL yields it (for the encoder)."""

    name: str
    type: TypeRef
    duckdb_type: str


@dataclass(frozen=True, slots=True)
class ColumnarQuery:
    """`sql` has {t123} table placeholders and $1.. parameters (numbered as in the statement).

    `parameters`: the statement's parameter numbers that it uses, with the DuckDB type each is bound as. `settings_free`
    is False when the SQL text depends on session settings (time zone, search_path) and must be made again after SET.
    """

    sql: str
    columns: tuple[OutputColumn, ...]
    tables: tuple[Table, ...]
    virtual_tables: tuple[VirtualTable, ...]
    parameters: tuple[tuple[int, str], ...]
    functions: tuple[str, ...] = ()  # UDFs it calls: prosrc names that the worker must have registered


class ResultStream(Protocol):
    """Rows on their way. Leaving the iteration early (cancel, portal close) stops the query in the worker."""

    def __aiter__(self) -> AsyncIterator[tuple[bytes, int]]:
        """Chunks of encoded rows, with the number of rows in each. Bounded: the worker waits for the reader."""

    async def close(self) -> None: ...


class ColumnarEngine(Protocol):
    async def rows(
        self,
        query: ColumnarQuery,
        parameters: Sequence[object],
        reader: object,
        encoding: RowEncoding,
    ) -> ResultStream:
        """Runs the query as of the reader (a Transaction, or a plain snapshot) and streams encoded rows."""

    async def batches(self, query: ColumnarQuery, parameters: Sequence[object], reader: object) -> AsyncIterator[object]:
        """The same as pyarrow record batches in DuckDB's types, for DML through the columnar path."""


@dataclass(frozen=True, slots=True)
class RowEncoding:
    """How result rows leave the worker. kind: 'datarow' (DataRow messages; `formats` 0 text, 1 binary per column),
    'copy_text', 'copy_csv' (CopyData messages with one row each; `options` as in COPY)."""

    kind: str
    formats: tuple[int, ...]
    settings: FormatSettings
    options: tuple[tuple[str, str], ...] = ()
