"""Source of calls of user-defined functions that were not replaced by their bodies (engine/sql/analyze/routines.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.functions.base import Function
from catalog.functions.registry import implementation
from catalog.types.base import TypeRef
from engine.execute.code import Code
from engine.execute.context import RoutineCall
from engine.execute.user_aggregates import computed_elsewhere
from engine.sql import tree
from engine.sql.analyze.routines import is_routine
from engine.sql.tree_walk import walk

if TYPE_CHECKING:
    from engine.execute.expressions import ExpressionCompiler


def calls_routines(catalog: Catalog, statement: object) -> bool:
    """Whether a statement calls functions of users that stay calls, or aggregates with such functions: then no other
    path can run it."""
    if not catalog.routines:
        return False
    return any(is_routine(item) or computed_elsewhere(item) for item in walk(statement))


def calls_session(node: object) -> bool:
    """Whether it calls functions that need the session, which only the row path can call for each row."""
    return any(
        isinstance(item, tree.NextValueExpr) or (isinstance(item, tree.FuncExpr) and _needs_session(item.function))
        for item in walk(node)
    )


def _needs_session(function: Function) -> bool:
    found = implementation(function.source)
    return found is not None and found.needs_session


def routine_source(
    code: Code,
    method: str,
    function: Function,
    arguments: Sequence[str],
    types: Sequence[TypeRef],
    result: TypeRef,
    more: str = "",
    checked: bool = False,
) -> str:
    """Source of a call by a method of SessionServices."""
    call = code.constant(RoutineCall(function.oid, tuple(item.oid for item in types), result, checked), "call")
    given = "".join(f"{argument}, " for argument in arguments)
    return f"{code.context_call}.session.{method}({call}, ({given}){more})"


def routine_rows(compiler: ExpressionCompiler, call: tree.FuncExpr, columns: Sequence[TypeRef]) -> str:
    """Source of the rows of a call in FROM: tuples with columns of these types."""
    values = [compiler.value(argument) for argument in call.arguments]
    strict = call.function.strict and any(value.nullable for value in values)
    bound = [compiler.bind(value) if strict else (value.source, value) for value in values]
    arguments = [atom.source for _, atom in bound]
    types = [argument.type for argument in call.arguments]
    wanted = f", {compiler.code.constant(tuple(columns), 'columns')}"
    source = routine_source(compiler.code, "routine_rows", call.function, arguments, types, call.type, wanted)
    if not strict:
        return source
    nulls = " or ".join(f"{given} is None" for given, _ in bound)
    nothing = "()" if call.function.returns_set else f"(({'None, ' * len(columns)}),)"
    return f"({nothing} if {nulls} else {source})"
