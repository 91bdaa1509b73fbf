"""PREPARE and EXECUTE in SQL, CREATE TABLE AS EXECUTE, sequences between statements; beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_create_table_as_execute(pair: Pair) -> None:
    pair.same(
        "prepare made(int, float8) as select i, $2 as f, 'x' as x from generate_series(1, $1) i",
        "create table one as execute made(3, 1.5)",
        "select * from one",
        "create temp table two (a, b) as execute made(2, 1) with no data",
        "select * from two",
        "execute made(true, 2)",
        "execute made(1, 'b'::text)",
        "create table three as execute made(false, 2)",
        "prepare change as insert into one values (1) returning i",
        "create table three as execute change",
        "create table three as execute missing",
        "deallocate all",
    )


def test_bounds_of_sequences_whose_type_changes(pair: Pair) -> None:
    pair.same(
        "create sequence s1 as smallint",
        "alter sequence s1 as int",
        "create sequence s2 maxvalue 100000",
        "alter sequence s2 as smallint",
        "alter sequence s2 as smallint maxvalue 20000",
        "create sequence s3 as smallint increment -1 minvalue -100",
        "alter sequence s3 as bigint",
        "create sequence s4 as int minvalue -2147483648",
        "alter sequence s4 as smallint",
        "alter sequence s2 as int no maxvalue",
        "select seqrelid::regclass::text, seqmin, seqmax, seqstart from pg_sequence "
        "where seqrelid::regclass::text like 's_'",
    )


def test_what_a_session_knows_of_its_sequences(pair: Pair) -> None:
    pair.same(
        "create sequence s",
        "select nextval('s')",
        "select nextval('s')",
        "select * from s",
        "select lastval()",
        "drop sequence s",
        "select lastval()",
        "create sequence kept",
        "create temp sequence passing",
        "begin read only",
        "select nextval('passing'), setval('passing', 7)",
        "savepoint a",
        "select setval('kept', 3)",
        "rollback to a",
        "select nextval('kept')",
        "rollback",
        "create table t (a serial, b smallserial, c text)",
        "insert into t (c, b) values ('too large', 99999)",
        "insert into t (c, b) values ('fits', 9) returning *",
    )


def test_parameters_of_cursors_and_of_tables_made_of_queries(pair: Pair) -> None:
    pair.run("create table numbers as select g, 'n' || g as name from generate_series(1, 9) g")
    for connection in (pair.shoal, pair.postgres):
        with connection.transaction():
            cursor = connection.execute(
                "declare c cursor for select g from numbers where name = %s::varchar or g > %s order by g", ("n2", 7)
            )
            cursor = connection.execute("fetch all from c")
            assert cursor.fetchall() == [(2,), (8,), (9,)]
        connection.execute("create table chosen as select * from numbers where name in (%s, %s)", ("n1", "n4"))
        connection.execute("select g into others from numbers where g <= %s", (2,))
    pair.same("select * from chosen", "select * from others")


def test_columns_are_named_with_the_schema_of_their_view(pair: Pair) -> None:
    pair.run(
        "create schema besides",
        "create table besides.t (a int)",
        "insert into besides.t values (1)",
        "create view besides.v as select a from besides.t",
    )
    try:
        pair.same(
            "select besides.v.a from besides.v order by besides.v.a",
            "select besides.v.* from besides.v",
            "select besides.t.a from besides.v",
            "select statements.v.a from besides.v",
            "select count(pg_catalog.pg_tables.tablename) > 0 from pg_catalog.pg_tables",
            "update besides.v set a = besides.v.a + 1 returning besides.v.a",
        )
    finally:
        pair.run("drop schema besides cascade")
