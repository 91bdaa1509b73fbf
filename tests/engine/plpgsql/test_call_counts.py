"""pg_stat_user_functions beside PostgreSQL, where a session's statistics are visible when it is asked to flush them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.engine.session.conftest import Pair

COUNTS = """select proname, pg_stat_get_function_calls(oid),
 pg_stat_get_function_total_time(oid) >= pg_stat_get_function_self_time(oid), pg_stat_get_function_self_time(oid) >= 0
 from pg_proc where pronamespace = 'statements'::regnamespace"""
VIEW = "select schemaname, funcname, calls, total_time >= self_time from pg_stat_user_functions"
WITHIN = "select funcname, calls from pg_stat_xact_user_functions"


@pytest.fixture
def counted(pair: Pair) -> Iterator[Pair]:
    pair.run(
        "create function leaf() returns int language plpgsql as $$begin perform pg_sleep(0.001); return 1; end$$",
        "create function above() returns int language plpgsql as $$begin return leaf() + leaf(); end$$",
        "create function inlined() returns int language sql as 'select 1'",
        "create function fails() returns int language plpgsql as $$begin return leaf() / 0; end$$",
        "create function deep(n int) returns int language plpgsql as "
        "$$begin if n = 0 then return leaf(); end if; return deep(n - 1); end$$",
        "create table t (a int)",
        "create procedure ran() language plpgsql as $$begin insert into t values (leaf()); end$$",
        "create function rows() returns setof int language plpgsql as $$begin return next leaf(); return next 2; end$$",
    )
    yield pair
    pair.shoal.execute(b"reset track_functions")
    pair.postgres.execute(b"reset track_functions")


def same_counts(pair: Pair, *statements: str) -> None:
    pair.postgres.execute(b"select pg_stat_force_next_flush()")
    pair.same(COUNTS, VIEW, *statements)


@pytest.mark.parametrize("tracked", ["none", "pl", "all"])
def test_calls(counted: Pair, tracked: str) -> None:
    counted.run(f"set track_functions = '{tracked}'")
    same_counts(counted)
    counted.run(
        "select leaf()",
        "select above(), inlined()",
        "select above() from generate_series(1, 3)",
        "select * from rows()",
        "call ran()",
        "select deep(3)",
        "do 'begin perform leaf(); end'",
    )
    counted.same("select fails()")
    same_counts(counted)


def test_calls_of_triggers(counted: Pair) -> None:
    counted.run(
        "create function trims() returns trigger language plpgsql as $$begin new.a := new.a % 10; return new; end$$",
        "create function looks() returns trigger language plpgsql as $$begin perform leaf(); return null; end$$",
        "create trigger one before insert on t for each row execute function trims()",
        "create trigger two after insert on t for each statement execute function looks()",
        "set track_functions = 'pl'",
        "insert into t select generate_series(1, 5)",
        "insert into t values (1)",
    )
    same_counts(counted)


def test_times_of_nested_calls(counted: Pair) -> None:
    counted.run("set track_functions = pl", "select above(), deep(5)")
    condition = (
        "select funcname, total_time > self_time, self_time < 1000 from pg_stat_user_functions where funcname <> 'leaf'"
    )
    same_counts(counted, condition)
    total = "select a.total_time < 4 * b.total_time from pg_stat_user_functions a, pg_stat_user_functions b where "
    same_counts(counted, f"{total} a.funcname = 'deep' and b.funcname = 'leaf'")


def test_a_block_keeps_its_calls(counted: Pair) -> None:
    counted.run("set track_functions = 'all'", "select leaf()")
    same_counts(counted)
    counted.run("begin", "select leaf()")
    counted.same(VIEW, WITHIN, "select leaf()", VIEW, WITHIN, "rollback")
    same_counts(counted)


def test_dropped_and_reset(counted: Pair) -> None:
    counted.run("set track_functions = 'all'", "select above()")
    same_counts(counted)
    counted.same("select pg_stat_reset_single_function_counters('leaf'::regproc)")
    same_counts(counted)
    counted.same("select pg_stat_reset_single_function_counters(12000), pg_stat_get_function_calls(12000)")
    counted.run("begin", "drop function leaf()")
    counted.same(VIEW)
    counted.run("rollback")
    same_counts(counted)
    counted.run("drop function leaf()", "select fails() where false")
    same_counts(counted)
    counted.run(
        "begin", "create function leaf() returns int language plpgsql as 'begin return 1; end'", "select leaf()"
    )
    counted.run("rollback")
    same_counts(counted)


@pytest.mark.parametrize("consistency", ["none", "cache", "snapshot"])
def test_consistency(counted: Pair, consistency: str) -> None:
    """What a transaction sees of the calls of others."""
    ours = psycopg.connect(f"{counted.shoal.info.dsn}", autocommit=True)
    theirs = psycopg.connect(f"{counted.postgres.info.dsn}", autocommit=True)
    others = Pair(ours, theirs)
    calls = "select leaf()", "select above()", "select deep(0)"
    try:
        others.run("set search_path = statements", "set track_functions = 'all'")
        counted.run(f"set stats_fetch_consistency = {consistency}")

        def call(*statements: str) -> None:
            others.run(*statements)
            theirs.execute(b"select pg_stat_force_next_flush()")

        call(calls[0])
        counted.run("begin")
        counted.same("select pg_stat_get_function_calls('leaf'::regproc)")
        call(*calls)
        each = [f"select pg_stat_get_function_calls('{name}'::regproc)" for name in ("leaf", "above", "deep", "fails")]
        counted.same(*each)
        call(*calls)
        counted.same(*each, "select pg_stat_clear_snapshot()", *each, "commit", *each)
    finally:
        ours.close()
        theirs.close()


def test_rows_of_tables(counted: Pair) -> None:
    names = ("inserted", "updated", "deleted")
    rows = f"select {', '.join(f'pg_stat_get_tuples_{name}({{0}})' for name in names)}".format("'t'::regclass")

    def same_rows() -> None:
        counted.postgres.execute(b"select pg_stat_force_next_flush()")
        counted.same(rows, "select relname, n_tup_ins, n_tup_upd, n_tup_del from pg_stat_user_tables")

    work = "insert into t select generate_series(1, 3)", "update t set a = a + 1", "delete from t where a = 2"
    counted.run("set track_functions = 'all'", "select leaf()", *work)
    same_rows()
    counted.run("set track_counts = off", *work)
    same_rows()
    counted.run("reset track_counts", *work)
    same_rows()
    counted.same("select pg_stat_reset_single_table_counters('t'::regclass)")
    same_rows()
    counted.run(*work)
    same_rows()
    counted.same("select pg_stat_reset()")
    same_rows()
    same_counts(counted)


@pytest.mark.parametrize("consistency", ["none", "cache", "snapshot"])
def test_notifications(counted: Pair, consistency: str) -> None:
    """pg_stat_slru, as far as it is the same for both: its names, and whether pages for notifications were begun."""
    send = "select pg_notify('loud', repeat(i::text, 4000)) from generate_series(1, 3) i"
    look = "select blks_zeroed > {} from pg_stat_slru where name = 'Notify'"
    counted.run(f"set stats_fetch_consistency = {consistency}", "listen loud")
    counted.same("select name from pg_stat_slru")
    others = Pair(
        psycopg.connect(counted.shoal.info.dsn, autocommit=True),
        psycopg.connect(counted.postgres.info.dsn, autocommit=True),
    )
    found = []
    for connection, other in ((counted.shoal, others.shoal), (counted.postgres, others.postgres)):
        with other:
            [(before,)] = connection.execute(b"select blks_zeroed from pg_stat_slru where name = 'Notify'").fetchall()
            seen = []
            for sql in ("begin", look, send, look, "pg_stat_clear_snapshot", look, "commit", look):
                if sql == send:
                    other.execute(send.encode())
                    other.execute(b"select pg_stat_force_next_flush()")
                elif sql == "pg_stat_clear_snapshot":
                    connection.execute(b"select pg_stat_clear_snapshot()")
                else:
                    cursor = connection.execute(sql.format(before).encode())
                    seen += cursor.fetchall() if cursor.description else []
            found.append(seen)
    counted.run("unlisten *", "reset stats_fetch_consistency")
    assert found[0] == found[1]


def test_who_may(counted: Pair) -> None:
    counted.run("create role plain_caller")
    try:
        counted.same(
            "set role plain_caller",
            "set track_functions = 'all'",
            "select pg_stat_reset_single_function_counters(1)",
            "select pg_stat_reset_single_table_counters(1)",
            "select pg_stat_reset()",
            "set track_counts = off",
            "select pg_stat_clear_snapshot()",
            VIEW,
            "reset role",
        )
    finally:
        for connection in (counted.shoal, counted.postgres):
            connection.execute(b"reset role; drop role plain_caller")
