"""Evaluates SQL expressions over columns of values on the row path, on the columnar path and in PostgreSQL.

An expression names its columns as {a}, {b}, ...; each column is a type and its values in text form (None for NULL), and
the expression is computed for every combination. PostgreSQL answers one combination at a time, so that errors are
compared too (SQLSTATE and message). The row path gets the values as parameters of one compiled plan; the columnar path
as columns of a DuckDB table, all combinations that work in one query and each that fails in one of its own.

The columnar path may refuse (0A000) where PostgreSQL answers; it may never answer otherwise.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
import pyarrow as pa

from catalog import types
from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.functions.base import CallContext
from catalog.functions.duckdb_errors import translate
from catalog.schema import POSTGRES_DATABASE_OID, PUBLIC_OID, Column, Schema, Table
from catalog.types import pg_type_by_name
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, TypeRef
from engine.columnar.generate import generate
from engine.columnar.generate.forms import form_of
from engine.columnar.interface import FIRST_COMPUTED, STATEMENT_TIME, ColumnarQuery
from engine.columnar.worker import udf, values
from engine.columnar.worker.database import open_database
from engine.execute.context import ExecContext, RowPlan
from engine.execute.planner import plan_row
from engine.sql import tree
from engine.sql.analyze import Environment, analyze
from engine.sql.parser import parse
from tests.catalog.functions.calling import postgres_answers, quote

Values = tuple[str, Sequence[str | None]]
Row = tuple[str | None, ...]
NOW = 820_000_000_123_456  # the transaction's time in microseconds since 2000: 2025-12-25 17:46:40.123456 UTC
_TABLE_OID = 16385


class Comparison:
    """Columns of values, and what the three evaluators make of expressions over them."""

    def __init__(
        self,
        postgres: psycopg.Connection[Any],
        columns: Mapping[str, Values],
        settings: FormatSettings = DEFAULT_FORMAT,
        rows: Sequence[Row] | None = None,
    ) -> None:
        self._postgres = postgres
        self.settings = settings
        for name, value in _oracle_settings(settings):
            postgres.execute("SELECT set_config(%s, %s, false)", (name, value))
        self.columns = list(columns)
        self._types = [name for name, _ in columns.values()]
        self._oids = [pg_type_by_name[name].oid for name in self._types]
        self.rows = list(rows if rows is not None else itertools.product(*(texts for _, texts in columns.values())))
        decoders = [types.lookup(oid).text_decoder(settings) for oid in self._oids]
        self._values = [
            tuple(None if text is None else decode(text) for decode, text in zip(decoders, row, strict=True))
            for row in self.rows
        ]
        self._call = CallContext(NOW, NOW, settings.timezone, None, settings)
        self._connection = open_database(1 << 30, 1, "")
        self._registered: set[str] = set()
        self._catalog = self._make_table()

    def close(self) -> None:
        self._connection.close()

    def _make_table(self) -> Catalog:
        """v(n, a, b, ...) in DuckDB and in a catalog: n is the number of the combination."""
        columns = [Column(1, "n", TypeRef(types.oids.INT8))]
        columns += [
            Column(number, name, TypeRef(oid))
            for number, (name, oid) in enumerate(zip(self.columns, self._oids, strict=True), 2)
        ]
        self._stored = [number for number, row in enumerate(self._values) if not any(map(_has_dimensions, row))]
        arrays: dict[str, Any] = {"c1": pa.array(self._stored, pa.int64())}
        for index, oid in enumerate(self._oids):
            column = [self._values[number][index] for number in self._stored]
            arrays[f"c{index + 2}"] = values.to_arrow(column, oid, str(form_of(oid)))
        self._connection.register("incoming", pa.table(arrays))
        definition = ", ".join(
            f"CAST(c{column.number} AS {form_of(column.type.oid)}) AS c{column.number}" for column in columns
        )
        self._connection.execute(f"CREATE TABLE t{_TABLE_OID} AS SELECT {definition} FROM incoming")
        table = Table(
            oid=_TABLE_OID, schema=PUBLIC_OID, name="v", columns=tuple(columns), storage_id=_TABLE_OID, key_columns=(1,)
        )
        return Catalog().with_object(Schema(PUBLIC_OID, POSTGRES_DATABASE_OID, "public")).with_object(table)

    # ---- the three ----

    def oracle(self, expression: str, returns_set: bool = False) -> list[str]:
        if returns_set:
            expression = f"(SELECT array_agg(t.x::text) FROM (SELECT {expression} AS x) AS t)"
        return postgres_answers(
            self._postgres, [_filled(expression, self.columns, self._types, row) for row in self.rows]
        )

    def row_path(self, expression: str, returns_set: bool = False) -> list[str]:
        places = {
            name: f"${number}::pg_catalog.{_quoted(type_name)}"
            for number, (name, type_name) in enumerate(zip(self.columns, self._types, strict=True), 1)
        }
        try:
            filled = expression.format(**places)
            sql = f"SELECT t.x FROM {filled} AS t(x)" if returns_set else f"SELECT {filled}"
            analysed = self._analysed(sql, self._oids)
            plan = plan_row(analysed, self._catalog, self.settings)
        except SqlError as error:
            return [f"error {error.sqlstate} {error.message}"] * len(self.rows)
        assert plan is not None, f"{expression} does not run on the row path"
        assert isinstance(analysed.statement, tree.Query)
        oid = analysed.statement.output[0].expression.type.oid
        return [self._planned(plan, oid, row, returns_set) for row in self._values]

    def _planned(self, plan: RowPlan, oid: int, row: Sequence[object], returns_set: bool) -> str:
        context = ExecContext(None, None, self._call, self._catalog, self.settings)  # type: ignore[arg-type]
        try:
            rows, _ = plan.rows(context, row)
            return self._shown([item[0] for item in rows], oid, returns_set)
        except SqlError as error:
            return f"error {error.sqlstate} {error.message}"

    def columnar(self, expression: str, expected: Sequence[str], returns_set: bool = False) -> list[str]:
        places = {name: f"v.{name}" for name in self.columns}
        sql = f"SELECT {expression.format(**places)} FROM v WHERE n = $1"
        answers = {number: "error 0A000 a column cannot hold it" for number in range(len(self.rows))}
        singly = [number for number in self._stored if returns_set or expected[number].startswith("error")]
        answers.update({number: self._one(sql, number, returns_set) for number in singly})
        rest = sorted(set(self._stored) - set(singly))
        try:
            numbers = "{" + ",".join(map(str, rest)) + "}"
            all_sql = f"SELECT {expression.format(**places)} FROM v WHERE n = ANY('{numbers}'::int8[]) ORDER BY n"
            column, oid = self._queried(all_sql, ()) if rest else ([], 0)
            answers.update(zip(rest, [self._shown([cell], oid, False) for cell in column], strict=True))
        except SqlError:
            answers.update({number: self._one(sql, number, False) for number in rest})
        return [answers[number] for number in range(len(self.rows))]

    def _one(self, sql: str, number: int, returns_set: bool) -> str:
        try:
            column, oid = self._queried(sql, (number,))
            return self._shown(column, oid, returns_set)
        except SqlError as error:
            return f"error {error.sqlstate} {error.message}"

    def _analysed(self, sql: str, parameter_types: Sequence[int]) -> tree.Analyzed:
        (statement,) = parse(sql)
        return analyze(statement.tree, Environment(self._catalog), parameter_types)

    def _queried(self, sql: str, parameters: Sequence[object]) -> tuple[list[object], int]:
        analysed = self._analysed(sql, [types.oids.INT8] * len(parameters))
        assert isinstance(analysed.statement, tree.Query)
        query = generate(analysed.statement, analysed.parameter_types, self.settings)
        for signature in query.functions:
            if signature.name not in self._registered:
                udf.register(self._connection, signature)
                self._registered.add(signature.name)
        bound = [self._bound(query, source, parameters) for source, _ in query.parameters]
        try:
            relation = self._connection.sql(query.sql.format(**{f"t{_TABLE_OID}": f"t{_TABLE_OID}"}), params=bound)
            column = (
                [] if relation is None else values.from_arrow(relation.to_arrow_table()[0], query.columns[0].type.oid)
            )
        except Exception as error:
            raise translate(str(error)) from error
        return column, query.columns[0].type.oid

    def _bound(self, query: ColumnarQuery, source: int, parameters: Sequence[object]) -> object:
        if source > 0:
            return parameters[source - 1]
        if source > FIRST_COMPUTED:
            assert source <= STATEMENT_TIME
            return datetime.datetime(2000, 1, 1) + datetime.timedelta(microseconds=NOW)
        expression = query.computed[FIRST_COMPUTED - source]
        targets = (tree.Target(expression, "x"),)
        plan = plan_row(tree.Analyzed(tree.Query(targets), (), ()), self._catalog, self.settings)
        assert plan is not None
        context = ExecContext(None, None, self._call, self._catalog, self.settings)  # type: ignore[arg-type]
        rows, _ = plan.rows(context, ())
        oid = expression.type.oid
        if oid == types.oids.INTERVAL:  # a Python value for it would lose the months
            return types.lookup(oid).text_encoder()(rows[0][0]).decode()
        return values.to_arrow([rows[0][0]], oid, str(form_of(oid)))[0].as_py()

    def _shown(self, column: Iterable[object], oid: int, returns_set: bool) -> str:
        encode = types.lookup(oid).text_encoder(self.settings)
        texts = [None if value is None else encode(value).decode() for value in column]
        if returns_set:
            show = types.lookup(types.oids.TEXT_ARRAY).text_encoder()
            return "value " + show(types.Array.of(tuple(texts))).decode() if texts else "null"
        return "null" if texts[0] is None else "value " + texts[0]


def _has_dimensions(value: object) -> bool:
    """Whether a value is an array that columns cannot hold."""
    return isinstance(value, types.Array) and bool(value.elements) and value.lower_bounds != (1,)


def _oracle_settings(settings: FormatSettings) -> list[tuple[str, str]]:
    return [
        ("timezone", settings.timezone),
        ("datestyle", f"{settings.date_style}, {settings.date_order}"),
        ("intervalstyle", settings.interval_style),
    ]


def _quoted(type_name: str) -> str:
    return f'"{type_name}"'


def _filled(expression: str, columns: Sequence[str], type_names: Sequence[str], row: Row) -> str:
    literals = {
        column: f"NULL::pg_catalog.{_quoted(name)}" if text is None else f"{quote(text)}::pg_catalog.{_quoted(name)}"
        for column, name, text in zip(columns, type_names, row, strict=True)
    }
    return expression.format(**literals)


def differences(comparison: Comparison, expression: str, returns_set: bool = False, columnar: bool = True) -> list[str]:
    """One line for each combination and path that differs from PostgreSQL."""
    expected = comparison.oracle(expression, returns_set)
    sides = [("row", comparison.row_path(expression, returns_set))]
    if columnar:
        sides.append(("columnar", comparison.columnar(expression, expected, returns_set)))
    return [
        f"{side}: {expression} {row}: {mine!r} instead of {right!r}"
        for side, answers in sides
        for row, mine, right in zip(comparison.rows, answers, expected, strict=True)
        if mine != right and not (side == "columnar" and mine.startswith("error 0A000"))
    ]


def check(
    postgres: psycopg.Connection[Any],
    expressions: Iterable[str],
    settings: FormatSettings = DEFAULT_FORMAT,
    rows: Sequence[Row] | None = None,
    returns_set: bool = False,
    columnar: bool = True,
    **columns: Values,
) -> None:
    """Fails with a list of what differs from PostgreSQL."""
    comparison = Comparison(postgres, columns, settings, rows)
    try:
        found = [line for text in expressions for line in differences(comparison, text, returns_set, columnar)]
    finally:
        comparison.close()
    if found:
        raise AssertionError(f"{len(found)} answers differ:\n" + "\n".join(found[:40]))
