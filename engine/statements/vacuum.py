"""VACUUM and ANALYZE. Rows are versioned in memory and the tables hold one version each, and there are no statistics:
VACUUM only returns free space. Names, owners and locks are as in PostgreSQL.

    VACUUM         the larger free pieces of the tables' file are returned to the file system, a moment later
    VACUUM FULL    waits for it: the pages of the tables and their indexes are rewritten into full ones first, and every
                   free page is returned

All tables of a tablespace share a file, on this node. Followers repeat the VACUUM of their leader
(engine/space_requests.py), and no session waits for them; a VACUUM on a follower runs there alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.privileges import acts_as
from catalog.schema import Database, Relation, Table
from engine.node.sizes import storage_ids
from engine.sql import ast
from engine.sql.parser import parse
from engine.txn.locks import ACCESS_EXCLUSIVE, ACCESS_SHARE, SHARE_UPDATE_EXCLUSIVE

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.session import Session


async def vacuum(session: Session, tree: ast.VacuumStmt, portal: Portal, sink: Sink) -> None:
    """Raises 25001, 42601, 42P01, 0A000, 55P03; 53100 if the disk is too full to pack."""
    if tree.is_vacuum and len(parse(portal.prepared.statement.whole, session.key.conforming)) > 1:
        raise SqlError("25001", "VACUUM cannot run inside a transaction block")
    options = {name.lower(): value.lower() for name, value in tree.options}
    full = options.get("full", "off") not in _SWITCHED_OFF
    _check_options(tree.is_vacuum, options, full)
    wait = "nowait" if options.get("skip_locked", "off") not in _SWITCHED_OFF else "block"
    chosen: list[int] = []
    for relation in tree.relations:
        mode = ACCESS_EXCLUSIVE if full else SHARE_UPDATE_EXCLUSIVE
        while True:
            found = _get_relation(session, relation)
            locked = isinstance(found, Table) and await _lock(session, found, tree.is_vacuum, mode, wait)
            if not locked or _get_relation(session, relation).oid == found.oid:
                break  # otherwise the name was given to another one during the wait for the lock
        if locked and isinstance(found, Table):
            chosen.append(found.oid)
            if found.partitioning is not None:
                analyzes = not tree.is_vacuum or options.get("analyze", "off") not in _SWITCHED_OFF
                chosen += await _lock_partitions(session, found, mode, wait, analyzes)
    if not tree.relations:
        chosen = [table.oid for table in session.catalog.tables()]
    if tree.is_vacuum:
        # As they are now: they may have changed during a wait for a lock.
        tables = [table for table in map(session.catalog.get, chosen) if isinstance(table, Table)]
        held = storage_ids(session.catalog, [table for table in tables if _may(session, table)])
        # Dropped tables leave space too, and may have been the last ones.
        everywhere = not tree.relations and _acts_as_one_of(session, _owners(session))
        if full:
            session.node.space_requests.tell(held, full, everywhere)
            await session.node.pack(held, everywhere)
        elif options.get("truncate", "on") not in _SWITCHED_OFF:
            session.node.space_requests.tell(held, full, everywhere)
            session.node.give_back(held, everywhere)
    sink.complete("VACUUM" if tree.is_vacuum else "ANALYZE")


def _get_relation(session: Session, relation: ast.RangeVar) -> Relation:
    """Raises 42P01."""
    found = session.environment.find_relation(relation.schema, relation.name)
    if found is None:
        raise SqlError("42P01", f'relation "{relation.name}" does not exist')
    return found


_SWITCHED_OFF = ("off", "false", "0")
_ANALYZE_OPTIONS = ("verbose", "skip_locked")
_VACUUM_OPTIONS = (
    *_ANALYZE_OPTIONS, "analyze", "freeze", "full", "disable_page_skipping", "index_cleanup", "process_toast",
    "truncate", "parallel",
)  # fmt: skip
_MOST_WORKERS = 1024


def _check_options(is_vacuum: bool, options: Mapping[str, str], full: bool) -> None:
    """ExecVacuum. Raises 42601, 0A000."""
    for name in options:
        if name not in (_VACUUM_OPTIONS if is_vacuum else _ANALYZE_OPTIONS):
            raise SqlError("42601", f'unrecognized {"VACUUM" if is_vacuum else "ANALYZE"} option "{name}"')
    workers = options.get("parallel")
    if workers == "":
        raise SqlError("42601", f"parallel option requires a value between 0 and {_MOST_WORKERS}")
    if workers is not None:
        if not workers.isdigit() or int(workers) > _MOST_WORKERS:
            raise SqlError("42601", f"parallel workers for vacuum must be between 0 and {_MOST_WORKERS}")
        if full and int(workers):
            raise SqlError("0A000", "VACUUM FULL cannot be performed in parallel")
    if full and options.get("disable_page_skipping", "off") not in _SWITCHED_OFF:
        raise SqlError("0A000", "VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL")


def _may(session: Session, table: Table) -> bool:
    return _acts_as_one_of(session, [table.owner, *_owners(session)])


def _owners(session: Session) -> list[int]:
    """The roles that may vacuum the whole database."""
    database = session.catalog.get(session.database_oid)
    return [database.owner] if isinstance(database, Database) else []


def _acts_as_one_of(session: Session, owners: Sequence[int]) -> bool:
    return any(acts_as(session.catalog, session.identity.user, owner) for owner in owners)


async def _lock_partitions(session: Session, parent: Table, mode: int, wait: str, analyzes: bool) -> list[int]:
    """Waits for each partition, and returns those that are not skipped; PostgreSQL does not say which are. ANALYZE
    first reads them all for the parent, also with SKIP_LOCKED."""
    transaction = session.transaction or session.begin_implicit()
    below = session.catalog.descendants(parent.oid)
    for table in below if analyzes else ():
        await session.lock_table(transaction, table.oid, ACCESS_SHARE)
    found: list[int] = []
    for table in below:
        try:
            await session.lock_table(transaction, table.oid, mode, wait)
        except SqlError as error:
            if wait != "nowait" or error.sqlstate != "55P03":
                raise
        else:
            found.append(table.oid)
    return found


async def _lock(session: Session, table: Table, is_vacuum: bool, mode: int, wait: str) -> bool:
    """Takes the lock, or says why the table is skipped."""
    verb = "vacuum" if is_vacuum else "analyze"
    if not _may(session, table):
        message = f'skipping "{table.name}" --- only table or database owner can {verb} it'
        session.warn("01000", message)
        return False
    if table.server:
        if is_vacuum:
            session.warn("01000", f'skipping "{table.name}" --- cannot vacuum non-tables or special system tables')
        return False
    transaction = session.transaction or session.begin_implicit()
    try:
        if table.oid not in transaction.table_locks:  # its first look at the table waits as a query does
            await session.lock_table(transaction, table.oid, ACCESS_SHARE, wait)
            transaction.unlock_table(table.oid)
        await session.lock_table(transaction, table.oid, mode, wait)
    except SqlError as error:
        if wait != "nowait" or error.sqlstate != "55P03":
            raise
        session.warn("55P03", f'skipping {verb} of "{table.name}" --- lock not available')
        return False
    return True
