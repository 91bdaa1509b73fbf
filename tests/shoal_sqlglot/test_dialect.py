"""sqlglot reads and writes Shoal's own syntax."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import PLUGIN_GROUP_NAME

from engine.sql import parser
from shoal_sqlglot import AlterChangeStream, CreateChangeStream, DropChangeStream, Shoal

STATEMENTS = [
    "SELECT * FROM t AS OF LSN 17",
    "SELECT * FROM s.t AS OF LSN 17 AS x WHERE x.a = 1",
    "SELECT a.v, b.v FROM t AS OF LSN SHOAL_LSN_AT('2026-01-01') AS a JOIN u AS OF LSN 17 AS b ON a.k = b.k",
    "SELECT * FROM t AS OF TIMESTAMP '2026-01-01 00:00:00' AS x",
    "SELECT SUM(v) FROM t AS OF TIMESTAMP CURRENT_TIMESTAMP - INTERVAL '1 HOUR' GROUP BY k",
    "SELECT * FROM (SELECT * FROM t AS OF LSN 5) AS q",
    "WITH q AS (SELECT * FROM t AS OF LSN 5) SELECT * FROM q",
    "CREATE TABLE t (a INT) TABLESPACE fast",
    "CREATE TABLE t (a INT PRIMARY KEY, b TEXT) TABLESPACE fast",
    "CREATE CHANGE STREAM s FOR TABLE t",
    "CREATE CHANGE STREAM IF NOT EXISTS s FOR TABLE a.t, u WITH (retain = '1GB')",
    "CREATE CHANGE STREAM s FOR ALL TABLES",
    "CREATE CHANGE STREAM s FOR ALL TABLES IN TABLESPACE fast WITH (retain = '1GB')",
    "ALTER CHANGE STREAM s ADD TABLE t, u",
    "ALTER CHANGE STREAM s DROP TABLE t",
    "ALTER CHANGE STREAM s SET (retain = '4GB')",
    "ALTER CHANGE STREAM s RENAME TO r",
    'ALTER CHANGE STREAM "S" OWNER TO alice',
    "DROP CHANGE STREAM s",
    "DROP CHANGE STREAM IF EXISTS s, r",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_statement_is_the_same_again(sql: str) -> None:
    tree = sqlglot.parse_one(sql, read=Shoal)
    assert not isinstance(tree, exp.Command)
    assert tree.sql(Shoal) == sql
    assert sqlglot.parse_one(tree.sql(Shoal, pretty=True), read=Shoal) == tree
    assert parser.parse(sql)  # the server reads it too


def test_trees() -> None:
    table = sqlglot.parse_one("SELECT * FROM t AS OF LSN 17 AS x", read=Shoal).find(exp.Table)
    assert (table.name, table.alias, table.args["version"].name) == ("t", "x", "LSN")
    made = sqlglot.parse_one("CREATE CHANGE STREAM s FOR TABLE t, u", read=Shoal)
    assert isinstance(made, CreateChangeStream) and [item.name for item in made.expressions] == ["t", "u"]
    assert isinstance(sqlglot.parse_one("DROP CHANGE STREAM s", read=Shoal), DropChangeStream)
    changed = sqlglot.parse_one("ALTER CHANGE STREAM s DROP TABLE t", read=Shoal)
    assert isinstance(changed, AlterChangeStream) and changed.args["action"] == "DROP TABLE"


def test_a_branch_is_kept_as_it_is_written() -> None:
    sql = "CREATE DATABASE b FROM a AS OF LSN 5"
    assert sqlglot.transpile(sql, read=Shoal, write=Shoal) == [sql]


def test_of_is_a_name_where_no_moment_follows() -> None:
    table = sqlglot.parse_one("SELECT of.a FROM t AS of", read=Shoal).find(exp.Table)
    assert (table.alias, table.args.get("version")) == ("of", None)


def test_the_rest_is_postgresqls() -> None:
    for sql in ("SELECT a::INT", "SELECT ARRAY[1, 2] @> ARRAY[1]", "CREATE TABLE t (a INT)", "DROP TABLE t"):
        assert sqlglot.transpile(sql, read=Shoal, write=Shoal) == sqlglot.transpile(
            sql, read="postgres", write="postgres"
        )
    assert sqlglot.transpile("SELECT `a` FROM `t` LIMIT 1, 2", read="mysql", write=Shoal) == [
        'SELECT "a" FROM "t" LIMIT 2 OFFSET 1'
    ]


@pytest.mark.parametrize(
    "sql", ["CREATE CHANGE STREAM s", "CREATE CHANGE STREAM s FOR x", "ALTER CHANGE STREAM s NOPE"]
)
def test_what_is_no_statement_is_an_error(sql: str) -> None:
    with pytest.raises(sqlglot.ParseError):
        sqlglot.parse_one(sql, read=Shoal)


def test_the_server_leaves_the_name_to_this_package() -> None:
    """The grammar of the server is a class of sqlglot's too, which is known by another name."""
    assert sqlglot.Dialect.get("shoal") in (None, Shoal)
    assert parser.Grammar is not Shoal


def test_it_imports_nothing_of_the_server() -> None:
    code = "import shoal_sqlglot, sys; print([name for name in sys.modules if name in ('engine', 'catalog', 'shoal')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"


def test_sqlglot_finds_it_by_its_entry_point(tmp_path: object) -> None:
    """As an installation has it: a directory of metadata beside the package."""
    import pathlib
    import tomllib

    project = tomllib.loads((pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    ((name, target),) = project["entry-points"][PLUGIN_GROUP_NAME].items()
    entry = importlib.metadata.EntryPoint(name, target, PLUGIN_GROUP_NAME)
    assert (name, entry.load()) == ("shoal", Shoal)
    metadata = pathlib.Path(str(tmp_path)) / "shoal-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: shoal\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text(f"[{PLUGIN_GROUP_NAME}]\n{name} = {target}\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import sqlglot\n"
        "print(sqlglot.transpile('DROP CHANGE STREAM s', read='shoal', write='shoal'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.stdout == "['DROP CHANGE STREAM s']\n", done.stderr
