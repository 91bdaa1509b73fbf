"""Scenarios of tables that stand for others: partitioned by range, list, hash and in two levels, with default
partitions, indexes in any order and foreign keys that change partition keys; inherited ones with temporary children and
views over ONLY. Two connections: the second one leaves transactions open while the first one attaches and detaches.

Who waits is told by lock_timeout: 55P03 on one side only is a difference. After each scenario every index is compared
with its table's rows (shoal_check_indexes()).
"""

from __future__ import annotations

import itertools
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import psycopg

from tests.differential.compare import REFUSED, Outcome, Tally, runner

Connection = psycopg.Connection[tuple[object, ...]]
Run = Callable[[str], Outcome]
SCHEMA = "families"
STEPS = 40
WAITS, WAITED = "600ms", "55P03"
SETTINGS = (f"SET lock_timeout TO '{WAITS}'", f"SET search_path TO {SCHEMA}")
ACTIONS = ("CASCADE", "SET NULL", "SET DEFAULT")
INDEXES = (
    "CREATE INDEX ON f (b)",
    "CREATE UNIQUE INDEX ON f (a, b) INCLUDE (c)",
    "CREATE INDEX ON f ((b || '!'))",
    "CREATE INDEX ON f (c) WHERE c > 500",
    "CREATE INDEX ON f USING hash (b)",
    "ALTER TABLE f ADD UNIQUE (a, c)",
    "ALTER TABLE f ADD UNIQUE (a, b) DEFERRABLE",
)
LOOKS = (
    "SELECT tableoid::regclass::text, a, b, c FROM f",
    "SELECT a, c FROM f WHERE b = 'k{n}'",
    "SELECT a, b FROM f WHERE b || '!' = 'k{n}!'",
    "SELECT a, b FROM f WHERE c > 500 AND c = {m}",
    "SELECT b, c FROM f WHERE a = {n}",
    "SELECT count(*), sum(c) FROM f WHERE a BETWEEN {n} AND {m}",
    "SELECT count(*) FROM f WHERE a IS NULL",
)
_BEYOND = 3000
_ATTACHED = re.compile(r"\bATTACH PARTITION (\w+)")
_DETACHED = re.compile(r"DETACH PARTITION (\w+)")


@dataclass(frozen=True, slots=True)
class Step:
    """A statement of the first or the second connection."""

    sql: str
    second: bool = False


class Family:
    """The tables and statements of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._fresh = itertools.count(1)
        self._loose: list[tuple[str, str]] = []  # tables that may be attached, with bounds
        self._parts: list[tuple[str, str]] = []
        self._open = False
        self._nested = False

    def setup(self) -> list[str]:
        chosen, kind = self._random, self._random.choice(("range", "list", "hash", "nested"))
        update, delete = chosen.choice(ACTIONS), chosen.choice(ACTIONS)
        key = f"a int DEFAULT 3 REFERENCES n ON UPDATE {update} ON DELETE {delete}"
        self._nested = kind == "nested"
        by = {"range": "RANGE (a)", "list": "LIST (a)", "hash": "HASH (a)", "nested": "RANGE (a)"}[kind]
        made = [
            "CREATE TABLE n (id int PRIMARY KEY)",
            f"INSERT INTO n SELECT generate_series(0, 60) UNION ALL SELECT generate_series({_BEYOND}, {_BEYOND} + 20)",
            f"CREATE TABLE f ({key}, b text, c int) PARTITION BY {by}",
        ]
        indexes = chosen.sample(INDEXES, chosen.randint(1, 4))
        early = chosen.randint(0, len(indexes))
        made += indexes[:early] + self._partitions(kind)
        made.append("INSERT INTO f SELECT n % 50, 'k' || n, n * 13 FROM generate_series(1, 80) n WHERE n % 50 < 40")
        made += indexes[early:]
        made += [
            "CREATE TABLE par (x int, y text)",
            "CREATE TABLE chi (z int) INHERITS (par)",
            "CREATE INDEX ON chi (x)",
            "CREATE VIEW over_only AS SELECT * FROM ONLY par",
            "CREATE VIEW over_all AS SELECT * FROM par WHERE x > 0",
            "INSERT INTO par SELECT n, 'par' FROM generate_series(1, 5) n",
            "INSERT INTO chi SELECT n, 'chi', n FROM generate_series(3, 9) n",
        ]
        return made

    def _partitions(self, kind: str) -> list[str]:
        if kind == "hash":
            return [f"CREATE TABLE f{n} PARTITION OF f FOR VALUES WITH (MODULUS 3, REMAINDER {n})" for n in range(3)]
        bounds = {
            "list": [f"IN ({', '.join(map(str, range(low, low + 10)))})" for low in range(0, 60, 10)],
            "range": [f"FROM ({low}) TO ({low + 10})" for low in range(0, 60, 10)],
        }
        found = bounds["list" if kind == "list" else "range"]
        made = []
        for number, bound in enumerate(found[:4]):
            name = f"f{number}"
            if kind == "nested" and number == 1:
                made += [
                    f"CREATE TABLE {name} PARTITION OF f FOR VALUES {bound} PARTITION BY LIST (a)",
                    f"CREATE TABLE {name}x PARTITION OF {name} FOR VALUES IN (10, 11, 12)",
                    f"CREATE TABLE {name}d PARTITION OF {name} DEFAULT",
                ]
            else:
                made.append(f"CREATE TABLE {name} PARTITION OF f FOR VALUES {bound}")
            self._parts.append((name, bound))
        for number, bound in enumerate(found[4:]):
            name, low = f"loose{number}", 40 + 10 * number
            columns = ("a int, b text, c int", "c int, x int, a int, b text")[number]
            made.append(f"CREATE TABLE {name} ({columns})")
            if number:
                made.append(f"ALTER TABLE {name} DROP x")
            rows = f"SELECT n, 'k' || n, n * 13 FROM generate_series({low}, {low + 9}) n"
            made.append(f"INSERT INTO {name} (a, b, c) {rows}")
            self._loose.append((name, bound))
        if kind == "nested":
            made += [
                "CREATE TABLE fd PARTITION OF f DEFAULT PARTITION BY LIST (b)",
                "CREATE TABLE fdd PARTITION OF fd DEFAULT",
            ]
        elif self._random.random() < 0.7:
            made.append("CREATE TABLE fd PARTITION OF f DEFAULT")
        return made

    def steps(self) -> Iterator[Step]:
        """The temporary children of both connections, then statements; each is told whether the one before it was
        done by what it finds."""
        for second in (False, True):
            name = "mine" if not second else "yours"
            yield Step(f"CREATE TEMP TABLE {name} (t int) INHERITS (par)", second)
            yield Step(f"INSERT INTO {name} VALUES ({4 + second}, '{name}', 1)", second)
        for _ in range(STEPS):
            step = self._random.choices(
                [self._change, self._move, self._structure, self._inherited, self._beside, self._look],
                [6, 4, 5, 4, 5, 8],
            )[0]()
            yield step
            if self._nested and "TACH PARTITION" in step.sql:
                # PostgreSQL remembers the old bounds of partitions below the default one until they change.
                yield Step("GRANT SELECT ON fdd TO PUBLIC")
        if self._open:
            yield Step("COMMIT", True)
        for look in LOOKS:
            yield Step(self._filled(look))
        yield Step("SELECT x, y FROM par", True)
        yield Step("SELECT x, y FROM par")

    def _filled(self, text: str) -> str:
        return text.format(n=self._random.randint(0, 60), m=13 * self._random.randint(0, 60), u=next(self._fresh))

    def _look(self) -> Step:
        return Step(self._filled(self._random.choice(LOOKS)), self._random.random() < 0.2)

    def _change(self) -> Step:
        return Step(self._filled(self._random.choice((
            "INSERT INTO f VALUES ({n}, 'u{u}', 10000 + {u})",
            "INSERT INTO f SELECT n, 'u{u}-' || n, 20000 + {u} * 100 + n FROM generate_series(0, 59, 7) n",
            "INSERT INTO f VALUES ({n}, 'u{u}', 30000 + {u}) ON CONFLICT DO NOTHING RETURNING a, b",
            "INSERT INTO f1 VALUES ({n}, 'u{u}', 40000 + {u})",
            "UPDATE f SET b = b || '-{u}' WHERE a = {n}",
            "UPDATE f SET a = a + 10, c = c + 50000 WHERE a BETWEEN {n} AND {n} + 4",
            "UPDATE f SET a = {n} WHERE b = 'k{n}'",
            "DELETE FROM f WHERE a = {n}",
            "DELETE FROM f WHERE b = 'k{n}'",
        ))))  # fmt: skip

    def _move(self) -> Step:
        return Step(self._filled(self._random.choice((
            "UPDATE n SET id = id + 5000 WHERE id = {n}",
            f"UPDATE n SET id = id - {_BEYOND} + 100 WHERE id = {_BEYOND} + {{n}} % 20",
            "DELETE FROM n WHERE id = {n}",
            "DELETE FROM n WHERE id > 5000",
            "INSERT INTO n VALUES ({n})",
        ))))  # fmt: skip

    def _structure(self) -> Step:
        if self._random.random() < 0.25:
            return Step(self._random.choice(("REINDEX TABLE f1", *INDEXES)))
        if self._loose and (self._random.random() < 0.6 or not self._parts):
            name, bound = self._loose.pop(self._random.randrange(len(self._loose)))
            self._parts.append((name, bound))
            return Step(f"ALTER TABLE f ATTACH PARTITION {name} FOR VALUES {bound}")
        if not self._parts:
            return self._look()
        name, bound = self._parts.pop(self._random.randrange(len(self._parts)))
        self._loose.append((name, bound))
        return Step(f"ALTER TABLE f DETACH PARTITION {name}")

    def _inherited(self) -> Step:
        return Step(self._filled(self._random.choice((
            "SELECT x, y FROM par",
            "SELECT x, y FROM ONLY par",
            "SELECT x, y FROM chi WHERE x = {n} % 9",
            "UPDATE par SET x = x + 1 WHERE x < {n} % 9",
            "UPDATE ONLY par SET y = y || {u} WHERE x = {n} % 9",
            "UPDATE over_only SET x = x + 1 WHERE x < {n} % 9",
            "UPDATE over_all SET y = y || {u} WHERE x < {n} % 9",
            "DELETE FROM over_only WHERE x = {n} % 9",
            "DELETE FROM over_all WHERE x = {n} % 9",
            "DELETE FROM par WHERE x = {n} % 9",
            "INSERT INTO over_only VALUES ({n} % 9, 'u{u}')",
            "SELECT y, count(*) FROM over_all GROUP BY y",
        ))), self._random.random() < 0.4)  # fmt: skip

    def _beside(self) -> Step:
        """The second connection's transaction."""
        if self._open:
            self._open = False
            return Step(self._random.choice(("COMMIT", "COMMIT", "ROLLBACK")), True)
        self._open = True
        write = self._filled(self._random.choice((
            "INSERT INTO f VALUES ({n}, 'w{u}', 60000 + {u})",
            "UPDATE f SET a = {n} WHERE a = {n} + 1",
            "DELETE FROM f WHERE a = {n}",
        )))  # fmt: skip
        return Step(f"BEGIN; {write}", True)


def prepared(first: Connection, second: Connection) -> tuple[Run, Run]:
    """Both connections of a server, in an empty schema."""
    for connection in (first, second):
        connection.pgconn.exec_(b"ROLLBACK")
        connection.pgconn.exec_(b"DISCARD TEMP")
    runs = runner(first), runner(second)
    for sql in (f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", f"CREATE SCHEMA {SCHEMA}"):
        found = runs[0](sql)
        assert not found.sqlstate, found
    for run in runs:
        for sql in SETTINGS:
            assert not run(sql).sqlstate
    return runs


def run_family(
    seed: int, oracle: Sequence[Run], other: Sequence[Run], report: Callable[[str], None] = lambda _: None,
    examine: bool = True,
) -> Tally:  # fmt: skip
    """One scenario on PostgreSQL and on another server; a failure names the seed, the statement and what differs."""
    family, tally = Family(seed), Tally()
    for sql in family.setup():
        report(sql)
        want, got = oracle[0](sql), other[0](sql)
        if want.sqlstate != got.sqlstate:
            tally.failures.append(f"seed {seed}: {sql}\n    {got.sqlstate} {got.message} is not {want.sqlstate}")
            return tally
    detached: set[str] = set()  # they have kept the foreign keys of f
    for step in family.steps():
        report(f"{'second: ' if step.second else ''}{step.sql}")
        tally.statements += 1
        want, got = oracle[step.second](step.sql), other[step.second](step.sql)
        tally.errors[want.sqlstate] += bool(want.sqlstate)
        if got.sqlstate == REFUSED != want.sqlstate:
            tally.refused[got.message] += 1
            break
        tally.compared += 1
        if want.sqlstate == WAITED and got.sqlstate:
            continue  # one of several reasons to fail
        attached = _ATTACHED.search(step.sql)
        if want.sqlstate == WAITED and attached and (attached[1].startswith("f") or attached[1] in detached):
            break  # PostgreSQL drops triggers of a foreign key that the table had, and locks its parent for that
        detached.update(_DETACHED.findall(step.sql))
        if want.sqlstate != got.sqlstate:
            what = f"{got.sqlstate or 'none'} {got.message} is not {want.sqlstate or 'none'} {want.message}"
        elif want.sqlstate or (Counter(want.rows) == Counter(got.rows) and want.tag == got.tag):
            continue
        else:
            more, less = Counter(got.rows) - Counter(want.rows), Counter(want.rows) - Counter(got.rows)
            what = f"{got.tag}, not {want.tag}; only here {list(more)[:3]}, only there {list(less)[:3]}"
        tally.failures.append(f"seed {seed}: {step.sql}\n    {what}")
        break
    other[1]("ROLLBACK")
    oracle[1]("ROLLBACK")
    if examine:
        tally.failures += [f"seed {seed}: {what}" for what in damage(other[0])]
    return tally


def damage(run: Run) -> list[str]:
    """Indexes that do not hold what their tables' rows give."""
    run("SET lock_timeout TO 0")
    found = run("SELECT shoal_check_indexes()")
    assert not found.sqlstate, found
    return [str(item) for item in json.loads(found.rows[0][0] or "")["damaged"] if item["schema"] == SCHEMA]


def run_families(
    first: int, seconds: float, postgres: tuple[Connection, Connection], shoal: tuple[Connection, Connection]
) -> Tally:
    """Scenarios from a first seed on until the time is over, one at least."""
    total, end = Tally(), time.monotonic() + seconds
    for seed in itertools.count(first):
        total.add(run_family(seed, prepared(*postgres), prepared(*shoal)))
        if time.monotonic() > end:
            break
    return total
