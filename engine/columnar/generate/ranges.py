"""FROM: tables, sub-queries, functions, VALUES, WITH references and joins, each under an alias of its own."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import not_supported
from catalog.functions.duckdb_errors import sql_error_call
from catalog.schema import Table
from catalog.types import oids
from engine.columnar.generate import queries
from engine.columnar.generate.forms import Piece, convert, digits_of, form_of, unify_pieces
from engine.columnar.generate.set_functions import PLAIN_SERIES, list_of_one, rows_of
from engine.columnar.generate.state import Scope, Source, expression
from engine.sql import tree
from engine.sql.analyze.column_definitions import check_row

APART = (1 << 63) - 1
"""A LIMIT of so many rows is none, but DuckDB computes nothing below it that stands above."""
_JOINS = {"inner": "INNER JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


def from_list(scope: Scope, items: Sequence[tree.FromItem]) -> str:
    """What stands after FROM; '' if there is nothing."""
    return ", ".join([from_item(scope, item) for item in items])


def from_item(scope: Scope, item: tree.FromItem, nullable: bool = False) -> str:
    """One item of the join tree. Places its range table entries in the scope. `nullable`: under an outer join that may
    put NULLs in place of its rows."""
    if isinstance(item, tree.FromRef):
        return _entry(scope, item.relation, nullable)
    left = from_item(scope, item.left, nullable or item.kind in ("right", "full"))
    right = from_item(scope, item.right, nullable or item.kind in ("left", "full"))
    if isinstance(item.right, tree.FromJoin):
        right = f"({right})"
    if item.kind == "cross" or (item.condition is None and item.kind == "inner"):
        return f"{left} CROSS JOIN {right}"
    condition = "TRUE" if item.condition is None else expression(scope, item.condition).sql
    return f"{left} {_JOINS[item.kind]} {right} ON {condition}"


def _entry(scope: Scope, relation: int, nullable: bool) -> str:
    entry = scope.query.range_table[relation]
    generation = scope.generation
    alias = generation.alias()
    if isinstance(entry, tree.RangeTable):
        source = scope.sources[relation] = generation.source(alias, entry.table)
        if nullable and isinstance(entry.table, Table):
            keys = entry.table.key_columns
            source.present = source.columns[keys[0]].sql if keys else f"{alias}.r"
        if entry.sample is not None:
            return f"({_sample(scope, entry, entry.sample)}) AS {alias}"
        return f"{generation.table(entry.table)} AS {alias}"
    if isinstance(entry, tree.RangeSubquery):
        body = queries.query(entry.query, scope)
        source = scope.sources[relation] = Source.of_pieces(alias, body.pieces)
        sql = body.sql
        if entry.apart:
            sql = f"SELECT * FROM ({sql}) LIMIT {APART}"
        if nullable and not entry.lateral:
            source.present = f"{alias}.m"
            sql = f"SELECT *, TRUE AS m FROM ({sql})"
        return f"{'LATERAL ' if entry.lateral else ''}({sql}) AS {alias}"
    if isinstance(entry, tree.RangeCte):
        cte = scope.cte(entry.name, entry.levels_up)
        scope.sources[relation] = Source.of_pieces(alias, cte.pieces)
        return f"{cte.name} AS {alias}"
    if isinstance(entry, tree.RangeValues):
        sql, pieces = values(scope, entry)
        scope.sources[relation] = Source.of_pieces(alias, pieces)
        names = ", ".join(f"c{n}" for n in range(1, len(pieces) + 1))
        if entry.lateral:
            return f"LATERAL (SELECT * FROM ({sql}) AS {generation.alias()}({names})) AS {alias}({names})"
        return f"({sql}) AS {alias}({names})"
    if isinstance(entry, tree.RangeFunction):
        return _functions(scope, entry, relation, alias)
    not_supported("a join alias as FROM item")


def _sample(scope: Scope, entry: tree.RangeTable, sample: tree.Sample) -> str:
    """TABLESAMPLE: each row by itself with the given chance, for SYSTEM too: rows lie under their keys, not in blocks.
    REPEATABLE decides by a hash of the row's key and the seed; of the whole row in a catalog, which has no keys."""
    alias = scope.generation.alias()
    null = sql_error_call("2202H", "TABLESAMPLE parameter cannot be null")
    outside = sql_error_call("2202H", "sample percentage must be between 0 and 100")
    # Without sub-queries: DuckDB would make a join of one, and draw once for all rows.
    percent = f"CAST({expression(scope, sample.percent).sql} AS DOUBLE)"
    chance = f"CASE WHEN {percent} IS NULL THEN {null} WHEN {percent} < 0 OR {percent} > 100 OR isnan({percent}) "
    chance += f"THEN {outside} ELSE {percent} END"
    drawn = "random() * 100"
    if sample.seed is not None:
        missing = sql_error_call("2202G", "TABLESAMPLE REPEATABLE parameter cannot be null")
        seed = f"CAST({expression(scope, sample.seed).sql} AS DOUBLE)"
        seed = f"CASE WHEN {seed} IS NULL THEN {missing} ELSE {seed} END"
        if isinstance(entry.table, Table):
            numbers = list(entry.table.key_columns)
        else:
            numbers = [column.number for column in entry.table.columns]
        keys = ", ".join(f"{alias}.c{number}" for number in numbers) or f"{alias}.r"
        drawn = f"CAST(hash({keys}, {seed}) AS DOUBLE) / 18446744073709551616.0 * 100"
    return f"SELECT * FROM {scope.generation.table(entry.table)} AS {alias} WHERE {drawn} < {chance}"


def values(scope: Scope, entry: tree.RangeValues) -> tuple[str, list[Piece]]:
    """VALUES (...), (...), each column in one form."""
    if not entry.columns:
        not_supported("VALUES without columns on this query")
    rows = [[expression(scope, item) for item in row] for row in entry.rows]
    pieces = []
    for index, column in enumerate(entry.columns):
        cells = [row[index] for row in rows]
        if any(cell.fields for cell in cells):
            not_supported("records in VALUES on this query")
        form = unify_pieces(cells, form_of(column.type.oid) if column.type.oid != oids.UNKNOWN else "VARCHAR")
        for row in rows:
            row[index] = convert(row[index], form)
        pieces.append(Piece("", form))
    sql = ", ".join([f"({', '.join([cell.sql for cell in row])})" for row in rows])
    return f"VALUES {sql}", pieces


# ---- functions ------------------------------------------------------------------------------------------------------


def _functions(scope: Scope, entry: tree.RangeFunction, relation: int, alias: str) -> str:
    series = _plain_series(scope, entry, relation, alias)
    if series is not None:
        return series
    lists = _lists(scope, entry)
    generation = scope.generation
    inner, outer = generation.alias(), generation.alias()
    made = ", ".join(f"{piece.sql} AS l{n}" for n, (piece, _) in enumerate(lists, 1))
    rows = [f"unnest({inner}.l{n}) AS s{n}" for n in range(1, len(lists) + 1)]
    pieces, columns = [], []
    for n, (piece, fields) in enumerate(lists, 1):
        if fields:
            for f, (_, form) in enumerate(piece.fields, 1):
                columns.append(f"struct_extract({outer}.s{n}, 'f{f}')")
                pieces.append(Piece("", form))
        else:
            columns.append(f"{outer}.s{n}")
            pieces.append(Piece("", piece.form[:-2], piece.fields))
    if entry.ordinality:
        lengths = ", ".join(f"len({inner}.l{n})" for n in range(1, len(lists) + 1))
        rows.append(f"unnest(generate_series(1, greatest({lengths}, 0))) AS o")
        columns.append(f"CAST({outer}.o AS BIGINT)")
        pieces.append(Piece("", "BIGINT"))
    scope.sources[relation] = Source.of_pieces(alias, pieces)
    named = ", ".join(f"{column} AS c{n}" for n, column in enumerate(columns, 1))
    unnested = f"SELECT {', '.join(rows)} FROM (SELECT {made}) AS {inner}"
    lateral = "LATERAL " if _lateral(entry) else ""
    return f"{lateral}(SELECT {named} FROM ({unnested}) AS {outer}) AS {alias}"


def _lateral(entry: tree.RangeFunction) -> bool:
    return entry.lateral or not all(_without_columns(item) for item in entry.functions)


def _lists(scope: Scope, entry: tree.RangeFunction) -> list[tuple[Piece, bool]]:
    """Each function's rows as a list, and whether these are records to be taken apart."""
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


def _plain_series(scope: Scope, entry: tree.RangeFunction, relation: int, alias: str) -> str | None:
    """generate_series over constant integers, as DuckDB's table function: it makes rows as they are asked for."""
    if len(entry.functions) != 1 or entry.ordinality:
        return None
    node = entry.functions[0]
    if not isinstance(node, tree.FuncExpr) or node.function.source not in PLAIN_SERIES:
        return None
    numbers = [item.value if isinstance(item, tree.Const) else None for item in node.arguments]
    if any(not isinstance(number, int) for number in numbers) or (len(numbers) == 3 and numbers[2] == 0):
        return None
    form = "INTEGER" if node.type.oid == oids.INT4 else "BIGINT"
    scope.sources[relation] = Source.of_pieces(alias, [Piece("", form)])
    arguments = ", ".join(f"({number})::BIGINT" for number in numbers)
    inner = scope.generation.alias()
    return f"(SELECT CAST({inner}.c1 AS {form}) AS c1 FROM generate_series({arguments}) AS {inner}(c1)) AS {alias}"


def general(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with every DECIMAL made general: for recursion, where rows to come may have any scale."""
    return [convert(piece, "VARCHAR") if digits_of(piece.form) else piece for piece in pieces]
