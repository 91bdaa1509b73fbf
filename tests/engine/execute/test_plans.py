"""Bounds, locks, re-evaluation, encodings and EXPLAIN: what comparing results does not show."""

from __future__ import annotations

import cProfile
import gc
import struct
from collections.abc import Callable, Iterator, Sequence

import pytest

from catalog.errors import SqlError
from engine.execute.code import NotOnRowPath, _compile
from engine.execute.context import RowPathFull
from engine.execute.scan import FULL_SCAN_LIMIT, RANGE_LIMIT
from engine.storage.keys import row_key_encoder
from engine.storage.rows import RowCodec
from engine.txn.interface import NO_KEY_UPDATE, UPDATE
from tests.engine.execute.mirror import LoneTransaction, Mirror


@pytest.fixture
def full(mirror: Mirror) -> Mirror:
    """Table nulls with more rows than any row plan visits; only here, not in PostgreSQL."""
    table = mirror.catalog.table(mirror.plan("select id from nulls").relations[0])
    codec, key = RowCodec(table), row_key_encoder(table.storage_id, [table.columns[0].type])
    for number in range(RANGE_LIMIT + 10):
        mirror.rows[key((number,))] = codec.encode((number, number))
    return mirror


def run(mirror: Mirror, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    rows, _ = mirror.plan(sql).rows(mirror.context(mirror.rows), parameters)
    return list(rows)


@pytest.mark.parametrize(
    "sql",
    [
        "select 1 / (i - 1) from generate_series(1, {0}) i",
        "select sum(1 / (i - 1)) from generate_series(1, {0}) with ordinality s (i, n)",
        "select generate_series(1, {0}), 1 / (id - id) from nulls",
    ],
)
def test_a_series_that_is_too_long_is_not_begun(mirror: Mirror, sql: str) -> None:
    with pytest.raises(RowPathFull):
        run(mirror, sql.format(RANGE_LIMIT + 1))
    with pytest.raises(SqlError, match="division by zero"):
        run(mirror, sql.format(RANGE_LIMIT))


def test_a_series_that_is_not_read_to_its_end_is_begun(mirror: Mirror) -> None:
    assert run(mirror, "select i from generate_series(1, 1000000) i limit 2") == [(1,), (2,)]
    assert run(mirror, "select exists (select 1 from generate_series(1, 1000000))") == [(True,)]


def test_a_full_scan_gives_up_past_its_limit(full: Mirror) -> None:
    with pytest.raises(RowPathFull):
        run(full, "select count(*) from nulls")
    with pytest.raises(RowPathFull):
        run(full, f"select count(*) from nulls where id < {RANGE_LIMIT + 5}")
    assert run(full, f"select count(*) from nulls where id < {FULL_SCAN_LIMIT + 5}") == [(FULL_SCAN_LIMIT + 5,)]


def test_a_plan_leaves_nothing_to_the_cyclic_collector(mirror: Mirror) -> None:
    for sql in (
        "select a + 1, (select max(x.a) from t x where x.id < t.id) from t where a > 3 order by b",
        "select count(*), sum(a) from t group by b having count(*) > 1",
        "update nokey set x = x + 1 where y = 'a'",
        "insert into nokey values (1, 'x')",
    ):
        mirror.plan(sql)  # what is made once, is made
        while gc.collect():  # what other tests have left: a finalizer may leave more
            pass
        gc.disable()
        try:
            mirror.plan(sql)
            assert gc.collect() == 0, sql
            if not sql.startswith(("update", "insert")):
                mirror.plan(sql, brief=True).make_encoder((0,) * len(mirror.plan(sql).fields))(mirror.context({}), ())
                assert gc.collect() == 0, sql
        finally:
            gc.enable()


@pytest.mark.parametrize(
    "sql",
    [
        "select rank() over (order by a) from t",
        "select count(*) from t where exists (select rank() over (order by a) from t)",
        f"select count(*) from t where id in ({', '.join(map(str, range(5000)))})",
        "update nokey set x = (select rank() over (order by a) from t)",
    ],
    ids=["window", "sub-query", "long list", "update"],
)
def test_a_plan_that_is_given_up_leaves_nothing_either(mirror: Mirror, sql: str) -> None:
    assert mirror.plan(sql) is None  # what is made once, is made
    gc.collect()
    gc.disable()
    try:
        mirror.plan(sql)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_what_is_to_run_once_may_run_again_in_any_format(mirror: Mirror) -> None:
    for sql in ("select b, a, id from t", "select a + $1, count(*) from t where a > $1 group by a order by 1"):
        once, lasting = mirror.plan(sql, brief=True), mirror.plan(sql)
        for given in (3, 10, 3):
            values = [given] * len(lasting.parameter_types)
            wanted = lasting.rows(mirror.context(mirror.rows), values)
            assert once.rows(mirror.context(mirror.rows), values) == wanted
            for formats in ((0, 0, 0), (1, 1, 1), (0, 1, 1)):
                chosen = formats[: len(lasting.fields)]
                found = once.make_encoder(chosen)(mirror.context(mirror.rows), values)
                assert found == lasting.make_encoder(chosen)(mirror.context(mirror.rows), values), (sql, chosen)


def test_what_runs_once_minds_large_rows_all_the_same(mirror: Mirror) -> None:
    mirror.statement("insert into t (id, a, b) values (101, 10, 'more'), (102, 20, repeat('x', 5000))")
    for sql in ("select b, a from t where a > 3", "select id from t order by a desc", "select b || b, b from t"):
        once, lasting = mirror.plan(sql, brief=True), mirror.plan(sql)
        found = once.make_encoder((0,) * len(once.fields))(mirror.context(mirror.rows), ())
        assert found == lasting.make_encoder((0,) * len(once.fields))(mirror.context(mirror.rows), ()), sql
        assert found[1] > 1
        context = mirror.context(mirror.rows)
        context.memory_limit = 4000  # less than the row
        with pytest.raises(RowPathFull):  # the columnar path may be the better place
            mirror.plan(sql, brief=True).make_encoder((0,) * len(once.fields))(context, ())


def test_what_runs_once_shares_its_code_with_what_differs_in_columns(mirror: Mirror) -> None:
    def compiled(*statements: str) -> int:  # with LIMIT, without which nothing is compiled
        before = _compile.cache_info().misses
        for sql in statements:
            mirror.plan(sql, brief=True)
        return _compile.cache_info().misses - before

    assert compiled("select a, b, u from t where id > $1 order by 1 limit 9") > 0
    assert compiled("select u, b, a from t where id > $1 order by 1 limit 9") == 0
    assert compiled("select b, a, u from t where u = $1 limit 9") > 0
    assert compiled("select b, u, a from t where u = $1 limit 9") == 0
    assert compiled("select a + $1, b from t where id > 0 and u <> a limit 9") > 0
    again = "select u + $1, b from t where id > 0 and a <> u limit 9"
    assert compiled(again, again.replace("from t", "from t as r")) == 0


NESTED = {
    "sub-queries": ("(select ", "1", ")", ""),
    "sub-queries of outer rows": ("(select ", "t.a", ")", " from t where id = 1"),
    "EXISTS": ("exists (select where ", "true", ")", ""),
}


@pytest.mark.parametrize("name", NESTED)
def test_planning_takes_time_in_proportion_to_the_depth(mirror: Mirror, name: str) -> None:
    before, inner, after, rest = NESTED[name]

    def calls(depth: int) -> int:
        text = f"select {before * depth}{inner}{after * depth}{rest}"
        profile = cProfile.Profile()
        profile.enable()
        try:
            mirror.plan(text)
        except NotOnRowPath:  # Python's own parser does not go so deep
            pass
        finally:
            profile.disable()
        return sum(entry.callcount for entry in profile.getstats())

    calls(5)  # what is made once, is made
    assert calls(40) < 2.5 * calls(20)


def test_a_long_series_gives_up_where_no_table_is_read(mirror: Mirror) -> None:
    with pytest.raises(RowPathFull):
        run(mirror, f"select count(*) from generate_series(1, {RANGE_LIMIT + 5})")


def test_limit_and_extremes_stop_early(full: Mirror) -> None:
    assert run(full, "select id from nulls order by id desc limit 2") == [(RANGE_LIMIT + 9,), (RANGE_LIMIT + 8,)]
    assert len(run(full, "select * from nulls limit 3")) == 3
    assert run(full, "select min(id), max(id) from nulls") == [(0, RANGE_LIMIT + 9)]
    assert run(full, "select exists (select 1 from nulls)") == [(True,)]


def test_a_change_that_gives_up_has_written_nothing(full: Mirror) -> None:
    before = dict(full.rows)
    for sql in (
        "update nulls set v = 1",
        "delete from nulls",
        "insert into nokey select id, 'x' from nulls",
        "update nulls set v = (select sum(x.v) from nulls x) where id = 1",
    ):
        with pytest.raises(RowPathFull):
            run(full, sql)
        assert full.rows == before


class Overtaken(LoneTransaction):
    """A transaction whose snapshot is older than what is committed: `newer` holds newest versions, None for gone."""

    def __init__(self, rows: dict[bytes, bytes], newer: dict[bytes, bytes | None]) -> None:
        super().__init__(rows)
        self.newer = newer

    def lock_unchanged(self, keys: Sequence[bytes], strength: int) -> bool:
        return self.newer.keys().isdisjoint(keys) and super().lock_unchanged(keys, strength)

    def get_locked(
        self, key: bytes, strength: int, wait: str = "block", same_key: Callable[[bytes, bytes], bool] | None = None
    ) -> bytes | None:
        if wait == "nowait" and key in self.newer:
            raise SqlError("55P03", "could not obtain lock on row in relation")
        if wait == "skip locked" and key in self.newer:
            return None
        self.locks.append((key, strength))
        return self.newer.get(key, self.rows.get(key))

    def scan_newest(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self.scan(low, high, reverse)


def overtaken(mirror: Mirror, sql: str, change: tuple[object, ...] | None) -> tuple[list[tuple[object, ...]], int]:
    """Runs a statement while row 2 of tree has become `change`, or is gone."""
    table = mirror.catalog.table(mirror.plan("select id from tree").relations[0])
    codec, key = RowCodec(table), row_key_encoder(table.storage_id, [table.columns[0].type])
    context = mirror.context(mirror.rows)
    newer = {key((2,)): None if change is None else codec.encode(change)}
    context.transaction = context.reader = Overtaken(dict(mirror.rows), newer)
    rows, count = mirror.plan(sql).rows(context, ())
    return list(rows), count


def test_changes_judge_the_newest_version_again(mirror: Mirror) -> None:
    assert overtaken(mirror, "update tree set up = up + 0 where up = 1 returning id", (2, 4)) == ([(3,)], 1)
    assert overtaken(mirror, "update tree set up = up where id = 2 returning up", (2, 4)) == ([(4,)], 1)
    assert overtaken(mirror, "delete from tree where id = 2", None) == ([], 0)
    assert overtaken(mirror, "select id from tree where up = 1 for update", (2, 4)) == ([(3,)], 1)
    assert overtaken(mirror, "select id, up from tree where up > 0 for update", (2, 9))[0][0] == (2, 9)
    assert overtaken(mirror, "select id from tree order by id limit 2 for update skip locked", (2, 1))[0] == [
        (1,),
        (3,),
    ]
    with pytest.raises(SqlError, match='could not obtain lock on row in relation "tree"') as caught:
        overtaken(mirror, "select id from tree for update nowait", (2, 1))
    assert caught.value.sqlstate == "55P03"


def test_lock_strengths(mirror: Mirror) -> None:
    def strengths(sql: str) -> set[int]:
        context = mirror.context(dict(mirror.rows))
        mirror.plan(sql).rows(context, ())
        assert isinstance(context.transaction, LoneTransaction)
        return {strength for _, strength in context.transaction.locks}

    assert strengths("update t set a = 1 where id = 7") == {NO_KEY_UPDATE}
    assert strengths("update t set id = id where id = 7") == {NO_KEY_UPDATE}
    assert UPDATE in strengths("update t set id = 8 where id = 7")
    assert strengths("delete from nokey") == {UPDATE}


def test_binary_rows(mirror: Mirror) -> None:
    plan = mirror.plan("select id, b, c, d, a from t where id = 3 or id = 1 order by id")
    data, count = plan.make_encoder((1, 1, 1, 0, 1))(mirror.context(mirror.rows), ())
    row = struct.pack(">H", 5) + struct.pack(">ii", 4, 1) + struct.pack(">i", 3) + b"one" + struct.pack(">i?", 1, True)
    row += struct.pack(">i", 4) + b"1.50" + struct.pack(">ii", 4, 10)
    assert count == 2
    assert data.startswith(b"D" + struct.pack(">I", len(row) + 4) + row)
    with pytest.raises(SqlError, match="2 result formats"):
        plan.make_encoder((0, 0))


@pytest.mark.parametrize(
    ("sql", "lines"),
    [
        ("select * from t where id = 1", ["Index Scan using t_pkey on t", "  Index Cond: (id = 1)"]),
        ("select * from t where b = 'x'", ["Seq Scan on t", "  Filter: (b = 'x'::text)"]),
        (
            "select * from t where a = 1 and c order by b desc limit 1",
            [
                "Limit",
                "  ->  Index Scan Backward using t_ab on t",
                "        Index Cond: (a = 1)",
                "        Filter: c",
            ],
        ),
        ("select 1", ["Result"]),
        ("insert into t values (1)", ["Insert on t", "  ->  Result"]),
        (
            "update t set a = 1 where id = 1",
            ["Update on t", "  ->  Index Scan using t_pkey on t", "        Index Cond: (id = 1)"],
        ),
    ],
)
def test_explain(mirror: Mirror, sql: str, lines: list[str]) -> None:
    assert mirror.plan(sql).explain() == lines


def test_what_is_not_for_the_row_path(mirror: Mirror) -> None:
    for sql in (
        "select row_number() over () from t",
        "with recursive x as (select 1 as i union all select i from (select i from x full join t on true) y) table x",
        "select a, count(*) from t group by rollup (a)",
        "select * from t full join child on tid = t.id",
    ):
        assert mirror.plan(sql) is None


def test_keys_that_storage_cuts(mirror: Mirror) -> None:
    head = "x" * 600
    for tail in "bac":
        mirror.statement("insert into wide (k, n) values ($1, 1)", head + tail)
    mirror.statement("insert into wide (k) values ($1)", head + "a")
    mirror.statement("select n from wide where k = $1", head + "a")
    mirror.statement("select n from wide where k > $1", head + "a")
    mirror.statement("select n from wide where k <= $1", head + "b")
    mirror.statement("update wide set n = 2 where k = $1", head + "c")
    for sql in ("select k from wide order by k", f"select k from wide where k in ('{head}b', '{head}c')"):
        with pytest.raises(RowPathFull):  # neither the order nor the number of such keys is that of the values
            run(mirror, sql)
    mirror.statement("select k from wide order by k limit 1", ordered=True)


def test_rows_without_columns(mirror: Mirror) -> None:
    assert run(mirror, "select from t where id < 3") == [(), ()]
    data, count = mirror.plan("select from t where id < 3").make_encoder(())(mirror.context(mirror.rows), ())
    assert (data, count) == ((b"D" + struct.pack(">IH", 6, 0)) * 2, 2)
