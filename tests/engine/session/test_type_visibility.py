"""Which types the search path leads to, beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import SCHEMA, Pair


def test_types_of_users_are_visible_where_the_path_leads(both_paths: Pair) -> None:
    both_paths.run(
        "create schema aside",
        "create type mood as enum ('good')",
        "create type aside.other as enum ('bad')",
        "create domain aside.positive as int check (value > 0)",
        "create type aside.pair as (a int, b int)",
        "create table aside.t (a int)",
    )
    try:
        query = (
            "select typname, pg_type_is_visible(oid) from pg_type where typname in "
            "('mood', '_mood', 'other', '_other', 'positive', '_positive', 'pair', 't', '_t', 'int4') "
            "and typnamespace in (select oid from pg_namespace where nspname in "
            f"('pg_catalog', 'aside', '{SCHEMA}')) order by 1, 2"
        )
        both_paths.same(query, "set search_path = aside", query, "reset search_path", query)
    finally:
        both_paths.run("drop schema aside cascade")
