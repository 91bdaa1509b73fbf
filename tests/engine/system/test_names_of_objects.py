"""Names of objects as values: the reg types, arrays of them, array types by name, on both paths and on PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_NAMES = {
    "regclass": ("pg_class", "named.t", 'named."two words"'),
    "regtype": ("int", "varchar", "integer[]", "_int4", "named.mood", "named._mood", "named.mood[]", 'named."a-b"'),
    "regproc": ("now", "pg_catalog.now"),
    "regprocedure": ("now()", "lower(text)"),
    "regoper": ("|/", "||/"),
    "regoperator": ("+(integer,integer)", "-(none,bigint)"),
    "regnamespace": ("public", "pg_catalog"),
    "regrole": ("postgres",),
    "regcollation": ('"C"', "default"),
}
_SETUP = """
CREATE SCHEMA named;
CREATE TYPE named.mood AS ENUM ('a', 'b');
CREATE TYPE named."a-b" AS ENUM ('q');
CREATE TABLE named.t (a int);
CREATE TABLE named."two words" (a int);
CREATE TABLE named.texts (given text);
"""


def _answer(connection: psycopg.Connection, statement: str, *parameters: object) -> object:
    try:
        return connection.execute(statement, parameters or None).fetchall()
    except psycopg.Error as error:
        return error.sqlstate


@pytest.fixture(scope="module")
def pair(shoal: ShoalServer, postgres_server: PostgresServer):
    with (
        psycopg.connect(shoal.dsn, autocommit=True) as ours,
        psycopg.connect(postgres_server.dsn, autocommit=True) as theirs,
    ):
        for connection in (ours, theirs):
            connection.execute("DROP SCHEMA IF EXISTS named CASCADE")
            connection.execute(_SETUP)
        yield ours, theirs
        for connection in (ours, theirs):
            connection.execute("DROP SCHEMA named CASCADE")


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("kind", _NAMES)
def test_arrays_of_names_read_and_print_as_on_postgresql(pair, kind: str, path: str) -> None:
    names = list(_NAMES[kind])
    literal = "{" + ",".join('"' + name.replace('"', '\\"') + '"' for name in names) + ",NULL}"
    quoted = literal.replace("'", "''")
    statements = [
        f"SELECT '{quoted}'::{kind}[]",
        f"SELECT '{quoted}'::{kind}[]::text",
        f"SELECT '[2:{len(names) + 2}]={quoted}'::{kind}[]::text",
        f"SELECT ARRAY['{names[0].replace(chr(39), chr(39) * 2)}'::{kind}, NULL]",
        f"SELECT ('{quoted}'::{kind}[])[1] = '{names[0]}'::{kind}",
        f"SELECT '{names[0]}'::{kind} = ANY ('{quoted}'::{kind}[])",
        f"SELECT ROW('{names[0]}'::{kind}, '{quoted}'::{kind}[])::text",
        f"SELECT to_json('{quoted}'::{kind}[])",
        "SELECT '{nix}'::" + kind + "[]",
        "SELECT '{}'::" + kind + "[]",
    ]
    ours, theirs = pair
    ours.execute(f"SET shoal.path = {path}")
    for statement in statements:
        assert _answer(ours, statement) == _answer(theirs, statement), statement
    # a parameter in text form, as drivers send it
    for connection in pair:
        assert connection.execute(f"SELECT (%s::{kind}[])::text[]", [literal]).fetchone()[0][-1] is None


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("kind", ["regclass", "regtype", "regnamespace", "regrole", "regcollation"])
def test_texts_of_a_table_become_names(pair, kind: str, path: str) -> None:
    found = []
    for connection in pair:
        connection.execute("TRUNCATE named.texts")
        for name in _NAMES[kind]:
            connection.execute("INSERT INTO named.texts VALUES (%s)", [name])
        connection.execute(f"SET shoal.path = {path}")
        found.append(
            (
                _answer(connection, f'SELECT given::{kind} FROM named.texts ORDER BY given COLLATE "C"'),
                _answer(connection, f'SELECT array_agg(given::{kind} ORDER BY given COLLATE "C") FROM named.texts'),
                _answer(connection, f'SELECT ARRAY[given::{kind}]::text FROM named.texts ORDER BY given COLLATE "C"'),
                _answer(
                    connection,
                    f'SELECT (ARRAY[given]::text)::{kind}[] FROM named.texts ORDER BY given COLLATE "C"',
                ),
            )
        )
        connection.execute("RESET shoal.path")
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 'named._mood'::regtype, '\"named\".\"_mood\"'::regtype, 'named.mood[]'::regtype",
        "SELECT NULL::named._mood, '{a,b}'::named._mood, ARRAY['a']::named._mood, CAST('{b}' AS named._mood)",
        "SELECT 'named._mood'::regtype = oid FROM pg_type"
        " WHERE typname = '_mood' AND typnamespace = 'named'::regnamespace",
        "SELECT '{c}'::named._mood",
        "SELECT 'named._t'::regtype, 'named.t'::regtype, 'named.t[]'::regtype",
        "SELECT 'named._nix'::regtype",
        "SELECT 'named._pg_class'::regtype",
        "SELECT to_regtype('named._nix'), to_regtype('named.\"a-b\"'), to_regtype('\"a-b\"')",
        "SELECT 'int::text'::regtype",
        "SELECT ''::regtype",
        "SELECT 1259::oid::regtype, 0::oid::regtype",
    ],
)
def test_types_by_name(pair, statement: str) -> None:
    ours, theirs = pair
    assert _answer(ours, statement) == _answer(theirs, statement)


def test_the_array_type_of_a_name_that_is_cut(pair) -> None:
    name = "a" * 30 + "b" * 33
    for connection in pair:
        connection.execute(f"CREATE TYPE named.{name} AS ENUM ('x')")
        found = connection.execute(f"SELECT 'named._{name[:62]}'::regtype = 'named.{name}[]'::regtype").fetchone()
        assert found == (True,)


def test_a_type_whose_name_is_that_of_a_built_in_one_is_shown_with_its_schema(pair) -> None:
    for connection in pair:
        with connection.transaction(force_rollback=True):
            connection.execute('CREATE TYPE public."text" AS ENUM (\'a\'); CREATE TABLE named.nt (x public."text")')
            shown = connection.execute(
                "SELECT format_type(atttypid, -1) FROM pg_attribute"
                " WHERE attrelid = 'named.nt'::regclass AND attnum = 1"
            )
            assert shown.fetchone() == ("public.text",)


def test_columns_of_arrays_of_enums_by_name(pair) -> None:
    for connection in pair:
        connection.execute("DROP TABLE IF EXISTS named.moods")
        connection.execute("CREATE TABLE named.moods (m named._mood DEFAULT '{a}', n _int4)")
        connection.execute("INSERT INTO named.moods DEFAULT VALUES")
        assert connection.execute("SELECT m::text FROM named.moods").fetchone() == ("{a}",)
        found = connection.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 'named.moods'::regclass AND attnum > 0 ORDER BY attnum"
        ).fetchall()
        assert found == [("named.mood[]",), ("integer[]",)]


def test_serial_sequences_are_those_of_tables(pair) -> None:
    for connection in pair:
        connection.execute("DROP TABLE IF EXISTS named.s CASCADE")
        connection.execute("CREATE TABLE named.s (id serial); CREATE VIEW named.v AS SELECT id FROM named.s")
        assert connection.execute("SELECT pg_get_serial_sequence('named.s', 'id')").fetchone() == ("named.s_id_seq",)
        assert connection.execute("SELECT pg_get_serial_sequence('named.v', 'id')").fetchone() == (None,)
        assert connection.execute("SELECT pg_get_serial_sequence('pg_class', 'oid')").fetchone() == (None,)
        assert _answer(connection, "SELECT pg_get_serial_sequence('named.v', 'nix')") == "42703"


def test_functions_of_information_schema_take_rows_of_catalogs(pair) -> None:
    for connection in pair:
        connection.execute("DROP TABLE IF EXISTS named.rows; DROP DOMAIN IF EXISTS named.short")
        connection.execute("CREATE DOMAIN named.short AS varchar(7)")
        connection.execute("CREATE TABLE named.rows (a varchar(5), b named.short, c int)")
        for row in ("a.*, t.*", "a, t"):
            found = connection.execute(
                f"SELECT attname, information_schema._pg_char_max_length(information_schema._pg_truetypid({row}),"
                f" information_schema._pg_truetypmod({row})) FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
                " WHERE attrelid = 'named.rows'::regclass AND attnum > 0 ORDER BY attnum"
            ).fetchall()
            assert found == [("a", 5), ("b", 7), ("c", None)]
        assert _answer(connection, "SELECT information_schema._pg_truetypid(t.*, t.*) FROM pg_type t") == "42883"


_ROWS_OF_NAMES = [
    "SELECT a FROM named.rows_of_names ORDER BY id",
    "SELECT b FROM named.rows_of_names ORDER BY id",
    "SELECT a::text, b::text FROM named.rows_of_names ORDER BY id",
    "SELECT ROW(a), ROW(b)::text FROM named.rows_of_names ORDER BY id",
    "SELECT rows_of_names FROM named.rows_of_names ORDER BY id",
    "SELECT (a).c, (a).p, (a).at FROM named.rows_of_names ORDER BY id",
    "SELECT array_agg(a ORDER BY id) FROM named.rows_of_names",
    "SELECT a FROM named.rows_of_names UNION ALL SELECT a FROM named.rows_of_names ORDER BY 1",
    "SELECT ARRAY[a, NULL] FROM named.rows_of_names ORDER BY id",
    "SELECT (inner_row).r, outer_row FROM (SELECT ROW(1, a)::named.outer_row AS outer_row, ROW(a)::named.inner_row AS"
    " inner_row FROM named.rows_of_names ORDER BY id) x",
    "SELECT to_json(a), to_jsonb(a), json_build_object('a', a), json_build_array(a) FROM named.rows_of_names"
    " ORDER BY id",
    "SELECT row_to_json(x) FROM (SELECT id, a FROM named.rows_of_names ORDER BY id) x",
    "SELECT json_agg(a ORDER BY id) FROM named.rows_of_names",
    "SELECT concat(a, '!'), format('%s', a) FROM named.rows_of_names ORDER BY id",
    "SELECT 'pg_class'::regclass AS one FROM named.rows_of_names",
    "SELECT ARRAY[a], ARRAY['pg_class'::regclass, NULL] FROM named.rows_of_names ORDER BY id",
]


@pytest.fixture(scope="module")
def rows_of_names(pair):
    for connection in pair:
        connection.execute(
            "CREATE TYPE named.row_of_names AS (c regclass, t regtype, p regprocedure[], s text, at timestamptz);"
            "CREATE TYPE named.inner_row AS (r named.row_of_names);"
            "CREATE TYPE named.outer_row AS (n int, r named.row_of_names);"
            "CREATE TABLE named.rows_of_names (id int, a named.row_of_names, b named.row_of_names[]);"
            "INSERT INTO named.rows_of_names VALUES"
            " (1, ROW('pg_class', 'int4', ARRAY['now()'::regprocedure], 'a b', '2020-01-02 03:04:05+00'), NULL),"
            " (2, ROW('named.\"two words\"', NULL, NULL, '', NULL), ARRAY[NULL, ROW('pg_proc', 'text', '{}', 'q\"',"
            " NULL)::named.row_of_names]), (3, NULL, '{}')"
        )
    return pair


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("statement", _ROWS_OF_NAMES)
def test_names_within_stored_rows(rows_of_names, statement: str, path: str) -> None:
    found: list[list[object]] = []
    for connection, setting in zip(rows_of_names, (f"SET shoal.path = {path}", "SET timezone = 'UTC'"), strict=True):
        connection.execute("SET timezone = 'UTC'")
        connection.execute(setting)
        cursor = connection.execute(statement)
        assert cursor.pgresult is not None
        raw = [
            [cursor.pgresult.get_value(row, column) for column in range(cursor.pgresult.nfields)]
            for row in range(cursor.pgresult.ntuples)
        ]
        assert raw
        found.append(raw)
    assert found[0] == found[1]


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("statement", _ROWS_OF_NAMES)
def test_names_within_stored_rows_in_binary(rows_of_names, statement: str, path: str) -> None:
    """The binary forms hold OIDs: those of what is built in are alike, the others are read back as text."""
    ours, theirs = rows_of_names
    ours.execute(f"SET shoal.path = {path}")
    lengths = []
    for connection in (ours, theirs):
        result = connection.cursor(binary=True).execute(statement).pgresult
        assert result is not None
        lengths.append(
            [[len(result.get_value(row, n) or b"") for n in range(result.nfields)] for row in range(result.ntuples)]
        )
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("path", ["auto", "columnar"])
def test_record_send_of_declared_rows(rows_of_names, path: str) -> None:
    found = []
    for connection in rows_of_names:
        if connection is rows_of_names[0]:
            connection.execute(f"SET shoal.path = {path}")
        found.append(connection.execute("SELECT record_send(a) FROM named.rows_of_names WHERE id = 1").fetchall())
    assert found[0] == found[1]
