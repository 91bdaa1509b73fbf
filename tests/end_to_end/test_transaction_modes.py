"""When the modes of a transaction may still be set: after which statements, and in a savepoint, on both servers."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_ALLOW_LATER = {  # what has no snapshot in PostgreSQL
    "nothing": "",
    "SET": "SET LOCAL work_mem = '1MB'",
    "SHOW": "SHOW work_mem",
    "LOCK": "LOCK TABLE pg_temp.modes IN ROW SHARE MODE",
    "SET CONSTRAINTS": "SET CONSTRAINTS ALL DEFERRED",
    "NOTIFY": "NOTIFY modes",
}
_QUERIES = {
    "constant": "SELECT 1",
    "table": "SELECT * FROM pg_temp.modes",
    "catalog": "SELECT count(*) FROM pg_class",
    "many rows": "SELECT count(*) FROM generate_series(1, 5000)",
    "INSERT": "INSERT INTO pg_temp.modes VALUES (1)",
    "CREATE": "CREATE TEMPORARY TABLE another (a int)",
    "EXPLAIN": "EXPLAIN SELECT 1",
    "PREPARE": "PREPARE modes AS SELECT 1",
    "EXECUTE": "EXECUTE kept",
    "DECLARE": "DECLARE modes CURSOR FOR SELECT 1",
    "VALUES": "VALUES (1)",
}
_CHANGES = {
    "isolation": "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "the same isolation": "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "isolation as a setting": "SET transaction_isolation = 'repeatable read'",
    "READ ONLY": "SET TRANSACTION READ ONLY",
    "READ WRITE": "SET TRANSACTION READ WRITE",
    "DEFERRABLE": "SET TRANSACTION DEFERRABLE",
    "NOT DEFERRABLE": "SET transaction_deferrable = off",
}
_MESSAGES = {
    "isolation": "SET TRANSACTION ISOLATION LEVEL must be called before any query",
    "isolation as a setting": "SET TRANSACTION ISOLATION LEVEL must be called before any query",
    "DEFERRABLE": "SET TRANSACTION [NOT] DEFERRABLE must be called before any query",
    "NOT DEFERRABLE": "SET TRANSACTION [NOT] DEFERRABLE must be called before any query",
}
_IN_SAVEPOINT = {
    "isolation": "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction",
    "isolation as a setting": "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction",
    "DEFERRABLE": "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction",
    "NOT DEFERRABLE": "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction",
}


def _said(server: ShoalServer | PostgresServer, *statements: str) -> str | None:
    """What the last statement of a block is refused with; None if it is not."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE modes (a int)")
        connection.execute("PREPARE kept AS SELECT 1")
        connection.execute("BEGIN")
        *before, last = (statement for statement in statements if statement)
        for statement in before:
            connection.execute(statement.encode())
        try:
            connection.execute(last.encode())
        except psycopg.Error as error:
            assert error.sqlstate == "25001"
            return error.diag.message_primary
        return None


@pytest.mark.parametrize(("before", "change"), list(itertools.product(_ALLOW_LATER, _CHANGES)))
def test_modes_are_set_before_any_query(server: ShoalServer | PostgresServer, before: str, change: str) -> None:
    assert _said(server, _ALLOW_LATER[before], _CHANGES[change]) is None


@pytest.mark.parametrize(("query", "change"), list(itertools.product(_QUERIES, _CHANGES)))
def test_modes_stay_after_a_query(server: ShoalServer | PostgresServer, query: str, change: str) -> None:
    assert _said(server, _QUERIES[query], _CHANGES[change]) == _MESSAGES.get(change)


@pytest.mark.parametrize("query", _QUERIES)
def test_what_reads_only_stays_so_after_a_query(server: ShoalServer | PostgresServer, query: str) -> None:
    said = _said(server, _QUERIES[query], "SET TRANSACTION READ ONLY", "SET TRANSACTION READ WRITE")
    assert said == "transaction read-write mode must be set before any query"


@pytest.mark.parametrize("change", _CHANGES)
def test_modes_of_a_savepoint(server: ShoalServer | PostgresServer, change: str) -> None:
    assert _said(server, "SAVEPOINT a", _CHANGES[change]) == _IN_SAVEPOINT.get(change)
