"""Set-returning functions in the target list: a loop between a row and the sink (PostgreSQL's ProjectSet).

    SELECT a, unnest(b) FROM t
        for c1 in <elements of b>:                one function
        for c1, c2 in zip_longest(<x>, <y>):      several, in step: NULL if one has no more rows

Rows are multiplied after grouping, and before DISTINCT, ORDER BY, OFFSET and LIMIT. PostgreSQL sorts first if no sort
key calls one; a stable sort afterwards gives the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest

from catalog.functions.registry import implementation
from catalog.routines import LANGUAGE
from catalog.types.oids import RECORD
from engine.execute.code import Code, LineUse, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.context import RowPathFull
from engine.execute.expressions import ExpressionCompiler
from engine.execute.routine_source import routine_rows
from engine.sql import tree
from engine.sql.tree_walk import contains, is_volatile, walk, walk_with_depth


def _is_set_function(node: object) -> bool:
    return isinstance(node, tree.FuncExpr) and node.function.returns_set


def calls_set_functions(node: object) -> bool:
    """Whether an expression, or a sub-query in it, calls one."""
    return contains(node, _is_set_function)


def asks_session(call: tree.FuncExpr) -> bool:
    """Whether it uses the session: no other path can run it, and it limits its rows itself."""
    found = implementation(call.function.source)
    return found is not None and found.needs_session


def set_functions_of(query: tree.Query) -> list[tree.FuncExpr]:
    """The distinct calls in a query's targets: equal calls return equal rows, in step. Raises NotOnRowPath for calls
    within calls, for those in GROUP BY (engine/sql/set_places.py), and for those of records."""
    if not query.has_set_functions:
        return []
    if calls_set_functions(query.group_by):
        raise NotOnRowPath("GROUP BY of a set-returning function")
    found: list[tree.FuncExpr] = []
    for item, depth in walk_with_depth((query.targets, query.order_by, query.distinct or ())):
        if depth or not isinstance(item, tree.FuncExpr) or not item.function.returns_set:
            continue
        if calls_set_functions(item.arguments):
            raise NotOnRowPath("a set-returning function of another")
        if item.type.oid == RECORD or len(item.function.output_types) > 1:
            raise NotOnRowPath("a set-returning function of records")
        if item not in found:
            found.append(item)
    for call in found:
        if is_volatile(call) and sum(item == call for item in walk(query.targets)) > 1:
            raise NotOnRowPath("the same volatile function twice")
    return found


def at_most(limit: int, rows: Iterable[object]) -> Iterable[object]:
    """The rows of a function that are all read. Raises RowPathFull if there are certainly more."""
    if isinstance(rows, range) and len(rows) > limit:
        raise RowPathFull
    return rows


def write_at_most(code: Code, limit: int, call: tree.FuncExpr, source: str) -> str:
    """Source of the same rows, which reads nothing if there are too many: that takes milliseconds."""
    if asks_session(call):
        return source
    code.names["at_most"] = at_most
    return f"at_most({limit}, {source})"


def write_rows_of(code: Code, entry: tree.RangeFunction, names: list[str], source: str, single: bool) -> None:
    """Opens the loop over the rows of a function in FROM: tuples, or values of its one column (`single`)."""
    wanted = names[:-1] if entry.ordinality else names
    target = f"{wanted[0]}" if single else f"({', '.join(wanted)},)"
    if entry.ordinality:
        code.indent(f"for {names[-1]}, {target} in enumerate({source}, 1):")
    else:
        code.indent(f"for {target} in {source}:")


def write_rows_in_step(
    code: Code, expressions: ExpressionCompiler, entry: tree.RangeFunction, names: list[str]
) -> None:
    """Opens the loop over several functions in FROM, in step: unnest(a, b), ROWS FROM (f(), g()). Raises NotOnRowPath
    for rows of a built-in function whose columns the query declares."""
    rows, values, at = [], True, 0
    for call, count in zip(entry.functions, entry.column_counts, strict=True):
        columns = [column.type for column in entry.columns[at : at + count]]
        at += count
        if not isinstance(call, tree.FuncExpr):
            raise NotOnRowPath("several functions in FROM")
        if call.function.language == LANGUAGE:
            rows.append((routine_rows(expressions, call, columns), False))
            values = False
        elif not call.function.returns_set or count != max(len(call.function.output_types), 1) or asks_session(call):
            raise NotOnRowPath(f"function {call.function.name} beside others in FROM")
        else:
            single = call.type.oid != RECORD
            rows.append((expressions.set_function(call), single))
            values = values and single
    if values:
        code.names["zip_longest"] = zip_longest
        source = f"zip_longest({', '.join(source for source, _ in rows)})"
    else:
        in_step = code.constant(partial(_in_step, entry.column_counts), "in_step")
        source = f"{in_step}({', '.join(f'zip({source})' if single else source for source, single in rows)})"
    write_rows_of(code, entry, names, source, single=False)


def _in_step(widths: Sequence[int], *functions: Iterable[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    """The rows of several functions side by side, with NULLs for one that has no more of them."""
    nothing = [(None,) * width for width in widths]
    for rows in zip_longest(*functions):
        yield tuple(chain.from_iterable(map(_or_else, rows, nothing)))


def _or_else(row: tuple[object, ...] | None, nothing: tuple[object, ...]) -> tuple[object, ...]:
    return nothing if row is None else row


def open_set_functions(
    code: Code, expressions: ExpressionCompiler, calls: list[tree.FuncExpr], limit: int, whole: bool
) -> None:
    """Opens the loop over the rows of the calls; later code is written inside it, and finds their values. `whole`: it
    continues to their end."""
    if not calls:
        return
    names = [code.temporary("c") for _ in calls]
    sources = [expressions.set_function(call) for call in calls]
    if len(calls) == 1:
        source = write_at_most(code, limit, calls[0], sources[0]) if whole and not code.stays else sources[0]
        code.indent(f"for {names[0]} in {source}:")
    else:
        code.names["zip_longest"] = zip_longest
        code.indent(f"for {', '.join(names)} in zip_longest({', '.join(sources)}):")
    if not all(asks_session(call) for call in calls):
        code.names["RowPathFull"] = RowPathFull
        code.line("n += 1", LineUse.COUNT)
        code.write_limit("n", limit)
    for call, name in zip(calls, names, strict=True):
        expressions.overrides[call] = Value(name, nullable=True, atom=True)
