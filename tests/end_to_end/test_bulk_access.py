"""What programs use that read and write whole tables in parallel: ranges of keys, and stages."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pyarrow as pa
import pytest

from tests.end_to_end.test_copy_arrow import out, stream_of
from tests.server import ShoalServer
from tests.two_nodes import TwoNodes


@pytest.fixture
def connect(shoal: ShoalServer) -> Iterator[Callable[..., psycopg.Connection]]:
    opened: list[psycopg.Connection] = []

    def made(**options: str) -> psycopg.Connection:
        opened.append(psycopg.connect(shoal.dsn, autocommit=True, **options))
        return opened[-1]

    yield made
    for connection in opened:
        connection.close()
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:  # other tests list the roles of this server
        for (name,) in connection.execute(
            "SELECT rolname FROM pg_roles WHERE rolname IN ('stager', 'stranger')"
        ).fetchall():
            connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


@pytest.fixture
def connection(connect: Callable[..., psycopg.Connection]) -> psycopg.Connection:
    return connect()


# ---- ranges of keys --------------------------------------------------------------------------------------------------


def _ranges(connection: psycopg.Connection, table: str, parts: int) -> list[str]:
    return [row[0] for row in connection.execute("SELECT shoal_key_ranges(%s::regclass, %s)", (table, parts))]


def _counts(connection: psycopg.Connection, table: str, ranges: list[str]) -> list[int]:
    found = []
    for condition in ranges:
        (count,) = connection.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone() or (0,)
        found.append(count)
    return found


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize(
    ("definition", "rows"),
    [
        ("id int PRIMARY KEY", "i"),
        ('"an id" bigint PRIMARY KEY', "-i * 10000000::bigint"),
        ("id text PRIMARY KEY", "'it''s ' || i"),
        ("id uuid PRIMARY KEY", "md5(i::text)::uuid"),
        ("a text, b timestamptz, c numeric(10, 2), PRIMARY KEY (a, b, c)", "'g' || i % 5, to_timestamp(i), i / 4.0"),
        ("a date, b float8, PRIMARY KEY (b, a)", "date '2024-01-01' + i % 90, i / 3.0"),
    ],
)
def test_ranges_are_even_and_cover_every_row(
    connection: psycopg.Connection, definition: str, rows: str, flushed: bool
) -> None:
    connection.execute("DROP TABLE IF EXISTS ranged")
    connection.execute(f"CREATE TABLE ranged ({definition})")
    connection.execute(f"INSERT INTO ranged SELECT {rows} FROM generate_series(1, 10000) i")
    connection.execute(f"INSERT INTO ranged SELECT {rows} FROM generate_series(10001, 12000) i")
    if flushed:
        connection.execute("CHECKPOINT")
    found = _ranges(connection, "ranged", 6)
    counts = _counts(connection, "ranged", found)
    assert len(found) == 6 and sum(counts) == 12000
    assert max(counts) < 2 * 2000 and min(counts) > 2000 / 2


def test_ranges_of_a_partitioned_table(connection: psycopg.Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS ranged")
    connection.execute("CREATE TABLE ranged (id int PRIMARY KEY, t text) PARTITION BY RANGE (id)")
    connection.execute("CREATE TABLE ranged_low PARTITION OF ranged FOR VALUES FROM (0) TO (5000)")
    connection.execute("CREATE TABLE ranged_high (t text, id int PRIMARY KEY)")
    connection.execute("ALTER TABLE ranged ATTACH PARTITION ranged_high FOR VALUES FROM (5000) TO (9000)")
    connection.execute("INSERT INTO ranged SELECT i, 'x' FROM generate_series(1, 8000) i")
    counts = _counts(connection, "ranged", _ranges(connection, "ranged", 4))
    assert len(counts) == 4 and sum(counts) == 8000 and min(counts) > 1000


def test_what_has_no_ranges_is_one(connection: psycopg.Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS ranged CASCADE")
    connection.execute("CREATE TABLE ranged (id int PRIMARY KEY)")
    connection.execute("CREATE OR REPLACE VIEW ranged_view AS SELECT * FROM ranged")
    connection.execute("CREATE TABLE IF NOT EXISTS ranged_bag (id int)")
    for name in ("ranged", "ranged_view", "ranged_bag", "pg_class"):
        assert _ranges(connection, name, 4) == ["true"]
    connection.execute("INSERT INTO ranged VALUES (1), (2)")
    assert sum(_counts(connection, "ranged", _ranges(connection, "ranged", 50))) == 2
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        _ranges(connection, "ranged", 0)


def test_ranges_are_for_who_may_read_the_table(
    connection: psycopg.Connection, connect: Callable[..., psycopg.Connection]
) -> None:
    connection.execute("DROP TABLE IF EXISTS ranged CASCADE")
    connection.execute("CREATE TABLE ranged (id int PRIMARY KEY)")
    connection.execute("CREATE ROLE stranger LOGIN")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        _ranges(connect(user="stranger"), "ranged", 2)


# ---- snapshots that the node holds -----------------------------------------------------------------------------------


def test_a_held_snapshot_outlives_the_session_that_asked_for_it(
    connection: psycopg.Connection, connect: Callable[..., psycopg.Connection]
) -> None:
    connection.execute("DROP TABLE IF EXISTS seen")
    connection.execute("CREATE TABLE seen AS SELECT i AS id FROM generate_series(1, 10000) i")
    asking = connect()
    (name,) = asking.execute("SELECT shoal_hold_snapshot(300)").fetchone() or ("",)
    asking.close()
    connection.execute("DELETE FROM seen WHERE id > 5")
    connection.execute("CHECKPOINT")
    for _ in range(2):
        reader = connect()
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        reader.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
        assert reader.execute("SELECT count(*) FROM seen").fetchone() == (10000,)
    assert connection.execute("SELECT shoal_release_snapshot(%s)", (name,)).fetchone() == (True,)
    assert reader.execute("SELECT count(*), max(id) FROM seen").fetchone() == (10000, 10000)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        reader = connect()
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        reader.execute(f"SET TRANSACTION SNAPSHOT '{name}'")


def test_a_held_snapshot_ends_when_nobody_uses_it(connection: psycopg.Connection) -> None:
    (name,) = connection.execute("SELECT shoal_hold_snapshot(1)").fetchone() or ("",)
    deadline = time.monotonic() + 30
    while True:
        connection.execute("SELECT pg_sleep(1.1)")  # an attempt to read with it would renew it
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        try:
            connection.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
        except psycopg.errors.InvalidParameterValue:
            break
        finally:
            connection.execute("ROLLBACK")
        assert time.monotonic() < deadline
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        connection.execute("SELECT shoal_hold_snapshot(0)")


# ---- stages ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def target(connection: psycopg.Connection) -> str:
    connection.execute("DROP TABLE IF EXISTS staged")
    connection.execute("CREATE TABLE staged (id int PRIMARY KEY, t text NOT NULL, n int DEFAULT 7)")
    return "staged (id, t)"


def _token(connection: psycopg.Connection) -> str:
    (token,) = connection.execute("SELECT shoal_stage()").fetchone() or ("",)
    return str(token)


def _put(connection: psycopg.Connection, target: str, token: str, part: str, ids: range) -> int:
    data = stream_of(pa.table({"id": pa.array(ids, pa.int32()), "t": [f"row {number}" for number in ids]}), 5_000)
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {target} FROM STDIN (FORMAT arrow, STAGE '{token}', PART '{part}')") as copy:
            copy.write(data)
        return cursor.rowcount


def _take(connection: psycopg.Connection, target: str, token: str, parts: str) -> int:
    return connection.execute(f"COPY {target} FROM 'stage:{token}/{parts}' (FORMAT arrow)").rowcount


def _count(connection: psycopg.Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM staged").fetchone() or (0,)
    return int(count)


def test_parts_that_count_become_visible_together(
    connection: psycopg.Connection, connect: Callable[..., psycopg.Connection], target: str
) -> None:
    token = _token(connection)
    workers = [connect() for _ in range(3)]
    assert _put(workers[0], target, token, "0.0", range(20_000)) == 20_000
    assert _put(workers[1], target, token, "1.0", range(20_000, 40_000)) == 20_000
    assert _put(workers[2], target, token, "1.1", range(20_000, 40_000)) == 20_000  # the same once more
    assert _put(workers[2], target, token, "2.0", range(40_000, 40_010)) == 10
    assert _count(connection) == 0
    connection.execute("BEGIN")
    assert _take(connection, target, token, "0.0,1.1,2.0") == 40_010
    assert _count(workers[0]) == 0
    connection.execute("COMMIT")
    assert _count(workers[0]) == 40_010
    assert connection.execute("SELECT min(n), max(n) FROM staged").fetchone() == (7, 7)


def test_constraints_are_met_when_it_is_taken(connection: psycopg.Connection, target: str) -> None:
    token = _token(connection)
    _put(connection, target, token, "a", range(10))
    _put(connection, target, token, "b", range(5, 15))
    with pytest.raises(psycopg.errors.UniqueViolation):
        _take(connection, target, token, "a,b")
    assert _count(connection) == 0
    assert _take(connection, target, token, "b") == 10


def test_a_part_that_fails_is_no_part(connection: psycopg.Connection, target: str) -> None:
    token = _token(connection)
    wrong = stream_of(pa.table({"id": ["1"], "t": ["x"]}))
    with (
        pytest.raises(psycopg.errors.DatatypeMismatch),
        connection.cursor().copy(f"COPY {target} FROM STDIN (FORMAT arrow, STAGE '{token}', PART 'a')") as copy,
    ):
        copy.write(wrong)
    with (
        pytest.raises(KeyError),
        connection.cursor().copy(f"COPY {target} FROM STDIN (FORMAT arrow, STAGE '{token}', PART 'b')") as copy,
    ):
        raise KeyError("the task has failed")
    for part in ("a", "b"):
        with pytest.raises(psycopg.errors.UndefinedObject):
            _take(connection, target, token, part)
    assert _put(connection, target, token, "a", range(3)) == 3
    with pytest.raises(psycopg.errors.DuplicateObject):
        _put(connection, target, token, "a", range(3))


def test_a_stage_ends_when_it_is_dropped_or_not_used(
    shoal: ShoalServer, connection: psycopg.Connection, target: str
) -> None:
    open_before = _files(shoal)
    token = _token(connection)
    _put(connection, target, token, "0", range(1000))
    assert _files(shoal) == open_before + 1
    assert connection.execute("SELECT shoal_drop_stage(%s)", (token,)).fetchone() == (True,)
    assert connection.execute("SELECT shoal_drop_stage(%s)", (token,)).fetchone() == (False,)
    assert _files(shoal) == open_before
    (short,) = connection.execute("SELECT shoal_stage(1)").fetchone() or ("",)
    _put(connection, target, short, "0", range(1000))
    deadline = time.monotonic() + 30
    while _files(shoal) > open_before:
        assert time.monotonic() < deadline
        connection.execute("SELECT pg_sleep(0.05)")
    with pytest.raises(psycopg.errors.UndefinedObject):
        _put(connection, target, short, "1", range(10))


def test_a_stage_that_is_dropped_while_it_is_taken(
    connection: psycopg.Connection, connect: Callable[..., psycopg.Connection], target: str
) -> None:
    token = _token(connection)
    _put(connection, target, token, "0", range(30_000))
    blocker = connect()
    blocker.execute("BEGIN")
    blocker.execute("LOCK TABLE staged IN SHARE ROW EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(_take, connection, target, token, "0")
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while blocker.execute(waiting).fetchone() == (0,) and not taken.done():
            pass
        connect().execute("SELECT shoal_drop_stage(%s)", (token,))
        blocker.execute("COMMIT")
        with contextlib.suppress(psycopg.errors.UndefinedObject):
            assert taken.result() == 30_000
    assert _count(connection) in (0, 30_000)


def _files(shoal: ShoalServer) -> int:
    """How many files that never had a name the server holds open in its directory."""
    place = f"/proc/{shoal.pid}/fd"
    names = []
    for number in os.listdir(place):
        try:
            names.append(os.readlink(f"{place}/{number}"))
        except FileNotFoundError:
            continue
    return sum(name.startswith(f"{shoal.data}/#") and name.endswith("(deleted)") for name in names)


def test_who_may_use_a_stage(
    connection: psycopg.Connection, connect: Callable[..., psycopg.Connection], target: str
) -> None:
    connection.execute("CREATE ROLE stager LOGIN")
    token = _token(connection)
    _put(connection, target, token, "0", range(3))
    other = connect(user="stager")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        _put(other, target, _token(other), "0", range(3))
    connection.execute("GRANT INSERT ON staged TO stager")
    with pytest.raises(psycopg.errors.UndefinedObject):
        _put(other, target, token, "1", range(3))
    assert _put(other, target, _token(other), "0", range(3)) == 3


def test_what_a_stage_is_not_for(connection: psycopg.Connection, target: str) -> None:
    token = _token(connection)
    for statement, state in (
        (f"COPY {target} FROM STDIN (STAGE '{token}', PART '0')", "0A000"),
        (f"COPY {target} FROM STDIN (FORMAT arrow, STAGE '{token}')", "42601"),
        (f"COPY {target} FROM 'stage:{token}/0'", "0A000"),
        (f"COPY {target} FROM 'stage:nonsense/0' (FORMAT arrow)", "42704"),
        ("COPY staged TO 'stage:x/0' (FORMAT arrow)", "0A000"),
        (f"COPY {target} FROM '/etc/passwd' (FORMAT arrow)", "0A000"),
    ):
        with pytest.raises(psycopg.Error) as error:
            connection.execute(statement)
        assert error.value.sqlstate == state, statement


# ---- through a node that follows -------------------------------------------------------------------------------------


def test_all_of_it_through_a_follower() -> None:
    """Stages and snapshots are where the tables are led, whichever node a client speaks to."""
    with TwoNodes() as nodes, psycopg.connect(nodes.follower.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE staged (id int PRIMARY KEY, t text)")
        target = "staged (id, t)"
        token = _token(connection)
        with psycopg.connect(nodes.leader.dsn, autocommit=True) as worker:
            assert _put(worker, target, token, "0", range(10_000)) == 10_000
        with psycopg.connect(nodes.follower.dsn, autocommit=True) as worker:
            assert _put(worker, target, token, "1", range(10_000, 12_000)) == 2_000
        with connection.transaction():
            assert _take(connection, target, token, "0,1") == 12_000
        assert connection.execute("SELECT shoal_drop_stage(%s)", (token,)).fetchone() == (True,)
        assert sum(_counts(connection, "staged", _ranges(connection, "staged", 3))) == 12_000
        (name,) = connection.execute("SELECT shoal_hold_snapshot(60)").fetchone() or ("",)
        connection.execute("DELETE FROM staged WHERE id > 100")
        for node in (nodes.follower, nodes.leader):
            with psycopg.connect(node.dsn, autocommit=True) as reader:
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                reader.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
                assert out(reader, "(SELECT * FROM staged WHERE id >= 50)").num_rows == 11_950
                reader.execute("COMMIT")
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        (exported,) = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        with psycopg.connect(nodes.leader.dsn, autocommit=True) as reader:
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            reader.execute(f"SET TRANSACTION SNAPSHOT '{exported}'")
            assert reader.execute("SELECT count(*) FROM staged").fetchone() == (101,)
