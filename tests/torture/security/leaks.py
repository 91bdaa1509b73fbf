"""Attempts to read what one may not, by a function whose body somebody else makes run.

The function `h` of bob stands in every place where an expression or a body can stand. It is harmless while the places
are made; then its body reads a table of which only alice may know. Each statement that makes a place run is tried by
each user, on Shoal and on PostgreSQL: both have to answer alike, and bob and carol must never see the secret, neither
in what a statement answers, nor in an error, nor in the tables that they can read afterwards.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

SECRET = "crown jewels"
STRANGERS = ("bob", "carol")
USERS = (*STRANGERS, "alice", "postgres")
SCHEMA = "leaks"

HARMLESS = "SELECT 'x'::text"
READS = f"SELECT s FROM {SCHEMA}.secret"
_MADE = "CREATE OR REPLACE FUNCTION h(q text) RETURNS text LANGUAGE sql"
FUNCTIONS = {  # what becomes of h once the places are made
    "a body that reads": f"{_MADE} IMMUTABLE AS $$ {READS} $$",
    "a body that reads a view": f"{_MADE} IMMUTABLE AS $$ SELECT s FROM {SCHEMA}.asks LIMIT 1 $$",
    "a body that reads what a view lends": f"{_MADE} IMMUTABLE AS $$ SELECT s FROM {SCHEMA}.shows LIMIT 1 $$",
    "a body that calls": f"{_MADE} IMMUTABLE AS $$ SELECT {SCHEMA}.g() $$",
    "a definer's body": f"{_MADE} IMMUTABLE SECURITY DEFINER AS $$ {READS} $$",
    "a definer's name": f"{_MADE} STABLE SECURITY DEFINER AS "
    "$$ SELECT current_user || ' for ' || session_user || has_table_privilege('leaks.secret', 'SELECT') $$",
    "no right to call": "REVOKE EXECUTE ON FUNCTION h(text) FROM PUBLIC",
}

WORLD = f"""
CREATE ROLE alice; CREATE ROLE bob; CREATE ROLE carol;
CREATE SCHEMA {SCHEMA}; GRANT ALL ON SCHEMA {SCHEMA} TO PUBLIC;
SET search_path = {SCHEMA};
CREATE TABLE secret (s text); INSERT INTO secret VALUES ('{SECRET}'); GRANT SELECT ON secret TO alice;
CREATE TABLE two (a int, b text); INSERT INTO two VALUES (1, 'y'), (2, 'z'); GRANT ALL ON two TO PUBLIC;
SET ROLE bob;
CREATE FUNCTION h(q text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ {HARMLESS} $$;
CREATE FUNCTION g() RETURNS text LANGUAGE sql IMMUTABLE AS $$ {READS} $$;
CREATE FUNCTION hs() RETURNS SETOF text LANGUAGE sql STABLE AS $$ SELECT {SCHEMA}.h('q') $$;
CREATE TABLE plain (a int, s text); INSERT INTO plain VALUES (1, 'p');
CREATE TABLE made (a int PRIMARY KEY, s text GENERATED ALWAYS AS (h(a::text)) STORED); INSERT INTO made VALUES (1);
CREATE TABLE given (a int PRIMARY KEY, s text DEFAULT h('q')); INSERT INTO given VALUES (1, 'g');
CREATE TABLE checked (a int PRIMARY KEY, s text, CHECK (h(s) <> s)); INSERT INTO checked VALUES (1, 'c');
CREATE TABLE indexed (a int PRIMARY KEY, s text); CREATE INDEX ON indexed ((s || h(s))); INSERT INTO indexed VALUES (1);
CREATE TABLE partly (a int PRIMARY KEY, s text); CREATE INDEX ON partly (s) WHERE h(s) = 'y';
INSERT INTO partly VALUES (1, 'i');
CREATE DOMAIN checks AS text CHECK (VALUE <> h(VALUE));
CREATE TABLE of_domain (a int PRIMARY KEY, s checks); INSERT INTO of_domain VALUES (1, 'd');
CREATE DOMAIN gives AS text DEFAULT h('q');
CREATE TABLE of_default (a int PRIMARY KEY, s gives); INSERT INTO of_default VALUES (1, 'd');
CREATE TABLE parted (a int PRIMARY KEY, s text DEFAULT h('q')) PARTITION BY RANGE (a);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1000); INSERT INTO parted VALUES (1, 'p');
CREATE TABLE routed (a int PRIMARY KEY, s text) PARTITION BY RANGE (a);
CREATE TABLE routed_1 PARTITION OF routed (CHECK (h(s) <> s)) FOR VALUES FROM (0) TO (1000);
INSERT INTO routed VALUES (1, 'r');
CREATE TABLE above (a int PRIMARY KEY, s text); INSERT INTO above VALUES (1, 'a');
CREATE TABLE below (PRIMARY KEY (a), CHECK (h(s) <> s)) INHERITS (above); INSERT INTO below VALUES (2, 'b');
CREATE TABLE target (a int, s text);
CREATE VIEW of_bob AS SELECT h('q') AS s;
CREATE VIEW over AS SELECT a, s FROM plain WHERE h(s) <> 'q' WITH CHECK OPTION;
CREATE MATERIALIZED VIEW kept AS SELECT s FROM of_bob;
CREATE MATERIALIZED VIEW kept_keys AS SELECT a, (SELECT s FROM of_bob) AS s FROM plain;
CREATE UNIQUE INDEX ON kept_keys (a);
RESET ROLE;
CREATE VIEW of_postgres AS SELECT h('q') AS s; GRANT ALL ON of_postgres TO PUBLIC;
CREATE VIEW nested AS SELECT s FROM of_bob; GRANT ALL ON nested TO PUBLIC;
CREATE VIEW rows_of_postgres AS SELECT hs AS s FROM hs(); GRANT ALL ON rows_of_postgres TO PUBLIC;
CREATE VIEW argument AS SELECT upper(h('q') || (SELECT b FROM two WHERE a = 1)) AS s; GRANT ALL ON argument TO PUBLIC;
CREATE TABLE log (a int PRIMARY KEY, s text DEFAULT h('q')); GRANT ALL ON log TO PUBLIC;
INSERT INTO log VALUES (1, 'l');
CREATE MATERIALIZED VIEW kept_by_postgres AS SELECT s FROM of_bob; GRANT ALL ON kept_by_postgres TO PUBLIC;
SET ROLE alice;
CREATE VIEW of_alice AS SELECT h('q') AS s UNION ALL SELECT b FROM two WHERE a = 2; GRANT ALL ON of_alice TO PUBLIC;
CREATE VIEW asks WITH (security_invoker = true) AS SELECT s FROM secret; GRANT ALL ON asks TO PUBLIC;
CREATE VIEW shows AS SELECT length(s)::text AS s FROM secret; GRANT ALL ON shows TO PUBLIC;
CREATE FUNCTION lends() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER AS
$$ SELECT length(s)::text FROM {SCHEMA}.secret $$;
RESET ROLE;
GRANT ALL ON ALL TABLES IN SCHEMA {SCHEMA} TO bob, carol, alice; REVOKE ALL ON secret FROM bob, carol;
"""

TABLES = (
    "made", "given", "checked", "indexed", "partly", "of_domain", "of_default", "parted", "routed", "above", "below",
    "log", "over",
)  # fmt: skip
VIEWS = ("of_bob", "of_postgres", "nested", "rows_of_postgres", "argument", "of_alice", "asks", "over")
MATERIALIZED = ("kept", "kept_keys", "kept_by_postgres")
READABLE = (*TABLES, "target", "plain", *MATERIALIZED)


def _of_table(name: str) -> Iterator[str]:
    given = "a" if name == "made" else "a, s"
    row = "7" if name == "made" else "7, 't'"
    yield f"INSERT INTO {name} (a) VALUES (7)"
    yield f"INSERT INTO {name} ({given}) VALUES ({row}), (8{row[1:]})"
    yield f"INSERT INTO {name} (a) SELECT 7"
    yield f"INSERT INTO {name} (a) SELECT g FROM generate_series(10, 20) g"
    yield f"INSERT INTO {name} ({given}) SELECT {row} RETURNING *"
    yield f"UPDATE {name} SET a = a + 100"
    yield f"UPDATE {name} SET {'a = 7' if name == 'made' else 's = DEFAULT'}"
    yield f"DELETE FROM {name}"
    yield f"DELETE FROM {name} RETURNING *"
    yield f"MERGE INTO {name} t USING two ON t.a = two.a WHEN NOT MATCHED THEN INSERT (a) VALUES (two.a)"
    yield f"MERGE INTO {name} t USING two ON t.a = two.a WHEN MATCHED THEN UPDATE SET a = 50"
    yield f"MERGE INTO {name} t USING two ON t.a = two.a WHEN MATCHED THEN DELETE"
    yield f"INSERT INTO {name} (a) VALUES (1) ON CONFLICT DO NOTHING"
    yield f"INSERT INTO {name} (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 9"
    yield f"COPY {name} (a) FROM STDIN"
    yield f"COPY {name} TO STDOUT"
    yield f"WITH x AS (INSERT INTO {name} (a) VALUES (7) RETURNING *) SELECT * FROM x"
    yield f"PREPARE one AS INSERT INTO {name} (a) VALUES ($1); EXECUTE one(7)"
    yield f"SELECT * FROM {name}"
    if name in VIEWS:
        return
    yield f"CREATE INDEX ON {name} ((h(s)))"
    yield f"ALTER TABLE {name} ADD COLUMN more text DEFAULT h('q')"
    yield f"ALTER TABLE {name} ADD COLUMN more text GENERATED ALWAYS AS (h(a::text)) STORED"
    yield f"ALTER TABLE {name} ADD CHECK (h(s) <> 'c')"
    yield f"ALTER TABLE {name} ALTER COLUMN a TYPE bigint USING length(h(a::text))"
    yield f"TRUNCATE {name}"


def _of_view(name: str) -> Iterator[str]:
    yield f"SELECT * FROM {name}"
    yield f"SELECT count(*), max(s) FROM {name}, two"
    yield f"SELECT v.s FROM (SELECT * FROM {name}) v WHERE v.s IS NOT NULL"
    yield f"WITH v AS (SELECT * FROM {name}) SELECT * FROM v"
    yield f"SELECT (SELECT s FROM {name} LIMIT 1)"
    yield f"INSERT INTO target (s) SELECT s FROM {name}"
    yield f"CREATE TABLE copied AS SELECT * FROM {name}"
    yield f"CREATE MATERIALIZED VIEW copied AS SELECT * FROM {name}"
    yield f"DECLARE c CURSOR FOR SELECT * FROM {name}; FETCH ALL FROM c"
    yield f"COPY (SELECT * FROM {name}) TO STDOUT"
    yield f"PREPARE one AS SELECT * FROM {name}; EXECUTE one"
    yield f"UPDATE target SET s = (SELECT s FROM {name} LIMIT 1)"
    yield f"CREATE VIEW another AS SELECT * FROM {name}; SELECT * FROM another"


def statements() -> list[str]:
    """Every statement that makes a place run."""
    found = [
        "SELECT h('q')", "SELECT * FROM h('q')", "SELECT * FROM hs()", "SELECT hs()", "SELECT lends()",
        "VALUES (h('q'))",
        "SELECT a FROM two WHERE h(b) = b", "SELECT a FROM two ORDER BY h(b)", "SELECT h('q') GROUP BY 1",
        "SELECT count(*) FILTER (WHERE h(b) = 'x') FROM two", "SELECT coalesce(NULL, h('q'))", "SELECT ARRAY[h('q')]",
        "SELECT a FROM two LIMIT length(h('q'))", "SELECT * FROM two, LATERAL (SELECT h('q')) l",
        "SELECT upper(h('q'))",
        "INSERT INTO target VALUES (1, h('q'))", "INSERT INTO target SELECT 1, h('q')", "UPDATE two SET b = h(b)",
        "DELETE FROM two WHERE h(b) = b", "DELETE FROM two RETURNING h('q')", "UPDATE two SET a = 1 RETURNING h('q')",
        "MERGE INTO two USING (SELECT h('q') AS x) s ON b = x WHEN NOT MATCHED THEN INSERT VALUES (1, x)",
        "PREPARE one AS SELECT $1 || h('q'); EXECUTE one('q')", "PREPARE one AS SELECT $1; EXECUTE one(h('q'))",
        "COPY (SELECT h('q')) TO STDOUT", "COPY target FROM STDIN WHERE h(s) = 'x'", "SELECT 'a'::checks",
        "EXPLAIN SELECT h('q')",
        "CREATE TABLE copied AS SELECT h('q') AS s", "DECLARE c CURSOR FOR SELECT h('q'); FETCH c",
        "ALTER DOMAIN checks ADD CHECK (VALUE <> h(VALUE) || 'd')", "CREATE TABLE fresh (s text DEFAULT h('q'), a int)",
        "ALTER TABLE of_domain ALTER COLUMN s TYPE text USING h(s)", "ALTER TABLE target ADD CHECK (s <> h(s))",
        "INSERT INTO fresh DEFAULT VALUES",
    ]  # fmt: skip
    for name in TABLES:
        found += _of_table(name)
    for name in VIEWS:
        found += _of_view(name)
    for name in MATERIALIZED:
        found += [f"REFRESH MATERIALIZED VIEW {name}", f"SELECT * FROM {name}"]
    return [*found, "REFRESH MATERIALIZED VIEW CONCURRENTLY kept_keys"]


KNOWN = {
    ("42501", "0A000", "ALTER TABLE made ALTER COLUMN a TYPE bigint USING length(h(a::text))"),
    ("", "0A000", "ALTER TABLE made ALTER COLUMN a TYPE bigint USING length(h(a::text))"),
    ("42P10", "42501", "INSERT INTO over (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 9"),
    *(("42501", "", statement) for statement in (
        "UPDATE indexed SET s = DEFAULT", "INSERT INTO indexed (a) VALUES (1) ON CONFLICT DO NOTHING",
        "INSERT INTO partly (a) VALUES (1) ON CONFLICT DO NOTHING", "COPY of_domain (a) FROM STDIN",
        "UPDATE target SET s = (SELECT s FROM over LIMIT 1)",
    )),
    *(("", "42501", statement) for statement in (
        "SELECT * FROM indexed", "SELECT * FROM partly", "TRUNCATE indexed", "TRUNCATE partly",
        "MERGE INTO made t USING two ON t.a = two.a WHEN MATCHED THEN DELETE",
        "ALTER TABLE target ADD CHECK (s <> h(s))",
    )),
}  # fmt: skip
"""Where one of both refuses what the other lets pass, without telling anybody anything: (Shoal,
PostgreSQL, statement). Shoal asks for rights when a statement is planned, PostgreSQL when a body runs; and it puts the
bodies of calls into what a table's definition adds even where nothing of that runs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt: SQLSTATE ('' for none), what was answered, and what the user can read afterwards."""

    state: str
    answer: tuple[str, ...]
    left: tuple[str, ...]
    message: str

    def left_beside(self, other: Outcome) -> set[str]:
        """What one of both has left, of the tables that both can read."""
        refused = {
            text.split()[0] for text in (*self.left, *other.left) if len(text.split()) == 2 and text[-5:].isalnum()
        }
        return {text for text in {*self.left} ^ {*other.left} if text.split()[0] not in refused}

    def tells(self) -> bool:
        """Whether the secret is in any of it."""
        return any(SECRET in text for text in (*self.answer, *self.left, self.message))


def build(connection: psycopg.Connection[Any]) -> None:
    """Makes the world, on a connection of a superuser in autocommit mode."""
    for statement in WORLD.replace("$$;", "$$\0").replace(";", "\0").split("\0"):
        if statement.strip():
            connection.execute(statement.encode())


def demolish(connection: psycopg.Connection[Any]) -> None:
    connection.execute("RESET ROLE")
    connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
    for name in ("alice", "bob", "carol"):
        connection.execute(f"DROP ROLE IF EXISTS {name}".encode())


def turn(connection: psycopg.Connection[Any], function: str) -> None:
    """Gives h another body."""
    connection.execute("SET ROLE bob")
    connection.execute(FUNCTIONS[function].encode())
    connection.execute("RESET ROLE")


def turn_back(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET ROLE bob")
    connection.execute(
        f"CREATE OR REPLACE FUNCTION h(q text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ {HARMLESS} $$".encode()
    )
    connection.execute("GRANT EXECUTE ON FUNCTION h(text) TO PUBLIC")
    connection.execute("RESET ROLE")


def attempt(connection: psycopg.Connection[Any], user: str, statement: str) -> Outcome:
    """One statement of one user, in a transaction that is rolled back."""
    answer: list[str] = []
    left: list[str] = []
    state = message = ""
    connection.execute("BEGIN")
    try:
        connection.execute(f"SET LOCAL ROLE {user}".encode())
        connection.execute("SAVEPOINT one")
        try:
            for part in statement.split("; "):
                answer += _run(connection, part)
        except psycopg.Error as error:
            state, answer = error.sqlstate or "?", []
            message = f"{error} {error.diag.message_detail} {error.diag.message_hint}"
            connection.execute("ROLLBACK TO one")
        else:
            left = _left(connection)
    finally:
        connection.execute("ROLLBACK")
        connection.execute("DEALLOCATE ALL")
    return Outcome(state, tuple(sorted(answer)), tuple(left), message)


def _run(connection: psycopg.Connection[Any], statement: str) -> list[str]:
    if statement.startswith("COPY"):
        rows: list[str] = []
        with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            if "FROM STDIN" in statement:
                copy.write(b"7\tt\n" if statement.startswith("COPY target") else b"7\n")
            else:
                rows = [bytes(line).decode() for line in copy]
        return rows
    found = connection.execute(statement.encode())
    if not found.description or statement.startswith("EXPLAIN"):
        return []
    return [repr(row) for row in found.fetchall()]


def _left(connection: psycopg.Connection[Any]) -> list[str]:
    """What can be read of the tables. Whoever cannot read one has nothing of it."""
    left = []
    for name in READABLE:
        connection.execute("SAVEPOINT two")
        try:
            left += sorted(f"{name} {row!r}" for row in connection.execute(f"SELECT * FROM {name}".encode()).fetchall())
        except psycopg.Error as error:
            left.append(f"{name} {error.sqlstate}")
            connection.execute("ROLLBACK TO two")
    return left


def open_world(dsn: str, path: str = "") -> psycopg.Connection[Any]:
    """A connection to a server that has the world, made if need be. `path`: shoal.path."""
    connection: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
    connection.execute("SET client_min_messages = error")
    if connection.execute("SELECT to_regnamespace(%s)::text", [SCHEMA]).fetchone() == (None,):
        build(connection)
    connection.execute(f"SET search_path = {SCHEMA}".encode())
    if path:
        connection.execute(f"SET shoal.path = {path}".encode())
    return connection


@dataclass(slots=True)
class Found:
    """Of attempts: how many were made, what is wrong with them, and how many Shoal refused with 0A000."""

    tried: int = 0
    refused: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.tried += other.tried
        self.refused += other.refused
        self.problems += other.problems


def compared(
    shoal: psycopg.Connection[Any],
    oracle: str,
    function: str,
    chosen: Sequence[tuple[str, str]],
    until: float = math.inf,
) -> Found:
    """The answers to these statements (user, statement), of which at least one is tried, and no other after `until`, on
    the monotonic clock.

    `oracle`: PostgreSQL's address. A session of it keeps the bodies that it has put into the expressions of indexes, so
    each attempt has a new one."""
    found = Found()
    with open_world(oracle) as postgres:
        turn(postgres, function)
    turn(shoal, function)
    try:
        for user, statement in chosen:
            if found.tried and time.monotonic() > until:
                break
            found.tried += 1
            ours = attempt(shoal, user, statement)
            with open_world(oracle) as postgres:
                theirs = attempt(postgres, user, statement)
            what = f"{function}: {user}: {statement}"
            if user in STRANGERS and ours.tells():
                found.problems.append(f"{what}: the secret is told: {ours}")
            elif ours.state == "0A000" != theirs.state or (ours.state, theirs.state, statement) in KNOWN:
                found.refused += 1
            elif (ours.state, ours.answer) != (theirs.state, theirs.answer) or (
                "ADD COLUMN" not in statement and ours.left_beside(theirs)
            ):
                found.problems.append(f"{what}:\n  Shoal      {ours}\n  PostgreSQL {theirs}")
    finally:
        with open_world(oracle) as postgres:
            turn_back(postgres)
        turn_back(shoal)
    return found
