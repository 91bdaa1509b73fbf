"""FOR UPDATE and its kin in every place of a statement and over every kind of table, while others hold locks: the rows
that come and the rows that are locked then, as PostgreSQL's."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import psycopg
import pytest

from tests.engine.bulk.conftest import Connection
from tests.engine.session.conftest import SCHEMA, Pair, outcome

TABLES = (
    "create table plain (id int primary key, kind text, n int, note text)",
    "create table keyless (id int, kind text, n int, note text)",
    "create table listed (id int, kind text, n int, note text, primary key (kind, id)) partition by list (kind)",
    "create table listed_a partition of listed for values in ('a')",
    "create table listed_b (note text, n int, kind text not null, id int not null, primary key (kind, id))",
    "alter table listed attach partition listed_b for values in ('b')",
    "create table listed_rest partition of listed default partition by range (id)",
    "create table listed_low partition of listed_rest for values from (0) to (5)",
    "create table listed_high partition of listed_rest for values from (5) to (100)",
    "create table parent (id int primary key, kind text, n int, note text)",
    "create table child (extra text) inherits (parent)",
    "create table sibling (primary key (kind, id)) inherits (parent)",
    "create view shown as select * from listed where n < 8",
    "create table kinds (kind text primary key, best int)",
    "insert into kinds values ('a', 2), ('b', 1), ('c', 3)",
)
ROWS = "select i, substr('abc', i % 3 + 1, 1), i % 10, 'note ' || i from generate_series(1, 12) i"
FILLS = (
    *(f"insert into {table} {ROWS}" for table in ("plain", "keyless", "listed")),
    f"insert into parent {ROWS} limit 4",
    f"insert into child {ROWS} limit 4 offset 4",
    f"insert into sibling {ROWS} limit 4 offset 8",
)
SOURCES = ("plain", "keyless", "listed", "parent", "shown", "only parent")
SHAPES = (
    "select id, n from {t} q where {w} order by n desc, id {l} {m}",
    "select * from {t} q where {w} order by id {l} {m}",
    "with next as (select id from {t} q where {w} order by n, id {l} {m}) select * from next order by id",
    "with next as (select id from {t} q where {w} order by id {l} {m}), numbered as (select id, row_number() over "
    "(order by id desc) from next) select * from numbered order by id",
    "with next as (select id from {t} q where {w} order by n, id {l} {m}) "
    "update {c} set note = 'taken' from next where {c}.id = next.id returning {c}.id",
    "delete from {c} where id in (select id from {t} q where {w} order by id {l} {m}) returning id, note",
    "select k.kind, j.id from kinds k cross join lateral "
    "(select id from {t} q where q.kind = k.kind and {w} order by id {l} {m}) j order by 1, 2",
    "select q.id, k.best from {t} q join kinds k on k.kind = q.kind where {w} order by q.id {l} {mq}",
    "select q.id, k.best from kinds k left join {t} q on k.kind = q.kind and {w} order by k.kind, q.id {l} {mk}",
    "select q.id, o.most from {t} q, (select max(n) most from {t}) o where {w} and n <= most order by q.id {l} {mq}",
    "select count(*) from (select id from {t} q where {w} order by id {l} {m}) taken",
    "select kind, (select id from {t} q where q.kind = k.kind and {w} order by id limit 1 {m}) from kinds k order by 1",
)
CONDITIONS = ("true", "kind = 'a'", "n between 2 and 7", "kind in ('b', 'c')", "id = 4", "kind = %(kind)s", "n > 7")
LIMITS = ("", "limit 1", "limit 3", "limit 2 offset 1", "limit %(count)s", "offset 2", "limit (select 2)")
STRENGTHS = ("update", "no key update", "share", "key share")
CASES = 150


def statements(seed: int) -> Iterator[tuple[str, str]]:
    choice = random.Random(seed)
    for number in range(CASES):
        source = choice.choice(SOURCES)
        strength, wait = choice.choice(STRENGTHS), choice.choice(("", " skip locked", " skip locked", " nowait"))
        changed = "listed" if source == "shown" else source.removeprefix("only ")
        sql = SHAPES[number % len(SHAPES)].format(
            t=source,
            c=changed,
            w=choice.choice(CONDITIONS),
            l=choice.choice(LIMITS),
            m=f"for {strength}{wait}",
            mq=f"for {strength} of q{wait}",
            mk=f"for {strength} of k{wait}",
        )
        yield sql, changed


def locked(connection: Connection, sql: str, table: str, blocks: str | None) -> list[object]:
    """What comes of a statement while another connection has locked some rows, and the rows that are free then."""
    values = {"kind": "b", "count": 2}
    with psycopg.connect(connection.info.dsn, autocommit=True) as other:
        other.execute(f"set search_path = {SCHEMA}".encode())
        with contextlib.suppress(psycopg.Error):
            other.execute("begin")
            other.execute(f"select 1 from {table} where id in (2, 3, 7) for {blocks}".encode() if blocks else b"")
        connection.execute("begin")
        try:
            cursor = connection.execute(sql.encode(), values)
            found: list[object] = [cursor.statusmessage, sorted(cursor.fetchall(), key=repr)]
            other.execute("rollback")
            for relation in (table, "kinds"):
                column = "kind" if relation == "kinds" else "id"
                for strength in ("no key update", "key share"):
                    query = f"select {column} from {relation} for {strength} skip locked"
                    found.append(outcome(other, query))
        except psycopg.Error as error:
            found = [error.sqlstate, error.diag.message_primary]
        connection.execute("rollback")
        return found


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_the_rows_that_come_and_the_rows_that_are_locked(pair: Pair, seed: int) -> None:
    pair.run(*TABLES, *FILLS, "set lock_timeout = '5s'")
    choice = random.Random(seed)
    differences = []
    for sql, table in statements(seed):
        waits = "skip locked" in sql or "nowait" in sql
        if table in ("listed", "parent") and "only" not in sql and (" lateral " in sql or "= k.kind and" in sql):
            continue  # a sub-query that refers to the outer query locks rows of plain tables only
        changes = sql.startswith("delete") or " set note" in sql
        blocks = choice.choice((None, "update", *(() if changes else ("share", "no key update")))) if waits else None
        ours, theirs = (locked(connection, sql, table, blocks) for connection in (pair.shoal, pair.postgres))
        if ours != theirs:
            differences.append(f"{sql}\n  beside for {blocks}\n  {ours}\n  {theirs}")
    assert not differences, "\n".join(differences)
