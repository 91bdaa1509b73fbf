"""pg_stat_user_tables: rows written and rows there, beside PostgreSQL's."""

from __future__ import annotations

from tests.engine.session.conftest import Pair

WRITTEN = "select relname, n_tup_ins, n_tup_upd, n_tup_del"
FROM = " from pg_stat_user_tables where schemaname = 'statements'"


def _same_counts(pair: Pair) -> None:
    """PostgreSQL's statistics are told when its session is asked to."""
    pair.postgres.execute(b"select pg_stat_force_next_flush()")
    pair.same(WRITTEN + ", n_live_tup" + FROM)


def test_single_rows(both_paths: Pair) -> None:
    both_paths.run("create table counted (id int primary key, v int)", "create table bare (v int)")
    _same_counts(both_paths)
    both_paths.run(
        "insert into counted select g, g from generate_series(1, 20) g",
        "insert into bare values (1), (2), (3)",
        "update counted set v = v + 1 where id = 3",
        "update counted set id = id + 100 where id > 15",
        "delete from counted where id = 1",
        "insert into counted values (2, 0), (50, 0) on conflict (id) do update set v = 7",
        "delete from bare where v < 3",
    )
    _same_counts(both_paths)
    both_paths.run("checkpoint", "delete from counted where id < 10", "insert into counted values (1, 1)")
    _same_counts(both_paths)
    both_paths.run("truncate bare")
    _same_counts(both_paths)


def test_what_is_rolled_back_was_written_and_is_not_there(pair: Pair) -> None:
    pair.run("create table undone (id int primary key)", "begin", "insert into undone values (1), (2)", "rollback")
    _same_counts(pair)


def test_rows_in_bulk(both_paths: Pair) -> None:
    both_paths.run("create table bulk (id int primary key, v text)")
    for statement, live in (
        ("insert into bulk select g, 'x' from generate_series(1, 6000) g", 6000),
        ("checkpoint", 6000),
        ("update bulk set v = 'y' where id <= 5000", 6000),
        ("delete from bulk where id > 1000", 1000),
        ("checkpoint", 1000),
    ):
        both_paths.run(statement)
        both_paths.postgres.execute(b"select pg_stat_force_next_flush()")
        both_paths.same(WRITTEN + FROM)
        row = both_paths.shoal.execute(f"select n_live_tup {FROM}".encode()).fetchone()
        assert row is not None and abs(row[0] - live) <= 0.1 * live


def test_copy_and_cascades_and_partitions(pair: Pair) -> None:
    pair.run(
        "create table above (id int primary key)",
        "create table below (id int primary key, a int references above on delete cascade)",
        "create table parts (id int) partition by range (id)",
        "create table parts_low partition of parts for values from (0) to (10)",
        "create table parts_high partition of parts for values from (10) to (20)",
        "insert into above values (1), (2)",
        "insert into below values (1, 1), (2, 1), (3, 2)",
        "delete from above where id = 1",
        "insert into parts values (1), (2), (11)",
        "update parts set id = id + 10 where id = 1",
    )
    for connection in (pair.shoal, pair.postgres):
        with connection.cursor().copy("COPY above FROM STDIN") as copy:
            copy.write("7\n8\n9\n")
    _same_counts(pair)
