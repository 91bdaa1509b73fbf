"""Parse and Bind of the extended protocol: prepared statements and portals by their names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from catalog.errors import SqlError, stack_depth_exceeded
from catalog.memory import LARGE, Holding, within
from catalog.types.datetime import OfThisMoment, reading_constants
from engine.foreground import aside
from engine.session.errors import aborted_error
from engine.session.portal import Portal
from engine.session.prepared import Prepared, once_known
from engine.session.statement_texts import utf8
from engine.session.transactions import ends_transaction
from engine.sql import ast
from engine.statements import planning

if TYPE_CHECKING:
    from engine.session.session import Session


def parse(session: Session, name: bytes, sql: bytes, types: tuple[int, ...]) -> Prepared:
    """Parse: plans a statement and keeps it under the name. Raises 42P05 for a name in use."""
    _refuse_known(session, name)
    session.begins(sql)
    return _keep(session, name, planning.prepare_text(session, sql, types, unnamed=not name))


async def parse_long(session: Session, name: bytes, sql: bytes, types: tuple[int, ...]) -> Prepared:
    """`parse` for a text of LONG_TEXT bytes or more, or one that reads the past: in a thread, or when the past state
    exists, unless the plan is known."""
    _refuse_known(session, name)
    session.begins(sql)
    prepared = planning.cached_text(session, sql, types)
    if prepared is None:
        planned = await aside(within, session.query_memory, planning.plan_present, session, sql, types)
        if planned is None:
            planned = await _plan_past(session, sql, types)
        prepared = planning.remember_plan(session, sql, types, planned)
    return _keep(session, name, prepared)


async def _plan_past(session: Session, sql: bytes, types: tuple[int, ...]) -> Prepared:
    """The plan of a text that reads the past, which may have to be built first."""
    return await once_known(partial(planning.plan_text, session, sql, types))


def _refuse_known(session: Session, name: bytes) -> None:
    if name and utf8(name) and name in session.prepared:
        raise SqlError("42P05", f'prepared statement "{utf8(name)}" already exists')


def _keep(session: Session, name: bytes, prepared: Prepared) -> Prepared:
    if session.status == "E":
        session.refuse_in_failed_block(prepared.statement)
    session.prepared[name] = prepared
    return prepared


def get_prepared(session: Session, name: bytes) -> Prepared:
    """The prepared statement of that name, planned again if the schema changed. Raises 26000."""
    prepared = session.prepared.get(name)
    if prepared is None:
        shown = f'prepared statement "{utf8(name)}"' if name else "unnamed prepared statement"
        raise SqlError("26000", f"{shown} does not exist")
    if prepared.catalog is not session.plan_cache_catalog() or prepared.key is not session.key:
        prepared = session.prepared[name] = planning.renew(session, prepared)
    return prepared


def bind(
    session: Session,
    name: bytes,
    statement: bytes,
    parameters: list[bytes | None],
    parameter_formats: tuple[int, ...],
    result_formats: tuple[int, ...],
) -> Portal:
    """Bind: a portal over the statement. Raises 42P03 for a name in use, 53200 for too large parameters."""
    prepared = _bindable(session, name, statement, parameters)
    values = bound_values(session, prepared, name, parameters, parameter_formats)
    return _bind(session, name, Portal(prepared, values, prepared.formats(result_formats), name), parameters)


async def bind_long(
    session: Session,
    name: bytes,
    statement: bytes,
    parameters: list[bytes | None],
    parameter_formats: tuple[int, ...],
    result_formats: tuple[int, ...],
) -> Portal:
    """`bind` of parameters that may take long to read: in a thread."""
    prepared = _bindable(session, name, statement, parameters)
    decode = partial(bound_values, session, prepared, name, parameters, parameter_formats)
    values = await aside(within, session.query_memory, decode)
    return _bind(session, name, Portal(prepared, values, prepared.formats(result_formats), name), parameters)


def _bindable(session: Session, name: bytes, statement: bytes, parameters: list[bytes | None]) -> Prepared:
    prepared = get_prepared(session, statement)
    if session.status == "E" and not ends_transaction(prepared):
        raise aborted_error()
    if name and utf8(name) and name in session.portals:
        raise SqlError("42P03", f'cursor "{utf8(name)}" already exists')
    if isinstance(prepared.statement.tree, ast.FetchStmt):  # its columns are those of the existing cursor
        prepared = planning.prepare(session, prepared.statement, prepared.parameters.declared)
    if len(parameters) != len(prepared.parameters.types):
        message = (
            f"bind message supplies {len(parameters)} parameters, "
            f'but prepared statement "{statement.decode()}" requires {len(prepared.parameters.types)}'
        )
        raise SqlError("08P01", message)
    return prepared


def _bind(session: Session, name: bytes, portal: Portal, parameters: list[bytes | None]) -> Portal:
    old = session.portals.get(name)
    if old is not None:
        old.bound = None
        if old.stream is not None:
            session.portals.close(name)
    size = sum(len(value) for value in parameters if value is not None)
    if size > LARGE:
        portal.bound = Holding(session.memory)
        portal.bound.add(size)
    session.portals[name] = portal
    return portal


def decode_parameters(
    session: Session, prepared: Prepared, parameters: list[bytes | None], formats: tuple[int, ...]
) -> list[object]:
    """Bind's parameters in internal form; 'now' is the start of the session's transaction."""
    try:
        return prepared.parameters.decode(parameters, formats)
    except OfThisMoment:
        transaction = session.transaction
        with reading_constants(transaction.start_time if transaction is not None else None):
            return prepared.parameters.decode(parameters, formats)


def bound_values(
    session: Session, prepared: Prepared, name: bytes, parameters: list[bytes | None], formats: tuple[int, ...]
) -> list[object]:
    """Bind's parameters in internal form, for a portal of that name: an error names the parameter."""
    try:
        return decode_parameters(session, prepared, parameters, formats)
    except SqlError as error:
        prepared.parameters.explain(error, name, parameters, formats)
        raise
    except RecursionError:
        raise stack_depth_exceeded() from None
