"""BEGIN, COMMIT, ROLLBACK, savepoints and similar statements if they have to wait, and SET CONSTRAINTS."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Constraint, Table, View
from engine.ddl.triggers import constraint_of
from engine.execute.deferred import check
from engine.session.errors import aborted_error
from engine.session.plan import Answer
from engine.session.portal import Portal
from engine.session.prepared import Prepared
from engine.session.transactions import ends_block
from engine.sql import ast
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session


def answer(session: Session, prepared: Prepared) -> Answer:
    """Runs a transaction statement at once. Raises 25P02, and LockWait for a deferred constraint."""
    tree: ast.TransactionStmt = prepared.statement.tree  # type: ignore[assignment]
    if session.status == "E" and not ends_block(tree):
        raise aborted_error()
    session.began = began = perf_counter()
    name, lsn = session.transactions.run(tree)
    tally = prepared.tally or session.node.statements.tally(prepared)
    tally.rows -= 1  # it gives none
    times = tally.inside
    times.append(perf_counter() - began)
    if len(times) >= tally.limit:
        session.node.statements.full(tally)
    return Answer(b"", name, -1, lsn)


async def run_transaction(session: Session, tree: ast.TransactionStmt, portal: Portal, sink: Sink) -> None:
    while True:
        try:
            tag, lsn = session.transactions.run(tree)
            break
        except LockWait as wait:  # a deferred constraint
            await session.wait_for(wait)
    if lsn:
        await session.durable(lsn)
    sink.complete(tag)


async def run_set_constraints(session: Session, tree: ast.SetConstraintsStmt, portal: Portal, sink: Sink) -> None:
    """SET CONSTRAINTS: constraints that become immediate are checked now. Raises 42704, 42809, 23503."""
    transaction = session.transaction
    if transaction is None or transaction.deferral() is None:
        session.warn("25P01", "SET CONSTRAINTS can only be used in transaction blocks")
    chosen = [oid for schema, name in tree.names for oid in _constraints(session, schema, name)]
    deferred = None if transaction is None else transaction.deferral()
    if transaction is None or deferred is None:
        sink.complete("SET CONSTRAINTS")
        return
    for oid in chosen or [0]:
        deferred.set_mode(oid, tree.deferred)
    while not tree.deferred:
        try:
            await session.routines.fire_deferred(everything=False)
            check(deferred, transaction, session.catalog, session.key.format, everything=False)
            break
        except LockWait as wait:
            await session.wait_for(wait)
    sink.complete("SET CONSTRAINTS")


def _constraints(session: Session, schema: str | None, name: str) -> list[int]:
    """The deferrable constraints of that name in the first schema of the path that has one."""
    environment = session.environment
    path = environment.search_path if schema is None else (schema,)
    if schema is not None and not environment.schema_oid(schema):
        raise SqlError("3F000", f'schema "{schema}" does not exist')
    for place in path:
        oid = environment.schema_oid(place)
        found = [
            constraint
            for table in session.catalog.tables()
            if table.schema == oid
            for constraint in table.constraints
            if constraint.name == name
        ]
        found += _constraint_triggers(session, oid, name)
        if found and not any(constraint.deferrable for constraint in found):
            raise SqlError("42809", f'constraint "{name}" is not deferrable')
        if found:
            return [constraint.oid for constraint in found if constraint.deferrable]
    shown = name if schema is None else f"{schema}.{name}"
    raise SqlError("42704", f'constraint "{shown}" does not exist')


def _constraint_triggers(session: Session, schema: int, name: str) -> list[Constraint]:
    """The constraint triggers of that name on the relations of a schema."""
    relations = map(session.catalog.get, sorted(session.catalog.with_triggers))
    return [
        constraint_of(trigger)
        for relation in relations
        if isinstance(relation, Table | View) and relation.schema == schema
        for trigger in relation.triggers
        if trigger.constraint and trigger.name == name
    ]
