"""Comparison operators of dates, times, uuid, bytea, oid, intervals, jsonb and arrays against PostgreSQL."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg
import pytest

from catalog.errors import SqlError
from catalog.functions import registry
from catalog.types import lookup, pg_type_by_name
from catalog.types.base import TypeRef
from tests.catalog.functions.calling import Call, check, decode, postgres_answers

OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
VALUES = {
    "bool": ("t", "f"),
    "date": ("2024-02-29", "1999-12-31", "infinity", "-infinity", "4713-01-01 BC"),
    "time": ("00:00", "23:59:59.999999", "24:00"),
    "timestamp": ("2024-02-29 12:00", "infinity", "-infinity", "1900-01-01 00:00:00.000001"),
    "timestamptz": ("2024-02-29 12:00+02", "2024-02-29 10:00+00", "infinity"),
    "timetz": ("12:00+02", "10:00+00", "12:00+00", "11:00+01"),
    "interval": ("1 month", "30 days", "720:00", "1 mon -29 days", "1 day", "-1 month", "24:00:00.000001"),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "oid": ("0", "1", "4294967295"),
}
POLYMORPHIC = {
    "_int4": ("{}", "{1,2}", "{1,2,3}", "{1,NULL}", "{2}", "{{1,2},{3,4}}", "{1,2,3,4}", "[2:3]={1,2}"),
    "_text": ("{}", '{a,"b c"}', "{a}", "{NULL}", '{""}'),
    "_numeric": ("{1.0}", "{1.00}", "{NaN}", "{2}"),
    "jsonb": ("1", "1.0", "2", '"a"', "null", "true", "[]", "[1]", "{}", '{"a":1}', '{"b":1}', '{"a":1,"b":2}', '"b"'),
}


@pytest.mark.parametrize("name", VALUES)
def test_types_with_operators_of_their_own(postgres: psycopg.Connection[Any], name: str) -> None:
    check(postgres, [Call(op, (name, name), p) for op in OPERATORS for p in itertools.product(VALUES[name], repeat=2)])


def test_dates_with_timestamps(postgres: psycopg.Connection[Any]) -> None:
    dates, stamps = VALUES["date"], (*VALUES["timestamp"], "2024-02-29 00:00")
    calls = [Call(op, ("date", "timestamp"), p) for op in OPERATORS for p in itertools.product(dates, stamps)]
    calls += [Call(op, ("timestamp", "date"), p) for op in OPERATORS for p in itertools.product(stamps, dates)]
    check(postgres, calls)


@pytest.mark.parametrize("name", POLYMORPHIC)
def test_types_compared_by_their_sort_key(postgres: psycopg.Connection[Any], name: str) -> None:
    try:
        oid = lookup(pg_type_by_name[name].oid).oid
    except SqlError:
        pytest.skip(f"no values of {name} yet")
    declared = 2277 if name.startswith("_") else oid
    calls = [Call(op, (name, name), p) for op in OPERATORS for p in itertools.product(POLYMORPHIC[name], repeat=2)]
    expected = postgres_answers(postgres, [call.sql() for call in calls])
    for call, answer in zip(calls, expected, strict=True):
        function = next(
            registry.function(op.function)
            for op in registry.operators_named(call.name)
            if op.left == op.right == declared
        )
        found = registry.implementation(function.source)
        assert found is not None and found.python_for_types is not None
        run = found.python_for_types([TypeRef(oid)] * 2, TypeRef(16))
        mine = run(*(decode(name, text) for text in call.arguments))
        assert ("value t" if mine else "value f") == answer, call.sql()
