"""The rows of shoal_columns and shoal_stat_progress_columns: the tables of this node's analytic worker, and its present
tasks. docs/columns.md describes the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.privileges import acts_as
from catalog.schema import READ_ALL_STATS_OID, Role, Schema
from engine.columnar.ahead import columnar_of
from engine.columnar.worker_report import BUILDING, SAVE
from engine.node.sizes import rows_in

if TYPE_CHECKING:
    from catalog.schema import Table
    from engine.node.node import Node
    from engine.session.session import Session

Row = dict[str, object]


def column_rows(session: Session) -> list[Row]:
    """The tables of the session's database that have columns, or a setting for them."""
    catalog, copies = session.catalog, session.node.columnar.copies()
    rows: list[Row] = []
    for table in catalog.tables():
        copy, setting = copies.get(table.storage_id), columnar_of(table)
        schema = catalog.get(table.schema)
        if isinstance(schema, Schema) and (copy is not None or setting != "auto"):
            row: Row = {
                "schema_name": schema.name, "table_name": table.name, "setting": setting, "state": "none"
            }  # fmt: skip
            if copy is not None:
                row |= {
                    "state": copy.state, "lsn": copy.lsn, "lag": copy.lag, "saved_lsn": copy.saved_lsn,
                    "rows": copy.rows, "bytes": copy.bytes, "loaded": copy.loaded, "loaded_from": copy.loaded_from,
                }  # fmt: skip
            rows.append(row)
    return sorted(rows, key=lambda row: (str(row["schema_name"]), str(row["table_name"])))


def progress_rows(session: Session) -> list[Row]:
    """The worker's present tasks in all databases. As in pg_stat_progress_vacuum, every role sees the row and its
    database. The rest is for roles that may read all statistics, and for the owner of the table."""
    node = session.node
    work = node.columnar.work()
    if not work:
        return []
    pid, places = node.columnar.process_id, _places(node)
    names = {oid: name for name, oid in session.catalog.databases.items()}
    rows: list[Row] = []
    for item in work:
        database, table = places.get(item.storage_id, (None, None))
        row: Row = {"pid": pid, "datid": database, "datname": None if database is None else names.get(database)}
        if _may_see(session, table):
            total = item.total
            if total is None and table is not None and item.phase == BUILDING:
                total = max(rows_in(node, table), item.done)  # an estimate, where there are many
            row |= {
                "relid": SAVE if table is None else table.oid, "phase": item.phase, "tuples_total": total,
                "tuples_done": item.done, "bytes_processed": item.bytes,
            }  # fmt: skip
        rows.append(row)
    return rows


def _places(node: Node) -> dict[int, tuple[int, Table]]:
    """The database and the table of each storage id."""
    return {
        table.storage_id: (database, table) for database, catalog in node.catalogs.items() for table in catalog.tables()
    }


def _may_see(session: Session, table: Table | None) -> bool:
    catalog = session.catalog
    user = catalog.get(catalog.roles.get(session.user_name, 0))
    role = user if isinstance(user, Role) else None
    return acts_as(catalog, role, READ_ALL_STATS_OID) or (table is not None and acts_as(catalog, role, table.owner))
