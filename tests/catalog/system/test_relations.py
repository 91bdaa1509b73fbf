"""The relations that there are, and the columns that their parts give."""

from __future__ import annotations

from typing import cast

import psycopg
import pytest

from catalog import types
from catalog.catalog import Catalog
from catalog.functions.system import size_pretty
from catalog.identifiers import canonical_name
from catalog.privileges import acts_as
from catalog.schema import Role
from catalog.system.content import Surroundings, complete, parts, row_count
from catalog.system.parts import system_views, virtual_tables
from catalog.system.relations import internal_tables, system_relations, view_text


def test_every_relation_has_an_oid_and_a_name_of_its_own() -> None:
    found = [*system_relations().values(), *internal_tables]
    assert len({relation.oid for relation in found}) == len(found)
    assert all(relation.oid < 16384 for relation in found)
    assert (11, "pg_class") in virtual_tables
    assert (13000, "tables") in system_views


def test_every_column_has_a_type_with_values() -> None:
    for relation in virtual_tables.values():
        for column in relation.columns:
            assert types.lookup(column.type.oid).duckdb_type(column.type.typmod), (relation.name, column.name)


def test_fixed_parts_fill_their_columns() -> None:
    """A part names only columns that its relation has, and gives none that is NOT NULL a NULL."""
    fixed = [part for found in parts.values() for part in found if part.scope == "fixed"]
    assert len(fixed) > 15
    for part in fixed:
        columns = part.columns([], cast(Surroundings, None))
        count = row_count(columns)
        for column, values in zip(part.relation.columns, complete(part.relation, columns, count), strict=True):
            listed = values if isinstance(values, list) else [values]
            assert not column.not_null or None not in listed, (part.relation.name, column.name)


def test_domains_and_functions_over_rows_leave_the_views_texts() -> None:
    assert view_text(" SELECT (c.relname)::information_schema.sql_identifier AS n;") == "SELECT (c.relname)::name AS n"
    assert view_text("information_schema._pg_truetypid(a.*, t.*)") == (
        "(CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END)"
    )
    assert view_text("information_schema._pg_char_max_length(1, 2)") == "_pg_char_max_length(1, 2)"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Public.T", "public.t"),
        ('"Public"."t"', '"Public".t'),
        (' "a b" ', '"a b"'),
        ('s."x""y"', 's."x""y"'),
        ("select", '"select"'),
        ("double precision", '"double precision"'),
    ],
)
def test_names_have_one_spelling(text: str, canonical: str) -> None:
    assert canonical_name(text) == canonical


def test_sizes_are_rounded_as_postgresql_rounds_them(postgres: psycopg.Connection) -> None:
    sizes = [0, 1023, 1024, 10239, 10240, 10241, 10751, 10752, 20971519, 20971520, 10 * 2**30, 2**62, -1, -10241]
    for size in sizes:
        assert (size_pretty(size),) == postgres.execute("SELECT pg_size_pretty(%s::bigint)", (size,)).fetchone()


def test_privileges_reach_through_roles() -> None:
    leaf, middle = Role(101, "leaf", member_of=(102,)), Role(102, "middle", member_of=(103,))
    top, other = Role(103, "top"), Role(104, "other")
    catalog = Catalog().with_changes({role.oid: role for role in (leaf, middle, top, other)})
    assert [acts_as(catalog, role, 103) for role in (leaf, middle, top, other)] == [True, True, True, False]
    assert not acts_as(catalog, top, 101)
    assert acts_as(catalog, Role(105, "super", superuser=True), 101)
