"""Records in binary, as the columnar path sends them: byte for byte what PostgreSQL sends."""

from __future__ import annotations

import psycopg
import pytest

from tests.server import ShoalServer

SETUP = """
    DROP TABLE IF EXISTS binary_records;
    CREATE TABLE binary_records (a int, b text, n numeric, t timestamptz);
    INSERT INTO binary_records SELECT g, CASE WHEN g % 3 <> 0 THEN 'x' || g END, g / 7.0,
        timestamptz '2020-01-01 00:00:00Z' + g * interval '1 hour' FROM generate_series(1, 1200) AS g
"""
QUERIES = [
    "SELECT row(pg_sleep(0), 1)",
    "SELECT row(a, b, n, t) FROM binary_records ORDER BY n DESC",
    "SELECT a, row(a, b), row(b) FROM binary_records ORDER BY a",
    "SELECT CASE WHEN a % 2 = 0 THEN row(a, b) END FROM binary_records ORDER BY a",
    "SELECT x.r, x.a FROM (SELECT row(b, true, 1.50::numeric(5,2)) AS r, a FROM binary_records) AS x ORDER BY a",
    "SELECT row(a, date '2020-01-01' + a, ARRAY[a, 2]) FROM binary_records ORDER BY a",
    "SELECT row(ARRAY[[a, 2], [3, 4]], a) FROM binary_records ORDER BY a",
    "SELECT row(b) FROM binary_records WHERE n < 0",
]


def sent(connection: psycopg.Connection, query: str) -> list[list[bytes | None]]:
    result = connection.pgconn.exec_params(query.encode(), [], result_format=1)
    assert not result.error_message
    return [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]


@pytest.mark.parametrize("query", QUERIES)
def test_records_are_sent_as_postgresql_sends_them(
    query: str, shoal: ShoalServer, postgres: psycopg.Connection
) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        for each in (connection, postgres):
            each.execute(SETUP.encode())
        found = sent(connection, query)
        assert found == sent(postgres, query)
        if found:
            text = connection.pgconn.exec_params(query.encode(), []).get_value(0, 0)  # the same statement, in text
            assert text == postgres.pgconn.exec_params(query.encode(), []).get_value(0, 0)


def test_records_are_copied_in_binary(shoal: ShoalServer, postgres: psycopg.Connection) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        copied = []
        for each in (connection, postgres):
            each.execute(SETUP.encode())
            with each.cursor().copy(
                "COPY (SELECT a, row(a, b) FROM binary_records ORDER BY a) TO STDOUT BINARY"
            ) as copy:
                copied.append(b"".join(copy))
        assert copied[0] == copied[1]


def test_an_interval_within_a_record_is_refused_in_binary(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute(SETUP.encode())
        query = b"SELECT row(interval '1 day' * a) FROM binary_records"
        refused = connection.pgconn.exec_params(query, [], result_format=1)
        assert refused.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"0A000"
        assert connection.pgconn.exec_params(query, []).ntuples == 1200


def test_a_field_of_a_domain_has_the_oid_of_the_domain(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE DOMAIN binary_whole AS int")
        (oid,) = connection.execute("SELECT 'binary_whole'::regtype::oid").fetchone() or ()
        for query in ("SELECT row(1::binary_whole)", "SELECT row(g::binary_whole) FROM generate_series(1, 1000) AS g"):
            ((value,), *_) = sent(connection, query)
            assert value is not None and value[4:8] == oid.to_bytes(4, "big")
        connection.execute("DROP DOMAIN binary_whole")
