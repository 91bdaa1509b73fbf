"""CLUSTER: of a table, of the partitions of one, or of all tables that were clustered before. Several tables are
processed one after the other, each in a transaction of its own (engine/ddl/physical_order.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.privileges import acts_as
from catalog.schema import Index, Table
from engine.ddl.physical_order import clustered_index
from engine.sql import ast
from engine.statements.ddl_context import SessionDdl
from engine.statements.schema_change import execute
from engine.txn.locks import ACCESS_EXCLUSIVE

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.session import Session


async def cluster(session: Session, tree: ast.ClusterStmt, portal: Portal, sink: Sink) -> None:
    """Raises 25001, 42P01, 42501, 42809, 42704, 0A000."""
    relation = tree.relation
    if relation is None:
        _refuse_in_block(session)
        known = session.catalog.by_kind.get(Index, ())
        await _each(session, [index for index in known if isinstance(index, Index) and index.clustered])
    else:
        found = session.environment.find_relation(relation.schema, relation.name)
        if isinstance(found, Table) and found.partitioning is not None:
            await _partitions(session, tree, found)
        else:
            await execute(session, tree)
    sink.complete("CLUSTER")


async def _partitions(session: Session, tree: ast.ClusterStmt, table: Table) -> None:
    if not acts_as(session.catalog, session.identity.user, table.owner):
        raise SqlError("42501", f"must be owner of table {table.name}")
    transaction = session.transaction or session.begin_implicit()
    await session.lock_table(transaction, table.oid, ACCESS_EXCLUSIVE)
    _refuse_in_block(session)
    index = clustered_index(SessionDdl(session), table, tree.index)
    parts = _parts(session, index)
    await session.durable(session.finish())
    session.begin_implicit()
    await _each(session, parts)


def _refuse_in_block(session: Session) -> None:
    if session.in_block:
        raise SqlError("25001", "CLUSTER cannot run inside a transaction block")


def _parts(session: Session, index: Index) -> list[Index]:
    """The parts of a partitioned table's index in tables with rows."""
    catalog = session.catalog
    below = [catalog.index(oid) for oid in catalog.index_children.get(index.oid, ())]
    if catalog.table(index.table).partitioning is None:
        return [index]
    return [part for item in below for part in _parts(session, item)]


async def _each(session: Session, indexes: list[Index]) -> None:
    """Skips tables of others, and those that have gone meanwhile."""
    for known in indexes:
        index = session.catalog.get(known.oid)
        if not isinstance(index, Index):
            continue
        table = session.catalog.table(index.table)
        if not acts_as(session.catalog, session.identity.user, table.owner):
            continue
        relation = ast.RangeVar(None, session.catalog.schema_name(table.schema), table.name)
        try:
            await execute(session, ast.ClusterStmt(relation, index.name))
        except SqlError as error:
            if error.sqlstate not in ("42P01", "42704") or session.catalog.get(known.oid) is not None:
                raise
            session.transactions.roll_back()
        else:
            await session.durable(session.finish())
        session.begin_implicit()
