"""PREPARE, EXECUTE and DEALLOCATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from catalog.schema import Domain
from catalog.types import format_type
from catalog.types.base import TypeRef
from engine.execute.context import Field
from engine.execute.expressions import compile_value
from engine.session.portal import Portal
from engine.session.prepared import Prepared
from engine.sql import ast
from engine.sql.analyze import analyze_expression, resolve_type, runnable_expression
from engine.sql.analyze.domains import has_conditions
from engine.sql.tree import Expr
from engine.statements import extended, planning, run
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session


async def run_prepare(session: Session, tree: ast.PrepareStmt, portal: Portal, sink: Sink) -> None:
    name = tree.name.encode()
    if name in session.prepared:
        raise SqlError("42P05", f'prepared statement "{tree.name}" already exists')
    declared = [resolve_type(item, session.environment) for item in tree.types]
    types = tuple(_parameter_oid(session, item) for item in declared)
    session.prepared[name] = planning.prepare(session, portal.prepared.statement.of(tree.query), types)
    sink.complete("PREPARE")


def _parameter_oid(session: Session, type_: TypeRef) -> int:
    """The OID for a parameter's declared type: a domain's own, because of its constraints."""
    if isinstance(session.catalog.get(type_.domain), Domain):
        return type_.domain
    if type_.domain and has_conditions(session.catalog, type_):
        not_supported("a parameter that is an array of a domain with conditions")
    return type_.oid


def find_executed(session: Session, tree: ast.ExecuteStmt) -> Prepared:
    """The statement that EXECUTE names. Raises 26000, and 42601 for a wrong number of arguments."""
    prepared = extended.get_prepared(session, tree.name.encode())
    if len(tree.arguments) != len(prepared.parameters.types):
        raise SqlError(
            "42601",
            f'wrong number of parameters for prepared statement "{tree.name}"',
            detail=f"Expected {len(prepared.parameters.types)} parameters but got {len(tree.arguments)}.",
        )
    return prepared


async def arguments(session: Session, tree: ast.ExecuteStmt, prepared: Prepared) -> list[object]:
    """The values of EXECUTE's arguments. Raises 42804 for one of another type."""
    context = session.context()
    values = []
    for number, (node, oid) in enumerate(zip(tree.arguments, prepared.parameters.types, strict=True), 1):
        compute = compile_value(_argument(session, node, oid, number), context.format)
        while True:
            try:
                values.append(compute(context, ()))
                break
            except LockWait as wait:  # engine/session/other_waits.py
                await session.wait_for(wait)
    return values


def _argument(session: Session, node: ast.Node, oid: int, number: int) -> Expr:
    try:
        return runnable_expression(node, session.environment, None, TypeRef(oid))
    except SqlError as error:
        if error.sqlstate != "42804":
            raise
        given = format_type(analyze_expression(node, session.environment).type.oid)
        message = f"parameter ${number} of type {given} cannot be coerced to the expected type {format_type(oid)}"
        hint = "You will need to rewrite or cast the expression."
        raise SqlError("42804", message, hint=hint, position=error.position) from None


async def run_execute(session: Session, tree: ast.ExecuteStmt, portal: Portal, sink: Sink) -> None:
    prepared = find_executed(session, tree)
    values = await arguments(session, tree, prepared)
    inner = Portal(prepared, values, portal.formats or prepared.text_formats)
    await run.run(session, inner, 0, sink)


async def run_deallocate(session: Session, tree: ast.DeallocateStmt, portal: Portal, sink: Sink) -> None:
    if tree.name is None:
        session.prepared.clear()
        sink.complete("DEALLOCATE ALL")
        return
    if session.prepared.pop(tree.name.encode(), None) is None:
        raise SqlError("26000", f'prepared statement "{tree.name}" does not exist')
    sink.complete("DEALLOCATE")


def execute_fields(session: Session, tree: ast.ExecuteStmt) -> tuple[Field, ...] | None:
    return find_executed(session, tree).fields
