"""Statements of a body that are neither queries nor changes of rows: variables in them, the results of CALL, and what
is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from catalog.schema import View
from catalog.types import format_type
from catalog.types.base import TypeRef
from engine.sql import ast
from engine.sql.analyze import Shared, analyze
from engine.sql.parser import parse_type_name
from engine.sql.plpgsql.tree import Fragment, Shape
from engine.sql.tree_walk import transform
from engine.statements.plpgsql.names import Names, ParameterUse
from engine.statements.routine_calls import procedure_call, routine_of

if TYPE_CHECKING:
    from engine.session.session import Session

_WITH_QUERY = ast.CreateTableAsStmt | ast.DeclareCursorStmt | ast.ExplainStmt


def with_variables(
    session: Session, fragment: Fragment, shapes: Mapping[int, Shape | None], conflict: str
) -> tuple[ast.Node, tuple[ParameterUse, ...]]:
    """A statement with parameters in place of variables, where PostgreSQL allows variables: in CALL, and in the query
    of CREATE TABLE AS, DECLARE and EXPLAIN; and in a change of a table with rules."""
    node, environment = fragment.tree, session.environment
    names = Names(fragment.scope, shapes, conflict)
    if isinstance(node, ast.CallStmt):
        shared = Shared(environment, ())
        shared.routine = names
        procedure_call(session, node, shared)
    elif isinstance(node, _WITH_QUERY) and isinstance(node.query, ast.SelectStmt):
        analyze(node.query, environment, names=names)
    elif isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt):
        relation = environment.find_relation(node.relation.schema, node.relation.name)
        if isinstance(relation, View):
            not_supported(f'a change of the view "{relation.name}", which has rules, in PL/pgSQL')
        analyze(node, environment, names=names)
    if not names.uses:
        return node, ()

    def change(item: object, depth: int) -> object:
        if not isinstance(item, ast.ColumnRef):
            return item
        number = names.met.get(item.names)
        if number is not None:
            type_ = _type_of(names.uses[number - 1], shapes)
            return ast.TypeCast(ast.ParamRef(number), parse_type_name(format_type(type_.declared)))
        known = fragment.scope.find(item.names)
        if known is not None and known[0].is_record and known[1] == len(item.names):
            not_supported("a record in a statement of this kind")
        return item

    return transform(node, change), tuple(names.uses)


def _type_of(use: ParameterUse, shapes: Mapping[int, Shape | None]) -> TypeRef:
    variable = use.variable
    if variable.type is not None:
        return variable.type
    shape = variable.shape or shapes[variable.number]
    assert shape is not None
    return shape[use.field][1]


def output_places(session: Session, node: ast.Node, writable: Collection[int]) -> list[int]:
    """The positions of the arguments of CALL that take the procedure's results. Raises 42601 for an argument that is no
    variable."""
    if not isinstance(node, ast.CallStmt):
        return []
    call = node.call
    assert isinstance(call, ast.FuncCall)
    routine = routine_of(session, procedure_call(session, node).call)
    named = {name: place for place, name in enumerate(call.argument_names) if name}
    found = []
    for position, argument in enumerate(routine.arguments):
        if argument.mode in ("o", "b"):
            place = named.get(argument.name, position)
            if place not in writable:
                shown = f'"{argument.name}"' if argument.name else str(position + 1)
                message = "is an output parameter but corresponding argument is not writable"
                raise SqlError("42601", f"procedure parameter {shown} {message}")
            found.append(place)
    return found


def refusal(node: ast.Node) -> str:
    """The message (0A000) for a statement that a body may not have; '' for any other."""
    if isinstance(node, ast.TransactionStmt):
        return "unsupported transaction command in PL/pgSQL"
    if isinstance(node, ast.CopyStmt) and node.filename is None:
        return "cannot COPY to/from client in PL/pgSQL"
    return ""


def refuse_dynamic(node: ast.Node) -> None:
    """Raises 0A000 for a statement that EXECUTE may not run."""
    if isinstance(node, ast.TransactionStmt):
        raise SqlError("0A000", "EXECUTE of transaction commands is not implemented")
    if isinstance(node, ast.SelectStmt) and node.into is not None:
        hint = "You might want to use EXECUTE ... INTO or EXECUTE CREATE TABLE ... AS instead."
        raise SqlError("0A000", "EXECUTE of SELECT ... INTO is not implemented", hint=hint)
    message = refusal(node)
    if message:
        raise SqlError("0A000", message)
