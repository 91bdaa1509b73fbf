"""The queries behind the page's views. Each view has a few named queries that run one after the other on the login's
own connection. A role sees the rows that its privileges and the system views allow.

Lists are limited to LISTED rows (tables to TABLES), and the answer says whether there are more.

A query runs on the engine's thread, so none may take long, however large the database is. Therefore sizes are queried
apart from the names of tables, for a few tables at a time, because each size reads the table's tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

LISTED = 500
TABLES = 5000
OBJECTS = 50  # tables whose sizes are queried together: more would block the node for too long
COMPLETED = 20_000  # maximum number of columns for completion in the editor

_SESSIONS = """
SELECT pid, datname, usename, application_name, host(client_addr) AS client, state, wait_event_type, wait_event,
       backend_type, extract(epoch FROM clock_timestamp() - backend_start)::float8 AS connected,
       extract(epoch FROM clock_timestamp() - xact_start)::float8 AS transaction,
       extract(epoch FROM clock_timestamp() - query_start)::float8 AS running,
       pg_blocking_pids(pid) AS blocked_by, left(query, 4000) AS query, pid = pg_backend_pid() AS own
FROM pg_stat_activity
ORDER BY state = 'active' DESC NULLS LAST, query_start"""

_LOCKS = """
SELECT l.pid, l.locktype, CASE WHEN l.relation IS NOT NULL AND l.database = d.oid THEN l.relation::regclass::text
       ELSE coalesce(l.relation, l.objid)::text END AS object, l.mode, l.granted
FROM pg_locks l, pg_database d
WHERE d.datname = current_database() AND l.pid <> pg_backend_pid()
ORDER BY l.granted, l.pid, l.relation"""

_TABLES = """
SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relkind AS kind, r.rolname AS owner,
       coalesce(t.spcname, 'pg_default') AS tablespace
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_roles r ON r.oid = c.relowner
LEFT JOIN pg_tablespace t ON t.oid = c.reltablespace
WHERE c.relkind IN ('r', 'm', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY n.nspname, c.relname"""

_SIZES = """
SELECT o AS oid, pg_relation_size(o) AS bytes, pg_indexes_size(o) AS index_bytes, pg_stat_get_live_tuples(o) AS rows,
       pg_stat_get_tuples_inserted(o) AS inserted, pg_stat_get_tuples_updated(o) AS updated,
       pg_stat_get_tuples_deleted(o) AS deleted
FROM unnest($1::oid[]) o"""

_COLUMN_STATES = """
SELECT schema_name AS schema, table_name AS name, setting, state, lag, bytes, loaded_from
FROM shoal_columns"""

_COLUMN_WORK = """
SELECT relid, phase, tuples_total, tuples_done, bytes_processed
FROM shoal_stat_progress_columns
WHERE relid = 0 OR datname = current_database() AND relid IS NOT NULL"""

_COLUMNS = """
SELECT n.nspname AS schema, c.relname AS name, c.relkind AS kind, a.attname AS column,
       format_type(a.atttypid, a.atttypmod) AS type
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'v', 'm', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY n.nspname, c.relname, a.attnum"""

_NODES = """
SELECT node, alive, this_node, host, port, admin, load, connections, version,
       extract(epoch FROM clock_timestamp() - started)::float8 AS up
FROM shoal_nodes ORDER BY node"""

_TABLESPACES = """
SELECT tablespace, leader, epoch, head_lsn, live_replicas, expected_replicas, under_replicated, preferred_leader, store
FROM shoal_tablespaces ORDER BY tablespace"""

_REPLICAS = """
SELECT tablespace, node, role, this_node, applied_lsn, flushed_lsn, lag,
       extract(epoch FROM clock_timestamp() - seen)::float8 AS seen
FROM shoal_replicas ORDER BY tablespace, node"""

_LOG = """
SELECT tablespace, role, sequenced_lsn, durable_lsn, flushed_lsn, pending_bytes,
       extract(epoch FROM staleness)::float8 AS staleness, cluster_stale
FROM shoal_log_status ORDER BY tablespace"""

_LEDGERS = """
SELECT tablespace, ledger, state, epoch, first_lsn, last_lsn, bytes, closed::text AS closed, store
FROM shoal_ledgers ORDER BY tablespace, ledger DESC"""

_CHECKPOINTS = """
SELECT tablespace, lsn, lag, created::text AS created, bytes, hash, folder
FROM shoal_checkpoints ORDER BY tablespace, lsn DESC"""

_SLOWEST = """
SELECT left(query, 4000) AS query, userid, dbid, calls, rows, total_exec_time, mean_exec_time, min_exec_time,
       max_exec_time, stddev_exec_time
FROM pg_stat_statements
ORDER BY total_exec_time DESC"""

_STREAMS = """
SELECT name, owner, CASE WHEN all_tables THEN 'all' ELSE tables END AS tables, tablespace, state, position, newest_lsn,
       lag_bytes, extract(epoch FROM clock_timestamp() - lag_since)::float8 AS behind
FROM shoal_change_streams ORDER BY name"""


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """A query of a view. `oids`: its one parameter is the list of the request's object numbers, at most OBJECTS."""

    sql: str
    limit: int = LISTED
    oids: bool = False


View = Mapping[str, ViewQuery]

VIEWS: Mapping[str, View] = MappingProxyType(
    {
        "cluster": {
            "nodes": ViewQuery(_NODES),
            "tablespaces": ViewQuery(_TABLESPACES),
            "replicas": ViewQuery(_REPLICAS),
            "log": ViewQuery(_LOG),
        },
        "activity": {"sessions": ViewQuery(_SESSIONS)},
        "slowest": {
            "statements": ViewQuery(_SLOWEST),
            "roles": ViewQuery("SELECT oid, rolname AS name FROM pg_roles"),
            "databases": ViewQuery("SELECT oid, datname AS name FROM pg_database"),
        },
        "locks": {"locks": ViewQuery(_LOCKS), "sessions": ViewQuery(_SESSIONS)},
        "tables": {"tables": ViewQuery(_TABLES, TABLES)},
        "columns": {"states": ViewQuery(_COLUMN_STATES, TABLES), "work": ViewQuery(_COLUMN_WORK)},
        "sizes": {"sizes": ViewQuery(_SIZES, OBJECTS, oids=True)},
        "ledgers": {
            "log": ViewQuery(_LOG),
            "ledgers": ViewQuery(_LEDGERS),
            "checkpoints": ViewQuery(_CHECKPOINTS),
            "streams": ViewQuery(_STREAMS),
        },
        "schema": {"columns": ViewQuery(_COLUMNS, COMPLETED)},
    }
)
