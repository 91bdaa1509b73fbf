"""Parameters of domains: what clients are told of them, and that their values are read as values of the domain."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

SCHEMA = """
    CREATE DOMAIN dp_positive AS int CHECK (value > 0);
    CREATE DOMAIN dp_code AS varchar(3) NOT NULL;
    CREATE TYPE dp_pair AS (n dp_positive, code dp_code);
    CREATE TABLE dp_table (n dp_positive, code dp_code, pair dp_pair);
"""
GONE = """
    DROP TABLE IF EXISTS dp_table; DROP TYPE IF EXISTS dp_pair; DROP DOMAIN IF EXISTS dp_positive;
    DROP DOMAIN IF EXISTS dp_code;
"""


@pytest.fixture
def connection(server: ShoalServer | PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(GONE)
        connection.execute(SCHEMA)
        yield connection
        connection.execute(GONE)


def told(connection: psycopg.Connection, query: str, types: tuple[int, ...] = ()) -> list[str]:
    """The names of the parameters' types, as ParameterDescription tells them."""
    prepared = connection.pgconn.prepare(b"dp", query.encode(), types)
    assert not prepared.error_message
    described = connection.pgconn.describe_prepared(b"dp")
    connection.execute("DEALLOCATE dp")
    oids = [described.param_type(number) for number in range(described.nparams)]
    names = connection.execute("SELECT oid::regtype::text FROM unnest(%s::oid[]) AS oid", (oids,)).fetchall()
    return [str(name) for (name,) in names]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT $1::dp_positive", ["dp_positive"]),
        ("SELECT $1::dp_positive + 1, $1", ["dp_positive"]),
        ("SELECT $1::int, $1::dp_positive", ["integer"]),
        ("INSERT INTO dp_table (n, code) VALUES ($1, $2)", ["dp_positive", "dp_code"]),
        ("UPDATE dp_table SET n = $1 WHERE n = $2", ["dp_positive", "integer"]),
        ("SELECT $1::dp_pair", ["dp_pair"]),
    ],
)
def test_a_parameter_cast_or_assigned_to_a_domain_is_of_the_domain(
    connection: psycopg.Connection, query: str, expected: list[str]
) -> None:
    assert told(connection, query) == expected
    unknown = (705,) * len(expected)  # which says as little as no type at all
    assert told(connection, query, unknown) == expected


def test_a_parameter_declared_of_a_domain_stays_of_it_and_meets_its_conditions(connection: psycopg.Connection) -> None:
    (oid,) = connection.execute("SELECT 'dp_positive'::regtype::oid").fetchone() or ()
    assert told(connection, "SELECT $1 + 1", (oid,)) == ["dp_positive"]
    good = connection.pgconn.exec_params(b"SELECT $1 + 1", [b"4"], [oid])
    assert good.get_value(0, 0) == b"5"
    bad = connection.pgconn.exec_params(b"SELECT $1 + 1", [b"-4"], [oid])
    assert bad.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"23514"


@pytest.mark.parametrize(
    ("query", "value", "sqlstate"),
    [
        ("SELECT $1::dp_positive", b"-1", b"23514"),
        ("SELECT $1::dp_code", b"abcd", b"22001"),
        ("SELECT $1::dp_code, $1::text", b"abcd", b"22001"),
        ("SELECT $1::dp_code", None, b"23502"),
        ("SELECT $1::text::dp_code", b"abcd", None),
        ("SELECT $1::dp_code", b"abc", None),
    ],
)
def test_a_value_is_read_by_the_domain_and_not_cast_to_it(
    connection: psycopg.Connection, query: str, value: bytes | None, sqlstate: bytes | None
) -> None:
    result = connection.pgconn.exec_params(query.encode(), [value])
    assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == sqlstate
    if sqlstate is None:
        assert result.get_value(0, 0) == b"abc"


def test_prepare_declares_parameters_of_domains_with_conditions(connection: psycopg.Connection) -> None:
    connection.execute("PREPARE dp_next (dp_positive) AS SELECT $1 + 1")
    assert connection.execute("EXECUTE dp_next(4)").fetchone() == (5,)
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("EXECUTE dp_next(-4)")
    connection.execute("CREATE TABLE dp_made AS EXECUTE dp_next(1)")
    connection.execute("DROP TABLE dp_made")
    connection.execute("ALTER TABLE dp_table ADD COLUMN more int")  # the statement is planned again
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("EXECUTE dp_next(-4)")


def test_binary_records_have_the_oids_of_domains(connection: psycopg.Connection) -> None:
    (n, code) = connection.execute("SELECT 'dp_positive'::regtype::oid, 'dp_code'::regtype::oid").fetchone() or ()
    result = connection.pgconn.exec_params(b"SELECT (4, 'abc')::dp_pair", [], result_format=1)
    value = result.get_value(0, 0) or b""
    fields = n.to_bytes(4, "big"), code.to_bytes(4, "big")
    assert value[4:8] == fields[0] and value[16:20] == fields[1]
    assert connection.pgconn.exec_params(
        b"SELECT $1::dp_pair", [value], param_formats=[1], result_format=1
    ).get_value(0, 0) == value  # fmt: skip
    of_base = value.replace(fields[0], (23).to_bytes(4, "big"))
    taken = connection.pgconn.exec_params(b"SELECT $1::dp_pair", [of_base], param_formats=[1], result_format=1)
    assert taken.get_value(0, 0) == value  # types of users are not compared: their OIDs differ between databases


def test_attributes_of_built_in_types_are_compared_in_binary(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TYPE dp_plain AS (n int)")
    try:
        value = connection.pgconn.exec_params(b"SELECT ROW(4)::dp_plain", [], result_format=1).get_value(0, 0) or b""
        wrong = value.replace((23).to_bytes(4, "big"), (25).to_bytes(4, "big"))
        refused = connection.pgconn.exec_params(b"SELECT $1::dp_plain", [wrong], param_formats=[1])
        message = "binary data has type 25 (text) instead of expected 23 (integer) in record column 1"
        assert refused.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY) == message.encode()
        assert refused.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"42804"
    finally:
        connection.execute("DROP TYPE dp_plain")
