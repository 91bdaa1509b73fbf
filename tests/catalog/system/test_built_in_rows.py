"""Catalogs that every server of a release has alike: their rows are PostgreSQL's."""

from __future__ import annotations

import psycopg
import pytest

from tests.server import ShoalServer

QUERIES = (
    "SELECT * FROM pg_amop WHERE oid < 16384",
    "SELECT * FROM pg_amproc WHERE oid < 16384",
    "SELECT oid, tmplname, tmplinit::text, tmpllexize::text FROM pg_ts_template",
    "SELECT * FROM pg_collation WHERE oid < 16384",
    "SELECT objoid, classoid, description FROM pg_description WHERE objoid < 16384 AND classoid::regclass::text IN "
    "('pg_am', 'pg_collation', 'pg_operator', 'pg_ts_config', 'pg_ts_dict', 'pg_ts_parser', 'pg_ts_template')",
    "SELECT o.amopopr::regoperator::text, o.amopstrategy, f.opfname, a.amname FROM pg_amop o JOIN pg_opfamily f "
    "ON f.oid = o.amopfamily JOIN pg_am a ON a.oid = o.amopmethod WHERE o.oid < 16384",
    "SELECT collation_schema, collation_name, pad_attribute FROM information_schema.collations "
    "WHERE collation_schema = 'pg_catalog'",
)


@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_postgresqls(query: str, shoal: ShoalServer, postgres: psycopg.Connection) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        ours = connection.execute(query.encode()).fetchall()
    theirs = postgres.execute(query.encode()).fetchall()
    assert sorted(ours, key=repr) == sorted(theirs, key=repr)
    assert len(theirs) > 4
