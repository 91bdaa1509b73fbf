"""Partitioned tables beside PostgreSQL: routing, reading, changing, on both paths."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.session.conftest import Pair


@pytest.fixture
def tables(both_paths: Pair) -> Pair:
    both_paths.run(
        "create table r (a int, b text, c int default 7 check (c < 1000)) partition by range (a)",
        "create table r1 partition of r for values from (minvalue) to (10)",
        "create table r2 partition of r for values from (10) to (20)",
        "create table r3 (c int, junk int, b text, a int)",
        "alter table r3 drop column junk",
        "alter table r3 add check (c < 1000), alter c set default 8",
        "alter table r3 rename constraint r3_c_check to r_c_check",
        "alter table r attach partition r3 for values from (20) to (30)",
        "create table l (k text, v int) partition by list (k)",
        "create table l_ab partition of l for values in ('a', 'b')",
        "create table l_null partition of l for values in (null, 'n')",
        "create table l_rest partition of l default partition by range (v)",
        "create table l_rest_1 partition of l_rest for values from (0) to (100)",
        "create table l_rest_2 partition of l_rest for values from (100) to (200)",
        "create table h (id int, t text) partition by hash (id)",
        *(f"create table h{n} partition of h for values with (modulus 3, remainder {n})" for n in range(3)),
        "insert into r values (1, 'one', 1), (10, 'ten', 2), (15, 'fifteen', 3), (25, 'five', 4)",
        "insert into l select chr(96 + n), n * 3 from generate_series(1, 12) n",
        "insert into l values (null, 1), ('n', 2)",
        "insert into h select n, 't' || n from generate_series(1, 50) n",
    )
    return both_paths


def test_rows_lie_in_their_partitions(tables: Pair) -> None:
    tables.same(
        "select * from r",
        *(f"select * from {name}" for name in ("r1", "r2", "r3", "l_ab", "l_null", "l_rest", "l_rest_1", "h0", "h1")),
        "select tableoid::regclass::text, * from r",
        "select tableoid::regclass::text, count(*) from l group by 1",
        "select tableoid::regclass::text t, min(id), count(*) from h group by tableoid order by 1",
        "select * from only r",
        "select count(*) from l",
    )


def test_conditions(tables: Pair) -> None:
    tables.same(
        *(
            f"select * from r where {condition}"
            for condition in (
                "a = 10", "a < 10", "a <= 10", "a > 14 and a < 26", "a in (1, 25, 700)", "a is null", "a = null",
                "a between 10 and 15 or b = 'five'", "a = 10 + 5", "a = 3000000000", "a < 3000000000", "b = 'ten'",
                "a > -3000000000 and a < 5", "a <> 10", "not a = 10", "a = any (array[1, 15])",
            )
        ),
        "select * from l where k = 'a'",
        "select * from l where k is null",
        "select * from l where k is not null and v < 9",
        "select * from l where k in ('a', 'n', 'zz')",
        "select * from l where k > 'b' and v >= 20",
        "select * from h where id = 7",
        "select * from h where id in (7, 8, 9)",
        "select r.b, l.v from r join l on r.c = l.v where r.a = 10",
        "select x.a, y.a from r x left join r y on y.a = x.a + 5 and y.a < 20",
        "select (select max(v) from l where l.v > r.a) from r",
        "select count(*), max(a) from r where exists (select from h where h.id = r.a)",
    )  # fmt: skip


def test_insert_errors(tables: Pair) -> None:
    tables.same(
        "insert into r values (30, 'x')",
        "insert into r values (null, 'x')",
        "insert into r values (5, 'x', 1000)",
        "insert into r1 values (11, 'x')",
        "insert into r1 values (9, 'x') returning tableoid::regclass::text, *",
        "insert into r values (9, 'x'), (19, 'y'), (29, 'z') returning tableoid::regclass::text, *",
        "insert into l_rest values ('a', 5)",
        "insert into l values ('q', 500)",
        "insert into h0 values (1, 'x')",
        "insert into h0 values (2, 'x')",
        "select tableoid::regclass::text, * from r",
    )


def test_update_and_delete(tables: Pair) -> None:
    tables.same(
        "update r set b = b || '!' where a = 10 returning *",
        "update r set b = b || '?' returning tableoid::regclass::text, *",
        "update r set a = a + 10 where a = 1 returning tableoid::regclass::text, *",
        "update r set a = a + 10 returning a",
        "update r set a = a + 5 where a < 20",
        "select tableoid::regclass::text, * from r",
        "update r2 set a = 5 where c = 2",
        "update r1 set a = 15 where a = 0",
        "update l set k = 'a' where k = 'e' returning tableoid::regclass::text, *",
        "update l set v = v + 90 where v > 10 and k <> 'a'",
        "select tableoid::regclass::text, * from l",
        "update h set id = id + 100 where id < 10",
        "select tableoid::regclass::text, * from h where id > 100",
        "update r set c = 1000 where c = 4",
        "delete from r where a = 15 returning tableoid::regclass::text, *",
        "delete from h where id % 2 = 0",
        "select count(*) from h",
        "delete from l using r where l.v = r.c returning l.*",
        "update l set v = r.c from r where r.b like 'o%'",
        "select tableoid::regclass::text, * from l",
        "with d as (delete from l where k = 'b' returning *) insert into r select 3, k, v % 100 from d returning *",
        "with u as (update r set b = 'u' returning a) select count(*), sum(a) from u",
        "delete from r",
        "select * from r",
    )


def test_parameters_choose_the_partition(tables: Pair) -> None:
    """One statement with many values: a plan for each set of partitions that they leave."""

    def both(sql: str, *rows: tuple[object, ...]) -> None:
        for row in rows:
            ours, theirs = (
                sorted(connection.execute(sql.encode(), row, prepare=True).fetchall(), key=repr)
                for connection in (tables.shoal, tables.postgres)
            )
            assert ours == theirs, (sql, row)

    keys = [(1,), (10,), (15,), (25,), (99,), (-5,), (None,), (1,), (25,)]
    both("select * from r where a = %s::int", *keys)
    both("select tableoid::regclass::text, * from r where a = %s::bigint", *keys, (2**40,))
    both("select count(*), max(b) from r where a >= %s::int and a < %s::int", (0, 9), (5, 26), (10, 20), (30, 1))
    both("select * from r where a = any (%s::int[])", ([1, 25],), ([],), ([99, 10],))
    both("select * from r join l on l.v = r.c where r.a = %s::int and l.k = %s::text", (10, "a"), (15, "a"), (1, "q"))
    both("select * from h where id = %s::int", *((number,) for number in range(0, 60, 7)))
    both("select (select b from r where a = %s::int), id from h where id = %s::int", (10, 3), (15, 4), (99, 5))
    both("update r set b = b || '+' where a = %s::int returning *", (10,), (10,), (25,), (99,))
    both("update r set a = a + %s::int where a = %s::int returning a", (1, 1), (10, 2), (-2, 25))
    both("delete from h where id = %s::int returning *", (3,), (4,), (3,))
    tables.same("select tableoid::regclass::text, * from r", "select count(*) from h")


def test_a_look_up_locks_one_partition(tables: Pair) -> None:
    """A transaction that holds one partition exclusively is in nobody's way at another one."""
    shoal = tables.shoal
    with psycopg.connect(_dsn(shoal), autocommit=True) as other:
        other.execute("set search_path = statements")
        shoal.execute("begin")
        shoal.execute("lock table r1 in access exclusive mode")
        other.execute("set lock_timeout = '200ms'")
        assert other.execute("update r set b = 'x' where a = %s", (10,), prepare=True).rowcount == 1
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("update r set b = 'x' where a = %s", (1,), prepare=True)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("insert into r values (2, 'waits')")
        assert other.execute("insert into r values (12, 'goes')").rowcount == 1
        shoal.execute("rollback")
        assert other.execute("insert into r values (2, 'goes')").rowcount == 1


@pytest.mark.parametrize("rows", [1, 6000])
def test_serializable_transactions_meet_in_partitions(tables: Pair, rows: int) -> None:
    """Each reads what the other writes, one row or many: one of them fails."""
    for connection in (tables.shoal, tables.postgres):
        with psycopg.connect(_dsn(connection)) as one, psycopg.connect(_dsn(connection)) as other:
            for each in (one, other):
                each.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
                each.execute("set search_path = statements")
            one.execute("select count(*) from r").fetchall()
            other.execute("select count(*) from h").fetchall()
            one.execute("insert into h select n, 'new' from generate_series(100, 99 + %s) n", (rows,))
            with other.cursor().copy("copy r (a) from stdin") as copy:
                copy.write("7\n" * rows)
            one.commit()
            with pytest.raises(psycopg.errors.SerializationFailure):
                other.commit()


def _dsn(connection: psycopg.Connection[tuple[object, ...]]) -> str:
    info = connection.info
    return f"host={info.host} port={info.port} user={info.user} dbname={info.dbname}"


def test_on_conflict(both_paths: Pair) -> None:
    both_paths.run(
        "create table c (a int, b int, v text, primary key (a, b), unique (b, a)) partition by range (a)",
        "create table c1 partition of c for values from (0) to (10)",
        "create table c2 (v text not null, b int not null, a int not null)",
        "alter table c attach partition c2 for values from (10) to (20)",
        "insert into c values (1, 1, 'x'), (11, 1, 'y')",
    )
    both_paths.same(
        "insert into c values (1, 1, 'z')",
        "insert into c values (11, 1, 'z')",
        "insert into c values (1, 1, 'z'), (2, 1, 'n') on conflict do nothing returning *",
        "insert into c values (11, 1, 'z'), (12, 1, 'n') on conflict (a, b) do update set v = c.v || excluded.v "
        "returning tableoid::regclass::text, *",
        "insert into c values (11, 1, 'z') on conflict (b, a) do update set b = excluded.b + 5 where c.v like 'y%'",
        "insert into c values (1, 1, 'z') on conflict (a, b) do update set a = 15",
        "insert into c values (12, 1, null) on conflict (a, b) do update set v = excluded.v",
        "insert into c select a, b, v || '2' from c on conflict (a, b) do update set v = excluded.v",
        "select tableoid::regclass::text, * from c",
        "update c set a = 12 where a = 2",
        "update c set a = 13 where a = 2",
        "select conname, contype, conrelid::regclass::text from pg_constraint where conrelid in "
        "('c'::regclass, 'c1'::regclass, 'c2'::regclass)",
    )


def test_copy(pair: Pair) -> None:
    pair.run(
        "create table p (a int, b text not null, c int default 3 check (c > 0)) partition by range (a)",
        "create table p1 partition of p for values from (0) to (4000)",
        "create table p2 (c int default 3 check (c > 0), b text not null, a int)",
        "alter table p2 rename constraint p2_c_check to p_c_check",
        "alter table p attach partition p2 for values from (4000) to (20000)",
        "create index on p (b)",
    )

    def copied(table: str, lines: list[str]) -> None:
        outcomes = []
        for connection in (pair.shoal, pair.postgres):
            try:
                with connection.cursor().copy(f"copy {table} from stdin".encode()) as copy:
                    copy.write("".join(f"{line}\n" for line in lines))
                outcomes.append(("", ""))
            except psycopg.Error as error:
                outcomes.append((error.diag.sqlstate, error.diag.message_primary, error.diag.context))
                connection.rollback() if not connection.autocommit else None
        assert outcomes[0] == outcomes[1]

    copied("p (a, b)", ["1\tx", "5000\ty"])
    copied("p (a, b)", ["1\tx", "50000\ty"])
    copied("p (a, b)", ["1\tx", "\\N\ty"])
    copied("p", ["1\tx\t1", "2\t\\N\t1"])
    copied("p", ["1\tx\t1", "5001\ty\t0"])
    copied("p1", ["1\tx\t1", "5001\ty\t1"])
    copied("p2 (a, b)", ["5001\ty", "1\tx"])
    copied("p (a, b)", [f"{number * 7 % 20000}\tn{number}" for number in range(12000)])
    copied("p (a, b)", [f"{number * 7 % 20001}\tn{number}" for number in range(20001)])
    pair.same(
        "select tableoid::regclass::text, count(*), sum(a), min(c), max(b) from p group by 1",
        "select * from p where b = 'n77'",
        "select count(*) from p2 where b like 'n1%'",
        "insert into p select a, b || '!' from p",
        "select tableoid::regclass::text, count(*), sum(a) from p group by 1",
        "select * from p where b = 'n77!'",
        "update p set a = 19999 - a where a % 3 = 0",
        "select tableoid::regclass::text, count(*), sum(a) from p group by 1",
        "delete from p where a < 10000",
        "select count(*), sum(a) from p",
    )
