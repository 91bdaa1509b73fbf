"""MERGE beside PostgreSQL."""

from __future__ import annotations

import pytest

from tests.end_to_end.test_isolation import Client
from tests.engine.session.conftest import SCHEMA, Pair
from tests.server import ShoalServer


@pytest.fixture
def tables(pair: Pair) -> Pair:
    pair.run(
        "create table t (id int primary key, v int check (v < 1000), g int generated always as (v * 2) "
        "stored, n text not null default 'd')",
        "create table s (id int, v int)",
        "create table h (a int, b text)",
        "create view vw as select * from t",
        "create sequence sq",
        "insert into t (id, v) values (1,10),(2,20),(3,30)",
        "insert into s values (2,200),(3,300),(4,400),(5,null)",
    )
    return pair


def test_actions(tables: Pair) -> None:
    tables.same(
        "merge into t using s on t.id=s.id when matched then update set v = s.v when not matched then insert "
        "(id, v) values (s.id, s.v)",
        "select * from t",
        "merge into t using s on t.id=s.id when matched and s.v = 200 then delete when matched and s.id = 3 "
        "then update set v = t.v + s.v, n = 'up' when matched then do nothing when not matched and s.id > "
        "100 then do nothing when not matched then insert (id, v, n) values (s.id, s.v, 'again')",
        "select * from t",
        "merge into t using s on t.id=s.id when not matched then do nothing",
        "merge into t using s on t.id=s.id when not matched then insert values (s.id, s.v, default, default)",
        "select * from t",
        "merge into t using (values (1, 5), (1, 6)) as q(id, v) on t.id = q.id when matched then update set v = q.v",
        "merge into t using (values (1, 5), (1, 6)) as q(id, v) on t.id = q.id when matched then delete",
        "merge into t using (values (77, 5), (77, 6)) as q(id, v) on t.id = q.id when matched then delete "
        "when not matched then insert (id, v) values (q.id, q.v)",
        "merge into t using (values (1, 5)) as q(id, v) on t.id = q.id when matched then update set v = 1000",
        "merge into t using (values (1, 5)) as q(id, v) on t.id = q.id when matched then update set n = null",
        "merge into t as target using (values (1, 5), (99, 6)) as q(id, v) on target.id = q.id when matched "
        "then update set v = q.v, id = target.id + 1000 when not matched then insert values (q.id, default, "
        "default, 'x')",
        "select * from t",
        "with q as (select 1001 as id, 77 as v) merge into t using q on t.id = q.id when matched then update "
        "set v = q.v",
        "with q as (insert into h values (1001, 'w') returning *) merge into t using q on t.id = q.a when "
        "matched then update set n = q.b",
        "select * from t",
        "select * from h",
        "merge into h using (values (1001, 'x'), (5, 'y')) q(a, b) on h.a = q.a when matched then update set "
        "b = q.b when not matched then insert values (q.a, q.b)",
        "merge into h using (values (1001, 'x'), (5, 'y')) q(a, b) on h.a = q.a when matched and h.b = 'y' then delete",
        "select * from h",
        "merge into h using generate_series(1,5) g on h.a = g when not matched then insert values "
        "(nextval('sq'), 'seq') when matched then delete",
        "select * from h",
        "merge into h using (select g from generate_series(1,5) g) x on false when not matched then insert "
        "values (x.g, (select max(v)::text from t where t.id > x.g))",
        "select * from h",
        "merge into h using t on h.a = t.id when matched and exists (select 1 from s where s.id = t.id) then "
        "update set b = (select 'sub' || s.v from s where s.id = t.id limit 1) when matched then update set "
        "b = 'nosub'",
        "select * from h",
        "merge into h using t on true when matched then do nothing",
        "merge into h using s full join t using (id) on h.a = id when not matched then insert values (id, "
        "t.n) when matched then update set b = 'f'",
        "select * from h",
    )


def test_errors(tables: Pair) -> None:
    tables.same(
        "merge into t using s on t.id=s.id when matched then delete returning *",
        "with m as (merge into t using s on t.id=s.id when matched then delete) select 1",
        "with recursive m as (select 1) merge into t using s on t.id=s.id when matched then delete",
        "merge into vw using s on vw.id=s.id when matched then delete",
        "merge into t using t on t.id=t.id when matched then delete",
        "merge into t using s on t.id=s.id when matched then delete when matched then do nothing",
        "merge into t using s on t.id=s.id when not matched then insert values (t.id, 1)",
        "merge into t using s on t.id=s.id when not matched and t.id > 1 then insert values (s.id, 1)",
        "merge into t using s on t.id=s.id when not matched then insert values (s.id, 1, 2, 3, 4)",
        "merge into t using s on t.id=s.id when not matched then insert (id, v) values (s.id)",
        "merge into t using s on t.id=s.id when matched and count(*) > 1 then delete",
        "merge into t using s on t.id=s.id when matched then update set v = count(*)",
        "merge into t using s on t.id=s.id when not matched then insert values (count(*), 1)",
        "merge into t using s on t.id=s.id when matched and row_number() over () > 1 then delete",
        "merge into nosuch using s on true when matched then delete",
        "merge into t using (select t.id) q on true when matched then delete",
        "merge into t using s on count(*) > 0 when matched then delete",
        "merge into t using s on true when matched and s.id then delete",
        "merge into t using s on t.id=s.id when matched then update set nocol = 1",
        "merge into t using s on t.id=s.id when matched then update set g = 1",
        "merge into t using s on t.id=s.id when not matched then insert (id, g) values (1, 1)",
        "merge into t using s on t.id=s.id when not matched then insert (id, id) values (1, 1)",
        "merge into t using s on t.id=s.id when not matched then insert default values",
        "merge into t using s on t.id=s.id when not matched then insert (id) values ('abc')",
        "SELECT * FROM t",
    )


def test_rows_parameters_and_foreign_keys(tables: Pair) -> None:
    tables.same(
        "merge into t using s on t.id=s.id when matched then update set (v, n) = (s.v, 'multi')",
        "merge into t using s on t.id=s.id when matched then update set (v, n) = (select 7, 'sub')",
        "select * from t",
        "prepare m(int, text) as merge into h using (values ($1, $2)) q(a, b) on h.a = q.a when matched then "
        "update set b = h.b || q.b when not matched then insert values (q.a, q.b)",
        "execute m(4444, 'p')",
        "execute m(4444, 'q')",
        "select * from h where a = 4444",
        "create table par (id int primary key)",
        "create table chi (id int primary key, p int references par on delete cascade)",
        "insert into par values (1),(2)",
        "insert into chi values (1,1),(2,2)",
        "merge into par using (values (1),(3)) q(id) on par.id = q.id when matched then delete when not "
        "matched then insert values (q.id)",
        "select * from chi",
        "merge into chi using (values (2, 9)) q(id, p) on chi.id = q.id when matched then update set p = q.p",
        "begin read only",
        "merge into h using t on h.a = t.id when matched then delete",
        "rollback",
    )


def test_many_rows(tables: Pair) -> None:
    tables.same(
        "merge into t using generate_series(1, 3000) g on t.id = g when matched and g % 2 = 0 then delete "
        "when matched then update set v = -1 when not matched then insert (id, v) values (g, g % 100)",
        "select count(*), sum(v), sum(g), sum(id) from t",
    )


def test_a_changed_row_has_the_statement_run_again(tables: Pair, shoal: ShoalServer) -> None:
    first, second = Client(shoal.dsn, SCHEMA), Client(shoal.dsn, SCHEMA)
    sql = "MERGE INTO t USING (VALUES (1, 7), (50, 8)) s(id, v) ON t.id = s.id WHEN MATCHED AND t.v > 100 THEN DELETE "
    sql += "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    try:
        first.run("BEGIN", "UPDATE t SET v = 500 WHERE id = 1")
        waiting = second.waits(sql)
        first.run("COMMIT")
        waiting.result(20)
        assert first.run("SELECT id, v FROM t ORDER BY id") == [(2, 20), (3, 30), (50, 8)]
        first.run("BEGIN", "UPDATE t SET v = 7 WHERE id = 2")
        second.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1 FROM t")
        waiting = second.waits("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE")
        first.run("COMMIT")
        with pytest.raises(Exception, match="could not serialize access due to concurrent update"):
            waiting.result(20)
    finally:
        first.close()
        second.close()
