"""COPY FROM STDIN beside PostgreSQL: rows, or the error with the line and column that it names."""

from __future__ import annotations

import pytest

from tests.engine.bulk.conftest import Pair

TEXT = [
    b"1\tx\ty\n2\tx\n",
    b"1\tx\ty\tz\n",
    b"1\tx\tyyyy\n",
    b"x\tx\ty\n",
    b"1\tx\ty\n1\tz\ty\n",
    b"\\N\tx\ty\n",
    b"1\tx\ty\r\n2\tx\ty\r\n",
    b"1\tx\ty\r\n2\tx\ty\n",
    b"1\tx\ty\n2\tx\ty\r\n",
    b"1\ta\\\nb\ty\n",
    b"1\ta\\x41\\101\\t\\q\ty\n",
    b"1\tx\ty\n\\.\n2\tx\ty\n",
    b"1\tx\ty\\.\n",
    b"1\tx\ty\\.z\n",
    b"1\tx\tyyy  \n",
    b"1\tx\\Ny\ty\n",
    b"1\tx\ty",
    b"",
    b"\n",
    b"1\t\xff\ty\n",
    b"1\tx\\xff\ty\n",
    b"1\t\0\ty\n",
    b"1\t" + b"q" * 150 + b"\tzzzz\n",
    b"1\tx\ty\n2\n\n",
    b"99999999999\tx\ty\n",
    b" 1 \tx\ty\n",
    b"1\tx\ty\\",
    b"1\tx\n2\t",
    "\u00e41\tx\ty\n".encode(),
    b"1\t" + "\u00e9".encode() * 120 + b"\n",
    b"1\tx\ty\r2\tx\ty\r",
    b"1\tx\ty\r2\tx\ty\n3\tx\ty\r",
    b"1\tx\\\\\ty\n",
    b"1\tx\\",
    b"0x10\tx\ty\n",
    b"+5\tx\ty\n",
    b"1\tx\ty\n3\t\\N\t\\N\n2\tx\\b\tx\\\\\n",
    b"1\ty\tz\n2\ty\tzzzz\n1\ty\tz\n",
    b"2\tq\tq\n\\N\tq\tq\nx\tq\n",
]
CSV = [
    b"1,x,y\n2,x\n",
    b'1,"x,y",z\n',
    b'1,"x""y",z\n',
    b'1,ab"c,d"e,z\n',
    b'1,"x\ny",z\n2,a,bbbb\n',
    b'1,a,b\n2,"x\n\ny",z\n3,a,bbbb\n',
    b'1,"x,y\n',
    b'1,"",\n',
    b'1,x,y\r\n2,"a\r\nb",z\r\n',
    b"1,x,y\n\\.\n2,x,y\n",
    b"1,x\\y,z\n",
    b"1, x ,z\n",
    b'1,"x"y,z\n',
    b"1,x,y\n\\.z\n",
    b"1,x,y\r\n2,x\r,y\n",
    b"1,x,y\n2,x\r,y\n",
    b'"\\N",x,y\n',
    b"1,x,y,\n",
    b",x,y\n",
    b'1,x,"yyyy\n"\n',
    b'1,"""a""",b\n',
    b'1,a"",b\n',
]
OPTIONS = [
    ("(a, b) FROM STDIN DELIMITER '|' NULL 'x'", b"1|x\n2|xx\n"),
    ("FROM STDIN (FORMAT csv, HEADER)", b"a,b,c\n1,x,yyyy\n"),
    ("FROM STDIN (FORMAT csv, HEADER MATCH)", b"a,b,d\n1,x,y\n"),
    ("FROM STDIN (FORMAT csv, HEADER MATCH)", b"a,b,c\n1,x,y\n"),
    ("FROM STDIN (FORMAT csv, HEADER MATCH)", b"a,b\n1,x,y\n"),
    ("FROM STDIN (HEADER MATCH)", b"a\tb\t\\N\n1\tx\ty\n"),
    ("FROM STDIN (HEADER MATCH)", b"a\tb\td\n1\tx\ty\n"),
    ("FROM STDIN (FORMAT csv, FORCE_NULL (b), FORCE_NOT_NULL (d))", b'1,"",\n'),
    ("FROM STDIN (FORMAT csv, ESCAPE 'e')", b'1,"ae"b",z\n'),
    ("FROM STDIN (FORMAT csv, ESCAPE '\\')", b'1,"a\\"b\\\\c\\d",z\n'),
    ("FROM STDIN (FORMAT csv, QUOTE '''', NULL 'NULL')", b"1,'it''s',NULL\n"),
    ("FROM STDIN WHERE a > 1", b"1\tx\ty\n2\tx\ty\n"),
    ("FROM STDIN WHERE a > 1", b"1\tx\ty\n2\tx\ty\n2\tx\ty\n"),
    ("(b, a) FROM STDIN", b"x\t1\n"),
    ("(b, d) FROM STDIN", b"x\ty\n"),
    ("FROM STDIN WITH CSV HEADER", b"a,b,d\n1,x,y\n"),
]


@pytest.fixture
def table(pair: Pair) -> Pair:
    pair.run("CREATE TABLE t (a int PRIMARY KEY, b text, d varchar(3) DEFAULT 'd')")
    return pair


def test_text(table: Pair) -> None:
    for data in TEXT:
        table.same_copy_in("COPY t FROM STDIN", data, "t")
        table.run("TRUNCATE t")


def test_csv(table: Pair) -> None:
    for data in CSV:
        table.same_copy_in("COPY t FROM STDIN CSV", data, "t")
        table.run("TRUNCATE t")


def test_options(table: Pair) -> None:
    for rest, data in OPTIONS:
        table.same_copy_in(f"COPY t {rest}" if rest.startswith("FROM") else f"COPY t{rest}", data, "t")
        table.run("TRUNCATE t")


@pytest.mark.parametrize("options", ["", "CSV"])
def test_a_single_column(pair: Pair, options: str) -> None:
    pair.run("CREATE TABLE s (a text)")
    for data in (b"\n", b'""\n', b"a\n\nb\n", b"\\.\n", b"x\\.\n"):
        pair.same_copy_in(f"COPY s FROM STDIN {options}", data, "s")
        pair.run("TRUNCATE s")


REFUSED = [
    "COPY t FROM STDIN (FORMAT 'x')",
    "COPY t FROM STDIN (DELIMITER 'ab')",
    "COPY t FROM STDIN (DELIMITER E'\\n')",
    "COPY t FROM STDIN (NULL E'a\\nb')",
    "COPY t FROM STDIN (DELIMITER 'a')",
    "COPY t FROM STDIN (QUOTE 'a')",
    "COPY t FROM STDIN (FORMAT csv, QUOTE 'ab')",
    "COPY t FROM STDIN (FORMAT csv, QUOTE ',')",
    "COPY t FROM STDIN (ESCAPE 'a')",
    "COPY t FROM STDIN (FORCE_QUOTE *)",
    "COPY t FROM STDIN (FORMAT csv, FORCE_QUOTE *)",
    "COPY t TO STDOUT (FORMAT csv, FORCE_NOT_NULL (a))",
    "COPY t FROM STDIN (FORCE_NULL (a))",
    "COPY t FROM STDIN (NULL 'x|y', DELIMITER '|')",
    "COPY t FROM STDIN (FORMAT csv, NULL 'x\"y')",
    "COPY t FROM STDIN (BLA 1)",
    "COPY t FROM STDIN (HEADER, HEADER)",
    "COPY t FROM STDIN (HEADER maybe)",
    "COPY t TO STDOUT (HEADER match)",
    "COPY t FROM STDIN (FORMAT binary, HEADER)",
    "COPY t FROM STDIN (FORMAT binary, DELIMITER ',')",
    "COPY t FROM STDIN (FORMAT csv, FORCE_NULL (zz))",
    "COPY t(zz) FROM STDIN",
    "COPY t(a, a) FROM STDIN",
    "COPY t(g) FROM STDIN",
    "COPY t(a, g) TO STDOUT",
    "COPY v FROM STDIN",
    "COPY v TO STDOUT",
    "COPY s TO STDOUT",
    "COPY s FROM STDIN",
    "COPY nix FROM STDIN",
    "COPY nowhere.nix TO STDOUT",
    "COPY nowhere.nix FROM STDIN",
    "COPY ti TO STDOUT",
    "COPY (SELECT 1 AS a) TO STDOUT (FORMAT csv, FORCE_QUOTE (b))",
    "COPY (INSERT INTO t(a) VALUES (1)) TO STDOUT",
]


def test_what_postgres_refuses(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE t (a int PRIMARY KEY, b text, g int GENERATED ALWAYS AS (a * 2) STORED)",
        "CREATE VIEW v AS SELECT 1 AS a",
        "CREATE SEQUENCE s",
        "CREATE INDEX ti ON t(b)",
    )
    for sql in REFUSED:
        if "FROM STDIN" in sql:
            pair.same_copy_in(sql, b"", "t")
        else:
            pair.same(sql)


def test_files_and_programs_of_the_server_are_refused_by_name(ours: object) -> None:
    from tests.engine.bulk.conftest import outcome

    for sql in ("COPY t FROM '/etc/passwd'", "COPY t TO PROGRAM 'cat'"):
        found = outcome(ours, sql)  # type: ignore[arg-type]
        assert isinstance(found, tuple)
        assert found[0] == "0A000"
    assert "psql" in str(outcome(ours, "COPY t FROM '/etc/passwd'"))  # type: ignore[arg-type]


TYPES = (
    "i2 int2, i8 int8, n numeric, m numeric(8,3), f float8, g float4, b bool, d date, t time, ts timestamp, "
    "tz timestamptz, u uuid, y bytea, j json, jb jsonb, c char(4), v varchar(5), iv interval, ar int[], tx text[]"
)
VALUES = [
    "1 2 3.10 4.5 1.5 0.1 t 2024-02-29 10:11:12 2024-02-29T10:11:12.5 2024-02-29T10:11:12+02 "
    '123e4567-e89b-12d3-a456-426614174000 \\\\x6162 {"a":1} {"b":[1,2]} ab abc 1day {1,2,3} {a,b}',
    "-32768 -9223372036854775808 -0 -0.0005 -Infinity NaN false 0001-01-01 24:00:00 infinity -infinity "
    '{a0eebc999c0b4ef8bb6d6bb9bd380a11} abc "x" null x x -1mon {} {}',
    "32767 9223372036854775807 1e3 12 1e-300 1e-40 no 9999-12-31 00:00 2024-01-01 2024-01-01 "
    'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11 \\\\x {} 1.50 abcd abcde P1Y {{1,2},{3,4}} {NULL,"a b"}',
    "007 +8 .5 99999.999 .5 5. yes 2024-1-5 1:2:3 2024-01-05 2024-01-05 "
    "123e4567e89b12d3a456426614174000 \\\\001 [] [] a a 1:00 [2:3]={1,2} {}",
    " ".join(["\\N"] * 20),
]
WRONG = [
    *("i2 32768", "i8 1.0", "n abc", "m 123456", "f 1e400", "g 1e39", "b maybe", "d 2024-02-30", "t 25:00"),
    *("ts 2024-13-01", "u 123", "y \\\\xgg", "j {", "jb {", "c abcde", "v abcdef", "iv x", "ar {1", "ar {x}"),
]


def test_values_of_all_types(pair: Pair) -> None:
    pair.run(f"CREATE TABLE k ({TYPES})", "SET timezone = 'UTC'")
    lines = [value.replace(" ", "\t").replace("T10:", " 10:").replace('a\tb"', 'a b"') for value in VALUES]
    for line in lines:
        pair.same_copy_in("COPY k FROM STDIN", line.encode() + b"\n", "k")
    pair.same_copy_in("COPY k FROM STDIN", "".join(line + "\n" for line in lines).encode(), "k")
    pair.same_copy_out("COPY (SELECT * FROM k ORDER BY i2, n, ts) TO STDOUT")


def test_wrong_values_of_all_types(pair: Pair) -> None:
    pair.run(f"CREATE TABLE k ({TYPES})")
    for item in WRONG:
        column, value = item.split(" ", 1)
        pair.same_copy_in(f"COPY k ({column}) FROM STDIN", f"{value}\n".encode(), "k")


def test_times_in_other_zones(pair: Pair) -> None:
    pair.run("CREATE TABLE z (a timestamptz, b timestamp)", "SET timezone = 'Europe/Vienna'")
    data = b"2024-07-01 10:00:00\t2024-07-01 10:00:00\n2024-07-01 10:00:00+00\t2024-07-01 10\n"
    pair.same_copy_in("COPY z FROM STDIN", data, "z")
    pair.same_copy_in("COPY z FROM STDIN", data.split(b"\n")[0] + b"\n", "z")
    pair.same_copy_out("COPY z TO STDOUT")


def test_defaults_generated_columns_and_checks(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE q (id serial PRIMARY KEY, a int NOT NULL CHECK (a > 0), b int DEFAULT 7, "
        "g int GENERATED ALWAYS AS (a * b) STORED, CONSTRAINT less CHECK (a < b OR b IS NULL))"
    )
    for data in (b"1\n2\n", b"1\n0\n", b"1\n9\n", b"\\N\n", b"3\nx\n", b"-1\nx\n"):
        pair.same_copy_in("COPY q (a) FROM STDIN", data, "q")
    pair.same_copy_in("COPY q (a, b) FROM STDIN", b"5\t\\N\n5\t6\n", "q")
    pair.same("SELECT max(id) FROM q")


def test_foreign_keys(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE p (id int PRIMARY KEY)",
        "INSERT INTO p VALUES (1), (2)",
        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p, up int REFERENCES c)",
    )
    pair.same_copy_in("COPY c FROM STDIN", b"1\t1\t\\N\n2\t\\N\t3\n3\t2\t1\n", "c")
    pair.same_copy_in("COPY c FROM STDIN", b"4\t1\t\\N\n5\t7\t3\n", "c")
    pair.same_copy_in("COPY c FROM STDIN", b"4\t1\t9\n", "c")


def test_a_failed_copy_fails_the_block_and_leaves_nothing(pair: Pair) -> None:
    pair.run("CREATE TABLE t (a int PRIMARY KEY, b text, d varchar(3))", "BEGIN", "SAVEPOINT s")
    pair.same_copy_in("COPY t FROM STDIN", b"1\tx\ty\n", "t")
    ours = theirs = None
    for connection in (pair.shoal, pair.postgres):
        try:
            with connection.cursor().copy("COPY t FROM STDIN") as copy:
                copy.write(b"2\tx\ty\nx\n")
        except Exception as error:
            ours, theirs = type(error), ours
    assert ours is theirs
    pair.run("ROLLBACK TO s")
    pair.same("SELECT * FROM t")
    pair.run("ROLLBACK")
