"""Change streams through SQL: what is in them, from when on, with which schema, for whom, and for how long."""

from __future__ import annotations

import contextlib
import io
import random
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.engine.changes.replay import Replay
from tests.oracle import PostgresServer
from tests.server import ShoalServer

Connection = psycopg.Connection[Any]
SEED = random.SystemRandom().randrange(1 << 32)


@contextlib.contextmanager
def connected(shoal: ShoalServer, **more: Any) -> Iterator[Connection]:
    with psycopg.connect(shoal.dsn, autocommit=True, **more) as connection:
        yield connection


@pytest.fixture
def db(shoal: ShoalServer) -> Iterator[Connection]:
    """A connection with a schema `cs` in front, all of which is gone afterwards, with every stream."""
    with connected(shoal) as connection:
        connection.execute("CREATE SCHEMA cs")
        connection.execute("SET search_path = cs")
        yield connection
        connection.rollback()
        connection.execute("RESET ROLE")
        for (name,) in connection.execute("SELECT name FROM shoal_change_streams").fetchall():
            connection.execute(f'DROP CHANGE STREAM "{name}"'.encode())
        connection.execute("DROP SCHEMA cs CASCADE")


def run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement.encode())


def changes(connection: Connection, stream: str = "s", after: int | None = None) -> list[tuple[Any, ...]]:
    """(op, table, key, before, after) of all changes."""
    rows = connection.execute(
        'SELECT op, "table", key, before, after FROM shoal_changes(%s, %s, 1000000)', (stream, after)
    )
    return rows.fetchall()


def refused(connection: Connection, statement: str) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    connection.rollback()
    return caught.value.diag.sqlstate, caught.value.diag.message_primary


# ---- what is in a stream --------------------------------------------------------------------------------------------


def test_every_commit_is_there_with_rows_before_and_after(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE CHANGE STREAM s FOR TABLE t",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2",
        "UPDATE t SET id = 3",
    )  # fmt: skip
    one, two = {"id": 1, "v": "a"}, {"id": 2, "v": "b"}
    assert changes(db) == [
        ("c", "cs.t", {"id": 1}, None, one),
        ("c", "cs.t", {"id": 2}, None, two),
        ("u", "cs.t", {"id": 1}, one, {"id": 1, "v": "c"}),
        ("d", "cs.t", {"id": 2}, two, None),
        ("d", "cs.t", {"id": 1}, {"id": 1, "v": "c"}, None),
        ("c", "cs.t", {"id": 3}, None, {"id": 3, "v": "c"}),
    ]


def test_a_transaction_counts_as_a_whole_and_by_its_net_effect(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE CHANGE STREAM s FOR TABLE t",
        "BEGIN", "INSERT INTO t VALUES (1, 0), (2, 0)", "UPDATE t SET v = v + 1", "DELETE FROM t WHERE id = 2",
        "SAVEPOINT a", "INSERT INTO t VALUES (3, 3)", "UPDATE t SET v = 9", "ROLLBACK TO a", "COMMIT",
        "BEGIN", "INSERT INTO t VALUES (4, 4)", "ROLLBACK",
    )  # fmt: skip
    assert changes(db) == [("c", "cs.t", {"id": 1}, None, {"id": 1, "v": 1})]


def test_the_columns_say_when_and_by_which_commit(db: Connection) -> None:
    run(db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t")
    run(db, "BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "COMMIT", "INSERT INTO t VALUES (3)")
    rows = db.execute(
        "SELECT lsn, tx, ordinal, now() - commit_time < '1 minute', schema_version FROM shoal_changes('s')"
    ).fetchall()
    first, second = rows[0][0], rows[2][0]
    assert second > first
    version = rows[0][4]
    assert rows == [
        (first, first, 1, True, version),
        (first, first, 2, True, version),
        (second, second, 1, True, version),
    ]


def test_a_reader_that_continues_after_an_lsn_gets_each_change_once(db: Connection) -> None:
    run(db, "CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE CHANGE STREAM s FOR TABLE t")
    for number in range(30):
        run(db, f"INSERT INTO t SELECT g, {number} FROM generate_series({number * 10}, {number * 10 + number % 7}) g")
    whole = db.execute("SELECT lsn, ordinal FROM shoal_changes('s', 0)").fetchall()
    for limit in (1, 4, 50):
        got: list[Any] = []
        while rows := db.execute(
            "SELECT lsn, ordinal FROM shoal_changes('s', after => %s, limit => %s)", (got[-1][0] if got else 0, limit)
        ).fetchall():
            got += rows
        assert got == whole


def test_a_large_transaction_can_be_read_in_pieces(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE TABLE u (id int PRIMARY KEY)",
        "CREATE CHANGE STREAM s FOR TABLE t", "CREATE CHANGE STREAM other FOR TABLE u", "INSERT INTO t VALUES (-1, 0)",
        "BEGIN", "INSERT INTO t VALUES (0, 0)", "INSERT INTO u VALUES (0)",
        "INSERT INTO t SELECT g, 0 FROM generate_series(1, 6000) g", "DELETE FROM t WHERE id > 500", "COMMIT",
        "UPDATE t SET v = 1 WHERE id = -1",
    )  # fmt: skip
    whole = db.execute("SELECT lsn, ordinal, op, key, before, after FROM shoal_changes('s', 0, 100000)").fetchall()
    for limit in (1000, 1777, 5):
        got: list[Any] = []
        lsn, ordinal = 0, 0
        while rows := db.execute(
            "SELECT lsn, ordinal, op, key, before, after "
            "FROM shoal_changes('s', after => %s, limit => %s, ordinal => %s)",
            (lsn, limit, ordinal),
        ).fetchall():
            assert len(rows) <= limit
            got += rows
            lsn, ordinal = rows[-1][:2]
            if limit == 5 and len(got) > 60:
                break
        assert got == whole[: len(got)] and (limit == 5 or len(got) == len(whole))
    assert refused(db, "SELECT * FROM shoal_changes('s', ordinal => 1)")[0] == "22023"


def test_reach_says_how_far_a_read_would_come(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)",
        "CREATE CHANGE STREAM s FOR TABLE t", "CREATE CHANGE STREAM other FOR TABLE u",
        "INSERT INTO t VALUES (1), (2)", "INSERT INTO u VALUES (1)", "INSERT INTO t VALUES (3)",
        "INSERT INTO t SELECT g FROM generate_series(10, 6000) g", "INSERT INTO u VALUES (2)",
    )  # fmt: skip
    for after in (0, *(row[0] for row in db.execute("SELECT DISTINCT lsn FROM shoal_changes('s', 0, 9000)"))):
        for limit in (1, 2, 3, 4, 7000):
            read = "SELECT coalesce(max(lsn), %s) FROM shoal_changes('s', %s, %s)"
            expected = db.execute(read, (after, after, limit)).fetchone()
            reached = db.execute("SELECT shoal_change_stream_reach('s', after => %s, limit => %s)", (after, limit))
            assert reached.fetchone() == expected, (after, limit)
    newest = db.execute("SELECT newest_lsn FROM shoal_change_streams WHERE name = 's'").fetchone()
    assert db.execute("SELECT shoal_change_stream_reach('s')").fetchone() == newest


def test_tables_without_a_primary_key_have_no_key(db: Connection) -> None:
    run(db, "CREATE TABLE t (v int)", "CREATE CHANGE STREAM s FOR TABLE t", "INSERT INTO t VALUES (1)", "DELETE FROM t")
    assert changes(db) == [("c", "cs.t", None, None, {"v": 1}), ("d", "cs.t", None, {"v": 1}, None)]


def test_truncate_is_one_change_and_what_follows_in_the_transaction_comes_after_it(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t", "INSERT INTO t VALUES (1)",
        "BEGIN", "INSERT INTO t VALUES (2)", "TRUNCATE t", "INSERT INTO t VALUES (3)", "COMMIT",
        "INSERT INTO t VALUES (4)",
    )  # fmt: skip
    assert [(op, key) for op, _, key, _, _ in changes(db)] == [
        ("c", {"id": 1}), ("t", None), ("c", {"id": 3}), ("c", {"id": 4}),
    ]  # fmt: skip


def test_cascades_upserts_and_merge_are_there(db: Connection) -> None:
    run(
        db, "CREATE TABLE p (id int PRIMARY KEY, v int)",
        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE)",
        "CREATE CHANGE STREAM s FOR TABLE p, c", "INSERT INTO p VALUES (1, 1)", "INSERT INTO c VALUES (10, 1)",
        "INSERT INTO p VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
        "MERGE INTO p USING (VALUES (1), (2)) n (id) ON p.id = n.id WHEN MATCHED THEN UPDATE SET v = 3 "
        "WHEN NOT MATCHED THEN INSERT VALUES (n.id, 0)",
        "DELETE FROM p WHERE id = 1",
    )  # fmt: skip
    replay = Replay("s")
    replay.read_all(db)
    assert replay.tables == {"cs.p": {"{'id': 2}": {"id": 2, "v": 0}}, "cs.c": {}}
    assert [op for op, table, *_ in changes(db) if table == "cs.c"] == ["c", "d"]


VALUES = {
    "a int2": "-5", "b int4": "7", "c int8": "9007199254740992", "d float8": "1e25", "e float8": "'NaN'",
    "f text": "E'q\"\\\\ \\t \\u00e9'", "g bytea": "'\\x00ff'", "h timestamptz": "'2024-02-29 12:00:00.5+00'",
    "i timestamp": "'infinity'", "j date": "'2024-02-29'", "k interval": "'1 day 2 hours'",
    "l jsonb": "'{\"b\":[1,2]}'",
    "m json": "'{\"x\" :  [1, 2]}'", "n int[]": "'{{1,2},{3,NULL}}'", "o text[]": "'{a,\"b c\"}'", "p bool": "true",
    "q uuid": "'c0ffee00-0000-4000-8000-000000000000'", "r inet": "'10.0.0.1/8'", "s varchar(5)": "NULL",
    "y char(4)": "'ab'", "u int4range": "'[1,5)'", "v float4": "0.1", "w bit(3)": "'101'", "x int[]": "'{}'",
}  # fmt: skip


def test_values_are_what_to_jsonb_makes_of_them(db: Connection, postgres: psycopg.Connection[Any]) -> None:
    columns, values = ", ".join(VALUES), ", ".join(VALUES.values())
    run(
        db, f"CREATE TABLE t (id int PRIMARY KEY, {columns})", "CREATE CHANGE STREAM s FOR TABLE t",
        f"INSERT INTO t VALUES (1, {values})",
    )  # fmt: skip
    postgres.execute("SET timezone = 'UTC'")
    postgres.execute(f"CREATE TEMP TABLE t (id int PRIMARY KEY, {columns})".encode())
    postgres.execute(f"INSERT INTO t VALUES (1, {values})".encode())
    expected = postgres.execute("SELECT to_jsonb(t)::text FROM t").fetchone()
    postgres.execute("DROP TABLE t")
    assert db.execute("SELECT after::text FROM shoal_changes('s')").fetchone() == expected


def test_numbers_that_readers_of_json_may_round_are_strings(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (a numeric, b numeric(9,2), c bigint, d bigint, e numeric[])",
        "CREATE CHANGE STREAM s FOR TABLE t",
        "INSERT INTO t VALUES (0.10, 5, 9007199254740993, -3, '{1.50,NULL}')",
    )  # fmt: skip
    ((_, _, _, _, after),) = changes(db)
    assert after == {"a": "0.10", "b": "5.00", "c": "9007199254740993", "d": -3, "e": ["1.50", None]}


# ---- much at once ---------------------------------------------------------------------------------------------------


def test_bulk_loads_and_large_dml_are_there_row_by_row(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY, v int, w text)", "CREATE INDEX ON t (v)",
        "CREATE CHANGE STREAM s FOR TABLE t",
    )  # fmt: skip
    replay = Replay("s")
    with db.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
        copy.write("".join(f"{number}\t{number % 10}\tw{number}\n" for number in range(20000)))
    run(
        db, "UPDATE t SET v = v + 1 WHERE id >= 5000", "DELETE FROM t WHERE id < 9000",
        "INSERT INTO t SELECT g, 0, NULL FROM generate_series(30000, 42000) g", "UPDATE t SET id = id + 100000",
    )  # fmt: skip
    replay.read_all(db)
    replay.compare(db, "cs.t", "id")
    assert replay.count > 20000 + 15000 + 9000 + 12001


def test_bulk_and_single_changes_of_one_transaction_fit_together(db: Connection) -> None:
    run(db, "CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE CHANGE STREAM s FOR TABLE t")
    run(
        db, "BEGIN", "INSERT INTO t VALUES (1, 1), (2, 2)",
        "INSERT INTO t SELECT g, 0 FROM generate_series(10, 9000) g",
        "UPDATE t SET v = 5 WHERE id IN (1, 11)", "DELETE FROM t WHERE id = 12", "UPDATE t SET v = v + 1",
        "SAVEPOINT a", "DELETE FROM t", "ROLLBACK TO a", "DELETE FROM t WHERE id BETWEEN 1000 AND 8000", "COMMIT",
        "BEGIN", "INSERT INTO t SELECT g, 0 FROM generate_series(10000, 19000) g", "ROLLBACK",
    )  # fmt: skip
    replay = Replay("s")
    replay.read_all(db)
    replay.compare(db, "cs.t", "id")


def test_a_stream_that_is_made_after_a_bulk_statement_and_before_its_commit_has_all_of_it(
    db: Connection, shoal: ShoalServer
) -> None:
    run(db, "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (0, 0)")
    with connected(shoal) as other:
        run(
            other, "BEGIN", "INSERT INTO cs.t SELECT g, 1 FROM generate_series(1, 6000) g",
            "UPDATE cs.t SET v = 2 WHERE id = 0",
        )  # fmt: skip
        run(db, "CREATE CHANGE STREAM s FOR TABLE t")
        run(other, "COMMIT")
    found = changes(db)
    assert len(found) == 6001
    assert found[-1] == ("u", "cs.t", {"id": 0}, {"id": 0, "v": 0}, {"id": 0, "v": 2})


def test_a_long_random_history_replays_to_the_table(db: Connection) -> None:
    print(f"seed {SEED}")
    chosen = random.Random(SEED)
    run(db, "CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE CHANGE STREAM s FOR TABLE t")
    replay = Replay("s")
    for _ in range(60):
        low = chosen.randrange(500)
        high = low + chosen.choice((1, 3, 40))
        made = (
            f"INSERT INTO t SELECT g, 0 FROM generate_series({low}, {high}) g ON CONFLICT DO NOTHING",
            f"UPDATE t SET v = v + 1 WHERE id BETWEEN {low} AND {high}",
            f"DELETE FROM t WHERE id BETWEEN {low} AND {high}",
            f"UPDATE t SET id = id + 1000 WHERE id BETWEEN {low} AND {high} AND id + 1000 NOT IN (SELECT id FROM t)",
            "TRUNCATE t",
        )
        statements = chosen.choices(made, (5, 5, 2, 1, 0.2), k=chosen.randrange(1, 5))
        end = chosen.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        run(db, "BEGIN", *statements, end)
        if chosen.random() < 0.2:
            replay.read(db, chosen.randrange(1, 100))
    replay.read_all(db, 7)
    replay.compare(db, "cs.t", "id")


# ---- from when on ---------------------------------------------------------------------------------------------------


def test_a_stream_begins_with_its_own_commit_beside_other_writers(db: Connection, shoal: ShoalServer) -> None:
    run(db, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with connected(shoal) as other:
        run(other, "BEGIN", "INSERT INTO cs.t VALUES (2)")
        run(db, "CREATE CHANGE STREAM s FOR TABLE t")
        run(other, "COMMIT")
    assert [key for _, _, key, _, _ in changes(db, after=0)] == [{"id": 2}]


def test_tables_are_in_a_stream_from_when_they_are_added_until_they_are_taken_out(db: Connection) -> None:
    run(
        db, "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)",
        "CREATE CHANGE STREAM s FOR TABLE a", "CREATE CHANGE STREAM other FOR TABLE b",
        "INSERT INTO b VALUES (1)", "ALTER CHANGE STREAM s ADD TABLE b", "INSERT INTO b VALUES (2)",
        "INSERT INTO a VALUES (1)", "ALTER CHANGE STREAM s DROP TABLE a", "INSERT INTO a VALUES (2)",
    )  # fmt: skip
    assert [(table, key["id"]) for _, table, key, _, _ in changes(db)] == [("cs.b", 2), ("cs.a", 1)]
    assert [key["id"] for _, _, key, _, _ in changes(db, "other")] == [1, 2]


def test_for_all_tables_means_new_ones_too_but_not_temporary_ones(db: Connection) -> None:
    run(
        db, "CREATE CHANGE STREAM s FOR ALL TABLES", "CREATE TABLE n (id int PRIMARY KEY)", "INSERT INTO n VALUES (1)",
        "CREATE TABLE made AS SELECT 5 AS five", "CREATE TEMP TABLE mine (a int)", "INSERT INTO mine VALUES (1)",
        "DROP TABLE mine", "BEGIN", "CREATE TABLE two (x int)", "INSERT INTO two VALUES (2)", "COMMIT",
    )  # fmt: skip
    assert [(op, table, after) for op, table, _, _, after in changes(db)] == [
        ("c", "cs.n", {"id": 1}), ("c", "cs.made", {"five": 5}), ("c", "cs.two", {"x": 2}),
    ]  # fmt: skip


def test_partitions_show_under_their_own_names(db: Connection) -> None:
    run(
        db, "CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)", "CREATE CHANGE STREAM s FOR TABLE p",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)", "INSERT INTO p VALUES (1, 1), (11, 1)",
        "UPDATE p SET id = 12 WHERE id = 1", "TRUNCATE p",
    )  # fmt: skip
    assert [(op, table) for op, table, *_ in changes(db)] == [
        ("c", "cs.p1"), ("c", "cs.p2"), ("d", "cs.p1"), ("c", "cs.p2"), ("t", "cs.p1"), ("t", "cs.p2"),
    ]  # fmt: skip


# ---- schema changes -------------------------------------------------------------------------------------------------


def test_rows_are_read_with_the_schema_that_they_had(db: Connection) -> None:
    run(
        db, "CREATE TYPE mood AS ENUM ('sad', 'glad')", "CREATE TABLE t (id int PRIMARY KEY, old mood)",
        "CREATE CHANGE STREAM s FOR TABLE t", "INSERT INTO t VALUES (1, 'glad')",
        "ALTER TABLE t ADD COLUMN more int DEFAULT 7", "INSERT INTO t VALUES (2, 'sad', 8)",
        "ALTER TABLE t DROP COLUMN old", "ALTER TABLE t RENAME COLUMN more TO less",
        "UPDATE t SET less = 0 WHERE id = 1",
        "ALTER TABLE t RENAME TO u", "ALTER TABLE u ALTER COLUMN less TYPE text",
        "UPDATE u SET less = 'x' WHERE id = 2",
        "DROP TABLE u", "DROP TYPE mood",
    )  # fmt: skip
    assert changes(db) == [
        ("c", "cs.t", {"id": 1}, None, {"id": 1, "old": "glad"}),
        ("c", "cs.t", {"id": 2}, None, {"id": 2, "old": "sad", "more": 8}),
        ("u", "cs.t", {"id": 1}, {"id": 1, "less": 7}, {"id": 1, "less": 0}),
        ("u", "cs.u", {"id": 2}, {"id": 2, "less": "8"}, {"id": 2, "less": "x"}),
    ]


def test_a_rewritten_table_is_no_change_of_its_rows(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT g, g FROM generate_series(1, 100) g",
        "CREATE CHANGE STREAM s FOR TABLE t", "ALTER TABLE t ALTER COLUMN v TYPE text",
        "INSERT INTO t VALUES (1000, 'n')",
    )  # fmt: skip
    assert [key["id"] for _, _, key, _, _ in changes(db)] == [1000]
    for first, second in (
        ("ALTER TABLE t ALTER COLUMN v TYPE varchar(9)", "DELETE FROM t WHERE id = 1"),
        ("DELETE FROM t WHERE id = 1", "ALTER TABLE t ALTER COLUMN v TYPE varchar(8)"),
    ):
        run(db, "BEGIN", first, second)
        sqlstate, message = refused(db, "COMMIT")
        assert (
            sqlstate == "0A000" and message is not None and 'rows of table "t", which is in a change stream' in message
        )
    assert len(changes(db)) == 1


# ---- how long -------------------------------------------------------------------------------------------------------


def test_a_position_is_kept_and_earlier_changes_are_removed(db: Connection) -> None:
    run(db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t")
    run(db, *(f"INSERT INTO t VALUES ({number})" for number in range(20)))
    lsns = [row[0] for row in db.execute("SELECT lsn FROM shoal_changes('s')").fetchall()]
    assert db.execute("SELECT shoal_change_stream_advance('s', %s)", (lsns[9],)).fetchone() == (lsns[9],)
    assert [key["id"] for _, _, key, _, _ in changes(db)] == list(range(10, 20))
    shown = "SELECT position, newest_lsn, state, tables FROM shoal_change_streams WHERE name = 's'"
    assert db.execute(shown).fetchone() == (lsns[9], lsns[19], "ready", "cs.t")
    assert refused(db, f"SELECT shoal_change_stream_advance('s', {lsns[3]})")[0] == "55000"
    assert refused(db, "SELECT shoal_change_stream_advance('s', 1000000000000)")[0] == "22023"
    run(db, "BEGIN", f"SELECT shoal_change_stream_advance('s', {lsns[15]})", "ROLLBACK")
    assert len(changes(db)) == 10
    deadline = threading.Event()
    for _ in range(100):
        if db.execute("SELECT count(*) FROM pg_toast.pg_changes_1663 WHERE lsn > 0").fetchone() == (10,):
            break
        deadline.wait(0.02)
    sqlstate, message = refused(db, "SELECT * FROM shoal_changes('s', 1)")
    assert (sqlstate, message) == (
        "55000",
        f'change stream "s" no longer has the changes after LSN {lsns[0] - 2}: it begins after LSN {lsns[9]}',
    )


def test_a_stream_that_falls_behind_its_limit_is_retired(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE CHANGE STREAM s FOR TABLE t WITH (retain = '100kB')",
        "INSERT INTO t VALUES (0, 'first')",
    )  # fmt: skip
    wait = threading.Event()
    for number in range(1, 200):
        run(db, f"INSERT INTO t VALUES ({number}, repeat('x', 20000))")
        if db.execute("SELECT state FROM shoal_change_streams").fetchone() == ("retired",):
            break
        wait.wait(0.01)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
        changes(db)
    hint = caught.value.diag.message_hint
    assert hint is not None and "Copy the tables again" in hint
    oldest = int(hint.split("after => ")[1].rstrip("."))
    left = changes(db, after=oldest)
    assert left and left[-1][2] == {"id": number}
    held = db.execute("SELECT sum(length(body)) FROM pg_toast.pg_changes_1663 WHERE lsn > 0").fetchone()
    assert held is not None and held[0] < 3_000_000


def test_what_many_bulk_changes_hold_is_let_go_too(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t",
        "INSERT INTO t SELECT g FROM generate_series(1, 9000) g",
    )  # fmt: skip
    db.execute("SELECT shoal_change_stream_advance('s', (SELECT max(lsn) FROM shoal_changes('s')))")
    wait = threading.Event()
    for _ in range(200):
        left = db.execute("SELECT count(*) FROM pg_toast.pg_changes_1663 WHERE lsn > 0").fetchone()
        if left == (0,):
            break
        wait.wait(0.02)
    assert left == (0,)


def test_dropping_the_last_stream_leaves_nothing_behind(db: Connection) -> None:
    run(db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t", "INSERT INTO t VALUES (1)")
    run(db, "DROP CHANGE STREAM s", "INSERT INTO t VALUES (2)", "DROP CHANGE STREAM IF EXISTS s")
    assert db.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'pg\\_changes%'").fetchone() == (0,)
    run(db, "CREATE CHANGE STREAM s FOR TABLE t", "INSERT INTO t VALUES (3)")
    assert [key for _, _, key, _, _ in changes(db)] == [{"id": 3}]


def test_a_copy_and_the_stream_after_it_are_the_whole(db: Connection, shoal: ShoalServer) -> None:
    run(db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t", "INSERT INTO t VALUES (1)")
    with connected(shoal) as other:
        run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ")
        found = other.execute("SELECT shoal_change_stream_snapshot('s')").fetchone()
        assert found is not None
        run(db, "INSERT INTO t VALUES (2)")
        assert other.execute("SELECT * FROM cs.t").fetchall() == [(1,)]
        run(other, "COMMIT")
    assert [key["id"] for _, _, key, _, _ in changes(db, after=found[0])] == [2]


# ---- who, and other statements --------------------------------------------------------------------------------------


def test_privileges(db: Connection) -> None:
    run(
        db, "CREATE ROLE reader", "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)",
        "CREATE CHANGE STREAM s FOR TABLE t", "GRANT USAGE ON SCHEMA cs TO reader", "INSERT INTO t VALUES (1)",
    )  # fmt: skip
    try:
        run(db, "SET ROLE reader")
        assert refused(db, "SELECT * FROM shoal_changes('s')") == ("42501", "permission denied for change stream s")
        assert refused(db, "DROP CHANGE STREAM s") == ("42501", "must be owner of change stream s")
        assert refused(db, "SELECT shoal_change_stream_advance('s', 1)")[0] == "42501"
        assert refused(db, "CREATE CHANGE STREAM x FOR ALL TABLES")[0] == "42501"
        assert refused(db, "SELECT * FROM pg_toast.pg_changes_1663")[0] == "42501"
        run(db, "RESET ROLE", "ALTER CHANGE STREAM s OWNER TO reader", "SET ROLE reader")
        assert refused(db, "SELECT * FROM shoal_changes('s')") == ("42501", "permission denied for table t")
        run(db, "RESET ROLE", "GRANT SELECT ON t TO reader", "SET ROLE reader")
        assert len(changes(db)) == 1
        assert refused(db, "ALTER CHANGE STREAM s ADD TABLE u") == ("42501", "permission denied for table u")
        assert refused(db, "CREATE CHANGE STREAM y FOR TABLE t")[0] == "42501"
        run(db, "RESET ROLE", "GRANT CREATE ON DATABASE postgres TO reader", "SET ROLE reader")
        run(db, "CREATE CHANGE STREAM y FOR TABLE t", "DROP CHANGE STREAM y")
    finally:
        run(db, "RESET ROLE", "DROP CHANGE STREAM IF EXISTS s", "DROP OWNED BY reader", "DROP ROLE reader")


def test_streams_are_owned_as_other_objects_are(db: Connection) -> None:
    run(db, "CREATE ROLE one", "CREATE ROLE two", "CREATE TABLE t (id int PRIMARY KEY)")
    owner = "SELECT owner FROM shoal_change_streams"
    try:
        run(db, "CREATE CHANGE STREAM s FOR TABLE t", "ALTER CHANGE STREAM s OWNER TO one")
        assert refused(db, "DROP ROLE one")[0] == "2BP01"
        run(db, "REASSIGN OWNED BY one TO two")
        assert db.execute(owner.encode()).fetchall() == [("two",)]
        run(db, "DROP OWNED BY two")
        assert db.execute(owner.encode()).fetchall() == []
        assert db.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'pg\\_changes%'").fetchone() == (0,)
    finally:
        run(db, "DROP ROLE one", "DROP ROLE two")


def test_a_database_takes_its_streams_with_it(db: Connection, shoal: ShoalServer) -> None:
    run(db, "CREATE DATABASE other", "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t")
    with psycopg.connect(shoal.dsn.replace("dbname=postgres", "dbname=other"), autocommit=True) as other:
        run(
            other, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR ALL TABLES",
            "INSERT INTO t VALUES (7)",
        )  # fmt: skip
        assert [key for _, _, key, _, _ in changes(other)] == [{"id": 7}]
    run(db, "INSERT INTO t VALUES (8)")
    assert [key for _, _, key, _, _ in changes(db)] == [{"id": 8}]
    run(db, "DROP DATABASE other", "INSERT INTO t VALUES (9)")
    assert [key for _, _, key, _, _ in changes(db)] == [{"id": 8}, {"id": 9}]


def test_what_is_wrong_is_said_in_one_line(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE VIEW v AS SELECT 1", "CREATE TEMP TABLE tt (a int)",
        "CREATE CHANGE STREAM s FOR TABLE t",
    )  # fmt: skip
    assert refused(db, "CREATE CHANGE STREAM s FOR TABLE t") == ("42710", 'change stream "s" already exists')
    assert refused(db, "CREATE CHANGE STREAM a FOR TABLE v")[0] == "42809"
    assert refused(db, "CREATE CHANGE STREAM a FOR TABLE tt")[0] == "42809"
    assert refused(db, "CREATE CHANGE STREAM a FOR TABLE nothere")[0] == "42P01"
    assert refused(db, "CREATE CHANGE STREAM a FOR TABLE t WITH (x = 1)") == ("22023", 'unrecognized parameter "x"')
    assert refused(db, "CREATE CHANGE STREAM a FOR TABLE t WITH (retain = 'much')")[0] == "22023"
    assert refused(db, "SELECT * FROM shoal_changes('a')") == ("42704", 'change stream "a" does not exist')
    assert refused(db, "SELECT * FROM shoal_changes('s', limit => 0)")[0] == "22023"
    assert refused(db, "ALTER CHANGE STREAM s DROP TABLE t")[0] == "55000"
    assert refused(db, "CREATE CHANGE s FOR TABLE t")[0] == "42601"
    run(db, "CREATE CHANGE STREAM IF NOT EXISTS s FOR TABLE t", "DROP TABLE tt")


def test_prepared_transactions_count_when_they_are_committed(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 0)",
        "CREATE CHANGE STREAM s FOR TABLE t", "BEGIN", "UPDATE t SET v = 1", "INSERT INTO t VALUES (2, 2)",
        "INSERT INTO t SELECT g, 0 FROM generate_series(100, 6000) g", "PREPARE TRANSACTION 'one'",
    )  # fmt: skip
    assert changes(db) == []
    run(db, "COMMIT PREPARED 'one'")
    replay = Replay("s")
    replay.tables["cs.t"] = {"{'id': 1}": {"id": 1, "v": 0}}
    replay.read_all(db)
    replay.compare(db, "cs.t", "id")
    assert replay.count == 2 + 5901


def test_who_listens_is_woken(db: Connection, shoal: ShoalServer) -> None:
    run(db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t")
    with connected(shoal) as other:
        run(other, 'LISTEN "shoal.s"')
        run(db, "INSERT INTO t VALUES (1)")
        told = next(other.notifies(timeout=10, stop_after=1))
        lsn = db.execute("SELECT max(lsn) FROM shoal_changes('s')").fetchone()
        assert (told.channel, told.payload) == ("shoal.s", str(lsn[0] if lsn else None))


def test_reading_goes_wherever_queries_go(db: Connection) -> None:
    run(
        db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t",
        "INSERT INTO t SELECT g FROM generate_series(1, 12000) g", "INSERT INTO t VALUES (0)",
        "CREATE TABLE kept AS SELECT * FROM shoal_changes('s')",
    )  # fmt: skip
    assert db.execute("SELECT count(*), count(DISTINCT key) FROM kept").fetchone() == (12000, 12000)
    notices: list[str | None] = []
    db.add_notice_handler(lambda diag: notices.append(diag.message_primary))
    assert db.execute("SELECT op, count(*) FROM shoal_changes('s') GROUP BY op").fetchall() == [("c", 12000)]
    ((last,),) = db.execute("SELECT max(lsn) FROM shoal_changes('s', limit => 1)").fetchall()
    assert notices == [f"more changes follow: continue with after => {last}"]
    text = io.StringIO()
    with db.cursor() as cursor, cursor.copy("COPY (SELECT key FROM shoal_changes('s', limit => 5)) TO STDOUT") as copy:
        for data in copy:
            text.write(bytes(data).decode())
    assert text.getvalue().count("\n") == 12000


def test_dumps_are_as_they_were(db: Connection, shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    run(db, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t", "INSERT INTO t VALUES (1)")
    visible = (
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname !~ '^pg_toast' "
    )
    assert db.execute(f"{visible} AND relname LIKE 'pg\\_changes%'".encode()).fetchone() == (0,)
