"""psql's own queries: the same schema on both servers, and the text that psql prints must be the same."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

SCHEMA = """
DROP SCHEMA IF EXISTS shop CASCADE;
CREATE SCHEMA shop;
SET search_path TO shop;
CREATE TABLE customers (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name varchar(40) NOT NULL,
    email text UNIQUE,
    born date DEFAULT '2000-01-01',
    balance numeric(12, 2) NOT NULL DEFAULT 0,
    tags text[],
    CONSTRAINT not_negative CHECK (balance >= 0)
);
CREATE TABLE orders (
    id bigserial PRIMARY KEY,
    customer int NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
    placed timestamptz DEFAULT now(),
    state char(1) DEFAULT 'n',
    note text
);
CREATE INDEX orders_by_customer ON orders (customer, placed DESC);
CREATE UNIQUE INDEX open_orders ON orders (customer) WHERE state = 'n';
CREATE TABLE plain (a int, b float8, c bool, d bytea, e uuid, f jsonb, g interval, h time(3));
CREATE VIEW totals AS SELECT c.name, count(o.id) AS orders FROM customers c LEFT JOIN orders o ON o.customer = c.id
    GROUP BY c.name;
CREATE SEQUENCE numbers START 10 INCREMENT 5;
COMMENT ON TABLE customers IS 'who buys';
COMMENT ON COLUMN customers.name IS 'as on the letter';
ALTER TABLE customers ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON customers USING (name = current_user);
CREATE POLICY buyers ON customers AS RESTRICTIVE FOR UPDATE TO pg_monitor, postgres
    USING (EXISTS (SELECT FROM orders WHERE orders.customer = customers.id))
    WITH CHECK (balance > 1 AND born > '2000-01-01');
CREATE POLICY all_of ON plain FOR INSERT WITH CHECK (true);
ALTER TABLE orders FORCE ROW LEVEL SECURITY;
INSERT INTO customers (name, email, tags) VALUES ('Ann', 'ann@example.org', '{a,b}'), ('Bo', NULL, NULL);
INSERT INTO orders (customer, placed, note) VALUES (1, '2024-01-01 00:00:00+00', 'first');
"""

COMMANDS = (
    r"\d",
    r"\d+",
    r"\dL+",
    r"\dx",
    r"\dx+ plpgsql",
    r"\dc",
    r"\dt",
    r"\di",
    r"\ds",
    r"\dv",
    r"\d customers",
    r"\d+ customers",
    r"\dp customers",
    r"\d orders",
    r"\d plain",
    r"\d totals",
    r"\d+ totals",
    r"\d numbers",
    r"\d customers_pkey",
    r"\d open_orders",
    r"\d orders_id_seq",
    r"\d nothing_here",
    r"\dt shop.*",
    r"\dt nothing_here",
    r"\dn shop",
    r"\dT",
    r"\df shop.*",
    r"\df pg_catalog.abs",
    r"\df pg_catalog.generate_series",
    r"\dp",
    r"\dd",
    r"\des",
    r"\dx nothing_here",
    r"\dp customers",
    r"\dD",
    r"\dc nothing",
    r"\da pg_catalog.sum",
    r"\do pg_catalog.||",
    r"\dy",
    r"\sv totals",
    r"\encoding",
    r"\echo :DBNAME :ENCODING :USER",
    "SELECT * FROM customers ORDER BY id",
    "TABLE orders",
    "SELECT * FROM totals ORDER BY name \\gx",
    "SELECT 1 AS one \\gset\n\\echo :one",
    "SELECT 'int'::regtype, 'customers'::regclass, 1.50::numeric(5,2), 'x'::char(3), null, true",
    "SELECT a, b FROM (VALUES (1, 'x'), (2, NULL)) v(a, b) \\gdesc",
    "SHOW search_path",
    "SELECT 1/0",
    "SELEC 1",
    "SELECT * FROM customers WHERE nothing = 1",
    "INSERT INTO customers (name, balance) VALUES ('bad', -1)",
    "\\copy customers (name, email) TO STDOUT WITH (FORMAT csv, HEADER)",
    "BEGIN;\n\\copy plain (a, b) FROM PROGRAM 'seq -f %g,1.5 3' WITH (FORMAT csv)\nTABLE plain;\nROLLBACK;",
    "\\copy plain FROM '/nothing/here'",
    "COPY orders (id, note) TO STDOUT",
    "BEGIN;\nSELECT 1/0;\nSELECT 1;\nROLLBACK;",
)


# The pages of large objects are not shown, and there are no extended statistics.
NOT_THERE = {"pg_largeobject", "pg_statistic_ext_data", "pg_stats_ext", "pg_stats_ext_exprs"}


def psql(server: ShoalServer | PostgresServer, script: str) -> str:
    """What psql prints for a script, errors included in their place."""
    done = subprocess.run(
        ["psql", "-X", server.dsn + " options='-c search_path=shop -c TimeZone=UTC'", "-f", "-"],
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


@pytest.fixture(scope="module")
def both(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[tuple[ShoalServer, PostgresServer]]:
    """The schema on both servers."""
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
    yield shoal, postgres_server
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("DROP SCHEMA shop CASCADE")


@pytest.mark.parametrize("command", COMMANDS)
def test_psql_prints_the_same(both: tuple[ShoalServer, PostgresServer], command: str) -> None:
    shoal, postgres = both
    expected = psql(postgres, command + "\n")
    got = psql(shoal, command + "\n")
    if command == r"\d+":  # sizes on disk are each server's own
        expected, got = ("\n".join(line.split("|")[1] for line in text.splitlines()[3:-2]) for text in (expected, got))
    assert got == expected


@pytest.mark.long
def test_describing_every_catalog_relation_works(both: tuple[ShoalServer, PostgresServer]) -> None:
    shoal, postgres = both
    with psycopg.connect(postgres.dsn) as connection:
        names = connection.execute(
            "SELECT c.oid::regclass::text FROM pg_class c WHERE relkind IN ('r', 'v') AND relnamespace IN "
            "('pg_catalog'::regnamespace, 'information_schema'::regnamespace) ORDER BY 1"
        ).fetchall()
    refused = set()
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        for (name,) in names:
            try:
                connection.execute(f"SELECT * FROM {name} LIMIT 5".encode()).fetchall()
            except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedTable):
                refused.add(name)
    assert refused <= NOT_THERE


def test_restricted_input_of_a_script(both: tuple[ShoalServer, PostgresServer], tmp_path: pathlib.Path) -> None:
    """A transaction over several lines, variables, \\if, \\gexec, \\watch-less loops: psql's ordinary tools."""
    script = r"""
\set n 3
\set ON_ERROR_ROLLBACK on
BEGIN;
CREATE TABLE made (a int);
INSERT INTO made SELECT g FROM generate_series(1, :n) g;
SELECT missing;
SELECT count(*) FROM made;
SELECT format('INSERT INTO made VALUES (%s)', g) FROM generate_series(10, 12) g \gexec
SELECT sum(a) AS total FROM made \gset
\if :{?total}
\echo total :total
\endif
ROLLBACK;
SELECT count(*) FROM made;
PREPARE p(int) AS SELECT $1 * 2;
EXECUTE p(21);
\timing off
\x
SELECT 1 AS a, 'b' AS b;
"""
    shoal, postgres = both
    assert psql(shoal, script) == psql(postgres, script)
