"""Views WITH (security_barrier): conditions that fail for rows which the view leaves out, over generated views and in
generated places. PostgreSQL computes none of them for such rows, whose values its errors would tell."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import psycopg
import pytest

from catalog.functions import registry
from tests.engine.session.conftest import Pair, outcome

SAMPLE = 100  # of some 1,700 on each path
WORLD = (
    "CREATE TABLE hidden (id int PRIMARY KEY, s text, n int)",
    "INSERT INTO hidden VALUES (1, 'secret-1', 0), (2, '2', 5), (3, 'secret-3', 0), (4, '4', 6)",
    "CREATE TABLE allowed (id int PRIMARY KEY); INSERT INTO allowed VALUES (2), (4)",
    "CREATE VIEW one WITH (security_barrier) AS SELECT * FROM hidden WHERE id = 2",
    "CREATE VIEW positive WITH (security_barrier) AS SELECT * FROM hidden WHERE n > 0",
    "CREATE VIEW joined WITH (security_barrier) AS SELECT h.* FROM hidden h JOIN allowed USING (id)",
    "CREATE VIEW semi WITH (security_barrier) AS SELECT * FROM hidden WHERE id IN (SELECT id FROM allowed)",
    "CREATE VIEW upon AS SELECT * FROM positive WHERE id < 4",
    "CREATE VIEW telling AS SELECT * FROM positive WHERE s::int > 0",
    "CREATE VIEW twice WITH (security_barrier) AS SELECT * FROM upon WHERE 10 / n > 0",
)
VIEWS = ("one", "positive", "joined", "semi", "upon", "telling", "twice")
CHANGED = ("one", "positive", "upon", "telling", "twice")
CONDITIONS = (
    "v.s::int > 0", "1 / v.n > -1", "v.s::date IS NULL", "sqrt(v.n - 1) > 0", "('{' || v.s || '}')::int[] <> '{}'",
    "v.s::numeric > 0", "chr(v.n) = 'x'", "repeat(v.s, 1)::int = 2", "substr(v.s, 1, v.n - 1) = 'a'",
    "v.s::int IN (1, 2)", "coalesce(v.s::int, 1) = 2", "greatest(v.s::int, 1) = 2", "v.id IN (SELECT v.s::int)",
    "EXISTS (SELECT 1 WHERE v.s::int = 2)", "CASE WHEN v.s::int = 2 THEN true END", "v.id = 2 AND v.s::int = 2",
    "v.n::smallint * 8000 < 60000", "v.id = 1 AND v.s::int = 1", "v.s::int = 2 OR v.id = 3", "v.id > 1",
)  # fmt: skip
PLACES = (
    "SELECT v.id FROM {v} v WHERE {c}", "SELECT count(*) FROM {v} v WHERE {c}",
    "SELECT v.id FROM (SELECT * FROM {v}) v WHERE {c}", "SELECT v.id FROM {v} v JOIN allowed a ON {c}",
    "SELECT v.id FROM allowed a LEFT JOIN {v} v ON a.id = v.id AND {c}",
    "SELECT v.id FROM {v} v GROUP BY v.id, v.s, v.n HAVING v.s::int > 0 AND 1 / v.n > -1",
    "WITH v AS (SELECT * FROM {v}) SELECT id FROM v WHERE {c}",
    "SELECT id FROM (SELECT id FROM {v} v WHERE {c} UNION ALL SELECT 1) q",
    "SELECT a.id FROM allowed a WHERE EXISTS (SELECT 1 FROM {v} v WHERE v.id = a.id AND {c})",
    "SELECT (SELECT count(*) FROM {v} v WHERE {c})", "INSERT INTO allowed SELECT v.id + 10 FROM {v} v WHERE {c}",
    "UPDATE allowed SET id = v.id + 20 FROM {v} v WHERE v.id = allowed.id AND {c}",
    "SELECT q.k FROM (SELECT v.s::int AS k, v.* FROM {v} v) q WHERE q.k > 0",
    "SELECT v.s::int, sum(v.s::int) OVER () FROM {v} v ORDER BY v.s::int", "SELECT DISTINCT v.s::int FROM {v} v",
)  # fmt: skip
CHANGES = (
    "UPDATE {v} v SET n = n WHERE {c}", "DELETE FROM {v} v WHERE {c}", "UPDATE {v} v SET n = v.s::int WHERE {c}",
    "DELETE FROM {v} v USING allowed a WHERE a.id = v.id AND {c}", "DELETE FROM {v} v WHERE {c} RETURNING v.s::int",
)  # fmt: skip


@pytest.fixture
def world(both_paths: Pair) -> Iterator[Pair]:
    both_paths.run(*WORLD)
    yield both_paths


def statements() -> list[str]:
    reading = itertools.product(PLACES, VIEWS, CONDITIONS)
    changing = itertools.product(CHANGES, CHANGED, CONDITIONS)
    found = [place.format(v=view, c=condition) for place, view, condition in (*reading, *changing)]
    return list(dict.fromkeys(found))


def test_no_error_tells_of_rows_that_a_view_leaves_out(world: Pair) -> None:
    path = world.shoal.execute("SHOW shoal.path").fetchone()
    wrong = []
    for statement in random.Random(str(path)).sample(statements(), SAMPLE):
        world.run("BEGIN")
        ours, theirs = (outcome(connection, statement) for connection in (world.shoal, world.postgres))
        world.run("ROLLBACK")
        if ours[:2] != theirs[:2] or "secret" in repr(ours):
            wrong.append(f"{statement}\n  Shoal      {ours}\n  PostgreSQL {theirs}")
    assert not wrong, "\n".join(wrong)


def test_conditions_that_tell_nothing_go_by_keys(world: Pair) -> None:
    world.shoal.execute("SET shoal.path = auto")
    for view in ("one", "positive", "upon"):
        plan = world.shoal.execute(f"EXPLAIN SELECT s FROM {view} v WHERE v.id = 2".encode()).fetchall()
        assert "hidden_pkey" in str(plan), plan
    plan = world.shoal.execute("EXPLAIN UPDATE positive SET n = 1 WHERE id = 2 AND s::int = 2").fetchall()
    assert "hidden_pkey" in str(plan), plan


def test_leak_proof_functions_are_postgresqls(world: Pair) -> None:
    found = world.postgres.execute("SELECT oid FROM pg_proc WHERE proleakproof AND oid < 16384").fetchall()
    assert {oid for (oid,) in found} == {oid for oid in registry.function_oids() if registry.function(oid).leakproof}


@pytest.mark.parametrize("statement", ["CREATE FUNCTION {} LEAKPROOF", "ALTER FUNCTION told(int) LEAKPROOF"])
def test_superusers_alone_say_what_is_leak_proof(pair: Pair, statement: str) -> None:
    text = statement.format("other(int) RETURNS bool LANGUAGE sql AS 'SELECT true'")
    pair.run("CREATE ROLE telling", "GRANT ALL ON SCHEMA statements TO telling", "SET ROLE telling")
    pair.run("CREATE FUNCTION told(int) RETURNS bool LANGUAGE sql AS 'SELECT true'")
    try:
        ours, theirs = (refusal(connection, text) for connection in (pair.shoal, pair.postgres))
        assert ours == theirs and ours.startswith("42501")
    finally:
        pair.run("RESET ROLE", "DROP OWNED BY telling", "DROP ROLE telling")


def refusal(connection: psycopg.Connection, text: str) -> str:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(text.encode())
    return f"{caught.value.sqlstate} {caught.value.diag.message_primary}"
