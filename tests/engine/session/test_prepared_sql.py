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
