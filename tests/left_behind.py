"""What a file of tests leaves on the servers that it shares with others: objects and open sessions.

Which files share a server depends on how long each takes, so what one leaves fails another on some machines only. So it
is removed when the file ends; a file that leaves what cannot be removed has failed (`conftest.py`).
"""

from __future__ import annotations

import contextlib
import time

import psycopg

_OBJECTS = """
SELECT 'database', quote_ident(datname) FROM pg_database
UNION ALL SELECT 'role', quote_ident(rolname) FROM pg_roles WHERE rolname !~ '^pg_'
UNION ALL SELECT 'schema', quote_ident(nspname) FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)'
UNION ALL SELECT CASE relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence'
    WHEN 'c' THEN 'type' ELSE 'table' END, oid::regclass::text FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S', 'c')
UNION ALL SELECT 'function', oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'type', oid::regtype::text FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype <> 'b'
    AND typrelid = 0
UNION ALL SELECT 'extension', quote_ident(extname) FROM pg_extension
UNION ALL SELECT 'large object', oid::text FROM pg_largeobject_metadata
"""
_SETTINGS = """
SELECT 'default privileges', defaclobjtype::text FROM pg_default_acl
UNION ALL SELECT 'privileges on a parameter', parname FROM pg_parameter_acl
UNION ALL SELECT 'settings', setconfig::text FROM pg_db_role_setting
"""
_SESSIONS = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
PATIENCE = 2.0  # seconds that a session has to end after its connection
_IN_ORDER = (
    "database",
    "extension",
    "schema",
    "view",
    "materialized view",
    "table",
    "function",
    "sequence",
    "type",
    "role",
)
Found = set[tuple[str, str]]


def found(dsn: str) -> Found:
    """Everything that a test may have made. Raises psycopg.Error."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = pg_catalog")
        return {(kind, name) for kind, name in connection.execute(_OBJECTS + "UNION ALL" + _SETTINGS).fetchall()}


def remove(dsn: str, left: Found) -> None:
    """What can be removed by its name, and sessions that stay open."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        end = time.monotonic() + PATIENCE
        while connection.execute(_SESSIONS).fetchall():
            if time.monotonic() > end:
                connection.execute(_SESSIONS.replace("pid FROM", "pg_terminate_backend(pid) FROM"))
            time.sleep(0.02)
        for kind in _IN_ORDER:
            for name in (name for of_kind, name in left if of_kind == kind):
                with contextlib.suppress(psycopg.Error):
                    if kind == "role":
                        connection.execute(f"DROP OWNED BY {name}".encode())
                    behaviour = "" if kind in ("database", "role") else " CASCADE"
                    connection.execute(f"DROP {kind} {name}{behaviour}".encode())
        for name in (name for kind, name in left if kind == "large object"):
            connection.execute("SELECT lo_unlink(%s)", (name,))
