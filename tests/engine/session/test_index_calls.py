"""Functions in the expressions of indexes, partition keys and generated columns: who may not call them has nothing of
their values, neither from an error nor otherwise. Each function is tried in each place, beside PostgreSQL."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from tests.engine.session.conftest import Pair

BODIES = {"of nothing": ("", "SELECT 'secret'::text"), "of a column": ("text", "SELECT 'secret-' || $1")}
DECLARED = ("VOLATILE", "STABLE", "IMMUTABLE")
PLACES = (
    "CREATE UNIQUE INDEX made ON own ({call})", "CREATE UNIQUE INDEX made ON own (({call}))",
    "CREATE UNIQUE INDEX made ON own (left({call}, 6))", "CREATE INDEX made ON own ((a || {call}))",
    "CREATE UNIQUE INDEX made ON own ((1)) WHERE {call} > 'a'", "ALTER TABLE own ADD EXCLUDE (({call}) WITH =)",
    "ALTER TABLE own ADD made text GENERATED ALWAYS AS ({call}) STORED", "ALTER TABLE own ADD CHECK ({call} = 'x')",
)  # fmt: skip


@pytest.fixture
def world(pair: Pair) -> Pair:
    pair.run("CREATE ROLE caller", "GRANT ALL ON SCHEMA statements TO caller", "SET ROLE caller")
    pair.run("CREATE TABLE own (a text)", "INSERT INTO own VALUES ('q'), ('r')", "RESET ROLE")
    return pair


def tried(connection: psycopg.Connection, text: str) -> str:
    try:
        connection.execute(text.encode())
    except psycopg.Error as error:
        diag = error.diag
        return f"{error.sqlstate} {diag.message_primary} {diag.message_detail}"
    return ""


@pytest.mark.parametrize("may", [True, False])
def test_who_may_not_call_a_function_has_nothing_of_it(world: Pair, may: bool) -> None:
    wrong = []
    try:
        for (name, (argument, body)), declared in itertools.product(BODIES.items(), DECLARED):
            world.run("RESET ROLE", f"DROP FUNCTION IF EXISTS f({argument})")
            world.run(f"CREATE FUNCTION f({argument}) RETURNS text {declared} LANGUAGE sql AS $$ {body} $$")
            world.run(*([] if may else [f"REVOKE EXECUTE ON FUNCTION f({argument}) FROM PUBLIC"]), "SET ROLE caller")
            for place in PLACES:
                text = place.format(call="f(a)" if argument else "f()")
                world.run("BEGIN")
                ours, theirs = (tried(connection, text) for connection in (world.shoal, world.postgres))
                world.run("ROLLBACK")
                if (ours[:5] != theirs[:5] and not ours.startswith("0A000")) or (not may and "secret" in ours):
                    wrong.append(f"{name}, {declared}: {text}\n  Shoal      {ours}\n  PostgreSQL {theirs}")
    finally:
        world.run("RESET ROLE", "DROP OWNED BY caller", "DROP ROLE caller")
    assert not wrong, "\n".join(wrong)


def test_what_was_taken_away_since_is_not_run(world: Pair) -> None:
    try:
        world.run("CREATE FUNCTION f(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT 'secret-' || $1 $$")
        world.run("SET ROLE caller", "CREATE INDEX kept ON own (f(a))")
        world.run("CREATE TABLE parted (a text) PARTITION BY RANGE (f(a))", "RESET ROLE")
        world.run("REVOKE EXECUTE ON FUNCTION f(text) FROM PUBLIC", "SET ROLE caller")
        for text in (
            "REINDEX INDEX kept", "REINDEX TABLE own", "INSERT INTO own VALUES ('z')",
            "INSERT INTO parted VALUES ('z')", "UPDATE own SET a = a || 'x'",
            "CREATE UNIQUE INDEX ON own (left(f(a), 3))",
        ):  # fmt: skip
            ours, theirs = (tried(connection, text) for connection in (world.shoal, world.postgres))
            assert ours[:5] == theirs[:5] == "42501" and "secret" not in ours, (text, ours, theirs)
    finally:
        world.run("RESET ROLE", "DROP OWNED BY caller", "DROP ROLE caller")
