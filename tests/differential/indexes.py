"""Random tables with random indexes, and random statements over them: an index may change how rows are found, never
which rows.

The same statements run on Shoal with the indexes, on Shoal without them, and on PostgreSQL. Expressions of conditions
are chosen from the expressions and predicates of indexes as well as from others.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import psycopg

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"
ROWS = 400
TABLE = (
    "create table {0} (id int primary key, a int, b int not null, t text, v varchar(20), s text not null,"
    " j jsonb, f numeric, on_ boolean, d timestamp)"
)
# Expressions by type: (text, texts of constants).
INTS = ("0", "1", "3", "7", "12", "19", "-2", "40")
TEXTS = ("'k1'", "'k3'", "'K3'", "'k1x'", "''", "'zz'", "'k'", "'é'")
EXPRESSIONS = (
    ("a", INTS), ("b", INTS), ("a + 1", INTS), ("a + b", INTS), ("abs(a)", INTS), ("(j ->> 'n')::int", INTS),
    ("length(t)", INTS), ("coalesce(a, b)", INTS), ("a * 2", INTS), ("a % 4", INTS),
    ("t", TEXTS), ("lower(t)", TEXTS), ("upper(v)", TEXTS), ("v", TEXTS), ("s", TEXTS), ("j ->> 'k'", TEXTS),
    ("j ->> 'm'", TEXTS), ("substr(t, 1, 2)", TEXTS), ("t || s", TEXTS), ("v || 'x'", TEXTS),
    ("f", ("0", "1.5", "1.50", "2", "-1")), ("f + 1", ("1.5", "2.50", "3")),
    ("date_trunc('day', d)", ("'2024-01-03'", "'2024-01-05'")), ("d", ("'2024-01-03 01:00'", "'2024-01-05'")),
)  # fmt: skip
PATTERNS = ("'k%'", "'k1_'", "'%1'", "'k\\%'", "'ww%'", "'k!_' escape '!'")
PREDICATES = (
    "a > 5", "a is not null", "t is not null", "b in (1, 3, 7)", "s = 'k1'", "on_", "not on_", "on_ = true",
    "a > 3 and s <> 'k3'", "a = 1 or a = 3", "lower(t) = 'k3'", "b >= 7", "f < 2", "j ->> 'k' = 'k1'",
    "d > '2024-01-03'", "s in ('k1', 'k3')", "a is null", "v like 'k%'", "(a, b) = (1, 3)",
)  # fmt: skip


def rows(random_: random.Random) -> list[str]:
    """Tuples of VALUES."""
    return [f"({number}, {row(random_)})" for number in range(1, ROWS + 1)]


def row(random_: random.Random) -> str:
    """The values of a row after its id."""

    def some(text: str) -> str:
        return "null" if random_.random() < 0.15 else text

    def word() -> str:
        long = "w" * random_.choice((3, 600))
        return random_.choice(("k1", "K1", "k3", "K3", "k1x", "zz", "", "k_", "k%", "é", "É", long))

    n = random_.randint(-3, 20)
    document = f"""'{{"n": {random_.randint(-3, 20)}, "k": "{word()}", "m": "{word()}"}}'"""
    values = [
        some(str(n)),
        str(random_.randint(-3, 20)),
        some(f"'{word()}'"),
        some(f"'{word()[:20]}'"),
        f"'{random_.choice(('k1', 'k3', 'zz'))}'",
        some(document),
        some(random_.choice(("1.5", "1.50", "2", "0.0", "-1"))),
        some(random_.choice(("true", "false"))),
        some(f"'2024-01-0{random_.randint(1, 7)} 0{random_.randint(0, 9)}:00'"),
    ]
    return ", ".join(values)


class Generator:
    """Statements over a table `t`. Indexes and conditions share a few expressions and predicates, so that they meet."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows = rows(self.random)
        self._expressions = self.random.sample(EXPRESSIONS, 6)
        self._predicates = self.random.sample(PREDICATES, 4)
        self.indexes = [self._index(number) for number in range(6)]

    def _index(self, number: int) -> str:
        """CREATE INDEX of one to three columns, expressions among them."""
        choice = self.random.choice
        columns = [
            f"({expression}){choice(('', '', ' desc', ' nulls first', ' desc nulls last'))}"
            for expression, _ in self.random.sample(self._expressions, choice((1, 1, 2, 3)))
        ]
        where = f" where {choice(self._predicates)}" if self.random.random() < 0.4 else ""
        unique = "unique " if self.random.random() < 0.15 else ""
        return f"create {unique}index t_i{number} on t ({', '.join([*columns, *(['id'] if unique else [])])}){where}"

    def statements(self, number: int) -> Iterator[str]:
        """Queries, and a change now and then."""
        for _ in range(number):
            yield self._change() if self.random.random() < 0.1 else self._query()

    def _condition(self) -> str:
        random_ = self.random
        if random_.random() < 0.3:
            return f"({random_.choice(self._predicates)})"
        expression, constants = random_.choice(self._expressions if random_.random() < 0.9 else EXPRESSIONS)
        one, other, third = (random_.choice(constants) for _ in range(3))
        forms = [
            f"{expression} = {one}", f"{expression} = {one}", f"{one} = {expression}",
            f"{expression} in ({one}, {other}, {third})", f"{expression} > {one}",
            f"{expression} between {one} and {other}", f"{expression} <= {one}", f"{expression} is null",
            f"{expression} is not null", f"({expression} = {one} or {expression} = {other})",
            f"not ({expression} > {one})", f"{expression} <> {one}",
        ]  # fmt: skip
        if constants is TEXTS:
            forms += [f"{expression} like {pattern}" for pattern in PATTERNS]
        return random_.choice(forms)

    def _where(self) -> str:
        return " and ".join(self._condition() for _ in range(self.random.choice((1, 1, 2, 2, 3))))

    def _query(self) -> str:
        """A SELECT with the same result in any order of visits, if its rows are sorted."""
        random_ = self.random
        where = self._where()
        expression, _ = random_.choice(self._expressions)
        order = random_.choice(("", " desc", " nulls first", " desc nulls last"))
        kind = random_.randrange(9)
        if kind == 0:
            return f"select id, {expression} from t where {where} order by {expression}{order}, id limit 7"
        if kind == 1:
            return f"select {expression} from t order by {expression}{order} limit 9"
        if kind == 2:
            return f"select {expression} from t where {where} order by {expression}{order} limit 9"
        if kind == 3:
            return f"select min({expression}), max({expression}) from t where {where}"
        if kind == 4:
            return f"select {expression}, count(*) from t where {where} group by 1"
        if kind == 5:
            given = f"select id as x, {expression} as y from t where id < 9"
            joined = f"select x, id from ({given}) g {random_.choice(('', 'left '))}join t"
            return f"{joined} on y = {expression} and id < 60 and {self._condition()}"
        if kind == 6:
            inner = f"select 1 from t where {expression} = o.y and {self._condition()} and t.id <> o.x"
            return f"select x from (select id as x, {expression} as y from t where id < 20) o where exists ({inner})"
        return f"select id from t where {where}"

    def _change(self) -> str:
        """An UPDATE, DELETE or INSERT."""
        random_ = self.random
        kind = random_.randrange(4)
        if kind == 0:
            return f"delete from t where {self._where()} and id % 3 = {random_.randrange(3)}"
        if kind == 1:
            return f"insert into t values ({random_.randint(1000, 10**8)}, {row(random_)})"
        changes = ("a = a + 1", "t = s", "s = 'k1'", 'j = \'{"k": "k3"}\'', "on_ = not on_", "b = b + 1, d = null")
        return f"update t set {random_.choice(changes)} where {self._where()}"


@dataclass
class Compared:
    """What came of comparisons. `used`: queries whose plan names an index of the generator, by that index's kind."""

    statements: int = 0
    queries: int = 0
    used: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)


def compare(seed: int, number: int, indexed: Connection, plain: Connection, oracle: Connection, to: Compared) -> None:
    """Statements of a seed on Shoal with indexes and without them, and on PostgreSQL; queries also with parameters in
    place of texts."""
    made = Generator(seed)
    for place, connection in enumerate((indexed, plain, oracle)):
        connection.execute(f"drop schema if exists indexes{place} cascade; create schema indexes{place}".encode())
        connection.execute(f"set search_path = indexes{place}".encode())
        connection.execute(TABLE.format("t").encode())
        connection.execute(f"insert into t values {', '.join(made.rows)}".encode())
    for sql in made.indexes:
        indexed.execute(sql.encode())
    for sql in made.statements(number):
        expected = _outcome(oracle, sql)
        found = {"indexed": _outcome(indexed, sql), "plain": _outcome(plain, sql)}
        to.statements += 1
        if sql.startswith("select"):
            to.queries += 1
            _count_index(indexed, made, sql, to)
            template, values = _with_parameters(sql)
            if values:
                given = _outcome(indexed, template, values)
                if not isinstance(given, str):  # a parameter may have another type than a literal
                    found["parameters"] = given
        for side, outcome in found.items():
            if outcome != expected:
                to.differences.append(f"seed {seed}, {side}: {sql}\n{outcome}\n{expected}\n{made.indexes}")


def _outcome(connection: Connection, sql: str, values: list[str] | None = None) -> object:
    """Rows, sorted unless the query sorts them; the number of rows; or the SQLSTATE."""
    try:
        if values is None:
            cursor = connection.execute(sql.encode())
        else:
            cursor = psycopg.RawCursor(connection).execute(sql.encode(), values)
    except psycopg.Error as error:
        return str(error.sqlstate)
    if cursor.description is None:
        return cursor.rowcount
    rows = cursor.fetchall()
    return rows if "order by" in sql else sorted(rows, key=repr)


def _count_index(connection: Connection, made: Generator, sql: str, to: Compared) -> None:
    plan = "\n".join(str(line) for (line,) in connection.execute(f"explain {sql}".encode()))
    for number in set(re.findall(r"using t_i(\d)", plan)):
        definition = made.indexes[int(number)]
        kind = "partial" if " where " in definition else "unique" if "unique" in definition else "whole"
        to.used[kind] = to.used.get(kind, 0) + 1


def _with_parameters(sql: str) -> tuple[str, list[str]]:
    """The statement with $1, ... in place of texts that are compared, and these."""
    values: list[str] = []

    def put(found: re.Match[str]) -> str:
        values.append(found[2])
        return f"{found[1]}${len(values)}"

    return re.sub(r"(= |in \(|like |>> )'([^']*)'", put, sql), values
