"""char(n) on both paths beside PostgreSQL: stored columns lack the blanks that every answer shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import psycopg
import pytest

from catalog.types.user import FIRST_USER_OID
from tests.oracle import PostgresServer
from tests.samples import Part, parts, some
from tests.server import ShoalServer

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"

# a and b differ in length; d has none, and keeps the blanks that it is given
TABLES = """
CREATE SCHEMA padded; SET search_path TO padded;
CREATE TABLE x (n int PRIMARY KEY, a char(5), b char(8) NOT NULL, c char, d bpchar, v varchar(8), t text);
INSERT INTO x VALUES
    (1, '', '', '', '', '', ''), (2, 'a', 'a', 'a', 'a  ', 'a  ', 'a '), (3, 'ab', 'ab', 'b', 'ab', 'ab', 'ab'),
    (4, 'a b', 'a b', ' ', ' a b ', ' a b', 'a b'), (5, E'a\\t', E'a\\t', E'\\t', E'a\\t ', E'a\\t', E'a\\t '),
    (6, E'a\\x01', E'a\\x01', E'\\x01', E'a\\x01', E'a\\x01', E'a\\x01'), (7, 'é€', 'é€', 'é', 'é€ ', 'é€ ', 'é€'),
    (8, '😀x', '😀x', '😀', '😀x', '😀x ', '😀x'), (9, NULL, 'abcdefgh', NULL, NULL, NULL, NULL),
    (10, 'abcde', 'abcde', 'Z', 'abcde', 'abcde', 'abcde'), (11, 'AB', 'ab', 'A', 'AB', 'AB', 'AB'),
    (12, '12', '3', '7', '12', '12', '12'), (13, 'a%_', 'a%_', '%', '%', 'a\\%', '%');
CREATE TABLE y (k char(8) PRIMARY KEY, m char(5), w text);
INSERT INTO y SELECT b, a, t FROM x WHERE n NOT IN (11);
"""

# of each column @, one output column each
OF_ONE = (
    "@", "@::text", "@::varchar", "@::varchar(2)", "@::char(2)", "@::char(9)", "@::name", "@::bpchar", "length(@)",
    "char_length(@)", "octet_length(@)", "bit_length(@)", "@ || '|'", "'|' || @", "@ || @", "concat(@, '|')",
    "concat_ws('-', @, n)", "upper(@)", "lower(@)", "initcap(@)", "reverse(@)", "md5(@)", "ascii(@)", "left(@, 3)",
    "right(@, 2)", "substring(@ from 2 for 2)", "substr(@, 1)", "position('b' in @)", "strpos(@, ' ')", "trim(@)",
    "ltrim(@)", "rtrim(@)", "btrim(@, 'a ')", "lpad(@, 9, '*')", "rpad(@, 9, '*')", "rpad(@, 9)", "repeat(@, 2)",
    "replace(@, ' ', '_')", "translate(@, 'a ', 'x.')", "split_part(@, ' ', 1)", "starts_with(@, 'a')",
    "quote_literal(@)", "quote_ident(@)", "format('%s|%L', @, @)", "to_json(@)", "@ LIKE 'a%'", "@ LIKE 'a'",
    "@ LIKE 'a    '", "@ LIKE '%  '", "@ NOT LIKE '%b'", "@ ILIKE 'AB%'", "@ ~ 'a *$'", "@ ~ '^.{5}$'",
    "@ SIMILAR TO 'a.*'",
    "@ = 'a'", "@ = 'a  '", "@ <> 'ab   '", "@ < 'ab'", "@ <= 'a'", "@ > E'a\\t'", "@ >= 'é'", "@ = ''", "@ = ' '",
    "@ = v", "@ = t", "@ = a", "@ = b", "@ < b", "@ >= a", "@ = d", "@ < d", "@ = 'a'::text", "@ = 'a  '::text",
    "@ = 'a '::bpchar", "@ IN ('a', 'ab ', 'zz')", "@ NOT IN ('a', '')", "@ IN ('a', NULL)",
    "@ = ANY (ARRAY['a', 'ab'])",
    "@ = ANY (ARRAY[a, b])", "@ LIKE ANY (ARRAY['a%', 'é%'])", "@ BETWEEN 'a' AND 'ab'", "@ IS NULL",
    "@ IS DISTINCT FROM a", "@ IS NOT DISTINCT FROM 'a'", "nullif(@, 'a')", "nullif(@, b)", "coalesce(@, 'none')",
    "coalesce(@, b)", "coalesce(a, @, d)", "CASE WHEN n < 5 THEN @ ELSE b END",
    "CASE @ WHEN 'a' THEN 1 WHEN 'ab' THEN 2 END",
    "CASE WHEN n > 3 THEN @ END", "greatest(@, 'a')", "least(@, b)", "greatest(a, @)", "(@, n) < ('ab', 3)",
    "(@, b) = (a, b)",
    "ARRAY[@, b]", "ARRAY[@]::text[]", "array_to_string(ARRAY[@, b], '|')", "row(@, n)", "row(@, n) = row(a, n)",
    "pg_typeof(@)::text", "hashtext(@) = hashtext(@::text)", "(SELECT @)", "(SELECT @ || '|')", "ARRAY(SELECT @)",
    "@ IN (SELECT k FROM y)", "@ IN (SELECT m FROM y)", "@ NOT IN (SELECT k FROM y)", "@ IN (SELECT w FROM y)",
    "@ = ALL (SELECT k FROM y WHERE k = 'a')", "@ < ANY (SELECT k FROM y)", "EXISTS (SELECT FROM y WHERE k = @)",
    "(SELECT max(k) FROM y WHERE m = @)", "(SELECT count(*) FROM y WHERE k >= @)", "lag(@) OVER (ORDER BY n)",
    "first_value(@) OVER (PARTITION BY c ORDER BY n)", "max(@) OVER (ORDER BY n)", "count(@) OVER (ORDER BY @, n)",
    "rank() OVER (ORDER BY @)", "dense_rank() OVER (PARTITION BY @ ORDER BY n)", "encode(@::text::bytea, 'hex')",
)  # fmt: skip

# of each column @, whole queries whose rows have an order
QUERIES = (
    "SELECT @, count(*), min(n) FROM x GROUP BY @ ORDER BY @",
    "SELECT @, count(*) FROM x GROUP BY 1 HAVING @ > 'a' ORDER BY 1 DESC",
    "SELECT @ || '|', count(*) FROM x GROUP BY @ || '|' ORDER BY 1",
    "SELECT DISTINCT @ FROM x ORDER BY @",
    "SELECT DISTINCT @, length(@) FROM x ORDER BY 1, 2",
    "SELECT DISTINCT ON (@) @, n FROM x ORDER BY @, n DESC",
    "SELECT @ FROM x ORDER BY @, n",
    "SELECT @ AS s FROM x ORDER BY s DESC NULLS LAST, n",
    "SELECT n FROM x ORDER BY @ DESC, n LIMIT 7",
    "SELECT @, n FROM x ORDER BY @ FETCH FIRST 3 ROWS WITH TIES",
    "SELECT min(@), max(@), count(@), count(DISTINCT @) FROM x",
    "SELECT min(@) FILTER (WHERE n > 3), max(@) FILTER (WHERE n < 9), count(@) FILTER (WHERE @ <> 'a') FROM x",
    "SELECT string_agg(@, ',' ORDER BY n), string_agg(DISTINCT @::text, ',') FROM x",
    "SELECT array_agg(@ ORDER BY n), json_agg(@ ORDER BY n) FROM x",
    "SELECT array_agg(DISTINCT @ ORDER BY @) FROM x",
    "SELECT c, max(@), min(@) || '|' FROM x GROUP BY c ORDER BY c",
    "SELECT @, c, count(*) FROM x GROUP BY ROLLUP (@, c) ORDER BY @, c, 3",
    "SELECT grouping(@), @ FROM x GROUP BY GROUPING SETS ((@), ()) ORDER BY 1, 2",
    "SELECT s, length(s), s || '|' FROM (SELECT @ AS s FROM x) z ORDER BY s",
    "SELECT s || '|' FROM (SELECT @ AS s, n FROM x ORDER BY n LIMIT 9) z ORDER BY n",
    "WITH z AS (SELECT @ AS s FROM x) SELECT s, count(*) FROM z JOIN x ON s = b GROUP BY s ORDER BY s",
    "WITH RECURSIVE z(s, i) AS (SELECT @, 1 FROM x WHERE n = 3 UNION ALL SELECT s, i + 1 FROM z WHERE i < 3)"
    " SELECT s || '|', i FROM z ORDER BY i",
    "SELECT @ FROM x UNION SELECT k FROM y ORDER BY 1",
    "SELECT s FROM (SELECT @ AS s FROM x UNION ALL SELECT m FROM y) z ORDER BY s, octet_length(s)",
    "SELECT s FROM (SELECT @ AS s FROM x UNION ALL SELECT 'a  ') z ORDER BY s, octet_length(s)",
    "SELECT @ FROM x INTERSECT SELECT k FROM y ORDER BY 1",
    "SELECT b FROM x EXCEPT SELECT @ FROM x ORDER BY 1",
    "SELECT n, k || '|', m, y FROM x JOIN y ON @ = k ORDER BY n, k",
    "SELECT n, k, m || '|' FROM x LEFT JOIN y ON @ = m AND k > 'a' ORDER BY n, k",
    "SELECT s, b || '|' FROM (SELECT @ AS s, b FROM x) z FULL JOIN (SELECT k AS s FROM y) w USING (s) ORDER BY 1, 2",
    "SELECT z.s || '|' FROM x, LATERAL (SELECT @ AS s) z ORDER BY n",
    "SELECT z, z.s FROM (SELECT @ AS s, n FROM x) z ORDER BY n",
    "SELECT x FROM x WHERE @ = 'a' ORDER BY n",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY @), mode() WITHIN GROUP (ORDER BY @) FROM x",
    "SELECT rank('ab') WITHIN GROUP (ORDER BY @) FROM x",
    "SELECT n, random() < 2, @, @ = b FROM x ORDER BY n",
    "VALUES ((SELECT max(@) FROM x)), ((SELECT min(b) FROM x)) ORDER BY 1",
)
COLUMNS = "abcdvt"


def _open(dsn: str) -> Connection:
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute(b"SET search_path TO padded")
    return connection


@pytest.fixture(scope="module")
def sides(postgres_server: PostgresServer, shoal: ShoalServer) -> Iterator[tuple[Connection, Connection, Connection]]:
    """PostgreSQL, and Shoal's row path and columnar path."""
    for dsn in (postgres_server.dsn, shoal.dsn):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(TABLES.encode())
    with _open(postgres_server.dsn) as oracle, _open(shoal.dsn) as row, _open(shoal.dsn) as columnar:
        columnar.execute("SET shoal.path TO columnar")
        yield oracle, row, columnar
        oracle.execute("DROP SCHEMA padded CASCADE")
        row.execute("DROP SCHEMA padded CASCADE")


def _answer(connection: Connection, sql: str) -> object:
    """All rows as text, with the types of their columns; the SQLSTATE of an error."""
    cursor = connection.cursor()
    try:
        cursor.execute(sql.encode())
    except psycopg.Error as error:
        return error.sqlstate
    result = cursor.pgresult
    assert result is not None
    rows = [[result.get_value(row, place) for place in range(result.nfields)] for row in range(result.ntuples)]
    types = [min(result.ftype(place), FIRST_USER_OID) for place in range(result.nfields)]  # theirs differ
    return types, rows


def _check(sides: tuple[Connection, Connection, Connection], statements: list[str]) -> None:
    oracle, *ours = sides
    wrong = []
    for sql in statements:
        expected = _answer(oracle, sql)
        for name, side in zip(("row", "columnar"), ours, strict=True):
            found = _answer(side, sql)
            if found not in (expected, "0A000"):
                wrong.append(f"{name}: {sql}\n    {expected}\n    {found}")
    assert not wrong, "\n".join([f"{len(wrong)} differ", *wrong[:20]])


@pytest.mark.parametrize("column", some(COLUMNS, 3))
@pytest.mark.parametrize("part", parts(2))
def test_expressions(sides: tuple[Connection, Connection, Connection], column: str, part: Part) -> None:
    _check(sides, [f"SELECT n, {item.replace('@', column)} FROM x ORDER BY n" for item in part.of(OF_ONE)])


@pytest.mark.parametrize("column", COLUMNS)
def test_queries(sides: tuple[Connection, Connection, Connection], column: str) -> None:
    _check(sides, [item.replace("@", column) for item in QUERIES])


def test_few_are_refused(sides: tuple[Connection, Connection, Connection]) -> None:
    """What `_check` lets pass is what the columnar path has no form for: little of what was asked."""
    columnar = sides[2]
    refused = [
        item for item in OF_ONE if _answer(columnar, f"SELECT {item.replace('@', 'a')} FROM x ORDER BY n") == "0A000"
    ]
    assert len(refused) < len(OF_ONE) // 10, refused


CHANGES = (
    "CREATE TABLE z (k char(6) PRIMARY KEY, s char(4), o bpchar)",
    "INSERT INTO z SELECT b, left(a, 4), d FROM x WHERE length(b) <= 6",
    "UPDATE z SET s = k WHERE length(k) < 3",
    "UPDATE z SET s = (SELECT max(c) FROM x), o = k FROM y WHERE y.m = z.k AND z.k > 'a'",
    "DELETE FROM z WHERE k = 'é€'",
    "INSERT INTO z VALUES ('q', 'r', 's  '), ('', ' ', ' ') ON CONFLICT (k) DO UPDATE SET s = excluded.k",
    "MERGE INTO z USING y ON z.k = y.k WHEN MATCHED THEN UPDATE SET o = y.m WHEN NOT MATCHED AND length(y.k) < 4"
    " THEN INSERT VALUES (y.k, left(y.m, 4), y.w)",
    "CREATE TABLE w AS SELECT k, s, o, k || '|' AS t, coalesce(s, k) AS l FROM z",
    "ALTER TABLE z ALTER s TYPE char(7), ALTER o TYPE char(3) USING left(o, 3)",
)
LOOKS = (
    "SELECT *, octet_length(s), octet_length(o) FROM z ORDER BY k",
    "SELECT *, octet_length(k), octet_length(l) FROM w ORDER BY k, s, o",
    "SELECT z.k, z.s FROM z JOIN y ON z.s = y.k ORDER BY 1, 2",
)


@pytest.mark.parametrize("path", ["auto", "columnar"])
def test_changes(sides: tuple[Connection, Connection, Connection], path: str) -> None:
    """In transactions too, which see their own rows beside those in columns."""
    oracle, _, columnar = sides
    for connection in (oracle, columnar):
        connection.execute("BEGIN")
    try:
        columnar.execute(f"SET LOCAL shoal.path TO {path}".encode())
        for change in CHANGES:
            assert _answer(columnar, change) == _answer(oracle, change), change
            for look in LOOKS[: 2 if " w " in change or "ALTER" in change else 1]:
                assert _answer(columnar, look) == _answer(oracle, look), (change, look)
        assert _answer(columnar, LOOKS[2]) == _answer(oracle, LOOKS[2])
    finally:
        for connection in (oracle, columnar):
            connection.execute("ROLLBACK")


def test_changes_that_are_committed(sides: tuple[Connection, Connection, Connection]) -> None:
    oracle, _, columnar = sides
    for change in CHANGES:
        assert _answer(columnar, change) == _answer(oracle, change), change
        assert _answer(columnar, LOOKS[0]) == _answer(oracle, LOOKS[0]), change
    for look in LOOKS:
        assert _answer(columnar, look) == _answer(oracle, look)
    for connection in (oracle, columnar):
        connection.execute("DROP TABLE z, w")


def test_copy_out_is_padded(sides: tuple[Connection, Connection, Connection]) -> None:
    oracle, _, columnar = sides
    for query in ("SELECT a, b, c FROM x ORDER BY n", "SELECT a, max(b) FROM x GROUP BY a ORDER BY a"):
        for options in ("", "(FORMAT csv)", "(FORMAT binary)"):
            taken = []
            for connection in (oracle, columnar):
                with connection.cursor().copy(f"COPY ({query}) TO STDOUT {options}".encode()) as copy:
                    taken.append(b"".join(bytes(part) for part in copy))
            assert taken[0] == taken[1]


def test_arrow_is_padded(sides: tuple[Connection, Connection, Connection]) -> None:
    import pyarrow as pa

    with sides[2].cursor().copy(b"COPY (SELECT a, b, c FROM x ORDER BY n) TO STDOUT (FORMAT arrow)") as copy:
        table = pa.ipc.open_stream(b"".join(bytes(part) for part in copy)).read_all()
    assert table.column("a").to_pylist()[:3] == ["     ", "a    ", "ab   "]
    assert {len(value) for value in table.column("b").to_pylist()} == {8}
    assert {len(value) for value in table.column("c").to_pylist() if value is not None} == {1}
