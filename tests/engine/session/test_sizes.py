"""What tables, indexes, databases and tablespaces take, beside PostgreSQL where it must be the same."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair


def _one(pair: Pair, sql: str) -> int:
    row = pair.shoal.execute(sql.encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_what_has_rows_has_a_size_and_what_has_none_has_none(both_paths: Pair) -> None:
    both_paths.run("create table filled (id int primary key, v text)", "create index filled_v on filled (v)")
    both_paths.same(
        "select pg_relation_size(oid) from pg_class where relname = 'filled'",
        "select pg_relation_size(oid, 'main'), pg_relation_size(oid, 'vm') from pg_class where relname = 'filled'",
        "select pg_table_size('filled'::regclass) > 100000",
    )
    both_paths.run("insert into filled select g, repeat('x', 100) || g from generate_series(1, 5000) g")
    for flushed in (False, True):
        if flushed:
            both_paths.run("checkpoint")
        both_paths.same(
            "select relname, pg_relation_size(oid) > 500000, pg_relation_size(oid) < 5000000 from pg_class "
            "where relname in ('filled', 'filled_v')",
            "select pg_indexes_size(oid) > 400000 from pg_class where relname = 'filled'",
            "select pg_relation_size('filled') % current_setting('block_size')::int",
        )
    # Only now: one after the other is asked, and the memory's sizes change when a flush comes between.
    both_paths.same(
        "select pg_total_relation_size(oid) = pg_table_size(oid) + pg_indexes_size(oid) from pg_class "
        "where relname in ('filled', 'filled_v')",
    )
    both_paths.run("truncate filled")
    both_paths.same("select pg_relation_size('filled'), pg_relation_size(oid) from pg_class where relname = 'filled'")


def test_a_few_rows_count_before_and_after_a_flush(pair: Pair) -> None:
    pair.run("create table few (a int)", "insert into few values (1)")
    pair.same("select pg_relation_size('few')")
    pair.run("checkpoint")
    pair.same("select pg_relation_size('few'), pg_indexes_size('few'), pg_total_relation_size('few')")


def test_values_beside_the_pages_count(pair: Pair) -> None:
    pair.run("create table wide (a int, b bytea)", "alter table wide alter b set storage external")
    pair.run("insert into wide select g, convert_to(repeat('x', 20000), 'utf8') from generate_series(1, 100) g")
    pair.run("checkpoint")
    pair.same("select pg_table_size('wide') between 2000000 and 3000000")


def test_what_has_no_storage(both_paths: Pair) -> None:
    both_paths.run("create view seen as select 1 as a", "create table parted (a int) partition by range (a)")
    both_paths.same(
        "select pg_relation_size(oid), pg_table_size(oid), pg_indexes_size(oid), pg_total_relation_size(oid) "
        "from pg_class where oid in ('seen'::regclass, 'parted'::regclass)",
        "select pg_relation_size(1), pg_table_size(1), pg_indexes_size(1), pg_total_relation_size(1)",
        "select pg_relation_size(null), pg_database_size(null::name), pg_tablespace_size(null::oid)",
        "select pg_database_size(2::oid), pg_tablespace_size(2::oid)",
    )


def test_databases_and_tablespaces(both_paths: Pair) -> None:
    both_paths.same(
        "select pg_database_size(current_database()) > 0",
        "select datname, pg_database_size(oid) > 0, pg_database_size(datname) > 0 from pg_database "
        "where datname = current_database()",
        "select pg_tablespace_size('pg_default') >= pg_database_size('postgres')",
        "select spcname, pg_tablespace_size(oid) > 0 from pg_tablespace where spcname = 'pg_default'",
    )


def test_what_is_not_there(pair: Pair) -> None:
    pair.same(
        "select pg_relation_size('pg_class', 'x')",
        "select pg_database_size('nowhere')",
        "select pg_tablespace_size('nowhere')",
    )


def test_whose_size_one_may_see(pair: Pair) -> None:
    pair.run("create role sizeless", "create database unseen", "revoke connect on database unseen from public")
    try:
        pair.run("set role sizeless")
        pair.same("select pg_database_size('unseen')", "select pg_database_size(current_database()) > 0")
    finally:
        pair.run("reset role", "drop database unseen", "drop role sizeless")


KEYS = {
    "a key": "create table counted (id int primary key, v text)",
    "two columns": "create table counted (id int, v text, primary key (v, id))",
    "no key": "create table counted (id int, v text)",
    "unique beside": "create table counted (id int primary key, v text unique)",
    "a late key": "create table counted (id int primary key deferrable, v text)",
    "a key and indexes": "create table counted (id int primary key, v text); create index on counted (v); "
    "create index on counted (id)",
}


@pytest.mark.parametrize("name", KEYS)
def test_what_lies_there_once_counts_once(both_paths: Pair, name: str) -> None:
    """The sum over all relations is the database, without the schema that all databases share."""
    both_paths.run(*KEYS[name].split("; "))
    both_paths.run("insert into counted select g, repeat('x', 100) || g from generate_series(1, 5000) g", "checkpoint")
    own = "select coalesce(sum(pg_relation_size(oid)), 0) from pg_class where oid >= 16384 and relkind in ('r', 'i')"
    total = "select coalesce(sum(pg_total_relation_size(oid)), 0) from pg_class where oid >= 16384 and relkind = 'r'"
    database = "select pg_database_size(current_database())"
    assert _one(both_paths, own) == _one(both_paths, total) > 500_000
    before, sizes = _one(both_paths, database), _one(both_paths, own)
    both_paths.run("drop table counted", "checkpoint")
    gone, counted = before - _one(both_paths, database), sizes - _one(both_paths, own)
    assert abs(gone - counted) < 100_000  # pages that neighbours share


def test_a_primary_key_takes_nothing_beside_its_rows(pair: Pair) -> None:
    pair.run("create table keyed (id int primary key, v text)", "insert into keyed values (1, 'x')")
    assert _one(pair, "select pg_relation_size('keyed_pkey') + pg_indexes_size('keyed')") == 0
    assert _one(pair, "select pg_relation_size('keyed')") == _one(pair, "select pg_total_relation_size('keyed')") > 0
