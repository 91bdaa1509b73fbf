"""DuckDB SQL for analysed statements.

    forms.py          physical forms: the DuckDB type of an expression, above all of numeric
    state.py          the state of a generation (tables, parameters, UDFs), scopes, the dispatch over tree nodes
    literals.py       constants and parameters
    comparisons.py    equality and order, by key if DuckDB's differ from PostgreSQL's
    calls.py          functions and casts;  set_functions.py  set-returning functions;  texts.py  text forms
    aggregates.py     aggregates and window functions;  hypothetical.py  hypothetical-set aggregates
    expressions.py    all other expressions;  sublinks.py  sub-queries in expressions
    bounds.py         comparisons with constants
    ranges.py         FROM;  queries.py  SELECT, set operations, WITH
    dml.py            the SELECTs of INSERT, UPDATE, DELETE and MERGE
    shapes.py         statements with arrays that a LIST cannot hold
    levels.py, volatile_levels.py    split one query level into two;  operands.py  volatile operands
    catalog_functions.py    functions that read system views
    window_order.py   the order of rows after window functions
    udf.py            names and signatures of UDFs

The SQL is a tree of nodes (catalog/duckdb), which is converted to text when a statement is complete; decisions use the
nodes, never the text. DuckDB gets no identifier of a user: relations are q1, q2, ..., columns c1, c2, ....
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from catalog.duckdb.nodes import comma_list, fill
from catalog.duckdb.types import INTERVAL
from catalog.errors import not_supported
from catalog.types import lookup
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, TypeRef
from catalog.types.collated import shown_type
from catalog.types.named_objects import holds_names
from engine.columnar.generate import aggregates, expressions, literals, sublinks  # noqa: F401  (they register makers)
from engine.columnar.generate.catalog_functions import (
    CatalogFunction,
    catalog_functions,
    codec,
    register_catalog_function,
)
from engine.columnar.generate.dml import ColumnarDml, generate_dml
from engine.columnar.generate.forms import Piece, of_form
from engine.columnar.generate.queries import Body, query
from engine.columnar.generate.shapes import with_whole
from engine.columnar.generate.state import Generation, Source
from engine.columnar.generate.texts import to_text
from engine.columnar.generate.window_order import in_window_order
from engine.columnar.interface import ColumnarQuery, OutputColumn
from engine.sql import tree

__all__ = [
    "CatalogFunction",
    "ColumnarDml",
    "catalog_functions",
    "generate",
    "generate_dml",
    "register_catalog_function",
]


def generate(
    node: tree.Query,
    parameter_types: Sequence[int] = (),
    settings: FormatSettings = DEFAULT_FORMAT,
    binary: Container[int] = (),
    computes: bool = True,
) -> ColumnarQuery:
    """Returns DuckDB SQL for a SELECT, VALUES or set operation. `computes`: see Generation.

    `parameter_types` are the OIDs of $1, $2, ...; `settings` are the session's, on which the text may depend
    (`ColumnarQuery.settings_free`). Output columns with records, and with types whose output function is registered as
    a catalog function, are text (VARCHAR). In the columns `binary`, counted from 0, records are STRUCTs with
    `OutputColumn.fields`, for their binary form. A query without columns has one column in DuckDB, which `columns` does
    not list. Raises 0A000 with the name of the construct that cannot run here, 2201W/2201X for a negative LIMIT or
    OFFSET.
    """
    ordered = in_window_order(node)

    def made(settings: FormatSettings) -> ColumnarQuery:
        return _select(Generation(settings, parameter_types, computes), ordered, binary)

    short = bool(ordered.has_aggregates or ordered.group_by) and ordered.set_operation is None
    return with_whole(made, settings, digits=True, short=short)


def _select(generation: Generation, node: tree.Query, binary: Container[int]) -> ColumnarQuery:
    generation.volatile = node.volatile
    made = query(node, None, generation, exact=True)
    fields = [_sent(piece) if number in binary else () for number, piece in enumerate(made.pieces)]
    body = _as_text(generation, node, made, fields, binary)
    columns = [
        OutputColumn(target.name, shown_type(target.expression.type), str(piece.form), sent)
        for target, piece, sent in zip(node.output, body.pieces, fields, strict=True)
    ]
    return generation.finish(body.sql, columns)


def _sent(record: Piece) -> tuple[TypeRef, ...]:
    """Returns the types of the fields of a record that is sent in binary; () for other pieces."""
    if any(form == INTERVAL for _, form in record.fields):
        not_supported("an interval within a record in binary on this query")
    return tuple(type_ for type_, _ in record.fields)


def _as_text(
    generation: Generation,
    node: tree.Query,
    body: Body,
    sent: Sequence[tuple[TypeRef, ...]],
    binary: Container[int],
) -> Body:
    """Converts to text the records that are not `sent` in binary, and types whose output function is a catalog function
    unless their columns are in `binary`. Keeps the order of the rows."""
    oids = [target.expression.type.oid for target in node.output]
    shown = [
        bool(piece.fields and not fields)
        or (number not in binary and (codec(oid, "out") is not None or holds_names(lookup(oid))))
        for number, (piece, oid, fields) in enumerate(zip(body.pieces, oids, sent, strict=True))
    ]
    if not any(shown):
        return body
    alias = generation.alias()
    pieces = [
        to_text(generation, piece, oid) if text else piece
        for piece, oid, text in zip(Source.of_pieces(alias, body.pieces).columns.values(), oids, shown, strict=True)
    ]
    columns = comma_list([fill("{} AS c{}", piece.sql, n) for n, piece in enumerate(pieces, 1)])
    sql = fill(
        "SELECT {columns} FROM (SELECT *, row_number() OVER () AS n FROM ({body})) AS {alias} ORDER BY {alias}.n",
        columns=columns,
        body=body.sql,
        alias=alias,
    )
    return Body(sql, [of_form(piece.form) for piece in pieces])
