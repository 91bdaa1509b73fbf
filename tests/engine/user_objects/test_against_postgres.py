"""Statements about user-defined aggregates, operators, casts and range types: rows, errors and notices are those of
PostgreSQL, on both paths.

A script is a file of statements, each ended by `;;`. `_generated` adds queries: aggregates with every clause, of which
some run. `_over_own_ranges` are the scripts of built-in ranges, over user-defined ranges with the same bounds.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from tests.engine.sql.parser.corpus import statements_of
from tests.server import ShoalServer

HERE = pathlib.Path(__file__).parent
OWN_RANGES = "own_ranges"
SCRIPTS = [*sorted(item.stem for item in HERE.glob("*.sql")), OWN_RANGES]
DEFINITIONS = ("dropped_columns", "used_casts")  # which differ little between the paths
PATHS = [
    (script, path) for script in SCRIPTS for path in ("auto", "columnar") if script not in DEFINITIONS or path == "auto"
]
SPARSE = {"ranges": 3, OWN_RANGES: 5, "statistics": 3}
"""Of the queries of these scripts each third or fifth runs on the columnar path."""
BOUNDS = {"int4": "int4", "int8": "int8", "num": "numeric", "ts": "timestamp", "tstz": "timestamptz", "date": "date"}
_BUILT_IN_RANGE = re.compile(rf"\b({'|'.join(BOUNDS)})((?:multi)?range)\b")
Outcome = tuple[object, ...]

ARGUMENTS = {
    "newavg": "ten", "newsum": "four", "newcnt": "ten", "sums": "ten", "sump": "four", "joined": "stringu1",
    "collect": "three", "sumdouble": "unique1", "least_of": "ten", "counted": "*", "pairs": "four, ten",
}  # fmt: skip
BUILT_IN = ("newavg", "newsum", "newcnt", "collect", "counted")  # their functions are: they may be window functions
CLAUSES = ("", "DISTINCT ", " ORDER BY unique1 DESC", " ORDER BY stringu1, unique1")
FILTERS = ("", " FILTER (WHERE three < 2)")
QUERIES = (
    "SELECT {call} FROM onek",
    "SELECT three, {call} FROM onek WHERE unique1 % 3 <> 1 GROUP BY three ORDER BY three",
    "SELECT {call} FROM onek WHERE unique1 < 0",
    "SELECT four FROM onek GROUP BY four HAVING {call} IS NOT NULL ORDER BY four",
)
WINDOWS = ("()", "(PARTITION BY three ORDER BY unique1)", "(ORDER BY unique1 ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)")


def _generated() -> Iterator[str]:
    for (name, argument), clause, condition, query in product(ARGUMENTS.items(), CLAUSES, FILTERS, QUERIES):
        if argument == "*" and clause:
            continue
        inner = clause + argument if clause.endswith(" ") else argument + (clause or _order(name))
        yield query.format(call=f"{name}({inner}){condition}")
    for name, window, condition in product(BUILT_IN, WINDOWS, FILTERS):
        call = f"{name}({ARGUMENTS[name]}){condition} OVER {window}"
        yield f"SELECT unique1, {call} FROM onek WHERE unique1 < 40 ORDER BY unique1"


def _over_own_ranges() -> Iterator[str]:
    """The statements about built-in ranges, over ranges with the same bounds that a user has made."""
    for name, bound in BOUNDS.items():
        yield f"CREATE TYPE own_{name}range AS RANGE (subtype = {bound})"
    for script in ("ranges", "multiranges"):
        for statement in statements_of((HERE.parent / "scripts" / f"{script}.sql").read_text(encoding="utf-8")):
            yield _BUILT_IN_RANGE.sub(r"own_\1\2", statement)
        yield "DROP TABLE IF EXISTS m"


def _without_some(statements: list[str], step: int) -> Iterator[str]:
    """The statements with one of `step` queries."""
    queries = 0
    for statement in statements:
        queries += statement.lower().startswith("select")
        if not statement.lower().startswith("select") or queries % step == 0:
            yield statement


def _statements(script: str, path: str) -> list[str]:
    if script == OWN_RANGES:
        return list(_over_own_ranges())
    statements = (HERE / f"{script}.sql").read_text(encoding="utf-8").split(";;")
    statements = [item.strip() for item in statements if item.strip()]
    if script == "aggregates":
        at = statements.index("-- generated queries")
        statements[at : at + 1] = list(_generated())[:: 41 if path == "columnar" else 5]
    return statements


def _order(name: str) -> str:
    """An order for aggregates whose result depends on it."""
    return " ORDER BY unique1" if name in ("joined", "collect", "pairs") else ""


def _outcome(connection: psycopg.Connection, statement: str) -> Outcome:
    notices: list[tuple[object, ...]] = []
    connection.add_notice_handler(
        handler := lambda found: notices.append((found.severity, found.message_primary, found.message_detail))
    )
    try:
        cursor = connection.execute(statement.encode())
        rows = [tuple(map(str, row)) for row in cursor.fetchall()] if cursor.description else None
        if rows is not None and "ORDER BY" not in statement:
            rows.sort()
        return ("rows", cursor.statusmessage, rows, notices)
    except psycopg.Error as error:
        found = error.diag
        return (
            "error", found.sqlstate, found.message_primary, found.message_detail, found.message_hint,
            found.statement_position,
        )  # fmt: skip
    finally:
        connection.remove_notice_handler(handler)


@pytest.mark.parametrize(("script", "path"), PATHS)
def test_statements_are_answered_as_by_postgresql(
    postgres: psycopg.Connection, shoal: ShoalServer, script: str, path: str
) -> None:
    statements = _statements(script, path)
    if path == "columnar":
        statements = list(_without_some(statements, SPARSE.get(script, 1)))
    database = f"of_users_{script}"
    with psycopg.connect(shoal.dsn, autocommit=True) as ours:
        for connection in (ours, postgres):
            connection.execute(f"DROP DATABASE IF EXISTS {database}")
            connection.execute(f"CREATE DATABASE {database}")
    theirs_dsn = f"host=127.0.0.1 port={postgres.info.port} user=postgres dbname={database}"
    wrong = []
    with (
        psycopg.connect(shoal.dsn.replace("dbname=postgres", f"dbname={database}"), autocommit=True) as ours,
        psycopg.connect(theirs_dsn, autocommit=True) as theirs,
    ):
        if path == "columnar":
            ours.execute("SET shoal.path = columnar")
        for statement in statements:
            one, other = _outcome(ours, statement), _outcome(theirs, statement)
            if one != other:
                wrong.append(f"{statement}\n  Shoal      {one}\n  PostgreSQL {other}")
    postgres.execute(f"DROP DATABASE {database}")
    with psycopg.connect(shoal.dsn, autocommit=True) as ours:
        ours.execute(f"DROP DATABASE {database}")
    assert not wrong, f"{len(wrong)} of {len(statements)}:\n" + "\n".join(wrong[:20])


def test_objects_outlive_a_kill(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for statement in (
            "CREATE FUNCTION step(bigint, int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN $1 + $2; END'",
            "CREATE AGGREGATE total(int) (sfunc = step, stype = bigint, initcond = '0', sortop = <)",
            "CREATE OPERATOR ### (leftarg = bigint, rightarg = int, function = step, commutator = ###)",
            "CREATE VIEW v AS SELECT total(n), total(n) OPERATOR(public.###) 1 AS more FROM generate_series(1, 10) n",
        ):
            connection.execute(statement)
    private_shoal.kill()
    private_shoal.start()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        assert connection.execute("SELECT * FROM v").fetchall() == [(55, 56)]
        with pytest.raises(psycopg.errors.DependentObjectsStillExist):
            connection.execute("DROP FUNCTION step(bigint, int)")
        connection.execute("DROP FUNCTION step(bigint, int) CASCADE")
        assert connection.execute("SELECT count(*) FROM pg_aggregate WHERE aggfnoid > 16383").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM pg_operator WHERE oid > 16383 AND oprcode <> 0").fetchone() == (
            0,
        )


def test_ranges_of_users_travel_in_binary(postgres: psycopg.Connection, shoal: ShoalServer) -> None:
    """COPY in binary form gives the bytes of PostgreSQL, and reads them."""
    sent = []
    with psycopg.connect(shoal.dsn) as ours, psycopg.connect(postgres.info.dsn) as theirs:
        for connection in (ours, theirs):
            connection.execute("CREATE TYPE grade AS ENUM ('a', 'b', 'c')")
            connection.execute("CREATE TYPE grades AS RANGE (subtype = grade)")
            connection.execute("CREATE TYPE floats AS RANGE (subtype = float8, multirange_type_name = many_floats)")
            connection.execute("CREATE TABLE t (g grades, f floats, m many_floats, a floats[])")
            connection.execute(
                "INSERT INTO t VALUES ('[a,b)', '[1.5,)', '{[1,2),(3,4]}', NULL), ('empty', NULL, '{}', NULL)"
            )
            with connection.cursor().copy("COPY t TO STDOUT (FORMAT binary)") as copy:
                sent.append(b"".join(map(bytes, copy)))
            connection.execute("TRUNCATE t")
            with connection.cursor().copy("COPY t FROM STDIN (FORMAT binary)") as copy:
                copy.write(sent[-1])
            rows = connection.execute("SELECT g::text, f::text, m::text FROM t ORDER BY 1").fetchall()
            assert rows == [("[a,b)", "[1.5,)", "{[1,2),(3,4]}"), ("empty", None, "{}")]
            row = connection.cursor(binary=True).execute("SELECT g, m FROM t WHERE f IS NOT NULL").fetchone()
            sent.append(row)
            connection.rollback()
    assert sent[:2] == sent[2:]
