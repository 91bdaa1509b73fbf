"""Sub-queries as values: EXISTS, IN, ANY, ALL, scalar and ARRAY sub-queries.

Each is a function inside its query's function, and so sees the columns of the outer row. A sub-query that uses no outer
column runs at most once a statement: its answer is kept in a list that is emptied when the plan starts.

If only TRUE counts, IN becomes EXISTS with the comparison as a condition, if that makes it a look-up by key. Otherwise,
if the sub-query uses no outer column, its rows are collected in a set once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from catalog.errors import SqlError
from catalog.types.base import Array
from catalog.types.oids import RECORDS
from engine.execute.code import NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.expressions import ExpressionCompiler
from engine.execute.measured import write_kept_value
from engine.execute.output import ActionSink, ListSink, equality_key
from engine.execute.pull_up import pull_up
from engine.sql import tree
from engine.sql.tree_walk import is_volatile, outer_ctes, shift_levels, variables

if TYPE_CHECKING:
    from engine.execute.select import QueryCompiler


def too_many_rows() -> NoReturn:
    raise SqlError("21000", "more than one row returned by a subquery used as an expression")


def array_of_rows(rows: list[tuple[object]]) -> Array:
    """ARRAY(SELECT ...): the only column of the rows."""
    return Array.of(tuple([row[0] for row in rows]))


def sublink_value(compiler: QueryCompiler, link: tree.SubLink) -> Value:
    """The value of a sub-query, including NULL."""
    function, nullable = _KINDS[link.kind](compiler, link)
    if not link.test and _runs_once(compiler, link.query):
        return _once(compiler, function, nullable)
    return Value(f"{function}()", nullable)


def _runs_once(compiler: QueryCompiler, query: tree.Query) -> bool:
    """Whether its rows come from a single run, volatile or not: it depends on no outer row (PostgreSQL's InitPlans, and
    sub-plans that are hashed or materialized)."""
    return not variables(query) and not _refers_to_inner_with(compiler, query)


def _refers_to_inner_with(compiler: QueryCompiler, query: tree.Query) -> bool:
    """Whether it reads a WITH query of an outer query that is not the outermost one: that may depend on its row."""
    for levels in outer_ctes(query):
        owner: QueryCompiler | None = compiler
        for _ in range(levels):
            owner = owner.parent if owner is not None else None
        if owner is None or owner.parent is not None:
            return True
    return False


def sublink_truth(compiler: QueryCompiler, link: tree.SubLink) -> str | None:
    """Source that is truthy when an IN is TRUE, by a look-up in the sub-query or in the set of its rows; None if
    neither is possible."""
    query = link.query
    if link.kind != "any" or link.negated or any(operator.name != "=" for operator, _ in link.comparisons):
        return None
    plain = not (
        query.has_aggregates
        or query.group_by
        or query.limit
        or query.offset
        or query.set_operation
        or query.distinct
        or query.has_set_functions
    )
    gathered = _may_be_gathered(compiler, link)
    if not plain or is_volatile(link.query):
        return _gather(compiler, link) if gathered else None
    outputs = [target.expression for target in query.targets if not target.junk]
    conditions = [
        tree.FuncExpr(function, (shift_levels(test, 1), output), link.type, operator, "operator")
        for test, output, (operator, function) in zip(link.test, outputs, link.comparisons, strict=True)
    ]
    parts = (*([query.where] if query.where is not None else []), *conditions)
    where = parts[0] if len(parts) == 1 else tree.BoolExpr("and", parts)
    exists = replace(query, where=where, targets=(), order_by=(), distinct=None)
    if gathered and not compiler.below(pull_up(exists)).looks_up_from_outside:
        return _gather(compiler, link)
    function, _ = _exists(compiler, replace(link, kind="exists", query=exists, test=(), comparisons=()))
    return f"{function}()"


def _may_be_gathered(compiler: QueryCompiler, link: tree.SubLink) -> bool:
    """Whether the sub-query returns the same rows for all outer rows, of types that are compared with themselves."""
    query = link.query
    outputs = [target.expression for target in query.targets if not target.junk]
    same = all(test.type.oid == output.type.oid for test, output in zip(link.test, outputs, strict=True))
    alike = same and not any(item.type.oid in RECORDS for item in outputs)
    return alike and _runs_once(compiler, query)


def _gather(compiler: QueryCompiler, link: tree.SubLink) -> str:
    code = compiler.code
    outputs = [target.expression for target in link.query.targets if not target.junk]
    members = code.temporary("members")

    def row(values: Sequence[Value]) -> None:
        values = [_local(compiler, value) for value in values]
        tests = [f"{value.source} is not None" for value in values if value.nullable]
        with code.block(f"if {' and '.join(tests) or True}:"):
            code.line(f"{members}.add({_key(compiler, values, outputs)})")
            write_kept_value(code, f"({''.join(value.source + ', ' for value in values)})")

    sink = ActionSink(row, members, lambda: code.line(f"{members} = set()"))
    function = compiler.write_subquery(link.query, sink)
    bound = [compiler.expressions.bind_name(test) for test in link.test]
    tests = [
        f"{source} is not None" if value.nullable else f"({source},)"
        for source, value in bound
        if value.nullable or source != value.source
    ]
    key = _key(compiler, [value for _, value in bound], link.test)
    gathered = code.temporary("members")
    rows = f"({gathered} := {rows_once(compiler, function, link.query)})"  # if there are none, nothing is computed
    return f"({' and '.join([rows, *tests, f'{key} in {gathered}'])})"


def _key(compiler: QueryCompiler, values: Sequence[Value], expressions: Sequence[tree.Expr]) -> str:
    """Source of a value that is equal, and hashes equally, if none of the values is NULL and SQL treats them as
    equal."""
    known = [replace(value, nullable=False) for value in values]
    keys = [equality_key(compiler.expressions, *pair) for pair in zip(known, expressions, strict=True)]
    return keys[0] if len(keys) == 1 else f"({', '.join(keys)})"


def rows_once(compiler: QueryCompiler, function: str, query: tree.Query) -> str:
    """Source of the rows of a sub-query without outer columns, which runs once if that is certain."""
    if _refers_to_inner_with(compiler, query):
        return f"{function}()"
    return _once(compiler, function, False).source


def _once(compiler: QueryCompiler, function: str, nullable: bool) -> Value:
    code = compiler.code
    known = code.temporary("known")
    code.prologue.append(f"{known} = []")
    wrapper = code.temporary("once")
    with code.block(f"def {wrapper}():"):
        code.line(f"if not {known}: {known}.append({function}())")
        code.line(f"return {known}[0]")
    return Value(f"{wrapper}()", nullable)


def _exists(compiler: QueryCompiler, link: tree.SubLink) -> tuple[str, bool]:
    code = compiler.code
    sink = ActionSink(lambda values: code.line("return True"), "False", _nothing)
    query = link.query
    if not (query.has_aggregates or query.group_by or query.set_operation or query.has_set_functions):
        query = replace(query, targets=(), order_by=(), distinct=None)
    return compiler.write_subquery(query, sink), False


def _scalar(compiler: QueryCompiler, link: tree.SubLink) -> tuple[str, bool]:
    code = compiler.code
    found = code.temporary("found")
    rows = code.temporary("rows")
    code.names["too_many_rows"] = too_many_rows

    def start() -> None:
        code.line(f"{rows} = 0")
        code.line(f"{found} = None")

    def row(values: Sequence[Value]) -> None:
        code.line(f"if {rows}: too_many_rows()")
        code.line(f"{rows} = 1")
        code.line(f"{found} = {values[0].source}")

    return compiler.write_subquery(link.query, ActionSink(row, found, start)), True


def _array(compiler: QueryCompiler, link: tree.SubLink) -> tuple[str, bool]:
    code = compiler.code
    if any(target.expression.type.oid == link.type.oid for target in link.query.targets if not target.junk):
        raise NotOnRowPath("ARRAY of arrays")
    sink = ListSink(code, count=False)
    sink.finish = f"{code.constant(array_of_rows, 'array_of_rows')}({sink.out})"
    return compiler.write_subquery(link.query, sink), False


def _any(compiler: QueryCompiler, link: tree.SubLink) -> tuple[str, bool]:
    return _quantify(compiler, link, decisive="True")


def _all(compiler: QueryCompiler, link: tree.SubLink) -> tuple[str, bool]:
    return _quantify(compiler, link, decisive="False")


def _quantify(compiler: QueryCompiler, link: tree.SubLink, decisive: str) -> tuple[str, bool]:
    """ANY and ALL: the first row that decides does; otherwise NULL if a comparison was unknown, otherwise the other
    answer. The tested value is computed when there is a row to compare it with."""
    if link.negated or len(link.comparisons) != 1:
        raise NotOnRowPath("a row comparison with a sub-query")
    code = compiler.code
    operator, function = link.comparisons[0]
    tested = compiler.expressions.value(link.test[0])
    test = tested if tested.atom else Value(code.temporary(), tested.nullable, atom=True)
    unknown = code.temporary("unknown")
    other = "False" if decisive == "True" else "True"
    output = next(target.expression for target in link.query.targets if not target.junk)

    def begin() -> None:
        code.line(f"{unknown} = False")
        if test is not tested:
            code.line(f"{test.source} = ...")

    def row(values: Sequence[Value]) -> None:
        value = _local(compiler, values[0])
        if test is not tested:
            code.line(f"if {test.source} is ...: {test.source} = {tested.source}")
        left, right = (
            tree.CaseTestExpr(link.test[0].type),
            tree.RelabelType(tree.CaseTestExpr(output.type), output.type),
        )
        inner = ExpressionCompiler(code, compiler.settings, compiler.variable)
        inner.overrides = {left: test, right: value}
        call = tree.FuncExpr(function, (left, right), link.type, operator, "operator")
        result = code.temporary()
        code.line(f"{result} = {inner.value(call).source}")
        code.line(f"if {result} is {decisive}: return {decisive}")
        code.line(f"if {result} is None: {unknown} = True")

    answer = f"None if {unknown} else {other}"
    if not (is_volatile(link.query) and _runs_once(compiler, link.query)):
        sink = ActionSink(row, answer, begin)
        return compiler.write_subquery(link.query, sink), True
    rows = rows_once(compiler, compiler.write_subquery(link.query, ListSink(code, count=False)), link.query)
    name, value = code.temporary("query"), code.temporary()
    with code.block(f"def {name}():"):
        begin()
        with code.block(f"for {value}, in {rows}:"):
            row([Value(value, nullable=True, atom=True, made=True)])
        code.line(f"return {answer}")
    return name, True


def _local(compiler: QueryCompiler, value: Value) -> Value:
    if value.atom:
        return value
    name = compiler.code.temporary()
    compiler.code.line(f"{name} = {value.source}")
    return value.with_name(name)


def _nothing() -> None:
    """A sink that needs no preparation."""


_KINDS: dict[str, Callable[[QueryCompiler, tree.SubLink], tuple[str, bool]]] = {
    "exists": _exists,
    "expr": _scalar,
    "array": _array,
    "any": _any,
    "all": _all,
}
