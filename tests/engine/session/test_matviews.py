"""Materialized views beside PostgreSQL."""

from __future__ import annotations

from tests.end_to_end.test_isolation import Client
from tests.engine.session.conftest import SCHEMA, Pair
from tests.server import ShoalServer


def test_materialized_views(both_paths: Pair) -> None:
    both_paths.same(
        "create table b (id int primary key, v text, n int)",
        "insert into b select i, 'v' || i, i % 3 from generate_series(1, 10) i",
        "create materialized view mv as select n, count(*) c, sum(id) s from b group by n",
        "select * from mv order by n",
        "create materialized view if not exists mv as select 1",
        "create materialized view mv as select 1",
        "create materialized view mv2 (a, b) as select id, v from b where id < 4 with no data",
        "select * from mv2",
        "refresh materialized view mv2",
        "select * from mv2",
        "insert into b values (11, 'new', 7)",
        "select * from mv order by n",
        "refresh materialized view mv",
        "select * from mv order by n",
        "refresh materialized view concurrently mv",
        "create unique index mv_n on mv (n)",
        "insert into b values (12, 'newer', 8), (0, 'zero', 0)",
        "refresh materialized view concurrently mv",
        "select * from mv order by n",
        "select * from mv where n = 8",
        "refresh materialized view mv with no data",
        "select * from mv",
        "refresh materialized view concurrently mv",
        "refresh materialized view mv",
        "select count(*) from mv",
        "insert into mv values (1, 2, 3)",
        "update mv set c = 1",
        "delete from mv",
        "truncate mv",
        "select * from mv for update",
        "merge into mv using b on false when matched then delete",
        "drop table mv",
        "drop view mv",
        "drop materialized view b",
        "drop materialized view nosuch",
        "drop materialized view if exists nosuch",
        "refresh materialized view b",
        "refresh materialized view nosuch",
        "drop table b",
        "create view over as select * from mv where n > 0",
        "insert into over values (1,1,1)",
        "select count(*) from over",
        "drop materialized view mv",
        "select relname, relkind, relispopulated, relhasindex, relhasrules from pg_class where relname in "
        "('mv', 'mv2', 'over')",
        "select matviewname, hasindexes, ispopulated, definition from pg_matviews where schemaname = 'statements'",
        "select pg_get_viewdef('mv2'::regclass)",
        "select table_name from information_schema.tables where table_schema = 'statements'",
        "select attname, format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'mv2'::regclass "
        "and attnum > 0",
        "alter materialized view mv2 rename to mv3",
        "select * from mv3",
        "alter materialized view mv3 owner to postgres",
        "alter materialized view b owner to postgres",
        "create table t2 (id int references mv3)",
        "create index on mv3 (b)",
        "select indexname from pg_indexes where tablename = 'mv3'",
        "begin",
        "delete from b where id < 3",
        "refresh materialized view mv3",
        "select * from mv3",
        "rollback",
        "select * from mv3",
        "begin",
        "delete from b where id < 3",
        "refresh materialized view concurrently mv",
        "select * from mv order by n",
        "rollback",
        "select * from mv order by n",
        "create materialized view mv4 as with d as (delete from b returning *) select * from d",
        "create materialized view mv5 as select 1/0",
        "create materialized view mv5 (a, b, c) as select 1",
        "begin read only",
        "refresh materialized view mv",
        "rollback",
        "comment on materialized view mv3 is 'hello'",
        "select obj_description('mv3'::regclass)",
        "drop materialized view mv3",
        "drop table b cascade",
        "select relname from pg_class where relnamespace = 'statements'::regnamespace order by 1",
        "create table big as select g id, g % 10 as k from generate_series(1, 5000) g",
        "create materialized view mbig as select k, id from big",
        "create unique index on mbig (id)",
        "update big set k = k + 1",
        "refresh materialized view concurrently mbig",
        "select count(*), sum(k) from mbig",
        "refresh materialized view mbig",
        "select count(*), sum(k) from mbig",
    )


def test_readers_go_on_while_rows_are_replaced(pair: Pair, shoal: ShoalServer) -> None:
    pair.shoal.execute("CREATE TABLE b (id int PRIMARY KEY)")
    pair.shoal.execute("INSERT INTO b VALUES (1)")
    pair.shoal.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM b")
    pair.shoal.execute("CREATE UNIQUE INDEX ON m (id)")
    first, second = Client(shoal.dsn, SCHEMA), Client(shoal.dsn, SCHEMA)
    try:
        first.run("INSERT INTO b VALUES (2)", "BEGIN", "REFRESH MATERIALIZED VIEW CONCURRENTLY m")
        assert second.run("SELECT id FROM m") == [(1,)]
        waiting = second.waits("REFRESH MATERIALIZED VIEW m")
        first.run("COMMIT")
        waiting.result(20)
        assert second.run("SELECT id FROM m ORDER BY id") == [(1,), (2,)]
        first.run("BEGIN", "REFRESH MATERIALIZED VIEW m")
        waiting = second.waits("SELECT count(*) FROM m")
        first.run("ROLLBACK")
        assert waiting.result(20) == [(2,)]
    finally:
        first.close()
        second.close()
