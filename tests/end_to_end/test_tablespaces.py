"""Several tablespaces on one node: what SQL shows of them, transactions over them, kills under load.

The statements of the first part run on PostgreSQL too, whose `allow_in_place_tablespaces` makes tablespaces without a
directory of their own.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from tests.end_to_end.consistency import problems
from tests.end_to_end.test_crash import ACCOUNTS, BALANCE, SCHEMA, WIDE, Load, SmallServer
from tests.oracle import PostgresServer
from tests.server import ShoalServer

ROUNDS = int(os.environ.get("SHOAL_CRASH_ROUNDS", "3"))
SEED = int(os.environ.get("SHOAL_CRASH_SEED", str(random.SystemRandom().randrange(1 << 32))))

# ---- what SQL shows -------------------------------------------------------------------------------------------------

STATEMENTS = """
CREATE TABLESPACE fast LOCATION ''
CREATE TABLESPACE fast LOCATION ''
CREATE TABLESPACE pg_fast LOCATION ''
CREATE TABLESPACE other OWNER nobody_of_that_name LOCATION ''
CREATE TABLESPACE other LOCATION '' WITH (foo = 1)
CREATE TABLESPACE other LOCATION '' WITH (random_page_cost = -1)
CREATE TABLESPACE other LOCATION '' WITH (random_page_cost = abc)
CREATE TABLESPACE other LOCATION '' WITH (effective_io_concurrency = 1001)
CREATE SCHEMA placed
SET search_path = placed
CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE USING INDEX TABLESPACE fast) TABLESPACE fast
CREATE TABLE u (a int) TABLESPACE pg_global
CREATE TABLE u (a int) TABLESPACE nope
CREATE INDEX ON t (a) TABLESPACE pg_global
CREATE INDEX ON t (a) TABLESPACE nope
CREATE TABLE w (a int) TABLESPACE pg_default
DROP TABLESPACE fast
DROP TABLESPACE pg_default
DROP TABLESPACE nope
DROP TABLESPACE IF EXISTS nope
BEGIN
CREATE TABLESPACE other LOCATION ''
ROLLBACK
BEGIN
DROP TABLESPACE fast
ROLLBACK
SET default_tablespace = 'nope'
SELECT set_config('default_tablespace', 'nope', false)
SET default_tablespace = 'fast'
SHOW default_tablespace
CREATE TABLE v (a serial PRIMARY KEY, b text)
CREATE TABLE copied AS SELECT 1 AS a
CREATE TEMP TABLE temporary_one (a int)
SET default_tablespace = pg_global
CREATE TABLE x (a int)
SET default_tablespace TO DEFAULT
SHOW default_tablespace
INSERT INTO w VALUES (1), (2), (3)
ALTER TABLE w SET TABLESPACE fast
ALTER TABLE w SET TABLESPACE nope
ALTER TABLE w SET TABLESPACE pg_global
ALTER TABLE w SET TABLESPACE fast, SET TABLESPACE pg_default
SELECT count(*), sum(a) FROM w
SELECT tablename, tablespace FROM pg_tables WHERE schemaname = 'placed' ORDER BY 1
SELECT c.relname, c.relkind, s.spcname FROM pg_class c LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace \
WHERE c.relnamespace = 'placed'::regnamespace AND c.relname NOT IN ('t_pkey') ORDER BY 1
ALTER TABLESPACE fast SET (random_page_cost = 2, foo = 1)
ALTER TABLESPACE fast SET (random_page_cost = 2, seq_page_cost = 1.5)
SELECT spcname, spcacl, spcoptions FROM pg_tablespace ORDER BY 1
ALTER TABLESPACE fast RESET (random_page_cost, foo)
SELECT spcname, pg_get_userbyid(spcowner), spcoptions FROM pg_tablespace ORDER BY 1
ALTER TABLESPACE fast RENAME TO pg_other
ALTER TABLESPACE nope RENAME TO x
ALTER TABLESPACE nope SET (seq_page_cost = 1)
ALTER TABLESPACE nope OWNER TO postgres
ALTER TABLESPACE fast RENAME TO faster
ALTER TABLESPACE faster OWNER TO postgres
COMMENT ON TABLESPACE faster IS 'on good disks'
COMMENT ON TABLESPACE nope IS 'x'
SELECT shobj_description(oid, 'pg_tablespace') FROM pg_tablespace WHERE spcname = 'faster'
SELECT pg_tablespace_location(1663)
CREATE TABLE referring (a int REFERENCES t (b)) TABLESPACE faster
CREATE TABLE referred (a int PRIMARY KEY)
CREATE TABLE referring_too (a int REFERENCES referred)
DROP TABLE referred, referring_too
TRUNCATE w
SELECT tablespace FROM pg_tables WHERE tablename = 'w' AND schemaname = 'placed'
ALTER TABLE t SET TABLESPACE pg_default
DROP SCHEMA placed CASCADE
DROP TABLESPACE faster
SELECT spcname FROM pg_tablespace ORDER BY 1
"""


def outcome(connection: psycopg.Connection[Any], statement: str) -> object:
    try:
        cursor = connection.execute(statement.encode())
    except psycopg.Error as error:
        return error.diag.sqlstate, error.diag.message_primary, error.diag.message_detail
    return cursor.fetchall() if cursor.description else cursor.statusmessage


def test_statements_and_catalogs_are_postgresqls(private_shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    with (
        psycopg.connect(private_shoal.dsn, autocommit=True) as ours,
        psycopg.connect(postgres_server.dsn, autocommit=True) as theirs,
    ):
        theirs.execute("SET allow_in_place_tablespaces = on")
        notices: list[list[str | None]] = [[], []]
        ours.add_notice_handler(lambda diagnostic: notices[0].append(diagnostic.message_primary))
        theirs.add_notice_handler(lambda diagnostic: notices[1].append(diagnostic.message_primary))
        try:
            for statement in STATEMENTS.replace("\\\n", " ").strip().splitlines():
                assert outcome(ours, statement) == outcome(theirs, statement), statement
        finally:
            with contextlib.suppress(psycopg.Error):
                theirs.execute("DROP SCHEMA IF EXISTS placed CASCADE; SET default_tablespace = ''")
            for name in ("fast", "faster", "other"):
                theirs.execute(f"DROP TABLESPACE IF EXISTS {name}".encode())
        assert (
            notices[0]
            == [text for text in notices[1] if text is None or "skipping" in text or "cascades" in text][
                : len(notices[0])
            ]
        )


OURS = [
    ("CREATE TABLESPACE a LOCATION '/var/lib/a'", "0A000"),
    ("CREATE TABLESPACE a WITH (leader = 'n 1')", "22023"),
    ("CREATE TABLESPACE a WITH (replicas = 'n1,,n2')", "22023"),
    ("CREATE TABLESPACE a WITH (expected_replicas = 0)", "22023"),
    ("CREATE TABLESPACE a WITH (max_leader_inactivity = 'soon')", "22023"),
    ("CREATE TABLESPACE a WITH (store = 'ftp://x')", "22023"),
    (
        "CREATE TABLESPACE a WITH (leader = 'n1', replicas = 'n1, n2,n3', expected_replicas = 3, "
        "max_leader_inactivity = '30s', store = 'quorum(3,2,2):file:///a,s3://b/c,log://d:1')",
        "",
    ),
    ("CREATE TABLE t (a int PRIMARY KEY) TABLESPACE a", ""),
    ("CREATE INDEX ON t (a) TABLESPACE pg_default", "0A000"),
    ("CREATE TABLE u (a int PRIMARY KEY USING INDEX TABLESPACE a)", "0A000"),
    ("CREATE INDEX t_a ON t (a) TABLESPACE a", ""),
    ("ALTER INDEX t_a SET TABLESPACE a", ""),
    ("ALTER INDEX t_a SET TABLESPACE pg_default", "0A000"),
    ("ALTER TABLESPACE a SET (leader = 'n2')", ""),
    ("ALTER TABLESPACE a RESET (replicas, store, max_leader_inactivity)", ""),
    ("CREATE DATABASE d TABLESPACE a", "0A000"),
]


def test_what_is_ours_is_checked_and_shown(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for statement, sqlstate in OURS:
            result = outcome(connection, statement)
            assert (result[0] if isinstance(result, tuple) else "") == sqlstate, statement
        shown = connection.execute("SELECT spcoptions FROM pg_tablespace WHERE spcname = 'a'").fetchall()
        assert shown == [(["leader=n2", "expected_replicas=3"],)]
        where = "SELECT spcname FROM pg_class c JOIN pg_tablespace s ON s.oid = c.reltablespace WHERE relname = %s"
        for relation in ("t", "t_pkey", "t_a"):
            assert connection.execute(where, (relation,)).fetchall() == [("a",)]
        private_shoal.restart()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        assert connection.execute("SELECT spcname FROM pg_tablespace WHERE oid >= 16384").fetchall() == [("a",)]
        connection.execute("INSERT INTO t VALUES (1)")


def test_only_its_owner_uses_a_tablespace(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE somebody LOGIN; CREATE ROLE owner LOGIN")
        connection.execute("CREATE TABLESPACE a OWNER owner")
        connection.execute("CREATE SCHEMA AUTHORIZATION owner; CREATE SCHEMA AUTHORIZATION somebody")
        connection.execute("SET SESSION AUTHORIZATION somebody")
        for statement in (
            "CREATE TABLESPACE b",
            "CREATE TABLE somebody.t (a int) TABLESPACE a",
            "ALTER TABLESPACE a RENAME TO b",
            "ALTER TABLESPACE a SET (leader = 'x')",
            "DROP TABLESPACE a",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement.encode())
        connection.execute("SET SESSION AUTHORIZATION owner")
        connection.execute("CREATE TABLE owner.t (a int) TABLESPACE a; DROP TABLE owner.t")
        connection.execute("ALTER TABLESPACE a RENAME TO b")
        connection.execute("DROP TABLESPACE b")


# ---- rows in several tablespaces ------------------------------------------------------------------------------------


@pytest.fixture
def spread(private_shoal: ShoalServer) -> Iterator[ShoalServer]:
    """Tables here.t in pg_default and there.t, third.t elsewhere, with rows (1, 10), (2, 20), (3, 30)."""
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLESPACE b")
        connection.execute("CREATE TABLESPACE c")
        connection.execute("CREATE SCHEMA here; CREATE SCHEMA there; CREATE SCHEMA third")
        for schema, place in (("here", "pg_default"), ("there", "b"), ("third", "c")):
            name = f"{schema}.t"
            connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v int, w text) TABLESPACE {place}".encode())
            connection.execute(f"CREATE INDEX ON {name} (v)".encode())
            connection.execute(f"INSERT INTO {name} VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')".encode())
    yield private_shoal


def test_joins_and_changes_across_tablespaces(spread: ShoalServer) -> None:
    join = (
        "SELECT h.id, h.v, t.v, d.w FROM here.t h JOIN there.t t ON t.id = h.id JOIN third.t d ON d.v = t.v ORDER BY 1"
    )
    for _ in range(2):
        with psycopg.connect(spread.dsn, autocommit=True) as connection:
            sql = connection.execute
            assert sql(join).fetchall() == [(1, 10, 10, "a"), (2, 20, 20, "b"), (3, 30, 30, "c")]
            with connection.transaction():
                sql("UPDATE here.t SET v = 11 WHERE id = 1")
                sql("UPDATE there.t SET v = 30 WHERE id = 1")
                sql("DELETE FROM third.t WHERE id = 2")
                assert sql(join).fetchall() == [(1, 11, 30, "c"), (3, 30, 30, "c")]
                sql("SAVEPOINT s")
                sql("INSERT INTO third.t SELECT id + 100, v, w FROM there.t")
                sql("ROLLBACK TO s")
            assert sql(join).fetchall() == [(1, 11, 30, "c"), (3, 30, 30, "c")]
            sql("INSERT INTO third.t VALUES (2, 20, 'b')")
            sql("UPDATE there.t SET v = here.t.v FROM here.t WHERE here.t.id = there.t.id")
            sql("UPDATE here.t SET v = 10 WHERE id = 1")
            sql("UPDATE there.t SET v = (SELECT v FROM third.t WHERE third.t.id = there.t.id)")
            sql("CHECKPOINT")
        spread.restart()


def test_bulk_work_across_tablespaces(spread: ShoalServer) -> None:
    with psycopg.connect(spread.dsn, autocommit=True) as connection:
        sql = connection.execute
        with connection.cursor().copy("COPY there.t FROM STDIN") as copy:
            copy.write("".join(f"{number}\t{number % 100}\tw{number % 7}\n" for number in range(10, 20_000)))
        with connection.transaction():
            sql("INSERT INTO third.t SELECT id, v, w FROM there.t WHERE id >= 10")
            sql("INSERT INTO here.t SELECT id, v, w FROM there.t WHERE id >= 10")
        with pytest.raises(errors.UniqueViolation):
            sql("INSERT INTO third.t SELECT id, v, w FROM there.t")
        sql("UPDATE third.t SET v = v + 1, w = 'x' WHERE id >= 10")
        sql("DELETE FROM here.t WHERE id % 2 = 0")
        sums = "SELECT count(*), sum(v), count(DISTINCT w) FROM "
        expected = [(19_993, 999_005, 7), (19_993, 1_018_995, 4), (9_997, 509_795, 7)]
        found = [sql((sums + name).encode()).fetchone() for name in ("there.t", "third.t", "here.t")]
        assert [item[:1] for item in found if item] == [item[:1] for item in expected]
        sql("ALTER TABLE there.t ADD COLUMN x int DEFAULT 7; ALTER TABLE there.t ALTER COLUMN id TYPE bigint")
        for place in ("c", "pg_default", "b"):
            sql(f"ALTER TABLE there.t SET TABLESPACE {place}".encode())
            assert sql("SELECT count(*), sum(x) FROM there.t").fetchone() == (19_993, 7 * 19_993)
            assert sql("SELECT w, x FROM there.t WHERE id = 777").fetchall() == [("w0", 7)]
            assert sql("SELECT count(*) FROM there.t WHERE v = 50").fetchone() == (200,)
        sql("BEGIN; TRUNCATE third.t; INSERT INTO third.t VALUES (1, 1, 'y'); ROLLBACK")
        assert sql("SELECT count(*) FROM third.t").fetchone() == (19_993,)
        sql("BEGIN; TRUNCATE third.t, here.t; INSERT INTO third.t VALUES (1, 1, 'y'); COMMIT")
        assert sql("SELECT h.id, t.id FROM here.t h FULL JOIN third.t t ON true").fetchall() == [(None, 1)]
    spread.restart()
    with psycopg.connect(spread.dsn, autocommit=True) as connection:
        assert connection.execute("SELECT count(*), sum(x) FROM there.t").fetchone() == (19_993, 7 * 19_993)
        assert connection.execute("SELECT count(*) FROM third.t").fetchone() == (1,)


def test_foreign_keys_across_tablespaces(spread: ShoalServer) -> None:
    with psycopg.connect(spread.dsn, autocommit=True) as connection:
        sql = connection.execute
        sql("CREATE TABLE there.child (id int PRIMARY KEY, p int REFERENCES here.t ON DELETE CASCADE) TABLESPACE b")
        sql("CREATE TABLE third.child (id int PRIMARY KEY, p int REFERENCES there.t ON UPDATE CASCADE) TABLESPACE c")
        sql("INSERT INTO there.child VALUES (1, 1), (2, 2)")
        sql("INSERT INTO third.child VALUES (1, 1), (3, 3)")
        for statement in (
            "INSERT INTO there.child VALUES (9, 9)",
            "DELETE FROM there.t WHERE id = 3",
            "INSERT INTO third.child SELECT g, g FROM generate_series(10, 5000) g",
        ):
            with pytest.raises(errors.ForeignKeyViolation):
                sql(statement.encode())
        sql("DELETE FROM here.t WHERE id = 2")
        sql("UPDATE there.t SET id = 33 WHERE id = 3")
        assert sql("SELECT id FROM there.child").fetchall() == [(1,)]
        assert sql("SELECT p FROM third.child ORDER BY 1").fetchall() == [(1,), (33,)]
        sql("ALTER TABLE third.child ADD CONSTRAINT more FOREIGN KEY (id) REFERENCES here.t")


def test_a_transaction_that_was_open_when_the_first_tablespace_came(private_shoal: ShoalServer) -> None:
    with (
        psycopg.connect(private_shoal.dsn) as old,
        psycopg.connect(private_shoal.dsn) as repeatable,
        psycopg.connect(private_shoal.dsn, autocommit=True) as connection,
    ):
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2)")
        repeatable.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert repeatable.execute("SELECT sum(v) FROM t").fetchall() == [(3,)]
        old.execute("UPDATE t SET v = 5 WHERE id = 1")
        connection.execute("CREATE TABLESPACE b")
        connection.execute("CREATE TABLE u (id int PRIMARY KEY, v int) TABLESPACE b; INSERT INTO u VALUES (1, 1)")
        connection.execute("UPDATE t SET v = 7 WHERE id = 2")
        assert old.execute("SELECT v FROM u").fetchall() == [(1,)]
        old.execute("UPDATE u SET v = 6")
        assert repeatable.execute("SELECT sum(v) FROM t").fetchall() == [(3,)]
        assert repeatable.execute("SELECT count(*) FROM u").fetchall() == [(0,)]
        old.commit()
        assert repeatable.execute("SELECT id, v FROM t ORDER BY 1").fetchall() == [(1, 1), (2, 2)]
        with pytest.raises(errors.SerializationFailure):
            repeatable.execute("UPDATE t SET v = 9 WHERE id = 2")
        assert connection.execute("SELECT t.v, u.v FROM t JOIN u USING (id)").fetchall() == [(5, 6)]


def test_repeatable_read_meets_changes_in_every_tablespace(spread: ShoalServer) -> None:
    with psycopg.connect(spread.dsn) as reader, psycopg.connect(spread.dsn, autocommit=True) as writer:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for _ in range(30):  # there's LSNs run ahead of here's
            writer.execute("UPDATE there.t SET w = w || '.' WHERE id = 1")
        assert reader.execute("SELECT v FROM here.t WHERE id = 1").fetchall() == [(10,)]
        writer.execute("UPDATE there.t SET v = 21 WHERE id = 2")
        writer.execute("UPDATE here.t SET v = 31 WHERE id = 3")
        reader.execute("UPDATE there.t SET v = 12 WHERE id = 1")
        reader.execute("UPDATE here.t SET v = 12 WHERE id = 1")
        assert reader.execute("SELECT v FROM there.t WHERE id = 2").fetchall() == [(20,)]
        assert reader.execute("SELECT sum(t.v), sum(h.v) FROM here.t h, there.t t").fetchall() == [(186, 186)]
        with pytest.raises(errors.SerializationFailure):
            reader.execute("UPDATE there.t SET v = v + 1 WHERE id = 2")


# ---- under load -----------------------------------------------------------------------------------------------------

ROWS = 20

TRANSFERS = """
CREATE TABLE one (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE two (id int PRIMARY KEY, balance bigint NOT NULL) TABLESPACE other;
CREATE TABLE three (id int PRIMARY KEY, balance bigint NOT NULL) TABLESPACE another;
CREATE TABLE told_one (client int, n int, PRIMARY KEY (client, n)) TABLESPACE another;
CREATE TABLE told_two (client int, n int, drawn serial, PRIMARY KEY (client, n)) TABLESPACE other;
"""
TABLES = ("one", "two", "three")
TOTAL = 100 * ROWS * len(TABLES)
SUMS = " + ".join(f"(SELECT sum(balance) FROM {table})" for table in TABLES)


class Transfers:
    """Clients that move money between tables of three tablespaces, and readers that add it up."""

    def __init__(self, server: ShoalServer) -> None:
        self.server = server
        self.over = threading.Event()
        self.killed = False
        self.acknowledged: dict[int, set[int]] = {}
        self.next: dict[int, int] = {}
        self.drawn: list[int] = []
        self.reads = 0
        self.wrong: list[object] = []
        self.failures: list[BaseException] = []
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLESPACE other")
            connection.execute("CREATE TABLESPACE another")
            connection.execute(TRANSFERS.encode())
            for table in TABLES:
                rows = f"INSERT INTO {table} SELECT g, 100 FROM generate_series(1, {ROWS}) g"
                connection.execute(rows.encode())

    def writer(self, number: int, connection: psycopg.Connection[Any]) -> None:
        choose = random.Random(f"{SEED} {number} {self.next.get(number, 0)}")
        told = self.acknowledged.setdefault(number, set())
        while not self.over.is_set():
            n = self.next[number] = self.next.get(number, 0) + 1
            source, target = choose.sample(TABLES, 2)
            rows = choose.randrange(1, ROWS + 1), choose.randrange(1, ROWS + 1)
            try:
                with connection.transaction():
                    connection.execute("INSERT INTO told_one VALUES (%s, %s)", (number, n))
                    connection.execute(f"UPDATE {source} SET balance = balance - 1 WHERE id = {rows[0]}".encode())
                    connection.execute(f"UPDATE {target} SET balance = balance + 1 WHERE id = {rows[1]}".encode())
                    if n % 3 == 0:
                        found = connection.execute(
                            "INSERT INTO told_two (client, n) VALUES (%s, %s) RETURNING drawn", (number, n)
                        ).fetchone()
                    else:
                        found = None
            except errors.DeadlockDetected:
                continue
            told.add(n)
            if found:
                self.drawn.append(found[0])

    def reader(self, number: int, connection: psycopg.Connection[Any]) -> None:
        """Each kind of reader at its own moment: all tables in one query, or one after the other in a snapshot."""
        repeatable = number % 2
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ if repeatable else None
        if number >= 2:
            connection.execute("SET shoal.path = 'columnar'")
        while not self.over.is_set():
            if repeatable:
                with connection.transaction():
                    total = 0
                    for table in TABLES:
                        row = connection.execute(f"SELECT sum(balance) FROM {table}".encode()).fetchone()
                        total += int(row[0]) if row else 0
            else:
                row = connection.execute(f"SELECT {SUMS}".encode()).fetchone()
                total = int(row[0]) if row else 0
            self.reads += 1
            if total != TOTAL:
                self.wrong.append((number, total))

    def run(self, seconds: float, kill: bool) -> None:
        self.over.clear()
        self.killed = False
        works: list[tuple[Callable[[int, psycopg.Connection[Any]], None], int]] = [
            *((self.writer, number) for number in range(4)),
            *((self.reader, number) for number in range(4)),
        ]
        threads = [threading.Thread(target=self._guard, args=work, daemon=True) for work in works]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        if kill:
            self.killed = True
            self.server.kill()
        self.over.set()
        for thread in threads:
            thread.join(60)
        assert self.failures == []
        assert self.wrong == []

    def _guard(self, work: Callable[[int, psycopg.Connection[Any]], None], number: int) -> None:
        try:
            with psycopg.connect(self.server.dsn, autocommit=True) as connection:
                work(number, connection)
        except psycopg.OperationalError as error:
            if not self.killed:
                self.failures.append(error)
        except BaseException as error:
            self.failures.append(error)

    def check(self) -> list[str]:
        """What is wrong after a restart."""
        found: list[str] = []
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            for path in ("auto", "columnar"):
                connection.execute(f"SET shoal.path = '{path}'".encode())
                row = connection.execute(f"SELECT {SUMS}".encode()).fetchone()
                if row is None or int(row[0]) != TOTAL:
                    found.append(f"the sum is {row} on path {path}")
            one = set(connection.execute("SELECT client, n FROM told_one").fetchall())
            two = set(connection.execute("SELECT client, n FROM told_two").fetchall())
            if {item for item in one if item[1] % 3 == 0} != two:
                found.append(f"halves of transactions: {sorted(two ^ {item for item in one if item[1] % 3 == 0})}")
            told = {(client, n) for client, numbers in self.acknowledged.items() for n in numbers}
            if not told <= one:
                found.append(f"acknowledged and lost: {sorted(told - one)}")
            twice = connection.execute("SELECT drawn FROM told_two GROUP BY drawn HAVING count(*) > 1").fetchall()
            if twice or len(set(self.drawn)) != len(self.drawn):
                found.append(f"drawn twice: {twice}")
        return found


def test_readers_see_commits_over_several_tablespaces_whole(private_shoal: ShoalServer) -> None:
    load = Transfers(private_shoal)
    load.run(2.0, kill=False)
    assert load.check() == []
    assert load.reads > 10
    assert sum(map(len, load.acknowledged.values())) > 50


_LATE = """
import sys
from engine.storage import directories
from engine.storage.tablespace import Tablespace
from replication.local import LocalChangelog
Tablespace.prepare.__func__.__kwdefaults__.update(flush_bytes=60_000, flush_versions=800)
LocalChangelog.__init__.__kwdefaults__.update(segment_bytes=100_000)
called, places = LocalChangelog._on_turn_end, []

def late(self):
    if self._directory not in places:
        places.append(self._directory)
    delay = 0.004 * places.index(self._directory)
    if delay and self._state == "called":
        self._state = "late"
        self._sync._loop.call_later(delay, again, self)
    else:
        called(self)

def again(self):
    if self._state == "late":
        self._state = "called"
        called(self)

LocalChangelog._on_turn_end = late
{planted}
from shoal.cli import main
sys.exit(main(sys.argv[1:]))
"""


class LateServer(ShoalServer):
    """Writes its changelogs one some milliseconds after the other, so that kills find transactions in part."""

    planted = ""

    def command(self) -> list[str]:
        return [sys.executable, "-c", _LATE.replace("{planted}", self.planted), *super().command()[3:]]


class UndecidedServer(LateServer):
    """Recovers every tablespace as if it were the only one."""

    planted = "directories.decide = lambda found: None"


def rounds(server: ShoalServer, count: int) -> tuple[Transfers, list[str]]:
    load = Transfers(server)
    choices = random.Random(SEED)
    print(f"seed {SEED}")
    for _ in range(count):
        load.run(0.3 + choices.random(), kill=True)
        server.start()
        found = load.check()
        if found:
            return load, found
    return load, []


async def test_transactions_over_tablespaces_are_whole_or_absent_after_kills() -> None:
    with LateServer() as server:
        load, found = rounds(server, ROUNDS)
        assert found == []
        assert sum(map(len, load.acknowledged.values())) > 20
        assert server.stop() == 0
        assert await problems(server.data) == []


def test_the_checks_notice_a_recovery_that_does_not_look_at_other_tablespaces() -> None:
    with UndecidedServer() as server:
        assert rounds(server, 8)[1] != []


async def test_all_kinds_of_work_in_several_tablespaces_survive_kills() -> None:
    schema = SCHEMA
    for table, place in (
        ("marks", "b"), ("accounts", "b"), ("numbered", "c"), ("loads", "c"), ("wide", "b"), ("emptied", "c"),
    ):  # fmt: skip
        start = schema.index(f"CREATE TABLE {table} ")
        end = schema.index(";", start)
        schema = f"{schema[:end]} TABLESPACE {place}{schema[end:]}"
    with SmallServer() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLESPACE b")
            connection.execute("CREATE TABLESPACE c")
            connection.execute("ALTER ROLE postgres SET default_tablespace = 'c'")
            connection.execute(schema.encode())
            accounts = f"INSERT INTO accounts SELECT g, {BALANCE} FROM generate_series(0, {ACCOUNTS - 1}) g"
            connection.execute(accounts.encode())
            connection.execute(f"INSERT INTO wide SELECT g, 0, 'x' FROM generate_series(1, {WIDE}) g".encode())
        load = Load(server)
        choices = random.Random(SEED)
        print(f"seed {SEED}")
        for _ in range(max(ROUNDS - 1, 1)):
            load.run(0.4 + 2 * choices.random())
            assert await problems(server.data) == []
            server.start()
            load.check()
        assert server.stop() == 0
        assert await problems(server.data) == []


class Maker(threading.Thread):
    """Makes tablespaces with a table, and drops every other one, until the server goes away."""

    made = 0

    def __init__(self, server: ShoalServer) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.over = False

    def run(self) -> None:
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(self.server.dsn, autocommit=True) as connection,
        ):
            while not self.over:
                Maker.made += 1
                name = f"made_{Maker.made}"
                connection.execute(f"CREATE TABLESPACE {name}".encode())
                connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY) TABLESPACE {name}".encode())
                connection.execute(f"INSERT INTO {name} SELECT generate_series(1, 3)".encode())
                if Maker.made % 2:
                    connection.execute(f"DROP TABLE {name}".encode())
                    connection.execute(f"DROP TABLESPACE {name}".encode())


def check_and_clear(server: ShoalServer) -> None:
    """Every tablespace that the catalog has, has a directory, and no other has; their tables work."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        known = [row[0] for row in connection.execute("SELECT spcname FROM pg_tablespace WHERE oid >= 16384")]
        tables = connection.execute(
            "SELECT relname, spcname FROM pg_class c JOIN pg_tablespace s ON s.oid = reltablespace "
            "WHERE relkind = 'r' AND s.oid >= 16384"
        ).fetchall()
        assert all(relation == place for relation, place in tables)
        for relation, _ in tables:
            rows = connection.execute(f"SELECT count(*) FROM {relation}".encode()).fetchone()
            assert rows in ((3,), (0,))
            connection.execute(f"INSERT INTO {relation} VALUES (1000)".encode())
            connection.execute(f"DROP TABLE {relation}".encode())
        folder = server.data / "tablespaces"
        directories = folder.iterdir() if folder.exists() else ()  # it may have been killed before the first one
        assert len([item for item in directories if not item.name.endswith(".gone")]) == len(known)
        for name in known:
            connection.execute(f"DROP TABLESPACE {name}".encode())


def test_tablespaces_are_made_and_dropped_whole_under_kills() -> None:
    choices = random.Random(SEED)
    print(f"seed {SEED}")
    with SmallServer() as server:
        for _ in range(ROUNDS + 2):
            maker = Maker(server)
            maker.start()
            time.sleep(0.05 + 0.4 * choices.random())
            server.kill()
            maker.over = True
            maker.join(60)
            server.start()
            check_and_clear(server)
        assert Maker.made > 3
