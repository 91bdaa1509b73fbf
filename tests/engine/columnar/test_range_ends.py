"""Dates, timestamps and intervals at the ends of their ranges on the columnar path, beside PostgreSQL.

DuckDB's timestamps end 30 years before PostgreSQL's: an answer is PostgreSQL's, or a refusal by name (0A000).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import Part, parts, some
from tests.server import ShoalServer

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
INFINITIES = ("infinity", "-infinity")
DATES = (
    "4714-11-24 BC", "4713-01-01 BC", "2000-01-01", "294247-01-10", "294247-01-11", "294276-12-31", "294277-01-01",
    "5874897-12-31", *INFINITIES,
)  # fmt: skip
HELD = (
    "4714-11-24 00:00:00 BC", "4714-11-24 00:00:00.000001 BC", "1999-12-31 23:59:59.999999", "2000-01-01 00:00:00",
    "294247-01-10 00:00:00", "294247-01-10 04:00:54.775805", *INFINITIES,
)  # fmt: skip
LATE = ("294247-01-10 04:00:54.775806", "294247-01-10 04:00:54.775807", "294260-06-01 12:00:00",
        "294276-12-31 23:59:59.999999")  # fmt: skip
INTERVALS = (
    "0", "2562047 hours", "-2562047 hours", "2147483647 days", "-2147483648 days", "178956970 years 7 months",
    "-178956970 years -8 months", "178956970 years 7 months 2147483647 days 2562047 hours", "1 month", "30 days",
    "720 hours",
)  # fmt: skip
COLUMNS = {"d": ("date", DATES), "s": ("timestamp", HELD), "z": ("timestamptz", HELD), "i": ("interval", INTERVALS)}
CONSTANTS = {
    "date": DATES, "timestamp": (*HELD, *LATE), "timestamptz": (*HELD, *LATE),
    "interval": (*INTERVALS, "9223372036854775807 microseconds", "-9223372036854775807 microseconds"),
}  # fmt: skip
COMPARABLE = {"d": ("date", "timestamp", "timestamptz"), "s": ("date", "timestamp", "timestamptz"),
              "z": ("date", "timestamp", "timestamptz"), "i": ("interval",)}  # fmt: skip
ANSWERED = {("d", "date"), ("d", "timestamp"), ("s", "date"), ("s", "timestamp"), ("z", "timestamptz")}
"""Comparisons of a column with a constant of a type that are answered, whatever the constant."""


@pytest.fixture(scope="module")
def sides(postgres_server: PostgresServer, shoal: ShoalServer) -> Iterator[tuple[Connection, Connection]]:
    """PostgreSQL, and Shoal's columnar path."""
    opened = []
    for dsn in (postgres_server.dsn, shoal.dsn):
        connection = psycopg.connect(dsn, autocommit=True)
        connection.execute("CREATE SCHEMA ends")
        connection.execute("SET search_path TO ends")
        connection.execute("SET TimeZone TO 'UTC'")
        for name, (kind, values) in COLUMNS.items():
            connection.execute(f"CREATE TABLE of_{name} (n int PRIMARY KEY, {name} {kind})".encode())
            for number, value in enumerate([*values, None]):
                connection.execute(f"INSERT INTO of_{name} VALUES (%s, %s)".encode(), [number, value])
        opened.append(connection)
    opened[1].execute("SET shoal.path TO columnar")
    yield opened[0], opened[1]
    for connection in opened:
        connection.execute("DROP SCHEMA ends CASCADE")
        connection.close()


def answer(connection: Connection, sql: str) -> object:
    """All rows, or the SQLSTATE of an error."""
    try:
        return connection.execute(sql.encode()).fetchall()
    except psycopg.Error as error:
        return error.sqlstate


def differences(sides: tuple[Connection, Connection], queries: list[str]) -> tuple[list[str], int]:
    """What Shoal answers otherwise than PostgreSQL does, and how many it refuses."""
    wrong, refused = [], 0
    for sql in queries:
        expected, found = (answer(side, sql) for side in sides)
        refused += found == "0A000"
        if found not in (expected, "0A000"):
            wrong.append(f"{sql}\n  PostgreSQL {expected}\n  Shoal      {found}")
    return wrong, refused


@pytest.mark.parametrize("part", parts(2))
@pytest.mark.parametrize(("column", "kind"), [(name, kind) for name, kinds in COMPARABLE.items() for kind in kinds])
def test_columns_and_constants(sides: tuple[Connection, Connection], column: str, kind: str, part: Part) -> None:
    queries = []
    for value, symbol in part.of(product(CONSTANTS[kind], OPERATORS)):
        for test in (f"{column} {symbol} {kind} '{value}'", f"{kind} '{value}' {symbol} {column}"):
            queries.append(f"SELECT n FROM of_{column} WHERE {test} ORDER BY n")
        queries.append(f"SELECT n, {column} {symbol} {kind} '{value}' FROM of_{column} ORDER BY n")
    wrong, refused = differences(sides, queries)
    assert not wrong, "\n".join(wrong[:10])
    assert refused == 0 if (column, kind) in ANSWERED else refused < len(queries)


@pytest.mark.parametrize(("one", "other"), list(product("dsz", "dsz")))
def test_columns_with_each_other(sides: tuple[Connection, Connection], one: str, other: str) -> None:
    queries = [
        f"SELECT a.n, b.n FROM of_{one} a, of_{other} b WHERE a.{one} {symbol} b.{other} ORDER BY 1, 2"
        for symbol in OPERATORS[:6]
    ]
    wrong, refused = differences(sides, queries)
    assert not wrong, "\n".join(wrong[:10])
    assert refused == 0


def test_moments_are_distinct_in_the_zone_of_the_session(sides: tuple[Connection, Connection]) -> None:
    queries = [
        f"SELECT n, {column} IS {negated}DISTINCT FROM {constant} FROM of_{column} ORDER BY n"
        for column, constant, negated in product(
            "dsz",
            ("date '2000-01-01'", "timestamp '2000-01-01'", "timestamptz '2000-01-01 00:00+01'", "NULL::date",
             "timestamptz '2000-01-01'", "NULL::timestamptz", "date 'infinity'"),
            ("", "NOT "),
        )
    ] + [f"SELECT a.n, b.n FROM of_{one} a, of_{other} b WHERE a.{one} IS NOT DISTINCT FROM b.{other} ORDER BY 1, 2"
         for one, other in product("dsz", "dsz")]  # fmt: skip
    for side in sides:
        side.execute("SET TimeZone TO 'Europe/Berlin'")
    wrong, refused = differences(sides, queries)
    for side in sides:
        side.execute("SET TimeZone TO 'UTC'")
    assert not wrong, "\n".join(wrong[:10])
    assert refused == 0


def test_order_and_extremes(sides: tuple[Connection, Connection]) -> None:
    queries = [sql for name in COLUMNS for sql in (
        f"SELECT {name}::text FROM of_{name} ORDER BY {name}, n", f"SELECT n FROM of_{name} ORDER BY {name} DESC, n",
        f"SELECT min({name})::text, max({name})::text, count({name}) FROM of_{name}",
        f"SELECT count(*) FROM (SELECT DISTINCT {name} FROM of_{name}) q",
    )]  # fmt: skip
    wrong, refused = differences(sides, queries)
    assert not wrong, "\n".join(wrong)
    assert refused == 0


LATE_DATES = [number for number, value in enumerate(DATES) if value > "294247-01-10" and value < "5"]
LARGER = {
    f"{column} {sign} interval '{value}'"
    for column, sign, value in product("sz", "+-", ("1 microsecond", "1 day", "1 month", "294247 years", "0"))
} | {f"d {sign} {value}" for sign, value in product("+-", ("1", "2147483647", "interval '1 day'", "interval '0'"))}


@pytest.mark.parametrize("sum_", some(sorted(LARGER), 2))
def test_sums(sides: tuple[Connection, Connection], sum_: str) -> None:
    """Row by row: most rows have one, some are out of range. What is late is no timestamp in columns."""
    column = sum_[0]
    values = COLUMNS[column][1]
    wrong = []
    for number in range(len(values)):
        sql = f"SELECT ({sum_})::text FROM of_{column} WHERE n = {number}"
        expected, found = (answer(side, sql) for side in sides)
        late = isinstance(expected, list) and str(expected[0][0]) > "294247-01-10 04:00:54.775806" and "BC" not in str(
            expected[0][0]
        )  # fmt: skip
        late = late or (column == "d" and number in LATE_DATES)
        if found != expected and not (late and found in ("0A000", "22008")):
            wrong.append(f"{sql}: {expected} {found}")
    assert not wrong, "\n".join(wrong)


def test_late_timestamps_are_refused_in_columns_and_read_in_rows(sides: tuple[Connection, Connection]) -> None:
    shoal = sides[1]
    for kind in ("timestamp", "timestamptz", "timestamp[]"):
        shoal.execute(f"CREATE TABLE late (n int PRIMARY KEY, s {kind}, b int)".encode())
        shoal.execute("SET shoal.path TO auto")
        for number, value in enumerate((*HELD, *LATE)):
            given = f"{{{value}}}" if kind.endswith("[]") else value
            shoal.execute(b"INSERT INTO late VALUES (%s, %s, 1)", [number, given])
        shoal.execute("SET shoal.path TO columnar")
        for sql in (
            "SELECT n FROM late WHERE s < '1995-01-01'", "SELECT sum(b) FROM late", "SELECT max(s)::text FROM late",
        ):  # fmt: skip
            assert answer(shoal, sql if "s <" not in sql or "[]" not in kind else "SELECT min(n) FROM late") == "0A000"
        shoal.execute("SET shoal.path TO auto")
        shown = shoal.execute("SELECT s::text FROM late WHERE n = %s", [len(HELD) + 3]).fetchone()
        assert shown is not None and "294276-12-31 23:59:59.999999" in str(shown[0])
        shoal.execute("DELETE FROM late WHERE n >= %s", [len(HELD)])
        shoal.execute("SET shoal.path TO columnar")
        assert answer(shoal, "SELECT sum(b) FROM late") == [(len(HELD),)]
        shoal.execute("BEGIN")  # in a transaction's own rows too
        shoal.execute("SET LOCAL shoal.path TO auto")
        shoal.execute("INSERT INTO late VALUES (100, %s, 1)", [f"{{{LATE[0]}}}" if kind.endswith("[]") else LATE[0]])
        shoal.execute("SET LOCAL shoal.path TO columnar")
        assert answer(shoal, "SELECT sum(b) FROM late") == "0A000"
        shoal.execute("ROLLBACK")
        assert answer(shoal, "SELECT sum(b) FROM late") == [(len(HELD),)]
        shoal.execute("DROP TABLE late")


def test_late_timestamps_as_parameters_are_refused_by_name(sides: tuple[Connection, Connection]) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="294247-01-10"):
        sides[1].execute(b"SELECT n FROM of_s WHERE s + interval '0' < %s::timestamp + n * interval '0'", [LATE[3]])


def test_long_intervals_are_refused_by_name(sides: tuple[Connection, Connection]) -> None:
    shoal = sides[1]
    shoal.execute("CREATE TABLE long (n int PRIMARY KEY, i interval)")
    shoal.execute("SET shoal.path TO auto")
    shoal.execute("INSERT INTO long VALUES (1, '9223372036854775807 microseconds')")
    shoal.execute("SET shoal.path TO columnar")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="2562047 hours"):
        shoal.execute("SELECT count(*) FROM long")
    shoal.execute("DROP TABLE long")


def test_a_column_of_a_scale_has_no_nan(sides: tuple[Connection, Connection]) -> None:
    shoal = sides[1]
    shoal.execute("SET shoal.path TO auto")
    shoal.execute("CREATE TABLE of_n (n numeric(10,2))")
    shoal.execute("INSERT INTO of_n VALUES ('NaN')")
    shoal.execute("SET shoal.path TO columnar")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=r"NaN in a column of type numeric\(p,s\)"):
        shoal.execute("SELECT n FROM of_n")
