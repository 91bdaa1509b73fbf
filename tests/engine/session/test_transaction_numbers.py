"""pg_current_xact_id, pg_xact_status, pg_current_snapshot, beside PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.session.conftest import SCHEMA, Pair

TEXTS = ("10:20:10,14,15", "1:1:", "1:2:1,1", "2:1:", "0:1:", "1:20:20", "5:20:4", "1:20:3,2", "1:2", "x", "1:2:,")


def test_snapshots_as_values(pair: Pair) -> None:
    for name in ("pg", "txid"):
        pair.same(*(f"SELECT '{text}'::{name}_snapshot" for text in TEXTS))
    pair.same(
        "SELECT pg_snapshot_xmin(s), pg_snapshot_xmax(s), ARRAY(SELECT pg_snapshot_xip(s)) "
        "FROM (VALUES ('10:20:10,14,15'::pg_snapshot), ('3:9:')) v(s)",
        "SELECT n, pg_visible_in_snapshot(n::text::xid8, '10:20:10,14,15') FROM generate_series(8, 22) n",
        "CREATE TABLE snapshots (s pg_snapshot, t txid_snapshot)",
        "INSERT INTO snapshots VALUES ('10:20:10,14,15', '1:1:')",
        "SELECT * FROM snapshots",
        "SELECT pg_xact_status('9223372036854775807')",
    )


def test_the_outcome_of_a_transaction_by_its_number(pair: Pair) -> None:
    for connection in (pair.shoal, pair.postgres):
        connection.execute("CREATE TABLE t (a int)")
        with psycopg.connect(connection.info.dsn, options=f"-c search_path={SCHEMA}") as other:

            def status(number: object, connection: psycopg.Connection[tuple[object, ...]] = connection) -> object:
                [(found,)] = connection.execute("SELECT pg_xact_status(%s::text::xid8)", (str(number),)).fetchall()
                return found

            assert other.execute("SELECT pg_current_xact_id_if_assigned()").fetchall() == [(None,)]
            for end in ("COMMIT", "ROLLBACK", "SELECT 1/0"):
                [(number,)] = other.execute("SELECT pg_current_xact_id()").fetchall()
                other.execute("INSERT INTO t VALUES (1)")
                assert other.execute("SELECT txid_current_if_assigned()::text").fetchall() == [(str(number),)]
                assert status(number) == "in progress"
                if end == "SELECT 1/0":
                    with pytest.raises(psycopg.errors.DivisionByZero):
                        other.execute(end)
                    other.rollback()
                else:
                    other.execute(end.encode())
                assert status(number) == ("committed" if end == "COMMIT" else "aborted")
        [(number,)] = connection.execute("SELECT txid_current()").fetchall()
        assert connection.execute(b"SELECT txid_status(%d)" % number).fetchall() == [("committed",)]  # type: ignore[str-bytes-safe]


def test_ages(pair: Pair) -> None:
    current = "pg_current_xact_id()::xid"
    pair.same(
        "SELECT n, age(n::text::xid) FROM generate_series(0, 2) n",
        "SELECT age('1'), mxid_age('0'), age(NULL::xid)",
        "BEGIN",
        f"SELECT age({current}), age(((({current})::text::int8) - 2)::text::xid)",
        "COMMIT",
        "SELECT age(datfrozenxid) >= 0, mxid_age(datminmxid) >= 0 FROM pg_database WHERE datname = current_catalog",
        "SELECT bool_and(age(relfrozenxid) >= 0) FROM pg_class WHERE relkind = 'r'",
    )


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_reader_of_an_outbox_misses_nothing(pair: Pair, isolation: str) -> None:
    """Rows below the least number in progress are complete: whoever reads on from there misses no later commit."""
    for connection in (pair.shoal, pair.postgres):
        connection.execute("CREATE TABLE outbox (n xid8 DEFAULT pg_current_xact_id(), what text)")
        dsn, options = connection.info.dsn, f"-c search_path={SCHEMA}"
        complete = "SELECT what FROM outbox WHERE n < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY n"
        newer = "SELECT what FROM outbox WHERE NOT pg_visible_in_snapshot(n, pg_current_snapshot())"
        with (
            psycopg.connect(dsn, options=options) as first,
            psycopg.connect(dsn, options=options) as second,
            psycopg.connect(dsn, options=options) as reader,
        ):
            reader.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
            first.execute("INSERT INTO outbox (what) VALUES ('first')")
            second.execute("INSERT INTO outbox (what) VALUES ('second')")
            second.commit()
            assert reader.execute(complete).fetchall() == []
            first.commit()
            now = [("first",), ("second",)] if isolation == "READ COMMITTED" else []
            assert reader.execute(complete).fetchall() == now
            assert reader.execute(newer).fetchall() == []
            reader.commit()
            assert reader.execute(complete).fetchall() == [("first",), ("second",)]
        connection.execute("DROP TABLE outbox")


def test_prepared_transactions_keep_their_number(pair: Pair) -> None:
    connection = pair.shoal
    connection.execute("CREATE TABLE t (a int)")
    for end, outcome in (("COMMIT", "committed"), ("ROLLBACK", "aborted")):
        connection.execute("BEGIN")
        [(number,)] = connection.execute("SELECT pg_current_xact_id()::text").fetchall()
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("PREPARE TRANSACTION 'numbered'")
        query = f"SELECT pg_xact_status('{number}')".encode()
        assert connection.execute(query).fetchall() == [("in progress",)]
        connection.execute(f"{end} PREPARED 'numbered'".encode())
        assert connection.execute(query).fetchall() == [(outcome,)]
