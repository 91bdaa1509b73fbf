"""DEFERRABLE UNIQUE and PRIMARY KEY, and EXCLUDE, beside PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.end_to_end.test_isolation import Client
from tests.engine.session.conftest import SCHEMA, Pair
from tests.server import ShoalServer


def test_a_deferrable_key_is_looked_at_when_the_statement_is_done(both_paths: Pair) -> None:
    both_paths.same(
        "create table t (id int primary key deferrable, u int unique deferrable initially deferred, x text)",
        "insert into t values (1, 1, 'a'), (2, 2, 'b'), (3, null, 'c'), (4, null, 'd')",
        "update t set id = id + 1",
        "select * from t order by id",
        "update t set id = 3 where id = 2",
        "insert into t values (3, 9, 'e')",
        "insert into t values (null, 9, 'e')",
        "update t set u = 2 where id = 2",
        "insert into t select g, g + 100, 'many' from generate_series(10, 900) g",
        "update t set id = 1000 - id where id >= 10",
        "insert into t select g, 1, 'many' from generate_series(1001, 1800) g",
        "select count(*), sum(id), sum(u) from t",
        "update t set id = 1 where id > 100",
        "select count(*), sum(id), sum(u) from t",
        "delete from t where id > 4",
        "select * from t order by id",
        "select x, count(*) from t group by id order by 1",
        "insert into t values (5, 1) on conflict do nothing",
        "insert into t values (5, 1) on conflict (id) do nothing",
        "insert into t values (5, 1) on conflict (u) do update set x = 'z'",
        "insert into t values (5, 1) on conflict on constraint t_pkey do nothing",
        "create table f (a int references t)",
        "create table f (a int references t (u))",
        "create table l (like t including all)",
        "insert into l values (1, 1), (1, 2)",
        "select conname, contype, condeferrable, condeferred, pg_get_constraintdef(oid) from pg_constraint "
        "where conrelid in ('t'::regclass, 'l'::regclass) order by conname",
        "select c.relname, indisunique, indisprimary, indimmediate, indisexclusion, pg_get_indexdef(c.oid) "
        "from pg_index join pg_class c on c.oid = indexrelid where indrelid = 't'::regclass order by 1",
        "alter table t drop constraint t_pkey",
        "insert into t values (2), (2)",
        "alter table t add primary key (id) deferrable",
        "delete from t where id = 2",
        "alter table t add primary key (id) deferrable",
        "insert into t values (3)",
        "alter table t alter id type numeric using id % 2",
        "alter table t alter id type int8 using 100 - id",
        "update t set id = id - 1",
        "select * from t order by id",
        "truncate t",
        "insert into t values (1), (1)",
        "insert into t values (1), (2)",
        "drop table t, l",
    )


def test_a_deferred_key_waits_for_the_end_of_the_transaction(both_paths: Pair) -> None:
    both_paths.same(
        "create table t (id int primary key deferrable initially deferred, a int constraint ta unique deferrable)",
        "insert into t values (1, 1), (2, 2)",
        "begin",
        "insert into t values (1, 3)",
        "select * from t order by a",
        "delete from t where a = 1",
        "commit",
        "begin",
        "insert into t values (1, 4)",
        "commit",
        "select * from t order by a",
        "begin",
        "set constraints ta deferred",
        "insert into t values (5, 2)",
        "set constraints ta immediate",
        "rollback",
        "begin",
        "set constraints all deferred",
        "insert into t values (5, 2)",
        "update t set a = 5 where id = 5",
        "set constraints all immediate",
        "insert into t values (6, 2)",
        "rollback",
        "begin",
        "insert into t values (2, 7)",
        "savepoint s",
        "insert into t values (1, 8)",
        "rollback to s",
        "update t set id = 9 where a = 7",
        "commit",
        "begin",
        "select * from t order by a",
    )


def test_deferrable_keys_of_partitioned_tables(both_paths: Pair) -> None:
    both_paths.same(
        "create table t (a int, b int, primary key (a) deferrable) partition by range (a)",
        "create table t1 partition of t for values from (0) to (10)",
        "create table t2 (b int, a int not null)",
        "insert into t2 values (1, 11), (1, 11)",
        "alter table t attach partition t2 for values from (10) to (20)",
        "truncate t2",
        "alter table t attach partition t2 for values from (10) to (20)",
        "insert into t values (1, 1), (2, 2), (11, 1), (12, 2)",
        "insert into t values (1, 1)",
        "insert into t values (12, 1)",
        "update t set a = a + 1",
        "select * from t order by a",
        "update t set a = 3",
        "alter table t add unique (a, b) deferrable initially deferred",
        "begin",
        "insert into t values (5, 1), (6, 1)",
        "update t set a = 5 where a = 6",
        "commit",
        "select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint "
        "where conrelid::regclass::text in ('t', 't1', 't2') order by 1, 2",
    )


def test_exclusion(both_paths: Pair) -> None:
    both_paths.same(
        "create table r (id int primary key, during int4range, c text, exclude using gist (during with &&))",
        "insert into r values (1, '[1,5)'), (2, '[5,9)'), (3, null), (4, 'empty'), (5, 'empty')",
        "insert into r values (6, '[4,6)')",
        "insert into r values (6, '[20,30)'), (7, '[25,26)')",
        "insert into r values (6, '[4,6)') on conflict do nothing",
        "insert into r values (6, '[4,6)') on conflict on constraint r_during_excl do nothing",
        "insert into r values (6, '[4,6)') on conflict on constraint r_during_excl do update set c = 'x'",
        "insert into r values (6, '[4,6)') on conflict (during) do nothing",
        "update r set during = '[9,10)' where id = 1",
        "update r set during = '[6,7)' where id = 1",
        "insert into r select g, int4range(g * 10, g * 10 + 10) from generate_series(100, 800) g",
        "insert into r select g, int4range(g * 10, g * 10 + 11) from generate_series(900, 1500) g",
        "select count(*) from r",
        "create table e (a int, b text, constraint eab exclude (a with =, lower(b) with =) where (a > 0))",
        "insert into e values (1, 'x'), (1, 'y'), (-1, 'x'), (-1, 'X'), (2, null), (2, null)",
        "insert into e values (1, 'Y')",
        "update e set a = 1 where b = 'X'",
        "update e set a = a + 1 where b = 'y'",
        "create table d (p int4range, q int4range, exclude using gist (p with =, q with &&) deferrable)",
        "insert into d values ('[1,2)', '[1,3)'), ('[1,2)', '[3,5)'), ('[2,3)', '[1,9)')",
        "update d set q = int4range(lower(q) + 1, upper(q) + 1)",
        "insert into d values ('[1,2)', '[1,3)')",
        "begin",
        "set constraints d_p_q_excl deferred",
        "insert into d values ('[1,2)', '[1,3)')",
        "commit",
        "begin",
        "set constraints all deferred",
        "insert into d values ('[1,2)', '[1,3)')",
        "update d set q = '[50,60)' where q = '[1,3)'",
        "commit",
        "select * from d order by 1, 2",
        "create table k (like r including all)",
        "insert into k values (1, '[1,5)'), (2, '[2,3)')",
        "select conname, contype, conexclop, conkey, pg_get_constraintdef(oid) from pg_constraint "
        "where contype = 'x' order by 1, conrelid",
        "select c.relname, indisunique, indisexclusion, indimmediate, pg_get_indexdef(c.oid) from pg_index "
        "join pg_class c on c.oid = indexrelid where indrelid in ('r'::regclass, 'e'::regclass) order by 1",
        "drop index r_during_excl",
        "alter table r drop constraint r_during_excl",
        "insert into r values (40, '[1,5)')",
        "alter table r add exclude using gist (during with &&)",
        "delete from r where id = 40",
        "alter table r add constraint rx exclude using gist (during with &&)",
        "insert into r values (40, '[1,5)')",
        "alter table r rename constraint rx to ry",
        "insert into r values (40, '[1,5)')",
        "alter table r rename c to cc",
        "alter table r rename during to d2",
        "insert into r values (40, '[1,5)')",
        "alter table r drop column d2",
        "select * from r where id < 10 order by 1",
    )


def test_what_exclusion_refuses(both_paths: Pair) -> None:
    both_paths.same(
        "create table a (r int4range, exclude using gist (r with <<))",
        "create table a (r int4range, exclude using gist (r with -|-), exclude using gist (r with +))",
        "create table a (r box, exclude using gist (r with =))",
        "create table a (r int, exclude using gist (r with =))",
        "create table a (r int, exclude using gin (r with =))",
        "create table a (r int, exclude using nope (r with =))",
        "create table a (r int, exclude (r with <>))",
        "create table a (r int, exclude (s with =))",
        "create table a (r int, exclude (r with ===))",
        "create table a (r int, s int, exclude using hash (r with =, s with =))",
        "create table a (r int, exclude (r with =)) partition by range (r)",
        "create table a (b box, c circle, exclude using gist (c with &&), exclude using gist (b with &&))",
        "insert into a values ('((0,0),(1,1))')",
        "insert into a values ('((1,1),(2,2))')",
    )


@pytest.mark.parametrize("kind", ["unique deferrable", "unique deferrable initially deferred"])
def test_two_transactions_with_one_deferrable_key(both_paths: Pair, shoal: ShoalServer, kind: str) -> None:
    both_paths.shoal.execute(f"create table t (a int {kind})".encode())
    first, second = Client(shoal.dsn, SCHEMA), Client(shoal.dsn, SCHEMA)
    try:
        first.run("begin", "insert into t values (1)", "set constraints all immediate")
        second.run("begin", "set constraints all deferred", "insert into t values (1)")
        waiting = second.waits("commit")
        first.run("commit")
        with pytest.raises(psycopg.errors.UniqueViolation):
            waiting.result()
        first.run("begin", "delete from t")
        waiting = second.waits("insert into t values (1)")
        first.run("commit")
        assert waiting.result() == 1
    finally:
        first.close()
        second.close()
