"""Where an operator has no result for values that are not NULL, and where it has one: every operator over samples of
its types, inside a cast and a function that do not test for NULL again."""

from __future__ import annotations

from itertools import product

import psycopg

from tests.engine.session.conftest import Pair

SAMPLES = {
    "bool": ("true", "false"),
    "int2": ("3::int2", "0::int2"),
    "int4": ("3", "0"),
    "int8": ("3::int8", "0::int8"),
    "float4": ("1.5::float4", "'NaN'::float4"),
    "float8": ("1.5::float8", "'Infinity'::float8"),
    "numeric": ("1.5", "'NaN'::numeric"),
    "text": ("'ab'::text", "''::text"),
    "varchar": ("'ab'::varchar", "''::varchar"),
    "bpchar": ("'ab'::bpchar", "''::bpchar"),
    "name": ("'ab'::name",),
    "bytea": ("'ab'::bytea", "''::bytea"),
    "bit": ("B'101'", "B'010'"),
    "varbit": ("'101'::varbit", "''::varbit"),
    "date": ("'2020-01-31'::date", "'infinity'::date"),
    "time": ("'12:00'::time",),
    "timetz": ("'12:00+02'::timetz",),
    "timestamp": ("'2020-01-31 12:00'::timestamp", "'infinity'::timestamp"),
    "timestamptz": ("'2020-01-31 12:00+00'::timestamptz",),
    "interval": ("'1 day'::interval", "'-1 month'::interval"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'::uuid",),
    "inet": ("'10.0.0.1/8'::inet", "'::1'::inet"),
    "cidr": ("'10.0.0.0/8'::cidr",),
    "macaddr": ("'08:00:2b:01:02:03'::macaddr",),
    "money": ("'1.50'::money", "'0'::money"),
    "json": ("'[1]'::json", "'{\"a\": 1}'::json"),
    "jsonb": ("'[1]'::jsonb", "'{\"a\": null}'::jsonb"),
    "jsonpath": ("'$.a'::jsonpath", "'$.b ? (@ > 1)'::jsonpath"),
    "point": ("'(1,2)'::point", "'(0,0)'::point"),
    "line": ("'{1,2,3}'::line", "'{1,-2,3}'::line"),
    "lseg": ("'[(1,2),(3,4)]'::lseg", "'[(5,6),(7,8)]'::lseg"),
    "box": ("'(1,2),(3,4)'::box", "'(5,6),(7,8)'::box"),
    "path": ("'((1,2),(3,4))'::path", "'[(1,2),(3,4)]'::path"),
    "polygon": ("'((1,2),(3,4),(5,1))'::polygon",),
    "circle": ("'<(1,2),3>'::circle",),
    "int4range": ("'[1,5)'::int4range", "'empty'::int4range", "'[7,9)'::int4range"),
    "int4multirange": ("'{[1,5)}'::int4multirange", "'{}'::int4multirange"),
    "_int4": ("'{1,2}'::int4[]", "'{}'::int4[]", "'{NULL}'::int4[]"),
    "anyarray": ("'{1,2}'::int4[]", "'{}'::int4[]"),
    "anyrange": ("'[1,5)'::int4range", "'empty'::int4range"),
    "anymultirange": ("'{[1,5)}'::int4multirange", "'{}'::int4multirange"),
    "anyelement": ("3",),
    "anycompatible": ("3",),
    "anycompatiblearray": ("'{1,2}'::int4[]", "'{}'::int4[]"),
    "tsvector": ("'a b'::tsvector", "''::tsvector"),
    "tsquery": ("'a'::tsquery", "''::tsquery"),
    "pg_lsn": ("'0/1'::pg_lsn",),
    "oid": ("1::oid",),
}
OPERATORS = """
SELECT o.oprname, l.typname, r.typname FROM pg_operator o JOIN pg_type r ON r.oid = o.oprright
LEFT JOIN pg_type l ON l.oid = o.oprleft WHERE r.typname = ANY (%s) AND coalesce(l.typname, r.typname) = ANY (%s)
ORDER BY o.oid
"""


def expressions(pair: Pair) -> list[str]:
    known = list(SAMPLES)
    found = pair.postgres.execute(OPERATORS, (known, known)).fetchall()
    made: list[str] = []
    for name, left, right in found:
        lefts = [f"({one})" for one in SAMPLES[str(left)]] if left else [""]  # else the planner computes it
        made += [f"({one} OPERATOR(pg_catalog.{name}) ({other}))" for one, other in product(lefts, SAMPLES[str(right)])]
    return made


def missing(connection: psycopg.Connection[tuple[object, ...]], expression: str) -> object:
    """Whether the result is NULL, or its error."""
    try:
        row = connection.execute(f"SELECT length({expression}::text)".encode()).fetchone()
    except psycopg.Error as error:
        return error.sqlstate
    assert row is not None
    return row[0] is None


def test_operators_without_a_result(pair: Pair) -> None:
    made = expressions(pair)
    assert len(made) > 2000
    wanted = {expression: missing(pair.postgres, expression) for expression in made}
    assert sum(result is True for result in wanted.values()) > 20
    got = {expression: missing(pair.shoal, expression) for expression in made}
    assert {
        item: (wanted[item], got[item]) for item in made if wanted[item] != got[item] and got[item] != "0A000"
    } == {}
