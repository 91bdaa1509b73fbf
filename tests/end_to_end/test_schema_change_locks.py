"""Which schema changes wait for whom: each form beside a holder of each of the eight modes of table locks (PostgreSQL
manual, 13.3.1 and the pages of the statements), on both servers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

_MODES = (
    "ACCESS SHARE",
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE",
    "SHARE ROW EXCLUSIVE",
    "EXCLUSIVE",
    "ACCESS EXCLUSIVE",
)
_CONFLICTS = {  # table 13.2: with which of the modes, in their order
    "none": "........",
    "ACCESS SHARE": ".......W",
    "ROW SHARE": "......WW",
    "ROW EXCLUSIVE": "....WWWW",
    "SHARE UPDATE EXCLUSIVE": "...WWWWW",
    "SHARE": "..WW.WWW",
    "SHARE ROW EXCLUSIVE": "..WWWWWW",
    "EXCLUSIVE": ".WWWWWWW",
    "ACCESS EXCLUSIVE": "WWWWWWWW",
}
_SETUP = """
    CREATE TABLE r (a int PRIMARY KEY, b int);
    CREATE TABLE t (a int PRIMARY KEY, b int, c text);
    ALTER TABLE t ADD CONSTRAINT cv CHECK (b > 0) NOT VALID, ADD CONSTRAINT fv FOREIGN KEY (b) REFERENCES r NOT VALID;
    INSERT INTO r VALUES (1, 1);
    INSERT INTO t VALUES (1, 1, 'one');
    CREATE INDEX ti ON t (b);
    CREATE UNIQUE INDEX tu ON t (b);
    CREATE TABLE p (a int, b int) PARTITION BY RANGE (a);
    CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
    ALTER TABLE p ADD CONSTRAINT pv CHECK (b > 0) NOT VALID;
    CREATE TABLE q (a int, b int, CONSTRAINT pv CHECK (b > 0));
    CREATE TABLE parent (a int);
    CREATE TABLE child () INHERITS (parent);
    CREATE TABLE single (a int);
    CREATE VIEW v AS SELECT a FROM t;
"""
_FORMS = {  # (statement, table that somebody holds, mode that the statement takes)
    "VALIDATE a check": ("ALTER TABLE t VALIDATE CONSTRAINT cv", "t", "SHARE UPDATE EXCLUSIVE"),
    "VALIDATE a foreign key": ("ALTER TABLE t VALIDATE CONSTRAINT fv", "t", "SHARE UPDATE EXCLUSIVE"),
    "VALIDATE a foreign key, referenced": ("ALTER TABLE t VALIDATE CONSTRAINT fv", "r", "ROW SHARE"),
    "VALIDATE of a partition": ("ALTER TABLE p VALIDATE CONSTRAINT pv", "p1", "SHARE UPDATE EXCLUSIVE"),
    "SET STATISTICS": ("ALTER TABLE t ALTER b SET STATISTICS 100", "t", "SHARE UPDATE EXCLUSIVE"),
    "SET (fillfactor)": ("ALTER TABLE t SET (fillfactor = 50)", "t", "SHARE UPDATE EXCLUSIVE"),
    "RESET (fillfactor)": ("ALTER TABLE t RESET (fillfactor)", "t", "SHARE UPDATE EXCLUSIVE"),
    "CLUSTER ON": ("ALTER TABLE t CLUSTER ON ti", "t", "SHARE UPDATE EXCLUSIVE"),
    "SET WITHOUT CLUSTER": ("ALTER TABLE t SET WITHOUT CLUSTER", "t", "SHARE UPDATE EXCLUSIVE"),
    "two of them": (
        "ALTER TABLE t VALIDATE CONSTRAINT cv, ALTER b SET STATISTICS 1",
        "t",
        "SHARE UPDATE EXCLUSIVE",
    ),
    "with a stronger one": ("ALTER TABLE t VALIDATE CONSTRAINT cv, ADD x int", "t", "ACCESS EXCLUSIVE"),
    "ADD COLUMN": ("ALTER TABLE t ADD x int", "t", "ACCESS EXCLUSIVE"),
    "DROP COLUMN": ("ALTER TABLE t DROP c", "t", "ACCESS EXCLUSIVE"),
    "SET DEFAULT": ("ALTER TABLE t ALTER b SET DEFAULT 1", "t", "ACCESS EXCLUSIVE"),
    "DROP DEFAULT": ("ALTER TABLE t ALTER b DROP DEFAULT", "t", "ACCESS EXCLUSIVE"),
    "SET NOT NULL": ("ALTER TABLE t ALTER b SET NOT NULL", "t", "ACCESS EXCLUSIVE"),
    "DROP NOT NULL": ("ALTER TABLE t ALTER b DROP NOT NULL", "t", "ACCESS EXCLUSIVE"),
    "TYPE": ("ALTER TABLE t ALTER c TYPE varchar", "t", "ACCESS EXCLUSIVE"),
    "ADD IDENTITY": ("ALTER TABLE t ALTER a ADD GENERATED ALWAYS AS IDENTITY", "t", "ACCESS EXCLUSIVE"),
    "RENAME COLUMN": ("ALTER TABLE t RENAME c TO cc", "t", "ACCESS EXCLUSIVE"),
    "RENAME": ("ALTER TABLE t RENAME TO tt", "t", "ACCESS EXCLUSIVE"),
    "RENAME CONSTRAINT": ("ALTER TABLE t RENAME CONSTRAINT cv TO cw", "t", "ACCESS EXCLUSIVE"),
    "ADD CHECK": ("ALTER TABLE t ADD CHECK (a > 0)", "t", "ACCESS EXCLUSIVE"),
    "ADD CHECK NOT VALID": ("ALTER TABLE t ADD CHECK (a > 0) NOT VALID", "t", "ACCESS EXCLUSIVE"),
    "ADD UNIQUE": ("ALTER TABLE t ADD UNIQUE (c)", "t", "ACCESS EXCLUSIVE"),
    "ADD UNIQUE USING INDEX": ("ALTER TABLE t ADD CONSTRAINT u UNIQUE USING INDEX tu", "t", "ACCESS EXCLUSIVE"),
    "ADD FOREIGN KEY": ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES r", "t", "SHARE ROW EXCLUSIVE"),
    "ADD FOREIGN KEY, referenced": ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES r", "r", "SHARE ROW EXCLUSIVE"),
    "DROP CONSTRAINT": ("ALTER TABLE t DROP CONSTRAINT cv", "t", "ACCESS EXCLUSIVE"),
    "DROP a foreign key": ("ALTER TABLE t DROP CONSTRAINT fv", "t", "ACCESS EXCLUSIVE"),
    "DROP a foreign key, referenced": ("ALTER TABLE t DROP CONSTRAINT fv", "r", "ACCESS EXCLUSIVE"),
    "DROP the column of a foreign key, referenced": ("ALTER TABLE t DROP b", "r", "ACCESS EXCLUSIVE"),
    "TYPE of a foreign key, referenced": ("ALTER TABLE t ALTER b TYPE bigint", "r", "ACCESS EXCLUSIVE"),
    "TYPE of a referenced column, referring": ("ALTER TABLE r ALTER a TYPE bigint", "t", "ACCESS EXCLUSIVE"),
    "DROP of a table with a foreign key, referenced": ("DROP TABLE t CASCADE", "r", "ACCESS EXCLUSIVE"),
    "DROP of a referenced table, referring": ("DROP TABLE r CASCADE", "t", "ACCESS EXCLUSIVE"),
    "OWNER": ("ALTER TABLE t OWNER TO postgres", "t", "ACCESS EXCLUSIVE"),
    "SET LOGGED": ("ALTER TABLE t SET LOGGED", "t", "ACCESS EXCLUSIVE"),
    "SET SCHEMA": ("ALTER TABLE single SET SCHEMA public", "single", "ACCESS EXCLUSIVE"),
    "INHERIT": ("ALTER TABLE single INHERIT parent", "single", "ACCESS EXCLUSIVE"),
    "INHERIT, parent": ("ALTER TABLE single INHERIT parent", "parent", "SHARE UPDATE EXCLUSIVE"),
    "NO INHERIT": ("ALTER TABLE child NO INHERIT parent", "child", "ACCESS EXCLUSIVE"),
    "NO INHERIT, parent": ("ALTER TABLE child NO INHERIT parent", "parent", "ACCESS SHARE"),
    "ATTACH, parent": ("ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (10) TO (20)", "p", "SHARE UPDATE EXCLUSIVE"),
    "ATTACH": ("ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (10) TO (20)", "q", "ACCESS EXCLUSIVE"),
    "DETACH, parent": ("ALTER TABLE p DETACH PARTITION p1", "p", "ACCESS EXCLUSIVE"),
    "DETACH": ("ALTER TABLE p DETACH PARTITION p1", "p1", "ACCESS EXCLUSIVE"),
    "CREATE ... INHERITS": ("CREATE TABLE c2 () INHERITS (parent)", "parent", "SHARE UPDATE EXCLUSIVE"),
    "CREATE ... LIKE": ("CREATE TABLE c2 (LIKE t)", "t", "ACCESS SHARE"),
    "CREATE ... REFERENCES": ("CREATE TABLE c2 (a int REFERENCES r)", "r", "SHARE ROW EXCLUSIVE"),
    "CREATE TABLE AS": ("CREATE TABLE c2 AS SELECT * FROM t", "t", "ACCESS SHARE"),
    "CREATE VIEW": ("CREATE VIEW v2 AS SELECT * FROM t", "t", "ACCESS SHARE"),
    "CREATE INDEX": ("CREATE INDEX ON t (c)", "t", "SHARE"),
    "DROP INDEX": ("DROP INDEX ti", "t", "ACCESS EXCLUSIVE"),
    "DROP TABLE": ("DROP TABLE single", "single", "ACCESS EXCLUSIVE"),
    "TRUNCATE": ("TRUNCATE single", "single", "ACCESS EXCLUSIVE"),
    "ALTER INDEX RENAME": ("ALTER INDEX ti RENAME TO tj", "t", "none"),
    "ALTER INDEX SET": ("ALTER INDEX ti SET (fillfactor = 50)", "t", "none"),
    "COMMENT ON TABLE": ("COMMENT ON TABLE t IS 'x'", "t", "SHARE UPDATE EXCLUSIVE"),
    "COMMENT ON COLUMN": ("COMMENT ON COLUMN t.a IS 'x'", "t", "SHARE UPDATE EXCLUSIVE"),
    "COMMENT ON VIEW": ("COMMENT ON VIEW v IS 'x'", "v", "SHARE UPDATE EXCLUSIVE"),
    "GRANT": ("GRANT SELECT ON t TO public", "t", "none"),
    "REVOKE": ("REVOKE SELECT ON t FROM public", "t", "none"),
    "DROP VIEW": ("DROP VIEW v", "v", "ACCESS EXCLUSIVE"),
    "CREATE OR REPLACE VIEW": ("CREATE OR REPLACE VIEW v AS SELECT a FROM t", "v", "ACCESS EXCLUSIVE"),
    "ALTER VIEW RENAME": ("ALTER VIEW v RENAME TO v2", "v", "ACCESS EXCLUSIVE"),
    "ANALYZE": ("ANALYZE single", "single", "SHARE UPDATE EXCLUSIVE"),
    "VACUUM": ("VACUUM single", "single", "SHARE UPDATE EXCLUSIVE"),
    "VACUUM FULL": ("VACUUM FULL single", "single", "ACCESS EXCLUSIVE"),
    "REINDEX INDEX": ("REINDEX INDEX ti", "t", "SHARE"),
    "REINDEX TABLE": ("REINDEX TABLE t", "t", "SHARE"),
    "CREATE ... PARTITION OF": (
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "p",
        "ACCESS EXCLUSIVE",
    ),
    "SELECT": ("SELECT * FROM t", "t", "ACCESS SHARE"),
    "SELECT FOR KEY SHARE": ("SELECT * FROM t FOR KEY SHARE", "t", "ROW SHARE"),
    "INSERT": ("INSERT INTO single VALUES (1)", "single", "ROW EXCLUSIVE"),
}
_OTHERWISE = {  # of Shoal
    # Readers have no locks of indexes, which take new storage: they are shut out by the table's.
    "REINDEX INDEX": "ACCESS EXCLUSIVE",
    "REINDEX TABLE": "ACCESS EXCLUSIVE",
    # As ATTACH: who reads and writes through the parent goes on.
    "CREATE ... PARTITION OF": "SHARE UPDATE EXCLUSIVE",
}
_names = itertools.count()


@pytest.fixture(scope="module", params=["shoal", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[ShoalServer | PostgresServer, str]]:
    """A server, and a schema with the tables that statements are tried on and rolled back."""
    name = "shoal" if request.param == "shoal" else "postgres_server"
    server: ShoalServer | PostgresServer = request.getfixturevalue(name)
    schema = f"held_tables_{next(_names)}"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}; SET search_path = {schema}; {_SETUP}".encode())
    yield server, schema
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def _waits(holder: psycopg.Connection, waiter: psycopg.Connection, held: str, mode: str, statement: str) -> bool:
    holder.execute(f"BEGIN; LOCK TABLE {held} IN {mode} MODE".encode())
    try:
        if not statement.startswith("VACUUM"):
            waiter.execute("BEGIN")
        waiter.execute(statement.encode())
    except psycopg.errors.LockNotAvailable:
        return True
    finally:
        if waiter.info.transaction_status:
            waiter.execute("ROLLBACK")
        holder.execute("ROLLBACK")
    return False


@pytest.mark.parametrize("form", some(_FORMS, 8))
def test_who_waits(place: tuple[ShoalServer | PostgresServer, str], form: str) -> None:
    server, schema = place
    statement, table, mode = _FORMS[form]
    if isinstance(server, ShoalServer):
        mode = _OTHERWISE.get(form, mode)
    held = table if table == "v" else f"ONLY {table}"
    options = f"-c search_path={schema} -c lock_timeout=60"
    with (
        psycopg.connect(server.dsn, autocommit=True, options=options) as holder,
        psycopg.connect(server.dsn, autocommit=True, options=options) as waiter,
    ):
        found = [_waits(holder, waiter, held, other, statement) for other in _MODES]
    assert "".join("W" if waits else "." for waits in found) == _CONFLICTS[mode]
