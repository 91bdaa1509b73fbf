"""Many clients at once: schema changes beside statements, lost and cancelled clients, floods, what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from tests.end_to_end.test_isolation import Client
from tests.oracle import PostgresServer
from tests.server import ShoalServer

Server = ShoalServer | PostgresServer
SCHEMA = "concurrency"
SECONDS = float(os.environ.get("SHOAL_LOAD_SECONDS", "4"))
CLIENTS = int(os.environ.get("SHOAL_LOAD_CLIENTS", "60"))


@pytest.fixture
def two(server: Server) -> Iterator[tuple[Client, Client]]:
    """Two clients over table t: (1, 10), (2, 20), (3, 30)."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}".encode())
    clients = Client(server.dsn, SCHEMA), Client(server.dsn, SCHEMA)
    clients[0].run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    yield clients
    for client in clients:
        client.close()


# ---- schema changes beside statements -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "statement", "rows"),
    [
        ("TRUNCATE t", "INSERT INTO t VALUES (100, 1)", [(100, 1)]),
        ("TRUNCATE t", "UPDATE t SET v = 0", []),
        ("TRUNCATE t", "INSERT INTO t SELECT g, 1 FROM generate_series(7, 8) g", [(7, 1), (8, 1)]),
        ("ALTER TABLE t ALTER v TYPE bigint", "INSERT INTO t VALUES (4, 1)", [(1, 10), (2, 20), (3, 30), (4, 1)]),
        ("ALTER TABLE t ADD w int DEFAULT 7", "DELETE FROM t WHERE id > 1", [(1, 10, 7)]),
    ],
)
def test_a_statement_that_waited_for_a_schema_change_works_on_the_new_table(
    two: tuple[Client, Client], change: str, statement: str, rows: list[Any]
) -> None:
    first, second = two
    first.run("BEGIN", change)
    waiting = second.waits(statement)
    first.run("COMMIT")
    waiting.result(20)
    assert first.run("SELECT * FROM t ORDER BY id") == rows
    for row in rows:
        assert first.run(f"SELECT * FROM t WHERE id = {row[0]}") == [row]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("CREATE UNIQUE INDEX ON t (v)", errors.UniqueViolation),
        ("ALTER TABLE t ADD CHECK (id < 50)", errors.CheckViolation),
        ("ALTER TABLE t DROP v", errors.SyntaxError),
        ("DROP TABLE t", errors.UndefinedTable),
    ],
)
def test_a_statement_that_waited_obeys_the_new_definition(
    two: tuple[Client, Client], change: str, error: type[Exception]
) -> None:
    first, second = two
    first.run("BEGIN", change)
    waiting = second.waits("INSERT INTO t VALUES (100, 10)")
    first.run("COMMIT")
    with pytest.raises(error):
        waiting.result(20)


def test_a_drop_that_was_rolled_back_drops_nothing(two: tuple[Client, Client]) -> None:
    first, second = two
    first.run("BEGIN", "SAVEPOINT a", "TRUNCATE t", "DROP TABLE t", "ROLLBACK TO a", "CREATE TABLE u (i int)", "COMMIT")
    first.run("CHECKPOINT", "INSERT INTO u VALUES (1)", "CHECKPOINT")
    assert second.run("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,)]
    assert second.run("SELECT count(*), sum(v) FROM t") == [(3, 60)]


def test_readers_never_meet_a_table_without_its_rows(shoal: ShoalServer) -> None:
    """A schema change is published when its rows can be read, not before."""
    found: Counter[Any] = Counter()
    over = threading.Event()
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE rewritten (id int, v int)")
        connection.execute("INSERT INTO rewritten SELECT g, g FROM generate_series(1, 400) g")

        def read(sql: str) -> None:
            with psycopg.connect(shoal.dsn, autocommit=True, prepare_threshold=None) as reader:
                while not over.is_set():
                    found[sql, tuple(reader.execute(sql.encode()).fetchall())] += 1

        queries = ("SELECT count(*) FROM rewritten", "SELECT id FROM rewritten WHERE v = 17")
        readers = [threading.Thread(target=read, args=(sql,)) for sql in queries]
        for reader in readers:
            reader.start()
        for _ in range(8):
            connection.execute("ALTER TABLE rewritten ADD PRIMARY KEY (id)")
            connection.execute("CREATE INDEX rewritten_v ON rewritten (v)")
            connection.execute("DROP INDEX rewritten_v")
            connection.execute("ALTER TABLE rewritten DROP CONSTRAINT rewritten_pkey")
        over.set()
        for reader in readers:
            reader.join()
        connection.execute("DROP TABLE rewritten")
    assert {result for _, result in found} == {((400,),), ((17,),)}


def test_large_updates_of_one_table_wait_for_each_other(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE updated (id int PRIMARY KEY, v int)")
        connection.execute("INSERT INTO updated SELECT g, 0 FROM generate_series(1, 5000) g")
        clients = [Client(shoal.dsn, "public") for _ in range(4)]
        for future in [client.start("UPDATE updated SET v = v + 1") for client in clients]:
            assert future.result(30) == 5000
        assert connection.execute("SELECT min(v), max(v) FROM updated").fetchall() == [(4, 4)]
        for client in clients:
            client.close()
        connection.execute("DROP TABLE updated")


# ---- clients that go away -------------------------------------------------------------------------------------------


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


def connected(server: ShoalServer) -> socket.socket:
    """A socket on which the server has said that it is ready."""
    client = socket.create_connection(("127.0.0.1", server.port))
    body = struct.pack(">i", 196608) + b"user\0postgres\0database\0postgres\0\0"
    client.sendall(struct.pack(">i", len(body) + 4) + body)
    data = b""
    while not data.endswith(b"Z\0\0\0\x05I"):
        data += client.recv(65536)
    return client


def until(condition: Any, seconds: float = 10.0) -> bool:
    """Whether the condition holds within so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def left_behind(connection: psycopg.Connection[Any]) -> list[Any]:
    """Other sessions and their locks."""
    return [
        *connection.execute("SELECT pid, query FROM pg_stat_activity WHERE pid <> pg_backend_pid()").fetchall(),
        *connection.execute("SELECT relation, mode FROM pg_locks WHERE pid <> pg_backend_pid()").fetchall(),
    ]


def processor_ticks(pid: int) -> int:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


ENDLESS = (
    "SELECT count(*) FROM generate_series(1, 300000) a(g), generate_series(1, 300000) b(g) WHERE (a.g + b.g) % 7 = 0"
)


@pytest.mark.parametrize("how", ["cancel", "disconnect", "timeout"])
def test_a_query_that_nobody_waits_for_ends_in_the_worker(private_shoal: ShoalServer, how: str) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("SELECT count(*) FROM generate_series(1, 100000)")
        (worker,) = private_shoal.workers()
        client = connected(private_shoal)
        if how == "timeout":
            client.sendall(message(b"Q", b"SET statement_timeout = 5000\0"))  # the worker must get to work before
        before = processor_ticks(worker)
        client.sendall(message(b"Q", ENDLESS.encode() + b"\0"))
        assert until(lambda: processor_ticks(worker) > before + 20)
        if how == "cancel":
            ((pid,),) = connection.execute("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()").fetchall()
            assert connection.execute("SELECT pg_cancel_backend(%s)", (pid,)).fetchone() == (True,)
        if how == "disconnect":
            client.close()

        def quiet() -> bool:
            ticks = processor_ticks(worker)
            time.sleep(0.3)
            return processor_ticks(worker) <= ticks + 1

        assert until(quiet, 20.0)
        client.close()
        assert until(lambda: not left_behind(connection))


def test_a_client_that_goes_away_with_its_statement_leaves_nothing(private_shoal: ShoalServer) -> None:
    """Even in the same turn of the event loop in which its statement began to wait."""
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)")
        connection.execute("BEGIN; UPDATE t SET v = 2")
        for text in (
            b"UPDATE t SET v = 3 WHERE id = 1",
            b"SELECT count(*), sum(v) FROM t, t AS u, t AS w",
            b"COPY t FROM STDIN",
        ):
            for prelude in (b"", b"BEGIN; SAVEPOINT a;"):
                for _ in range(4):
                    client = connected(private_shoal)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.sendall(message(b"Q", prelude + text + b"\0") + message(b"X", b""))
                    client.close()
        connection.execute("COMMIT")
        assert until(lambda: not left_behind(connection)), left_behind(connection)
        assert connection.execute("SELECT v FROM t FOR UPDATE NOWAIT").fetchone() == (2,)


def test_a_cancelled_statement_has_done_nothing(shoal: ShoalServer) -> None:
    """A cancel that comes when the commit is under way comes too late: the client is told of the commit."""
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE cancelled (v int)")
        done = 0
        for number in range(60):
            timer = threading.Timer(0.0005 * (number % 30), connection.cancel)
            timer.start()
            try:
                connection.execute("INSERT INTO cancelled SELECT g FROM generate_series(1, 20) g")
                done += 20
            except errors.QueryCanceled:
                pass
            timer.join()
        with psycopg.connect(shoal.dsn, autocommit=True) as other:
            assert other.execute("SELECT count(*) FROM cancelled").fetchone() == (done,)
            other.execute("DROP TABLE cancelled")


@pytest.mark.parametrize("how", ["fail", "disconnect", "terminate", "bad line"])
def test_a_copy_that_ends_in_the_middle_leaves_nothing(private_shoal: ShoalServer, how: str) -> None:
    bulk = private_shoal.data / "changelog" / "bulk"
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        client = connected(private_shoal)
        client.sendall(message(b"Q", b"COPY t FROM STDIN\0"))
        lines = b"".join(b"%d\t%s\n" % (number, b"x" * 50) for number in range(100_000))
        client.sendall(message(b"d", lines))
        assert until(lambda: os.listdir(bulk))
        if how == "fail":
            client.sendall(message(b"f", b"no\0"))
        elif how == "bad line":
            client.sendall(message(b"d", b"zzz\tq\n") + message(b"c", b""))
        elif how == "terminate":
            client.sendall(message(b"X", b""))
        else:
            client.close()
        assert until(lambda: not os.listdir(bulk))
        client.close()
        assert until(lambda: not left_behind(connection))
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


# ---- floods ---------------------------------------------------------------------------------------------------------


def resident_megabytes(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) >> 10


@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_a_client_that_asks_and_does_not_read_costs_little_memory(private_shoal: ShoalServer, protocol: str) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE wide (id int PRIMARY KEY, t text)")
        connection.execute("INSERT INTO wide VALUES (1, repeat('x', 300000))")
        connection.execute("SELECT t FROM wide WHERE id = 1")
        before = resident_megabytes(private_shoal.pid)
        client = connected(private_shoal)
        client.setblocking(False)
        if protocol == "simple":
            data = message(b"Q", b"SELECT t FROM wide WHERE id = 1\0") * 2000
        else:
            data = message(b"P", b"\0SELECT t FROM wide WHERE id = 1\0\0\0")
            data += (message(b"B", bytes(8)) + message(b"E", bytes(5))) * 2000 + message(b"S", b"")
        most = before
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                data = data[client.send(data) :] or data
            assert connection.execute("SELECT id FROM wide WHERE id = 1").fetchone() == (1,)
            most = max(most, resident_megabytes(private_shoal.pid))
        client.close()
        assert most < before + 150, "answers that nobody reads pile up"


@pytest.mark.long
def test_long_statements_do_not_hold_up_others(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, g FROM generate_series(1, 500) g"
        )
        connection.execute("SELECT v FROM t WHERE id = 5")
        found: list[Any] = []
        listed = "SELECT v FROM t WHERE id IN (" + ",".join(map(str, range(40_000))) + ")"

        def ask() -> None:
            with psycopg.connect(private_shoal.dsn, autocommit=True) as other:
                found.append(len(other.execute(listed.encode()).fetchall()))
                found.append(other.execute(("SELECT " + "+".join(["1"] * 4000)).encode()).fetchone())

        thread = threading.Thread(target=ask)
        thread.start()
        times = []
        while thread.is_alive():
            began = time.perf_counter()
            connection.execute("SELECT v FROM t WHERE id = 5").fetchone()
            times.append(time.perf_counter() - began)
        assert found == [500, (4000,)]
        assert len(times) > 100 and max(times) < 0.5, f"{len(times)} reads, the longest took {max(times)} seconds"


# ---- everything at once ---------------------------------------------------------------------------------------------


SUMS = """
SELECT (SELECT sum(b) FROM bank_accounts), (SELECT sum(b) FROM bank_tellers),
       (SELECT coalesce(sum(d), 0) FROM bank_history)
"""


class Bank:
    """TPC-B-like transactions from many connections that are rolled back, cancelled, timed out and cut off; analysts
    who see the same sum everywhere; bulk loads and flushes."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.over = time.monotonic() + SECONDS
        self.counts: Counter[str] = Counter()

    async def customer(self, number: int) -> None:
        choices = random.Random(number)
        options = choices.choice(("", "-c lock_timeout=300", "-c statement_timeout=500"))
        connection = None
        while time.monotonic() < self.over:
            if connection is None or connection.closed:
                connection = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True, options=options)
            try:
                await self._transact(connection, choices)
            except (errors.DeadlockDetected, errors.QueryCanceled, errors.LockNotAvailable) as error:
                self.counts[type(error).__name__] += 1
                with contextlib.suppress(psycopg.Error):
                    await connection.execute("ROLLBACK")
            except psycopg.OperationalError:
                self.counts["cut off"] += 1
                await connection.close()
        if connection is not None:
            await connection.close()

    async def _transact(self, connection: psycopg.AsyncConnection[Any], choices: random.Random) -> None:
        teller, account, amount = choices.randint(1, 30), choices.randint(1, 3000), choices.randint(-99, 99)
        fate = choices.random()
        statements = [
            f"UPDATE bank_accounts SET b = b + {amount} WHERE id = {account}",
            f"UPDATE bank_tellers SET b = b + {amount} WHERE id = {teller}",
            f"INSERT INTO bank_history VALUES ({amount})",
        ]
        choices.shuffle(statements)
        await connection.execute("BEGIN")
        for place, statement in enumerate(statements):
            if place == 2 and fate < 0.05:
                with socket.socket(fileno=os.dup(connection.fileno())) as own:
                    own.shutdown(socket.SHUT_RDWR)
            if place == 2 and fate > 0.95:
                asyncio.get_running_loop().call_later(choices.random() * 0.01, connection.cancel)
            await connection.execute(statement.encode())
        await connection.execute("ROLLBACK" if fate < 0.15 else "COMMIT")
        self.counts["done"] += 1

    async def analyst(self, level: str) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            while time.monotonic() < self.over:
                await connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
                found = set(await (await connection.execute(SUMS.encode())).fetchone() or ())
                if level == "REPEATABLE READ":
                    again = await (await connection.execute("SELECT sum(b) FROM bank_tellers WHERE id > 0")).fetchone()
                    found |= set(again or ())
                await connection.execute("COMMIT")
                assert len(found) == 1, f"{level}: {found}"
                self.counts[level] += 1

    async def loader(self) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            while time.monotonic() < self.over:
                async with connection.cursor().copy("COPY bank_history FROM STDIN") as copy:
                    await copy.write("0\n" * 7000)
                with contextlib.suppress(errors.DeadlockDetected):
                    await connection.execute("UPDATE bank_accounts SET b = b WHERE id > 500")
                await connection.execute("CHECKPOINT")
                self.counts["loads"] += 1
                await asyncio.sleep(0.2)

    async def open(self) -> None:
        await asyncio.gather(
            *(self.customer(number) for number in range(CLIENTS)),
            self.analyst("READ COMMITTED"),
            self.analyst("REPEATABLE READ"),
            self.loader(),
        )


def test_a_bank_with_rude_customers_stays_balanced(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for table, rows in (("bank_accounts", 3000), ("bank_tellers", 30)):
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, b bigint)".encode())
            connection.execute(f"INSERT INTO {table} SELECT g, 0 FROM generate_series(1, {rows}) g".encode())
        connection.execute("CREATE TABLE bank_history (d bigint)")
        bank = Bank(private_shoal.dsn)
        asyncio.run(asyncio.wait_for(bank.open(), SECONDS + 40))
        assert bank.counts["done"] and bank.counts["loads"] and bank.counts["REPEATABLE READ"], bank.counts
        assert until(lambda: not left_behind(connection)), left_behind(connection)
        for table in ("bank_accounts", "bank_tellers"):
            query = f"SELECT * FROM {table} WHERE id BETWEEN 1 AND 3000 FOR UPDATE NOWAIT"  # no row lock is left
            connection.execute(query.encode())
        assert len(set(connection.execute(SUMS.encode()).fetchone() or ())) == 1
