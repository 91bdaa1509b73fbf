"""The embedded library: a database in this process, with PEP 249's interface and the key-value one."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import shoal
from tests.server import ROOT


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedded")


@pytest.fixture(scope="module")
def db(directory: Path) -> Iterator[shoal.Database]:
    with shoal.open(directory) as database:
        yield database


@pytest.fixture
def accounts(db: shoal.Database) -> Iterator[shoal.Database]:
    db.execute(
        "CREATE TABLE accounts (id int PRIMARY KEY, owner text NOT NULL DEFAULT 'nobody', balance numeric(12,2))"
    )
    db.executemany("INSERT INTO accounts VALUES (%s, %s, %s)", [(n, f"o{n}", Decimal(n)) for n in range(1, 6)])
    yield db
    db.execute("DROP TABLE accounts")


VALUES = [
    True, 1, -(2**31), 2**40, 10**30, 1.5, float("inf"), Decimal("1.10"), "text", 'quo"te\\', "", b"\x00\xff",
    datetime.date(2024, 2, 29), datetime.time(23, 59, 59, 1), datetime.datetime(1999, 12, 31, 1, 2, 3, 4),
    datetime.datetime(2024, 6, 1, 12, tzinfo=datetime.UTC), datetime.timedelta(days=-2, hours=5, microseconds=7),
    uuid.UUID(int=7), {"a": [1, None, "x"]}, None,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_as_they_were_sent(db: shoal.Database, postgres: psycopg.Connection[Any], value: Any) -> None:
    found = db.execute("SELECT %s AS v", (value,)).fetchone()
    assert found == (value,)
    assert found is not None and type(found[0]) in (type(value), Decimal)
    sent = psycopg.types.json.Json(value) if isinstance(value, dict) else value
    assert postgres.execute("SELECT %s AS v", (sent,)).fetchone() == found  # as psycopg has it


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ARRAY[[1,2],[3,NULL]], ARRAY['a,b', NULL, '\"'], '{}'::int[]",
        "SELECT interval '1 year 2 mons -3 days', interval '-14 mons', '{2024-01-01}'::date[]",
        "SELECT numrange(1, 2), inet '10.0.0.1/8', point(1, 2), bit '101', 'b'::\"char\"",
        "SELECT timetz '10:00+02', NULL::int, json '[1, 2]', 1::oid, float4 '1.1', 'x'::name, 'ab'::char(4)",
    ],
)
def test_types_are_read_as_psycopg_reads_them(db: shoal.Database, postgres: psycopg.Connection[Any], sql: str) -> None:
    ours, theirs = db.execute(sql).fetchone(), postgres.execute(sql.encode()).fetchone()
    assert ours is not None and theirs is not None
    texts = (psycopg.types.range.Range,)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other or (isinstance(mine, str) and (isinstance(other, texts) or not isinstance(other, str)))


def test_lists_are_arrays_where_the_statement_wants_them(accounts: shoal.Database) -> None:
    cursor = accounts.execute("SELECT id FROM accounts WHERE id = ANY(%s) ORDER BY id", ([1, 3, 99],))
    assert cursor.fetchall() == [(1,), (3,)]
    assert accounts.execute("SELECT %(a)s::text || %(b)s || %(a)s || '100%%'", {"a": "x", "b": 1}).fetchone() == (
        "x1x100%",
    )


def test_infinities_are_said_not_to_be_pythons(db: shoal.Database) -> None:
    with pytest.raises(shoal.DataError, match="cast it to text"):
        db.execute("SELECT date 'infinity'").fetchone()


def test_cursors_are_pep_249s(accounts: shoal.Database) -> None:
    connection = accounts.connect()
    cursor = connection.cursor()
    assert cursor.description is None and cursor.rowcount == -1
    cursor.execute("SELECT id, owner, balance FROM accounts ORDER BY id")
    assert cursor.description is not None and [column[0] for column in cursor.description] == ["id", "owner", "balance"]
    assert [column[1] == shoal.NUMBER for column in cursor.description] == [True, False, True]
    assert cursor.rowcount == 5 and cursor.fetchone() == (1, "o1", Decimal("1.00"))
    assert [row[0] for row in cursor.fetchmany(2)] == [2, 3] and [row[0] for row in cursor] == [4, 5]
    assert cursor.fetchone() is None and cursor.fetchall() == []
    cursor.execute("UPDATE accounts SET balance = 0 WHERE id > %s", (3,))
    assert cursor.rowcount == 2 and cursor.statusmessage == "UPDATE 2"
    with pytest.raises(shoal.ProgrammingError, match="no rows"):
        cursor.fetchone()
    cursor.close()
    with pytest.raises(shoal.InterfaceError, match="closed"):
        cursor.execute("SELECT 1")
    connection.rollback()
    connection.close()
    assert accounts.execute("SELECT sum(balance) FROM accounts").fetchone() == (Decimal("15.00"),)
    with pytest.raises(shoal.InterfaceError, match="closed"):
        connection.cursor()


def test_errors_are_pep_249s_and_have_postgresqls_fields(accounts: shoal.Database) -> None:
    with pytest.raises(shoal.IntegrityError, match="already exists") as error:
        accounts.execute("INSERT INTO accounts (id) VALUES (1)")
    assert error.value.sqlstate == "23505" and error.value.constraint == "accounts_pkey"
    for sql, kind in (
        ("SELEC", shoal.ProgrammingError),
        ("SELECT 1/0", shoal.DataError),
        ("CREATE RULE x AS ON INSERT TO accounts DO SELECT 1", shoal.NotSupportedError),
        ("SELECT %s", shoal.ProgrammingError),
    ):
        with pytest.raises(kind):
            accounts.execute(sql, (1, 2) if "%" in sql else None)
    with pytest.raises(shoal.ProgrammingError, match="a Future"):
        accounts.execute("SELECT %s", (__import__("concurrent.futures").futures.Future(),))
    assert accounts.execute("SELECT 1").fetchone() == (1,)


def test_a_failed_transaction_says_so_until_it_is_rolled_back(accounts: shoal.Database) -> None:
    with accounts.connect() as connection:
        connection.execute("DELETE FROM accounts")
        with pytest.raises(shoal.DataError):
            connection.execute("SELECT 1/0")
        assert connection.status == "failed"
        with pytest.raises(shoal.InternalError, match="aborted"):
            connection.execute("SELECT 1")
        connection.rollback()
    assert accounts.execute("SELECT count(*) FROM accounts").fetchone() == (5,)


def test_transactions_commit_together_or_not_at_all(accounts: shoal.Database) -> None:
    with accounts.transaction("serializable") as transaction:
        transaction.table("accounts").upsert({"id": 1, "balance": 100})
        transaction.execute("DELETE FROM accounts WHERE id = 2")
        assert accounts.table("accounts").get(2) is not None
    with pytest.raises(ZeroDivisionError), accounts.transaction() as transaction:
        transaction.execute("DELETE FROM accounts")
        raise ZeroDivisionError
    found = accounts.execute("SELECT id, balance FROM accounts ORDER BY id LIMIT 2").fetchall()
    assert found == [(1, Decimal("100.00")), (3, Decimal("3.00"))]


def test_rows_by_key_without_sql(accounts: shoal.Database) -> None:
    table = accounts.table("accounts")
    assert table.get(1) == {"id": 1, "owner": "o1", "balance": Decimal("1.00")} and table.get(99) is None
    table.upsert({"id": 1, "balance": 7})
    assert table.get(1) == {"id": 1, "owner": "o1", "balance": Decimal("7.00")}
    table.put({"id": 1, "balance": 8})
    assert table.get(1) == {"id": 1, "owner": "nobody", "balance": Decimal("8.00")}
    with pytest.raises(shoal.IntegrityError):
        table.insert({"id": 1})
    assert table.delete(1) and not table.delete(1)
    assert [row["id"] for row in table.scan(2, 5)] == [2, 3, 4]
    assert [row["id"] for row in table.scan(reverse=True)] == [5, 4, 3, 2]
    with pytest.raises(shoal.ProgrammingError, match="give 1 values"):
        table.get((1, 2))


def test_scans_go_on_past_one_piece_in_both_directions(db: shoal.Database) -> None:
    db.execute("CREATE TABLE pairs (a int, b int, PRIMARY KEY (a, b))")
    db.load("pairs", pa.table({"a": [n // 50 for n in range(2500)], "b": [n % 50 for n in range(2500)]}))
    keys = [(n // 50, n % 50) for n in range(2500)]
    found = [(row["a"], row["b"]) for row in db.table("pairs").scan((0, 7), (49, 3))]
    assert found == keys[7 : 49 * 50 + 3]
    backwards = [(row["a"], row["b"]) for row in db.table("pairs").scan((0, 7), (49, 3), reverse=True)]
    assert backwards == found[::-1]
    db.execute("CREATE TABLE keyless (a int)")
    with pytest.raises(shoal.ProgrammingError, match="no primary key"):
        db.table("keyless")


def test_whole_columns_go_both_ways(accounts: shoal.Database) -> None:
    assert accounts.load("accounts", pa.table({"id": [10, 11], "owner": ["x", "y'\\"]})) == 2
    found = accounts.arrow(
        "SELECT id, owner FROM accounts WHERE owner = ANY(%s) OR owner = %s ORDER BY id", (["x"], "y'\\")
    )
    assert found.to_pydict() == {"id": [10, 11], "owner": ["x", "y'\\"]}
    frame = accounts.df("SELECT count(*) AS n FROM accounts;")
    assert frame["n"].tolist() == [7]
    assert accounts.load("accounts", accounts.df("SELECT id + 100 AS id FROM accounts WHERE id < 3")) == 2


def test_several_statements_in_one_text_give_the_last_ones_rows(db: shoal.Database) -> None:
    assert db.execute("SELECT 1; SELECT 2, NULL, ARRAY[1]").fetchall() == [(2, None, [1])]


def test_copy_is_refused_and_the_connection_remains_usable(accounts: shoal.Database) -> None:
    with pytest.raises(shoal.DatabaseError, match="use load"):
        accounts.execute("COPY accounts FROM STDIN")
    assert accounts.execute("SELECT count(*) FROM accounts").fetchone() == (5,)


def test_notices_are_kept(db: shoal.Database) -> None:
    with db.connect(autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS nothing_of_this_name")
        assert "nothing_of_this_name" in connection.notices[-1]


def test_threads_have_connections_of_their_own(accounts: shoal.Database) -> None:
    found: list[int] = []

    def add() -> None:
        for _ in range(50):
            accounts.execute("UPDATE accounts SET balance = balance + 1 WHERE id = 1")
        found.append(accounts.execute("SELECT pg_backend_pid()").fetchone()[0])  # type: ignore[index]

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert accounts.table("accounts").get(1)["balance"] == Decimal("201.00")  # type: ignore[index]
    assert len(set(found)) == 4


def test_another_thread_cancels_what_runs(accounts: shoal.Database) -> None:
    with accounts.connect(autocommit=True) as connection:
        ended = threading.Event()

        def cancel() -> None:
            while not ended.wait(0.05):
                connection.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(shoal.OperationalError) as error:
            connection.execute("SELECT pg_sleep(30)")
        ended.set()
        thread.join()
        assert error.value.sqlstate == "57014"
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_plan_follows_the_schema(db: shoal.Database) -> None:
    db.execute("CREATE TABLE shape (a int)")
    db.execute("INSERT INTO shape VALUES (1)")
    assert db.execute("SELECT * FROM shape").fetchall() == [(1,)]
    db.execute("ALTER TABLE shape ADD COLUMN b text DEFAULT 'x'")
    assert db.execute("SELECT * FROM shape").fetchall() == [(1, "x")]


def test_clients_of_postgresql_are_let_in_beside(accounts: shoal.Database) -> None:
    with psycopg.connect(accounts.serve(), autocommit=True) as client:
        client.execute("UPDATE accounts SET owner = 'psycopg' WHERE id = 5")
    assert accounts.table("accounts").get(5)["owner"] == "psycopg"  # type: ignore[index]


def test_a_second_process_learns_which_process_has_the_directory(db: shoal.Database, directory: Path) -> None:
    code = f"import shoal; shoal.open({str(directory)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"in use by another process\nHINT: Stop process {os.getpid()}, " in done.stderr
    assert "shoal.embedded.errors.OperationalError" in done.stderr


def test_what_was_acknowledged_outlives_the_process(tmp_path: Path) -> None:
    code = f"""
import shoal
db = shoal.open({str(tmp_path)!r})
db.execute("CREATE TABLE t (a int PRIMARY KEY)")
for n in range(10**6):
    db.execute("INSERT INTO t VALUES (%s)", (n,))
    print(n, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(50)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    with shoal.open(tmp_path) as db:
        found = db.execute("SELECT count(*), max(a) FROM t").fetchone()
    assert found is not None and found[0] == found[1] + 1 and found[1] - told[-1] in (0, 1)


def test_a_program_that_ends_without_closing_ends(tmp_path: Path) -> None:
    code = f"""
import shoal
connection = shoal.connect({str(tmp_path)!r})
connection.execute("CREATE TABLE t (a int)")
connection.commit()
connection.execute("INSERT INTO t VALUES (1)")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    with shoal.connect(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(0,)]


@pytest.mark.parametrize("how", ["shoal.connect({path!r})", "shoal.open({path!r}).connect()"])
def test_no_thread_of_a_database_outlives_the_interpreter(tmp_path: Path, how: str) -> None:
    """The C library's end waits here for longer than the engine's loop ever sleeps: a thread of the engine that was
    still there would wake in an interpreter that is gone."""
    code = f"""
import atexit, ctypes, threading
import shoal
connection = {how.format(path=str(tmp_path))}
connection.execute("CREATE TABLE t (a int)")
connection.commit()
atexit.register(lambda: print([thread.name for thread in threading.enumerate()]))
libc = ctypes.CDLL(None)
libc.on_exit(ctypes.cast(libc.sleep, ctypes.c_void_p), None)  # which is called with the status
raise SystemExit(2)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, b"['MainThread']\n", b"")


def test_connect_opens_a_directory_once(tmp_path: Path) -> None:
    with shoal.connect(tmp_path) as first, shoal.connect(tmp_path) as second:
        first.execute("CREATE TABLE t (a int)")
        first.commit()
        assert second.execute("SELECT count(*) FROM t").fetchall() == [(0,)]


def test_a_fork_has_no_database(tmp_path: Path) -> None:
    code = f"""
import os, sys
import shoal
db = shoal.open({str(tmp_path)!r})
connection = db.connect(autocommit=True)
db.serve()
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    print(connection.execute("SELECT 1").fetchall())
else:
    for use in (lambda: connection.execute("SELECT 1"), lambda: db.execute("SELECT 1"), db.connect):
        try:
            use()
        except shoal.Error as error:
            print(type(error).__name__)
    db.close()
    sys.stdout.flush()
    os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().split("\n") == ["InterfaceError"] * 3 + ["[(1,)]", ""]


def test_nothing_is_opened_once_the_program_ends(tmp_path: Path) -> None:
    code = f"""
import threading
import shoal
shoal.open({str(tmp_path / "one")!r})
def late():
    threading.main_thread().join()
    while True:
        try:
            shoal.connect({str(tmp_path / "two")!r}).close()
        except shoal.InterfaceError as error:
            return print(error)
threading.Thread(target=late).start()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"the program is ending: a database can no longer be opened\n"


def test_commits_that_cannot_be_made_durable_end_the_database(tmp_path: Path) -> None:
    database = shoal.open(tmp_path)
    database.execute("CREATE TABLE t (a int)")
    database._engine.call(database._engine._fatal, OSError(5, "Input/output error"))
    with pytest.raises(shoal.OperationalError, match=r"the database has stopped: .*Input/output error"):
        for _ in range(1000):
            database.execute("SELECT 1")
    database.close()


def test_what_could_not_be_made_durable_can_be_opened_again(tmp_path: Path) -> None:
    with shoal.connect(tmp_path) as connection:
        engine = connection._link._engine
        engine.call(engine._fatal, OSError(5, "Input/output error"))
        with pytest.raises(shoal.OperationalError, match=r"the database has stopped: .*Input/output error"):
            for _ in range(1000):
                connection.execute("SELECT 1")
    with shoal.connect(tmp_path) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
