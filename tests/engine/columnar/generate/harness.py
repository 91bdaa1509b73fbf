"""Runs generated SQL in a plain DuckDB with the worker's settings, over tables that hold what the oracle's tables hold.

Results are compared as text: the internal form of each value through the type's text encoder on our side, libpq's text
format on PostgreSQL's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pyarrow as pa

from catalog import types
from catalog.catalog import Catalog
from catalog.functions.duckdb_errors import translate
from catalog.schema import POSTGRES_DATABASE_OID, PUBLIC_OID, Column, Schema, Table
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, TypeRef
from catalog.types.text import has_blanks
from engine.columnar.generate.forms import form_of
from engine.columnar.interface import STATEMENT_TIME, ColumnarQuery
from engine.columnar.worker import udf, values
from engine.columnar.worker.database import open_database
from engine.sql import tree
from engine.sql.analyze import Environment, analyze
from engine.sql.analyze.collations import collate
from engine.sql.parser import parse

Rows = list[tuple[str | None, ...]]


class Columns:
    """A DuckDB with copies of tables of the oracle."""

    def __init__(self, postgres: psycopg.Connection) -> None:
        self.postgres = postgres
        self.connection = open_database(1 << 30, 2, "")
        self.tables: dict[str, Table] = {}
        self.catalog = Catalog().with_object(Schema(PUBLIC_OID, POSTGRES_DATABASE_OID, "public"))
        self._registered: set[str] = set()

    def copy(self, name: str) -> Table:
        """Copies a table of the oracle's search path: its definition as a `Table`, its rows into DuckDB."""
        oid = self._text(f"SELECT '{name}'::regclass::oid")[0][0]
        columns = tuple(
            Column(int(row[0] or 0), row[1] or "", TypeRef(int(row[2] or 0), int(row[3] or -1)))
            for row in self._text(
                f"SELECT attnum, attname, atttypid, atttypmod FROM pg_attribute "
                f"WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
            )
        )
        keys = self._text(f"SELECT unnest(conkey) FROM pg_constraint WHERE conrelid = {oid} AND contype = 'p'")
        table = Table(
            oid=int(oid or 0),
            schema=2200,
            name=name,
            columns=columns,
            storage_id=int(oid or 0),
            key_columns=tuple(int(row[0] or 0) for row in keys),
        )
        rows = self._text(f"SELECT * FROM {name}")
        arrays: dict[str, Any] = {}
        for index, column in enumerate(columns):
            decode = types.lookup(column.type.oid).text_decoder(DEFAULT_FORMAT, column.type.typmod)
            cells = [None if row[index] is None else decode(row[index] or "") for row in rows]
            form = form_of(column.type.oid, column.type.typmod)
            arrays[f"c{column.number}"] = values.to_arrow(cells, column.type.oid, str(form))
        arrays["r"] = pa.array(range(len(rows)), pa.int64())
        self.connection.register("incoming", pa.table(arrays))
        definition = ", ".join(
            f"CAST({_held_form(column)} AS {form_of(column.type.oid, column.type.typmod)}) AS c{column.number}"
            for column in columns
        )
        self.connection.execute(f"CREATE TABLE t{oid} AS SELECT {definition}, r FROM incoming")
        self.connection.unregister("incoming")
        self.tables[name] = table
        self.catalog = self.catalog.with_object(table)
        return table

    def analysed(
        self, sql: str, parameter_types: Sequence[int] = ()
    ) -> tree.Query | tree.Insert | tree.Update | tree.Delete:
        """The tree of a statement over the copied tables, as planning takes it: collations have decided."""
        (statement,) = parse(sql)
        return collate(analyze(statement.tree, Environment(self.catalog), parameter_types), self.catalog).statement

    def _text(self, sql: str) -> Rows:
        return oracle_rows(self.postgres, sql)

    def rows(
        self, query: ColumnarQuery, parameters: Sequence[object] = (), settings: FormatSettings = DEFAULT_FORMAT
    ) -> Rows:
        """The query's rows as text. Raises SqlError as the client would."""
        for signature in query.functions:
            if signature.name not in self._registered:
                udf.register(self.connection, signature)
                self._registered.add(signature.name)
        names = {f"t{table.storage_id}": f"t{table.storage_id}" for table in query.tables}
        sql = query.sql.format(**names)
        bound = [_bound(source, kind, parameters) for source, kind in query.parameters]
        try:
            relation = self.connection.sql(sql, params=bound) if bound else self.connection.sql(sql)
            table = relation.to_arrow_table()
        except Exception as error:
            raise translate(str(error)) from error
        columns = []
        for column, array in zip(query.columns, table.columns, strict=False):
            if column.type.oid == 2249:
                columns.append(array.to_pylist())
                continue
            encode = types.lookup(column.type.oid).text_encoder(settings)
            cells = values.from_arrow(array, column.type.oid)
            columns.append([None if cell is None else encode(cell).decode() for cell in cells])
        return [tuple(row) for row in zip(*columns, strict=True)]


def _held_form(column: Column) -> str:
    """As the worker's tables have it: char(n) without the blanks that pad it."""
    name = f"c{column.number}"
    return f"rtrim({name}, ' ')" if has_blanks(column.type) else name


def _bound(source: int, kind: str, parameters: Sequence[object]) -> object:
    if source <= STATEMENT_TIME:
        import datetime

        return datetime.datetime(2024, 5, 6, 7, 8, 9)
    return parameters[source - 1]


def oracle_rows(postgres: psycopg.Connection, sql: str) -> Rows:
    """The oracle's rows in text format. Raises psycopg's error."""
    result = postgres.pgconn.exec_(sql.encode())
    if result.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
        raise OracleError(result.error_field(psycopg.pq.DiagnosticField.SQLSTATE), result.error_message)
    return [
        tuple(
            None if (cell := result.get_value(row, column)) is None else cell.decode()
            for column in range(result.nfields)
        )
        for row in range(result.ntuples)
    ]


class OracleError(Exception):
    """PostgreSQL refused a statement."""

    def __init__(self, sqlstate: bytes | None, message: bytes) -> None:
        super().__init__(message.decode())
        self.sqlstate = (sqlstate or b"").decode()
