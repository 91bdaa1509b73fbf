"""The end of a query: from a row with its columns to the sink.

DISTINCT   a set of the keys seen
ORDER BY   a buffer of tuples, sorted by one clause after the other, last first; not if the key order fits
OFFSET, LIMIT, then the sink
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from catalog.errors import SqlError
from engine.execute.code import Code
from engine.execute.compiled_value import Value
from engine.execute.expressions import ExpressionCompiler
from engine.execute.measured import write_kept
from engine.execute.records import known_type
from engine.execute.row_order import sort_function
from engine.sql import tree


class Sink(Protocol):
    """The destination of a query's rows. `finish` is the source of its function's result at the end."""

    finish: str

    def start(self) -> None: ...
    def row(self, values: Sequence[Value]) -> None: ...


class ListSink:
    """Rows as tuples in a list."""

    def __init__(self, code: Code, count: bool = True) -> None:
        self.code = code
        self.out = code.temporary("out")
        self.finish = f"{self.out}, len({self.out})" if count else self.out

    def start(self) -> None:
        self.code.line(f"{self.out} = []")

    def row(self, values: Sequence[Value]) -> None:
        self.code.line(f"{self.out}.append(({''.join(value.source + ', ' for value in values)}))")
        write_kept(self.code, self.out)


class ActionSink:
    """A sub-query that answers at a row: `action` writes the code for that row."""

    def __init__(self, action: Callable[[Sequence[Value]], None], finish: str, start: Callable[[], None]) -> None:
        self.row = action
        self.finish = finish
        self.start = start


class Output:
    """From a row with its columns to the sink: DISTINCT, sort, OFFSET and LIMIT."""

    def __init__(
        self, code: Code, query: tree.Query, expressions: ExpressionCompiler, sink: Sink, sorted_already: bool
    ) -> None:
        self.code = code
        self.query = query
        self.expressions = expressions
        self.sink = sink
        self.sorted_already = sorted_already
        self.outputs = [target.expression for target in self.query.targets if not target.junk]
        # A sort by an output uses that value, and it is computed once.
        self.places = sort_places(query.order_by, self.outputs)
        placed = zip(query.order_by, self.places, strict=True)
        self._nullable = [True] * len(self.outputs)
        self.sort_only = [clause.expression for clause, place in placed if place >= len(self.outputs)]

    @property
    def is_buffered(self) -> bool:
        return not self.sorted_already or bool(self.query.distinct)

    def start(self) -> None:
        if self.query.distinct is not None:
            self.code.line("seen = set()")
        if self.is_buffered:
            self.code.line("buffer = []")

    def row(self) -> None:
        """Writes the code of each row."""
        values = [self.expressions.value(item) for item in self.outputs]
        if self.query.distinct == ():
            atoms = [self._local(value) for value in values]
            self._write_distinct(atoms, self.outputs)
            values = atoms
        if not self.is_buffered:
            self._emit(values)
            return
        self._nullable = [value.nullable for value in values]
        values += [self.expressions.value(item) for item in self.sort_only]
        values += [self.expressions.value(item) for item in self.query.distinct or ()]
        self.code.line(f"buffer.append(({''.join(value.source + ', ' for value in values)}))")
        write_kept(self.code, "buffer")

    def finish(self) -> None:
        if not self.is_buffered:
            return
        code = self.code
        write_sort(self.expressions, "buffer", self.query.order_by, self.places)
        depth = code.depth
        names = [code.temporary("o") for _ in self.outputs]
        distinct = self.query.distinct or ()
        keys = [code.temporary("d") for _ in distinct]
        ignored = ["_"] * len(self.sort_only)
        code.indent(f"for {''.join(name + ', ' for name in (*names, *ignored, *keys))} in buffer:")
        if distinct:
            self._write_distinct([Value(key, True, True) for key in keys], distinct)
        self._emit([Value(name, nullable, atom=True) for name, nullable in zip(names, self._nullable, strict=True)])
        code.dedent_to(depth)

    def _local(self, value: Value) -> Value:
        if value.atom:
            return value
        name = self.code.temporary()
        self.code.line(f"{name} = {value.source}")
        return value.with_name(name)

    def _write_distinct(self, values: Sequence[Value], expressions: Sequence[tree.Expr]) -> None:
        code = self.code
        parts = []
        for value, expression in zip(values, expressions, strict=True):
            parts.append(equality_key(self.expressions, value, expression))
        code.line(f"row_key = ({''.join(part + ', ' for part in parts)})")
        code.indent("if row_key not in seen:")
        code.line("seen.add(row_key)")

    def _emit(self, values: Sequence[Value]) -> None:
        code, query = self.code, self.query
        depth = code.depth
        if query.offset is not None:
            if query.volatile:  # the skipped rows are computed too
                values = [self._local(value) for value in values]
            code.line("if skip: skip -= 1")
            code.indent("else:")
        self.sink.row(values)
        if query.limit is not None:
            code.line("left -= 1")
            code.line(f"if left == 0: return {self.sink.finish}")
        code.dedent_to(depth)


def equality_key(expressions: ExpressionCompiler, value: Value, expression: tree.Expr) -> str:
    """Source of a value that is equal and hashes equally for values that SQL treats as equal, including NULLs."""
    key = known_type(expression, expressions.levels).sort_key()
    if key is None:
        return value.source
    name = expressions.code.constant(key, "key")
    return (
        f"(None if {value.source} is None else {name}({value.source}))" if value.nullable else f"{name}({value.source})"
    )


def sort_places(order_by: Sequence[tree.SortClause], outputs: Sequence[tree.Expr]) -> list[int]:
    """The places of the sort clauses' values in a buffered row: among the outputs, or after them in order."""
    places: list[int] = []
    after = len(outputs)
    for clause in order_by:
        if clause.expression in outputs:
            places.append(outputs.index(clause.expression))
        else:
            places.append(after)
            after += 1
    return places


def write_sort(
    expressions: ExpressionCompiler, name: str, order_by: Sequence[tree.SortClause], places: Sequence[int]
) -> None:
    """Sorts a list of tuples with the values of the sort clauses at these places: the last clause first."""
    for clause, place in reversed(list(zip(order_by, places, strict=True))):
        known = known_type(clause.expression, expressions.levels)
        key = sort_function(place, known, clause.descending, clause.nulls_first)
        backward = ", reverse=True" if clause.descending else ""
        expressions.code.line(f"{name}.sort(key={expressions.code.constant(key, 'order')}{backward})")


def check_limit(value: int | None) -> int:
    """LIMIT's count; -1 for NULL, which is no limit. Raises 2201W."""
    if value is None:
        return -1
    if value < 0:
        raise SqlError("2201W", "LIMIT must not be negative")
    return value


def check_offset(value: int | None) -> int:
    """OFFSET's count. Raises 2201X."""
    if value is None:
        return 0
    if value < 0:
        raise SqlError("2201X", "OFFSET must not be negative")
    return value
