"""SERIALIZABLE statements that do not run on the row path: they count as readers of whole tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Table

if TYPE_CHECKING:
    from engine.session.interface import SessionCore
    from engine.txn.transaction import Transaction


Locks = Sequence[tuple[int, int]]


def storage_ids_of(catalog: Catalog, oid: int) -> list[int]:
    """The storage ids of a table and of its indexes, and those of its partitions and children."""
    table = catalog.get(oid)
    if not isinstance(table, Table):
        return []
    family = [table, *catalog.descendants(oid)]
    indexes = [catalog.index(index).storage_id for item in family for index in item.indexes]
    return [*(item.storage_id for item in family), *indexes]


def storage_ids(catalog: Catalog, locks: Locks) -> list[int]:
    """The storage ids of every table that a statement with these table locks locks."""
    return [storage_id for oid, _ in locks for storage_id in storage_ids_of(catalog, oid)]


def look_for_dependency(catalog: Catalog, transaction: Transaction, error: BaseException) -> None:
    """Called before a statement fails. Raises 40001 if the key that it could not write (23505) was read by concurrent
    transactions so that this one would have to fail for that, too: a retry then shows the client the row."""
    if transaction.serial is None or not isinstance(error, SqlError) or error.sqlstate != "23505":
        return
    oid = catalog.relations.get((catalog.schemas.get(error.schema or "", 0), error.table or ""))
    if oid is not None:
        transaction.serial.would_write(storage_ids_of(catalog, oid))


@asynccontextmanager
async def watch_serializable(session: SessionCore, locks: Locks) -> AsyncIterator[None]:
    """Wraps a statement with these table locks: registers reads of all these tables, and its writes. Raises 40001."""
    transaction = session.transaction
    assert transaction is not None
    mark, runs = transaction.begin_statement(), len(transaction.runs)
    serial = transaction.serial
    if serial is None:  # its snapshot is safe
        yield
        return
    tables = storage_ids(session.catalog, locks)
    serial.read_tables(tables)
    try:
        yield
    except SqlError as error:
        look_for_dependency(session.catalog, transaction, error)
        raise
    serial.wrote_since(mark, tables if len(transaction.runs) > runs else ())
