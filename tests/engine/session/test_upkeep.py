"""ON COMMIT of temporary tables, REINDEX, REASSIGN OWNED and DROP OWNED, beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_on_commit(both_paths: Pair) -> None:
    both_paths.same(
        "create temp table d (id int primary key, v text) on commit delete rows",
        "create index on d (v)",
        "insert into d values (1, 'gone')",
        "select * from d",
        "begin",
        "insert into d values (1, 'a'), (2, 'b')",
        "insert into d select g, 'x' from generate_series(10, 5000) g",
        "select count(*) from d",
        "savepoint s",
        "delete from d where id > 100",
        "rollback to s",
        "select count(*) from d",
        "commit",
        "select count(*) from d",
        "insert into d values (1, 'again')",
        "select * from d where v = 'again'",
        "create temp table dr (id serial primary key) on commit drop",
        "select * from dr",
        "begin",
        "create temp table dr (id serial primary key, d int) on commit drop",
        "insert into dr (d) values (1), (2)",
        "select * from dr",
        "create temp view dv as select * from dr",
        "commit",
        "select * from dr",
        "select * from dv",
        "begin",
        "create temp table dr on commit drop as select 5 as five",
        "select * from dr",
        "rollback",
        "begin",
        "create temp table dr on commit drop as select 5 as five",
        "select * from dr",
        "end",
        "select * from dr",
        "create temp table pr (id int) on commit preserve rows",
        "insert into pr values (1)",
        "select * from pr",
        "create table notemp (id int) on commit drop",
        "create temp table ctas on commit delete rows as select 1 as one",
        "select * from ctas",
        "select relname, relpersistence from pg_class where relname in ('d', 'dr', 'pr')",
    )


def test_reindex(both_paths: Pair) -> None:
    both_paths.same(
        "create table r (id int primary key)",
        "create index r_i on r (id)",
        "reindex table r",
        "reindex index r_i",
        "reindex index r",
        "reindex table r_i",
        "reindex table nosuch",
        "reindex schema statements",
        "reindex schema nosuch",
        "reindex database nosuch",
        "reindex (verbose) table r",
        "reindex table concurrently r",
        "begin",
        "reindex table r",
        "reindex schema statements",
        "rollback",
        "begin",
        "reindex table concurrently r",
        "rollback",
    )


def test_owned(both_paths: Pair) -> None:
    both_paths.same(
        "drop role if exists stm_o, stm_p",
        "create role stm_o",
        "create role stm_p",
        "grant all on schema statements to stm_o, stm_p",
        "set role stm_o",
        "create table own (id serial primary key)",
        "create view ownv as select * from own",
        "create table fine (id int)",
        "reset role",
        "create table r (id int primary key)",
        "grant select on r to stm_o",
        "create view dep as select * from fine",
        "reassign owned by stm_o to stm_p",
        "select relname, pg_get_userbyid(relowner) from pg_class where relname in ('own', 'ownv', "
        "'own_id_seq', 'fine', 'own_pkey')",
        "reassign owned by nosuch to stm_p",
        "drop owned by stm_o",
        "select relacl from pg_class where relname = 'r'",
        "drop role stm_o",
        "drop owned by stm_p",
        "drop owned by stm_p cascade",
        "select relname from pg_class where relnamespace = 'statements'::regnamespace order by 1",
        "drop role stm_p",
        "select nspacl from pg_namespace where nspname = 'statements'",
    )
