"""Catalog functions: SQL over virtual tables in place of calls."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from catalog.functions import registry
from catalog.schema import Column, VirtualTable
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.columnar.generate import catalog_functions, generate, register_catalog_function
from engine.sql import tree

ROLES = VirtualTable(1260, 11, "pg_roles", (Column(1, "oid", TypeRef(oids.OID)), Column(2, "name", TypeRef(oids.NAME))))


@pytest.fixture
def registered() -> Iterator[None]:
    kept = dict(catalog_functions)
    register_catalog_function(
        "pg_xact_commit_timestamp", lambda a: f"(SELECT x.c2 FROM {{v1260}} AS x WHERE x.c1 = {a[0]})", (ROLES,)
    )
    register_catalog_function("regroleout", lambda a: f"('role ' || {a[0]})")
    yield
    catalog_functions.clear()
    catalog_functions.update(kept)


def _rows(query: tree.Query) -> list[tuple[object, ...]]:
    made = generate(query)
    assert made.virtual_tables in ((), (ROLES,))
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v1260 AS SELECT 10::BIGINT AS c1, 'post{gres}' AS c2")
    return list(connection.execute(made.sql.format(v1260="v1260")).fetchall())


def _const(value: object, oid: int) -> tree.Const:
    return tree.Const(value, TypeRef(oid))


def test_a_call_becomes_a_query_of_its_virtual_table(registered: None) -> None:
    function = registry.functions_named("pg_xact_commit_timestamp")[0]
    call = tree.FuncExpr(function, (_const(10, oids.OID),), TypeRef(oids.NAME))
    assert _rows(tree.Query((tree.Target(call, "r"), tree.Target(_const("{v1260}", oids.TEXT), "s")))) == [
        ("post{gres}", "{v1260}")
    ]


def test_a_type_with_a_registered_output_function_comes_as_text(registered: None) -> None:
    query = tree.Query((tree.Target(_const(7, 4096), "r"), tree.Target(_const(7, oids.OID), "o")))
    assert _rows(query) == [("role 7", 7)]
    assert [column.duckdb_type for column in generate(query).columns] == ["VARCHAR", "BIGINT"]


def test_virtual_tables_are_read_under_their_placeholders() -> None:
    entry = tree.RangeTable(ROLES, "r", (tree.RangeColumn("oid", TypeRef(oids.OID)),))
    column = tree.Var(0, 2, TypeRef(oids.NAME), 0, "name")
    made = generate(tree.Query((tree.Target(column, "name"),), (entry,), (tree.FromRef(0),)))
    assert "{v1260} AS " in made.sql
    assert made.virtual_tables == (ROLES,)
