"""MERGE into partitioned tables, and row locks of several partitions, beside PostgreSQL."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

MERGER = "merger_into_partitions"
SOURCES = (
    "(values (1, 'one'), (3, 'three'), (7, 'seven'), (12, 'twelve'), (25, 'far'))",
    "(select a, b from s where a < 20)",
)


@pytest.fixture(params=["primary key", "no key", "sub-partitions"])
def tables(pair: Pair, request: pytest.FixtureRequest) -> Pair:
    key = " primary key" if request.param == "primary key" else ""
    pair.run(
        f"create table t (dropped int, a int{key}, b text check (b <> 'bad'), c int not null default 5) "
        "partition by range (a)",
        "alter table t drop column dropped",
        "create table t1 partition of t for values from (0) to (5)",
        "create table t2 (c int not null, b text constraint t_b_check check (b <> 'bad'), note text, a int not null)",
        "alter table t2 drop column note",
        "create table s (a int, b text)",
        "insert into s values (1, 'x'), (4, 'y'), (13, 'z')",
    )
    if key:
        pair.run("alter table t2 add primary key (a)")
    pair.run("alter table t attach partition t2 for values from (5) to (10)")
    below = " partition by list (b)" if request.param == "sub-partitions" else ""
    pair.run(f"create table t3 partition of t for values from (10) to (20){below}")
    if below:
        pair.run(
            "create table t31 partition of t3 for values in ('twelve', 'z')", "create table t32 partition of t3 default"
        )
    pair.run("insert into t (a, b) values (1, 'a'), (2, 'b'), (6, 'c'), (7, 'd'), (12, 'twelve'), (13, 'f')")
    return pair


@pytest.mark.parametrize("source", SOURCES, ids=["values", "table"])
@pytest.mark.parametrize(
    "actions",
    [
        "when matched then update set b = t.b || q.b",
        "when matched and t.a > 5 then delete when matched then do nothing when not matched then insert (a, b) values "
        "(q.a, q.b)",
        "when matched then update set a = t.a + 6, c = t.c + 1",
        "when matched and q.b = 'seven' then update set a = 3, b = 'moved' when not matched and q.a < 20 then insert "
        "values (q.a, q.b, 0)",
        "when matched then update set b = 'bad'",
        "when matched then update set c = null",
        "when matched then update set a = 90",
        "when not matched then insert values (q.a, q.b, 1)",
        "when matched then update set b = t.tableoid::regclass::text",
    ],
)
def test_merge(tables: Pair, actions: str, source: str) -> None:
    tables.same(
        f"merge into t using {source} q (a, b) on t.a = q.a {actions}",
        "select tableoid::regclass::text, * from t",
        "select count(*) from t where b > ''",
    )


def test_a_row_is_changed_once(tables: Pair) -> None:
    tables.same(
        "merge into t using (values (1), (1)) q (a) on t.a = q.a when matched then update set b = 'twice'",
        "merge into t using (values (6), (6)) q (a) on t.a = q.a when matched then update set a = 1",
        "merge into t using (values (1), (1)) q (a) on t.a = q.a when matched then delete",
        "merge into t using s q on t.a < q.a when matched and t.a = 0 then delete",
        "select * from t",
    )


def test_references_follow(pair: Pair) -> None:
    pair.run(
        "create table t (a int primary key, b text) partition by list (a)",
        "create table t1 partition of t for values in (1, 2)",
        "create table t2 partition of t for values in (3, 4)",
        "create table r (a int references t on update cascade on delete cascade)",
        "insert into t values (1, 'x'), (3, 'y')",
        "insert into r values (1), (3)",
    )
    pair.same(
        "merge into t using (values (1, 2), (3, 4)) q (a, new) on t.a = q.a when matched then update set a = q.new",
        "select * from r",
        "merge into t using (values (4), (2)) q (a) on t.a = q.a when matched and q.a = 4 then delete "
        "when matched then update set a = 3",
        "select tableoid::regclass::text, * from t",
        "select * from r",
    )


LOCKS = ("for update", "for no key update nowait", "for share skip locked", "for key share of t")


@pytest.mark.parametrize("lock", LOCKS)
def test_rows_of_several_partitions_are_locked(tables: Pair, lock: str) -> None:
    tables.run("begin")
    tables.same(
        f"select * from t where a > 1 {lock}",
        f"select a, b || '!', tableoid::regclass::text from t where b > 'a' and c = 5 order by a desc {lock}",
        f"select t from t where a between 2 and 7 {lock}",
        "select count(*) from (select a from t for update) q",
        f"select a from t where a in (1, 7) {lock}",
        f"select a from t where a in (100, 200) {lock}",
    )
    tables.run("rollback")


def test_locks_of_several_partitions_hold(tables: Pair) -> None:
    """A second transaction of the same server skips what the first one has locked, and nothing else."""
    for connection in (tables.shoal, tables.postgres):
        connection.execute("begin")
        connection.execute("select * from t where b in ('b', 'c') for update")
        locks = "select count(*) from pg_locks where mode = 'RowShareLock' and pid = pg_backend_pid() and relation in "
        names = "('t1'::regclass, 't2'::regclass)"
        assert connection.execute((locks + names).encode()).fetchall() == [(2,)]
        connection.execute("rollback")


@pytest.mark.parametrize(
    "actions",
    [
        "when matched then update set b = 'mine'",
        "when matched then update set b = 'yours'",
        "when matched then update set a = t.a + 6",
        "when matched then update set a = 90, b = 'yours'",
        "when matched and t.a > 5 then delete",
        "when matched then delete",
        "when not matched then insert values (q.a, 'mine', 1)",
        "when not matched and q.a < 20 then insert values (q.a, 'mine', 1)",
        "when not matched and q.a > 20 then insert values (q.a, 'yours', 1)",
        "when not matched and q.a < 20 then insert values (q.a, 'yours', 1)",
        "when not matched and q.a < 20 then insert values (q.a, 'mine', null)",
    ],
)
def test_policies_of_the_partitioned_table(tables: Pair, actions: str) -> None:
    """Those of its partitions do not apply."""
    for connection in (tables.shoal, tables.postgres):
        connection.execute(f"CREATE ROLE {MERGER}".encode())
    try:
        tables.run(
            "update t set b = 'mine' where a in (1, 2, 7)",
            "alter table t enable row level security",
            "create policy shown on t for select using (a <> 2 and b <> 'c')",
            "create policy inserted on t for insert with check (b = 'mine')",
            "create policy updated on t for update using (a < 20) with check (b <> 'yours' and a <> 18)",
            "create policy deleted on t for delete using (b = 'mine')",
            "alter table t1 enable row level security",
            f"grant usage on schema statements to {MERGER}",
            f"grant all on all tables in schema statements to {MERGER}",
        )
        for source in (*SOURCES, "(values (2, 'x'), (6, 'y'))"):
            tables.same(
                f"set role {MERGER}",
                f"merge into t using {source} q (a, b) on t.a = q.a {actions}",
                "select a from t for update",
                "reset role",
                "select tableoid::regclass::text, * from t",
            )
    finally:
        for connection in (tables.shoal, tables.postgres):
            connection.execute(f"RESET ROLE; DROP OWNED BY {MERGER}; DROP ROLE {MERGER}".encode())
