"""REINDEX: what is refused, beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_what_reindex_refuses(pair: Pair) -> None:
    pair.run("create table parts (a int) partition by range (a)", "create index parts_a on parts (a)")
    pair.same(
        "reindex table parts",
        "begin",
        "reindex table parts",
        "rollback",
        "begin",
        "reindex index parts_a",
        "rollback",
        "reindex table pg_class",
        "reindex table concurrently pg_class",
        "reindex system concurrently postgres",
        "reindex system nothing",
        "reindex schema nothing",
        "reindex schema concurrently pg_catalog",
        "reindex index parts",
        "reindex table nothing",
    )


def test_reindex_is_for_owners(pair: Pair) -> None:
    pair.run("create role reindexes nologin", "create table t (a int)", "grant usage on schema statements to reindexes")
    try:
        pair.run("set role reindexes")
        pair.same("reindex schema statements", "reindex database postgres", "reindex table t", "reindex table pg_class")
    finally:
        pair.run("reset role", "drop owned by reindexes", "drop role reindexes")
