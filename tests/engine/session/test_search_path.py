"""What a bare name means under every order of the schemas that have one of that name, pg_catalog and the temporary one
among them, beside PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from itertools import product

import pytest

from tests.engine.session.conftest import Pair, outcome
from tests.samples import some

SETUP = (
    "create schema p1", "create schema p2",
    *(
        statement.replace("@", schema)
        for schema in ("p1", "p2")
        for statement in (
            "create table @.pg_class (of_@ text)",
            "create table @.only_@ (n int)",
            "create table @.twice (of_@ text)",
            "create function @.abs(int) returns text language sql as $$ select '@' $$",
            "create function @.lower(text) returns text language sql as $$ select '@' $$",
            "create function @.shout(text) returns text language sql as $$ select '@' $$",
            "create type @.json as enum ('1', '@')",
            "create type @.mood as enum ('@', 'sad')",
        )
    ),
    "create function p1.shout(int) returns text language sql as $$ select 'p1 int' $$",
    "create function p2.length(anyelement) returns text language sql as $$ select 'p2' $$",
    "create view p2.pg_tables as select 'p2' as tables_of",
    'create collation p1."C" from "POSIX"',
)  # fmt: skip
CLEAN = "drop schema p1, p2 cascade"
ASKED = (
    "select * from pg_class limit 0",
    "select * from twice limit 0",
    "select * from pg_tables limit 0",
    "select * from only_p2",
    "select abs(-1)", "select abs(-1.5)", "select abs('-1')", "select abs(null)",
    "select lower('X')", "select lower('X'::name)", "select shout('x')", "select shout(1)", "select shout(null)",
    "select length('abc'::text)", "select length('abc')", "select length(1)",
    "select pg_typeof('1'::json)", "select '1'::json", "select 'x'::json", "select json('1')",
    "select pg_typeof(null::mood)", "select 'sad'::mood", "select pg_typeof(null::json[])",
    "select 'json'::regtype", "select 'mood[]'::regtype", "select to_regtype('json')",
    "select 'pg_class'::regclass", "select 'twice'::regclass", "select 'only_p1'::regclass",
    "select to_regclass('twice')",
    "select 'shout(text)'::regprocedure", "select 'shout'::regproc", "select 'lower(text)'::regprocedure",
    "select 'abs(int)'::regprocedure", "select to_regproc('abs')",
    "select current_schemas(true)", "select current_schemas(false)", "select current_schema()",
    "select c.relname, n.nspname, pg_catalog.pg_table_is_visible(c.oid) from pg_catalog.pg_class c "
    "join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relname in ('twice', 'pg_class', 'pg_tables') "
    "and n.nspname in ('p1', 'p2', 'pg_catalog')",
    "select p.proname, n.nspname, pg_catalog.pg_function_is_visible(p.oid) from pg_catalog.pg_proc p "
    "join pg_catalog.pg_namespace n on n.oid = p.pronamespace where p.proname in ('abs', 'lower', 'shout') "
    "and n.nspname in ('p1', 'p2')",
    "select t.typname, n.nspname, pg_catalog.pg_type_is_visible(t.oid) from pg_catalog.pg_type t "
    "join pg_catalog.pg_namespace n on n.oid = t.typnamespace where t.typname in ('json', 'mood') "
    "and n.nspname in ('p1', 'p2')",
    "select 'a' collate \"C\" < 'b'",
    "create table made (n int)", "create type made_too as enum ('a')", "create view made_also as select 1 as one",
    "create sequence made_more", "create function made_for(int) returns int language sql as 'select 1'",
    "drop function abs(int)", "drop table twice", "drop type json",
)  # fmt: skip


IN_PG_CATALOG = ("create type", "create function")
"""What a superuser of PostgreSQL may make there."""


def paths() -> Iterator[tuple[str, ...]]:
    for length in range(1, 4):
        yield from itertools.permutations(("p1", "p2", "pg_catalog"), length)
    yield from (("pg_catalog",), ("p2", "none", "pg_catalog", "p1"), ("p1", "p1", "pg_catalog"), ("none",))
    yield from itertools.permutations(("p1", "pg_temp", "pg_catalog"))
    yield from (("pg_temp", "p1"), ("p1", "pg_temp"), ("pg_temp",), ("pg_catalog", "pg_temp", "p2"))


@pytest.fixture
def full(pair: Pair) -> Iterator[Pair]:
    pair.run(*SETUP)
    yield pair
    for connection in (pair.shoal, pair.postgres):
        connection.execute("rollback")
        connection.execute("set search_path = public")
    pair.run(CLEAN)


def asked(pair: Pair, statement: str) -> list[object]:
    """What comes of a statement on both, with the number of a temporary schema left out, and taken back."""
    found: list[object] = []
    for connection in (pair.shoal, pair.postgres):
        connection.execute("begin")
        answer = repr(outcome(connection, statement))
        if statement.startswith("create") and connection.info.transaction_status == 2:
            answer += repr(connection.execute(
                "select n.nspname like 'pg_temp%', n.nspname in ('p1', 'p2') from pg_catalog.pg_namespace n where "
                "n.oid in (select relnamespace from pg_catalog.pg_class where relname like 'made%' union all select "
                "typnamespace from pg_catalog.pg_type where typname like 'made%' union all select pronamespace from "
                "pg_catalog.pg_proc where proname like 'made%')"
            ).fetchall())  # fmt: skip
        connection.execute("rollback")
        for row in connection.execute("select nspname from pg_catalog.pg_namespace where nspname like 'pg_temp%'"):
            answer = answer.replace(str(row[0]), "pg_temp_N")
        found.append(answer)
    return found


@pytest.mark.parametrize(("path", "temporary"), some(product(dict.fromkeys(paths()), (False, True)), 3))
def test_what_names_mean(full: Pair, path: tuple[str, ...], temporary: bool) -> None:
    if temporary:
        full.run("create temp table pg_class (temporary int)", "create temp table twice (temporary int)")
    full.run(f"set search_path = {', '.join(path)}")
    different = []
    for statement in ASKED:
        if path[0] == "pg_catalog" and statement.startswith(IN_PG_CATALOG):
            continue
        if path[0] == "pg_temp" and not temporary and statement.startswith("select current_schema"):
            continue  # to ask for it makes one there
        ours, theirs = asked(full, statement)
        if ours != theirs:
            different.append(f"{statement}\n    {ours}\n    PostgreSQL {theirs}")
    if different:
        pytest.fail("\n".join(different))
