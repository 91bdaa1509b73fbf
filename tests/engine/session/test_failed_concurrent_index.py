"""CREATE INDEX CONCURRENTLY that fails over the rows leaves an index that is not valid, as in PostgreSQL."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

_STATE = (
    "SELECT relname, indisvalid, indisready, indisunique FROM pg_index JOIN pg_class c ON c.oid = indexrelid"
    " WHERE indrelid = 't'::regclass"
)
_FAILING = {
    "a key twice": "CREATE UNIQUE INDEX CONCURRENTLY {0} ON t (b)",
    "an expression that fails": "CREATE INDEX CONCURRENTLY {0} ON t ((10 / (b - 1)))",
    "a predicate that fails": "CREATE INDEX CONCURRENTLY {0} ON t (a) WHERE 10 / (b - 1) > 0",
}


@pytest.mark.parametrize("name", ["i", ""])
@pytest.mark.parametrize("why", _FAILING)
def test_a_failed_index_stays(pair: Pair, why: str, name: str) -> None:
    pair.run("CREATE TABLE t (a int PRIMARY KEY, b int)", "INSERT INTO t VALUES (1, 0), (2, 1), (3, 1), (4, 2), (5, 3)")
    pair.same(_FAILING[why].format(name), _STATE)
    created = pair.postgres.execute(_STATE.replace("relname,", "relname AS name,").encode()).fetchall()
    (left,) = [row[0] for row in created if not row[1]]
    pair.same(
        "INSERT INTO t VALUES (7, 3)" if why == "a key twice" else "SELECT 1",
        "SELECT count(*) FROM t WHERE b = 1",
        "INSERT INTO t VALUES (8, 3) ON CONFLICT (b) DO NOTHING",
        "CREATE TABLE r (b int REFERENCES t (b))",
        f"ALTER TABLE t ADD UNIQUE USING INDEX {left}",
        "UPDATE t SET b = 9 WHERE a = 2",
        "DELETE FROM t WHERE a = 1",
        f"CREATE INDEX {left} ON t (a)",
        f"SELECT pg_get_indexdef('{left}'::regclass)",
        f"REINDEX INDEX {left}",
        _STATE,
        "UPDATE t SET b = a * 10",
        f"REINDEX INDEX {left}",
        _STATE,
        "INSERT INTO t VALUES (100, 20)",
        "SELECT a FROM t WHERE b = 20",
        f"DROP INDEX {left}",
        _STATE,
    )


def test_it_is_dropped_and_made_again(pair: Pair) -> None:
    pair.run("CREATE TABLE t (a int, b int)", "INSERT INTO t VALUES (1, 0), (2, 1), (3, 1)")
    pair.same(
        "CREATE UNIQUE INDEX CONCURRENTLY i ON t (b)",
        "CREATE UNIQUE INDEX CONCURRENTLY i ON t (b)",
        "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS i ON t (b)",
        "DROP INDEX CONCURRENTLY i",
        "CREATE UNIQUE INDEX CONCURRENTLY i ON t (a)",
        _STATE,
        "INSERT INTO t VALUES (1, 1)",
    )


def test_an_index_that_is_no_concurrent_one_leaves_nothing(pair: Pair) -> None:
    pair.run("CREATE TABLE t (a int, b int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    pair.same("CREATE UNIQUE INDEX i ON t (b)", _STATE)
