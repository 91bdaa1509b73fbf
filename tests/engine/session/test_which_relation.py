"""Which relation a refusal names where the rights on several are missing: generated views upon views, of several
owners, and statements over them, with rights taken away here and there. PostgreSQL names the first one in the order of
its plan."""

from __future__ import annotations

import random
from collections.abc import Iterator

import psycopg
import pytest

from tests.engine.session.conftest import Pair
from tests.samples import some

OWNERS = ("va", "vb", "vc")
USER = "vr"
TABLES = ("t1", "t2", "t3")
SEEDS = 40
TRIALS = 40


def condition(random: random.Random, names: list[str], alias: str) -> str:
    """A condition with a sub-query."""
    other = random.choice(names)
    return random.choice(
        (
            f"{alias}.a IN (SELECT a FROM {other})",
            f"EXISTS (SELECT 1 FROM {other} z WHERE z.a = {alias}.a)",
            f"NOT EXISTS (SELECT 1 FROM {other} z WHERE z.a = {alias}.a)",
            f"{alias}.a = (SELECT max(a) FROM {other})",
            f"{alias}.a > 0",
        )
    )


def source(random: random.Random, names: list[str]) -> str:
    """The query of a view."""
    first, second = random.choice(names), random.choice(names)
    return random.choice(
        (
            f"SELECT a, b FROM {first}",
            f"SELECT a, b FROM {first} WHERE a > 0",
            f"SELECT x.a, y.b FROM {first} x, {second} y WHERE x.a = y.a",
            f"SELECT x.a, y.b FROM {first} x JOIN {second} y ON x.a = y.a",
            f"SELECT x.a, y.b FROM {first} x LEFT JOIN {second} y ON x.a = y.a",
            f"SELECT a, max(b) AS b FROM {first} GROUP BY a",
            f"SELECT a, b FROM {first} UNION ALL SELECT a, b FROM {second}",
            f"SELECT a, b FROM {first} UNION SELECT a, b FROM {second}",
            f"SELECT a, b FROM {first} x WHERE {condition(random, names, 'x')}",
            f"SELECT s.a, s.b FROM (SELECT a, b FROM {first}) s, {second} t WHERE s.a = t.b",
        )
    )


def statement(random: random.Random, names: list[str], plain: list[str]) -> str:
    first, second, third = (random.choice(names) for _ in range(3))
    target = random.choice(plain)
    return random.choice(
        (
            f"SELECT * FROM {first}",
            f"SELECT * FROM {first}",
            f"SELECT count(*) FROM {first}",
            f"SELECT x.a FROM {first} x, {second} y, {third} z",
            f"SELECT x.a FROM {first} x JOIN {second} y USING (a) WHERE x.b IS NULL",
            f"SELECT * FROM {first} x WHERE {condition(random, names, 'x')}",
            f"SELECT (SELECT max(a) FROM {second}) FROM {first}",
            f"SELECT * FROM (SELECT a FROM {first}) s, {second} t",
            f"SELECT a FROM {first} UNION ALL SELECT b FROM {second}",
            f"WITH c AS (SELECT a FROM {first}) SELECT * FROM c, {second}",
            f"INSERT INTO {target} (a) SELECT a FROM {first}",
            f"INSERT INTO {target} (a) VALUES (1)",
            f"UPDATE {target} SET b = 1",
            f"UPDATE {target} SET b = s.b FROM {first} s WHERE s.a = {target}.a",
            f"DELETE FROM {target} WHERE a IN (SELECT a FROM {first})",
            f"DELETE FROM {target} USING {first} s WHERE s.a = {target}.a",
        )
    )


def world(random: random.Random) -> tuple[list[str], list[str], list[str]]:
    """The statements that make it, its relations, and those of them that can be changed."""
    made, names, plain = [], list(TABLES), list(TABLES)
    for number in range(1, 9):
        name, options = (
            f"v{number}",
            random.choice(("", "", "", " WITH (security_invoker)", " WITH (security_barrier)")),
        )
        simple = random.random() < 0.35
        query = f"SELECT a, b FROM {random.choice(plain)}" if simple else source(random, names)
        made += [f"CREATE VIEW {name}{options} AS {query}", f"ALTER VIEW {name} OWNER TO {random.choice(OWNERS)}"]
        names.append(name)
        if simple:
            plain.append(name)
    made += [f"GRANT ALL ON {name} TO PUBLIC" for name in names]
    return made, names, plain


@pytest.fixture
def roles(pair: Pair) -> Iterator[Pair]:
    everybody = (*OWNERS, USER)
    pair.run(
        *(f"CREATE ROLE {name}" for name in everybody), f"GRANT ALL ON SCHEMA statements TO {', '.join(everybody)}"
    )
    pair.run(*(f"CREATE TABLE {name} (a int, b int)" for name in TABLES))
    yield pair
    pair.run("ROLLBACK", "RESET ROLE", "DROP SCHEMA statements CASCADE", "CREATE SCHEMA statements")
    pair.run(*(f"DROP ROLE {name}" for name in everybody))


def refusal(connection: psycopg.Connection, text: str) -> str:
    try:
        connection.execute(text.encode())
    except psycopg.Error as error:
        return f"{error.sqlstate} {error.diag.message_primary}"
    return "done"


@pytest.mark.parametrize("seed", some(range(SEEDS), 4))
def test_the_relation_that_is_named_is_postgresql_s(roles: Pair, seed: int) -> None:
    chance = random.Random(seed)
    made, names, plain = world(chance)
    roles.run(*made)
    wrong = []
    for _ in range(TRIALS):
        text = statement(chance, names, plain)
        taken = chance.sample(names, chance.choice((2, 3, 5, len(names))))
        roles.run("BEGIN", *(f"REVOKE ALL ON {name} FROM PUBLIC, {', '.join(OWNERS)}" for name in taken))
        roles.run(f"SET LOCAL ROLE {USER}")
        ours, theirs = refusal(roles.shoal, text), refusal(roles.postgres, text)
        roles.run("ROLLBACK")
        if ours != theirs:
            wrong.append(f"{text}\n  without {taken}\n  Shoal      {ours}\n  PostgreSQL {theirs}")
    assert not wrong, "\n".join([*made, *wrong])


@pytest.mark.parametrize("path", ["auto", "columnar"])
def test_what_other_refusals_name(roles: Pair, path: str) -> None:
    roles.run("CREATE MATERIALIZED VIEW kept AS SELECT * FROM t1", "CREATE SEQUENCE counted", "CREATE SEQUENCE shown")
    roles.run("SELECT nextval('counted'), nextval('shown')", f"GRANT USAGE ON SEQUENCE shown TO {USER}")
    roles.shoal.execute(f"SET shoal.path = {path}".encode())
    roles.run(f"SET ROLE {USER}")
    for text in (
        "SELECT * FROM kept", "SELECT count(a) FROM kept, t1", "TABLE t1", "SELECT * FROM counted",
        "SELECT pg_sequence_last_value('counted')", "SELECT 1 WHERE pg_sequence_last_value('counted'::regclass) = 1",
        "SELECT pg_sequence_last_value('shown')", "SELECT last_value FROM pg_sequences WHERE sequencename = 'shown'",
        "SELECT last_value FROM pg_sequences WHERE sequencename = 'counted'", "SELECT currval('counted')",
    ):  # fmt: skip
        assert refusal(roles.shoal, text) == refusal(roles.postgres, text), text
        if "pg_sequences" in text:
            assert roles.shoal.execute(text.encode()).fetchall() == roles.postgres.execute(text.encode()).fetchall()
