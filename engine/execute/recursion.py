"""WITH RECURSIVE on the row path: step by step, and only as far as it is read.

    def recursion():                 a generator (`LazyRows` keeps its rows for several readers)
        yield the rows of the first term; working = they      UNION: without duplicates
        while working:
            yield the rows of the next term; working = they   it reads `working` where the query refers to itself

So a LIMIT ends an endless recursion, as in PostgreSQL, and rows come in PostgreSQL's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from engine.execute.code import LineUse, NotOnRowPath
from engine.execute.context import RowPathFull
from engine.execute.measured import write_kept
from engine.execute.scan import RANGE_LIMIT
from engine.sql import tree

if TYPE_CHECKING:
    from engine.execute.select import QueryCompiler

Row = tuple[object, ...]
Filter = Callable[[Iterable[Row]], Iterator[Row]]


class LazyRows:
    """Rows that are made at their first read; each reader gets all of them."""

    def __init__(self, source: Iterator[Row]) -> None:
        self._source = source
        self._known: list[Row] = []

    def __iter__(self) -> Iterator[Row]:
        known, source = self._known, self._source
        position = 0
        while True:
            if position == len(known):
                row = next(source, None)
                if row is None:
                    return
                known.append(row)
            yield known[position]
            position += 1


def unseen_filter(operation: tree.SetOperation, identity: Callable[[Row], object]) -> Callable[[], Filter]:
    """Makes, for each execution, a filter that passes every distinct row once; UNION ALL passes all."""
    if operation.all:
        return lambda: iter

    def start() -> Filter:
        seen: set[object] = set()

        def fresh(rows: Iterable[Row]) -> Iterator[Row]:
            for row in rows:
                key = identity(row)
                if key not in seen:
                    seen.add(key)
                    yield row

        return fresh

    return start


def write_recursion(compiler: QueryCompiler, cte: tree.Cte) -> str:
    """Writes a recursive WITH query of the compiler's query; returns the source of its rows."""
    query = cte.query
    assert isinstance(query, tree.Query)
    operation = query.set_operation
    plain = not (query.ctes or query.order_by or query.limit is not None or query.offset is not None)
    if operation is None or operation.kind != "union" or not plain:
        raise NotOnRowPath("a recursive query of this form")
    code = compiler.code
    code.names.update(LazyRows=LazyRows, RowPathFull=RowPathFull)
    inner = compiler.below(query)
    working, name = code.temporary("working"), code.temporary("recursion")
    code.line(f"{working} = []")
    depth = code.depth
    code.indent(f"def {name}():")
    code.line(f"nonlocal n, {working}", LineUse.COUNT)
    code.line(f"fresh = {code.constant(unseen_filter(operation, inner.identity(operation)), 'unseen')}()")
    _write_term(compiler, working, inner.lazy_rows(operation.left))
    compiler.cte_rows[cte.name] = working
    following = inner.lazy_rows(operation.right)
    code.indent(f"while {working}:")
    _write_term(compiler, working, following)
    code.dedent_to(depth)
    return f"LazyRows({name}())"


def _write_term(compiler: QueryCompiler, working: str, rows: str) -> None:
    code = compiler.code
    depth = code.depth
    code.line("made = []")
    code.indent(f"for row in fresh({rows}):")
    code.line("n += 1", LineUse.COUNT)
    code.write_limit("n", RANGE_LIMIT)
    code.line("made.append(row)")
    write_kept(code, "made")
    code.line("yield row")
    code.dedent_to(depth)
    code.line(f"{working} = made")
