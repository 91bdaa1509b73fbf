"""Queries: SELECT, set operations, WITH, ORDER BY and LIMIT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import sqlglot.expressions as exp

from engine.sql.dialects.calls import has_aggregate
from engine.sql.dialects.joins import from_clause
from engine.sql.dialects.writer import Writer, construct, integer_of, word_of


def _select(writer: Writer, node: Any) -> str:
    names = ("with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "windows")
    with_, items, distinct, from_, joins, where, group, having, windows = writer.take(
        node, *names, "order", "limit", "offset", "locks", "qualify"
    )[: len(names)]
    if not items:
        writer.refuse("SELECT of nothing", node)
    if node.args.get("qualify") is not None:
        return _qualify(writer, node)
    where, most = _without_rownum(writer, node, where)
    words = [_with(writer, with_), "SELECT"]
    if distinct is not None:
        writer.take(distinct)
        words.append("DISTINCT")
    words.append(writer.write_list(items))
    words.append(from_clause(writer, from_, joins))
    if where is not None:
        words.append(f"WHERE {writer.text(where)}")
    if group is not None:
        words.append(writer.text(group))
    if having is not None:
        words.append(f"HAVING {writer.text(writer.take(having, 'this')[0])}")
    if windows:
        words.append("WINDOW " + writer.write_list(windows))
    return " ".join(filter(None, (*words, *_modifiers(writer, node, most))))


def _modifiers(writer: Writer, node: Any, most: int | None = None) -> Iterator[str]:
    """Yields ORDER BY, LIMIT, OFFSET and FOR UPDATE of a query. `most`: the limit of ROWNUM."""
    order, limit, offset, locks = (node.args.get(name) for name in ("order", "limit", "offset", "locks"))
    if order is not None:
        yield writer.text(order)
    if limit is not None:
        yield writer.text(limit)
    elif most is not None:
        yield f"LIMIT {most}"
    if offset is not None:
        (rows,) = writer.take(offset, "expression")
        yield f"OFFSET {writer.operand(rows)}"
    for lock in locks or ():
        yield _lock(writer, lock)


def _lock(writer: Writer, node: Any) -> str:
    update, tables, wait = writer.take(node, "update", "expressions", "wait")
    if tables or wait is not None or writer.dialect not in ("mysql", "oracle"):
        writer.refuse("FOR UPDATE", node)
    return "FOR UPDATE" if update else "FOR SHARE"


def _limit(writer: Writer, node: Any) -> str:
    (rows,) = writer.take(node, "expression")
    return f"LIMIT {writer.operand(rows)}"


def _fetch(writer: Writer, node: Any) -> str:
    _, count, options = writer.take(node, "direction", "count", "limit_options")
    ties = False
    if options is not None:
        percent, _, ties = writer.take(options, "percent", "rows", "with_ties")
        if percent:
            writer.refuse("FETCH PERCENT", node)
    rows = "1" if count is None else writer.operand(count)
    return f"FETCH FIRST {rows} ROWS {'WITH TIES' if ties else 'ONLY'}"


def _where(writer: Writer, node: Any) -> str:
    return writer.text(writer.take(node, "this")[0])


def _without_rownum(writer: Writer, node: Any, where: Any) -> tuple[Any, int | None]:
    """Converts Oracle's WHERE ROWNUM <= n, which counts rows before they are grouped or sorted: it is a LIMIT if the
    query does neither. Returns the other conditions, and the limit."""
    if writer.dialect != "oracle" or where is None:
        return where, None
    conditions, most = [], None
    for condition in where.this.flatten() if isinstance(where.this, exp.And) else (where.this,):
        bound = _rownum_bound(condition)
        if bound is None:
            conditions.append(condition)
        else:
            most = bound if most is None else min(most, bound)
    if most is None:
        return where, None
    sorted_or_grouped = any(node.args.get(name) for name in ("order", "group", "having", "distinct", "limit", "offset"))
    if sorted_or_grouped or has_aggregate(node):
        writer.refuse("ROWNUM", node)
    rest = None
    for condition in conditions:
        rest = condition.copy() if rest is None else exp.And(this=rest, expression=condition.copy())
    return (None if rest is None else exp.Where(this=rest)), most


def _rownum_bound(node: Any) -> int | None:
    bound = integer_of(node.expression) if isinstance(node, exp.LT | exp.LTE) else None
    if bound is None or word_of(node.this) != "ROWNUM":
        return None
    return max(bound - isinstance(node, exp.LT), 0)


# ---- QUALIFY -------------------------------------------------------------------------------------------------------


def _qualify(writer: Writer, node: Any) -> str:
    """Converts QUALIFY, which filters by window functions, to an outer query with a WHERE. Raises 0A000 if the columns
    have no unique names."""
    if writer.dialect not in ("snowflake", "bigquery", "duckdb", "spark"):
        writer.refuse("QUALIFY", node)
    names = [item.alias_or_name for item in node.expressions if isinstance(item, exp.Alias | exp.Column)]
    named = len(names) == len(node.expressions) == len({name.lower() for name in names}) and "*" not in names
    if not named or node.args.get("distinct") or node.args.get("windows"):
        writer.refuse("QUALIFY with these columns", node)
    inner = node.copy()
    (condition,) = writer.take(inner.args["qualify"], "this")
    aliases = {item.alias.lower(): item.this for item in inner.expressions if isinstance(item, exp.Alias)}
    for column in list(condition.find_all(exp.Column)):
        if column.name.lower() in aliases and not column.args.get("table"):
            replaced = exp.Paren(this=aliases[column.name.lower()].copy())
            if column is condition:
                condition = replaced
            else:
                column.replace(replaced)
    outer: dict[str, Any] = {name: inner.args.pop(name, None) for name in ("order", "limit", "offset")}
    inner.set("qualify", None)
    known = {name.lower() for name in names}
    for ordered in outer["order"].expressions if outer["order"] is not None else ():
        column = ordered.this
        if not (isinstance(column, exp.Column) and not column.args.get("table") and column.name.lower() in known):
            writer.refuse("QUALIFY with ORDER BY of other than its columns", node)
    with_ = inner.args.pop("with_", None)
    listed = ", ".join(writer.name(_output(item)) for item in node.expressions)
    mark, alias = "qualifies", writer.new_alias()
    computed = exp.Alias(this=condition.copy(), alias=exp.Identifier(this=mark, quoted=False))
    inner.set("expressions", [*inner.expressions, computed])
    words = [_with(writer, with_), f"SELECT {listed} FROM ({writer.text(inner)}) AS {alias} WHERE {alias}.{mark}"]
    return " ".join(filter(None, (*words, *_modifiers(writer, exp.Select(**outer)))))


def _output(item: Any) -> Any:
    """Returns the identifier of a column of a select list."""
    return item.args["alias"] if isinstance(item, exp.Alias) else item.this


# ---- set operations, WITH ------------------------------------------------------------------------------------------


def _set_operation(writer: Writer, node: Any) -> str:
    with_, left, right, distinct = writer.take(
        node, "with_", "this", "expression", "distinct", "order", "limit", "offset"
    )[:4]
    word = type(node).__name__.upper()
    all_rows = "" if distinct or distinct is None else " ALL"
    query = f"{_side(writer, left)} {word}{all_rows} {_side(writer, right)}"
    return " ".join(filter(None, (_with(writer, with_), query, *_modifiers(writer, node))))


def _side(writer: Writer, node: Any) -> str:
    text = writer.text(node)
    plain = isinstance(node, exp.Select) and not any(
        node.args.get(name) for name in ("order", "limit", "offset", "with_", "locks", "qualify")
    )
    return text if plain or isinstance(node, exp.Subquery) else f"({text})"


def _with(writer: Writer, node: Any) -> str:
    if node is None:
        return ""
    queries, recursive = writer.take(node, "expressions", "recursive")
    if not recursive and any(map(_reads_itself, queries)):
        if writer.dialect == "snowflake":
            writer.refuse("WITH of a query that reads its own name, without RECURSIVE", node)
        recursive = writer.traits.implies_recursive
    return f"WITH {'RECURSIVE ' if recursive else ''}{writer.write_list(queries)}"


def _reads_itself(cte: Any) -> bool:
    name = cte.alias.lower()
    return any(table.name.lower() == name and not table.args.get("db") for table in cte.this.find_all(exp.Table))


def _cte(writer: Writer, node: Any) -> str:
    query, alias = writer.take(node, "this", "alias")
    if not isinstance(query, exp.Query):
        writer.refuse("WITH of other than a query", node)
    return f"{writer.text(alias)} AS ({writer.text(query)})"


def _subquery(writer: Writer, node: Any) -> str:
    """Writes a sub-query in an expression, or an operand of a set operation; joins.py writes sub-queries in FROM."""
    query, with_ = writer.take(node, "this", "with_", "order", "limit", "offset")[:2]
    found = f"({writer.text(query)})"
    around = [_with(writer, with_), *_modifiers(writer, node)]
    if not any(around):
        return found
    return " ".join(filter(None, (around[0], found, *around[1:])))


# ---- lists ---------------------------------------------------------------------------------------------------------


def _alias(writer: Writer, node: Any) -> str:
    value, alias = writer.take(node, "this", "alias")
    return f"{writer.text(value)} AS {writer.name(alias)}"


def _order(writer: Writer, node: Any) -> str:
    items, siblings = writer.take(node, "expressions", "siblings")
    if siblings:
        writer.refuse("ORDER SIBLINGS BY", node)
    return f"ORDER BY {writer.write_list(items)}"


def _sort_key(writer: Writer, node: Any) -> str:
    """Writes a sort key. sqlglot has the position of NULLs in each dialect, which is written if PostgreSQL's default
    differs."""
    value, descending, nulls_first = writer.take(node, "this", "desc", "nulls_first")
    text = f"{writer.operand(value)}{' DESC' if descending else ''}"
    if bool(nulls_first) == bool(descending):
        return text
    return f"{text} NULLS {'FIRST' if nulls_first else 'LAST'}"


def _group(writer: Writer, node: Any) -> str:
    items, rollup, cube, sets = writer.take(node, "expressions", "rollup", "cube", "grouping_sets")
    parts = [writer.text(item) for item in items or ()]
    for name, found in (("ROLLUP", rollup), ("CUBE", cube)):
        for one in found or ():
            if one.expressions:
                parts.append(writer.text(one))
            elif parts and len(found) == 1 and not (cube and rollup) and not sets:  # WITH ROLLUP applies to all keys
                parts = [f"{name}({', '.join(parts)})"]
            else:
                writer.refuse(f"WITH {name}", node)
    parts += [writer.text(one) for one in sets or ()]
    if not parts:
        writer.refuse("GROUP BY of nothing", node)
    return f"GROUP BY {', '.join(parts)}"


def _grouping(name: str) -> Callable[[Writer, Any], str]:
    def write(writer: Writer, node: Any) -> str:
        (items,) = writer.take(node, "expressions")
        if not items:
            writer.refuse(construct(node), node)
        return f"{name}({writer.write_list(items)})"

    return write


def _tuple(writer: Writer, node: Any) -> str:
    (items,) = writer.take(node, "expressions")
    return f"({writer.write_list(items or ())})"


WRITERS: dict[type, Callable[[Writer, Any], str]] = {
    exp.Select: _select,
    exp.Union: _set_operation,
    exp.Intersect: _set_operation,
    exp.Except: _set_operation,
    exp.Subquery: _subquery,
    exp.CTE: _cte,
    exp.Where: _where,
    exp.Limit: _limit,
    exp.Fetch: _fetch,
    exp.Alias: _alias,
    exp.Order: _order,
    exp.Ordered: _sort_key,
    exp.Group: _group,
    exp.Rollup: _grouping("ROLLUP"),
    exp.Cube: _grouping("CUBE"),
    exp.GroupingSets: _grouping("GROUPING SETS"),
    exp.Tuple: _tuple,
}
