"""FROM: tables, sub-queries, functions, VALUES, WITH references and joins, each with its own alias."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.duckdb.nodes import CastTo, Clause, ColumnReference, Part, Sql, comma_list, fill
from catalog.duckdb.types import BIGINT, DOUBLE, INTEGER, VARCHAR, CharType, DuckDBType
from catalog.errors import not_supported
from catalog.functions.duckdb_errors import raising
from catalog.schema import Table
from catalog.types import oids
from engine.columnar.generate import queries
from engine.columnar.generate.forms import Piece, convert, digits_of, element_form, form_of, of_form, unify_pieces
from engine.columnar.generate.set_functions import PLAIN_SERIES, list_of_one, rows_of
from engine.columnar.generate.state import Scope, Source, expression
from engine.sql import tree
from engine.sql.analyze.column_definitions import check_row

APART = (1 << 63) - 1
"""A LIMIT that cuts nothing off, but stops DuckDB from moving expressions of the outer query below it."""
_JOINS = {"inner": "INNER JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


def from_list(scope: Scope, items: Sequence[tree.FromItem]) -> Sql:
    """Returns the items of FROM."""
    return comma_list([from_item(scope, item) for item in items])


def column_names(count: int) -> Sql:
    """Returns the list c1, c2, ... of `count` names."""
    return comma_list([f"c{number}" for number in range(1, count + 1)])


def from_item(scope: Scope, item: tree.FromItem, nullable: bool = False) -> Sql:
    """Returns the SQL of one item of the join tree, and adds its range table entries to the scope. `nullable`: an outer
    join may replace the item's rows by NULLs."""
    if isinstance(item, tree.FromRef):
        return _entry(scope, item.relation, nullable)
    left = from_item(scope, item.left, nullable or item.kind in ("right", "full"))
    right = from_item(scope, item.right, nullable or item.kind in ("left", "full"))
    if isinstance(item.right, tree.FromJoin):
        right = fill("({})", right)
    if item.kind == "cross" or (item.condition is None and item.kind == "inner"):
        return fill("{} CROSS JOIN {}", left, right)
    condition = "TRUE" if item.condition is None else expression(scope, item.condition).sql
    return fill("{} {} {} ON {}", left, _JOINS[item.kind], right, condition)


def _entry(scope: Scope, relation: int, nullable: bool) -> Sql:
    entry = scope.query.range_table[relation]
    generation = scope.generation
    alias = generation.alias()
    if isinstance(entry, tree.RangeTable):
        source = scope.sources[relation] = generation.source(alias, entry.table)
        if nullable and isinstance(entry.table, Table):
            keys = entry.table.key_columns
            source.present = source.columns[keys[0]].sql if keys else ColumnReference(alias, "r")
        if entry.sample is not None:
            return fill("({}) AS {}", _sample(scope, entry, entry.sample), alias)
        return fill("{} AS {}", generation.table(entry.table), alias)
    if isinstance(entry, tree.RangeSubquery):
        body = queries.query(entry.query, scope)
        source = scope.sources[relation] = Source.of_pieces(alias, body.pieces)
        sql = body.sql
        if entry.apart:
            sql = fill("SELECT * FROM ({}) LIMIT {}", sql, APART)
        if nullable and not entry.lateral:
            source.present = ColumnReference(alias, "m")
            sql = fill("SELECT *, TRUE AS m FROM ({})", sql)
        return fill("{}({}) AS {}", "LATERAL " if entry.lateral else "", sql, alias)
    if isinstance(entry, tree.RangeCte):
        cte = scope.cte(entry.name, entry.levels_up)
        scope.sources[relation] = Source.of_pieces(alias, cte.pieces)
        return fill("{} AS {}", cte.name, alias)
    if isinstance(entry, tree.RangeValues):
        sql, pieces = values(scope, entry)
        scope.sources[relation] = Source.of_pieces(alias, pieces)
        names = column_names(len(pieces))
        if entry.lateral:
            return fill("LATERAL (SELECT * FROM ({0}) AS {1}({2})) AS {3}({2})", sql, generation.alias(), names, alias)
        return fill("({}) AS {}({})", sql, alias, names)
    if isinstance(entry, tree.RangeFunction):
        return _functions(scope, entry, relation, alias)
    not_supported("a join alias as FROM item")


def _sample(scope: Scope, entry: tree.RangeTable, sample: tree.Sample) -> Sql:
    """Returns the SQL of TABLESAMPLE. Each row is selected independently with the given probability, also for SYSTEM,
    because tables have no blocks. REPEATABLE uses a hash of the row's key and the seed; for system catalogs, which have
    no keys, a hash of the whole row."""
    alias = scope.generation.alias()
    null = raising("2202H", "TABLESAMPLE parameter cannot be null")
    outside = raising("2202H", "sample percentage must be between 0 and 100")
    # Without sub-queries: DuckDB would turn one into a join, and draw one random number for all rows.
    percent = CastTo(expression(scope, sample.percent).sql, DOUBLE)
    chance = fill(
        "CASE WHEN {percent} IS NULL THEN {null} WHEN {percent} < 0 OR {percent} > 100 OR isnan({percent}) "
        "THEN {outside} ELSE {percent} END",
        percent=percent,
        null=null,
        outside=outside,
    )
    drawn: Clause = "random() * 100"
    if sample.seed is not None:
        missing = raising("2202G", "TABLESAMPLE REPEATABLE parameter cannot be null")
        given = CastTo(expression(scope, sample.seed).sql, DOUBLE)
        seed = fill("CASE WHEN {0} IS NULL THEN {1} ELSE {0} END", given, missing)
        if isinstance(entry.table, Table):
            numbers = list(entry.table.key_columns)
        else:
            numbers = [column.number for column in entry.table.columns]
        keys = comma_list([ColumnReference(alias, f"c{number}") for number in numbers] or [ColumnReference(alias, "r")])
        drawn = fill("CAST(hash({}, {}) AS DOUBLE) / 18446744073709551616.0 * 100", keys, seed)
    return fill("SELECT * FROM {} AS {} WHERE {} < {}", scope.generation.table(entry.table), alias, drawn, chance)


def values(scope: Scope, entry: tree.RangeValues) -> tuple[Sql, list[Piece]]:
    """Returns the SQL of VALUES, with each column in one form, and the columns. Raises 0A000 for records."""
    if not entry.columns:
        not_supported("VALUES without columns on this query")
    rows = [[expression(scope, item) for item in row] for row in entry.rows]
    pieces = []
    for index, column in enumerate(entry.columns):
        cells = [row[index] for row in rows]
        if any(cell.fields for cell in cells):
            not_supported("records in VALUES on this query")
        form = unify_pieces(cells, form_of(column.type.oid) if column.type.oid != oids.UNKNOWN else VARCHAR)
        for row in rows:
            row[index] = convert(row[index], form)
        pieces.append(of_form(form))
    sql = comma_list([fill("({})", comma_list([cell.sql for cell in row])) for row in rows])
    return fill("VALUES {}", sql), pieces


# ---- functions ------------------------------------------------------------------------------------------------------


def _functions(scope: Scope, entry: tree.RangeFunction, relation: int, alias: str) -> Sql:
    series = _plain_series(scope, entry, relation, alias)
    if series is not None:
        return series
    lists = _lists(scope, entry)
    generation = scope.generation
    inner, outer = generation.alias(), generation.alias()
    made = comma_list([fill("{} AS l{}", piece.sql, n) for n, (piece, _) in enumerate(lists, 1)])
    rows: list[Part] = [f"unnest({inner}.l{n}) AS s{n}" for n in range(1, len(lists) + 1)]
    pieces: list[Piece] = []
    columns: list[Part] = []
    for n, (piece, fields) in enumerate(lists, 1):
        if fields:
            for f, (_, form) in enumerate(piece.fields, 1):
                columns.append(f"struct_extract({outer}.s{n}, 'f{f}')")
                pieces.append(of_form(form))
        else:
            columns.append(ColumnReference(outer, f"s{n}"))
            pieces.append(of_form(element_form(piece.form), piece.fields))
    if entry.ordinality:
        lengths = comma_list([f"len({inner}.l{n})" for n in range(1, len(lists) + 1)])
        rows.append(fill("unnest(generate_series(1, greatest({}, 0))) AS o", lengths))
        columns.append(CastTo(ColumnReference(outer, "o"), BIGINT))
        pieces.append(of_form(BIGINT))
    scope.sources[relation] = Source.of_pieces(alias, pieces)
    named = comma_list([fill("{} AS c{}", column, n) for n, column in enumerate(columns, 1)])
    unnested = fill("SELECT {} FROM (SELECT {}) AS {}", comma_list(rows), made, inner)
    lateral = "LATERAL " if _lateral(entry) else ""
    return fill(
        "{lateral}(SELECT {named} FROM ({unnested}) AS {outer}) AS {alias}",
        lateral=lateral,
        named=named,
        unnested=unnested,
        outer=outer,
        alias=alias,
    )


def _lateral(entry: tree.RangeFunction) -> bool:
    return entry.lateral or not all(_without_columns(item) for item in entry.functions)


def _lists(scope: Scope, entry: tree.RangeFunction) -> list[tuple[Piece, bool]]:
    """Returns each function's rows as a LIST, and whether the rows are records that are expanded to columns."""
    lists = []
    at = 0
    for function, count in zip(entry.functions, entry.column_counts, strict=True):
        columns = entry.columns[at : at + count]
        at += count
        is_record = count != 1 or function.type.oid == oids.RECORD
        if isinstance(function, tree.FuncExpr) and function.function.returns_set:
            fields = [column.type for column in columns] if is_record else []
            lists.append((rows_of(scope, function, fields), is_record))
        else:
            piece = expression(scope, function)
            if is_record and not piece.fields:
                not_supported("a function in FROM that returns one record")
            if is_record:
                check_row([type_ for type_, _ in piece.fields], [column.type for column in columns])
            lists.append((list_of_one(piece), is_record))
    return lists


def _without_columns(node: object) -> bool:
    if isinstance(node, (tree.Const, tree.Param)):
        return True
    return isinstance(node, tree.FuncExpr) and all(_without_columns(item) for item in node.arguments)


def _plain_series(scope: Scope, entry: tree.RangeFunction, relation: int, alias: str) -> Sql | None:
    """Returns generate_series over constant integers as DuckDB's table function, which makes its rows on demand; None
    for other functions."""
    if len(entry.functions) != 1 or entry.ordinality:
        return None
    node = entry.functions[0]
    if not isinstance(node, tree.FuncExpr) or node.function.source not in PLAIN_SERIES:
        return None
    numbers = [item.value if isinstance(item, tree.Const) else None for item in node.arguments]
    if any(not isinstance(number, int) for number in numbers) or (len(numbers) == 3 and numbers[2] == 0):
        return None
    form: DuckDBType = INTEGER if node.type.oid == oids.INT4 else BIGINT
    scope.sources[relation] = Source.of_pieces(alias, [of_form(form)])
    arguments = comma_list([f"({number})::BIGINT" for number in numbers])
    inner = scope.generation.alias()
    return fill(
        "(SELECT CAST({inner}.c1 AS {form}) AS c1 FROM generate_series({arguments}) AS {inner}(c1)) AS {alias}",
        inner=inner,
        form=form,
        arguments=arguments,
        alias=alias,
    )


def general(pieces: Sequence[Piece]) -> list[Piece]:
    """Returns the pieces with every DECIMAL and every char(n) in its general form: in a recursive query, later rows may
    have any scale or length."""
    return [
        convert(piece, VARCHAR) if digits_of(piece.form) or isinstance(piece.form, CharType) else piece
        for piece in pieces
    ]
