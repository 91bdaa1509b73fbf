"""The registry: what PostgreSQL declares resolves as there, and what can be run is complete."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psycopg
import pytest

from catalog.functions import collated, regex, registry
from catalog.functions.base import Function
from catalog.types import pg_type_by_name, pg_type_by_oid

BASIC = [
    "bool",
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "text",
    "varchar",
    "bpchar",
    "name",
    "char",
    "bytea",
    "uuid",
    "oid",
    "date",
    "time",
    "timestamp",
]

# Operators and casts of basic types that are knowingly refused, or are another module's business.
REFUSED = {"ts_match_tt", "text_regclass"}


def names(oids: tuple[int, ...]) -> str:
    return ",".join(pg_type_by_oid[oid].name for oid in oids)


def test_every_function_and_operator_can_be_made() -> None:
    functions = [registry.function(oid) for oid in registry.function_oids()]
    assert len(functions) > 3000
    assert all(isinstance(function, Function) for function in functions)
    assert len([registry.operator(oid) for oid in registry.operator_oids()]) > 700
    assert len(registry.all_casts()) > 200


def test_declarations_agree_with_the_server(postgres: psycopg.Connection[Any]) -> None:
    rows = postgres.execute(
        """SELECT oid::int, proname, pronargs, proargnames, pronargdefaults, provariadic::int, prorettype::int,
        proretset, proisstrict FROM pg_proc WHERE oid < 9000 AND pronamespace = 'pg_catalog'::regnamespace"""
    ).fetchall()
    for oid, name, count, arguments, defaults, variadic, result, returns_set, strict in rows:
        function = registry.function(oid)
        assert function.name == name
        assert len(function.argument_types) == count
        assert function.default_count == defaults == len(function.defaults), name
        assert (function.variadic, function.result_type) == (variadic, result)
        if name not in registry.ONE_ROW:  # they give one row, as a set
            assert (function.returns_set, function.strict) == (returns_set, strict)
        assert not arguments or len(function.argument_names) + len(function.output_names) >= len(arguments)


def test_sources_of_aggregates_and_sql_functions() -> None:
    assert {f.source for f in registry.functions_named("sum")} >= {"sum(int4)", "sum(numeric)"}
    assert [f.source for f in registry.functions_named("count")] == ["count(any)", "count()"]
    assert all(f.source == "lpad" for f in registry.functions_named("lpad"))


def test_output_columns_of_functions() -> None:
    (function,) = registry.functions_named("pg_get_keywords")
    assert function.argument_types == ()
    assert function.output_names == ("word", "catcode", "barelabel", "catdesc", "baredesc")


def test_casts_and_aggregates() -> None:
    found = registry.cast(23, 20)
    assert found is not None and (found.context, found.method) == ("i", "f")
    assert registry.cast(16, 20) is None
    (total,) = [f for f in registry.functions_named("max") if f.source == "max(int4)"]
    assert registry.operator(registry.aggregate(total.oid).sort_operator).name == ">"


def test_every_operator_of_basic_types_is_implemented() -> None:
    supported = {pg_type_by_name[name].oid for name in BASIC} | {0}
    missing = []
    for oid in registry.operator_oids():
        operator = registry.operator(oid)
        if operator.function and operator.left in supported and operator.right in supported:
            function = registry.function(operator.function)
            pair = tuple(side for side in (operator.left, operator.right) if side)
            if registry.implementation(function.source) is None and function.source not in REFUSED:
                missing.append(f"{operator.name}({names(pair)}): {function.source}")
    known = [item for item in missing if "date" in item or "time" in item]
    assert [item for item in missing if item not in known] == []


def test_every_cast_among_basic_types_is_implemented() -> None:
    supported = {pg_type_by_name[name].oid for name in BASIC if name not in ("date", "time", "timestamp")}
    missing = [
        f"{names((row.source, row.target))}: {registry.function(row.function).source}"
        for row in registry.all_casts()
        if row.method == "f" and row.source in supported and row.target in supported
        and registry.implementation(registry.function(row.function).source) is None
    ]  # fmt: skip
    assert missing == []


def test_an_implementation_names_a_declared_source() -> None:
    registry.implementation("int4pl")
    of_extensions = [oid for oids in registry.extension_functions().values() for oid in oids]
    declared = {registry.function(oid).source for oid in (*registry.function_oids(), *of_extensions)}
    implemented = set(registry._implementations)
    assert implemented >= collated.SOURCES
    others = {name for name in implemented - declared - collated.SOURCES if not name.startswith(regex.ASCII)}
    of_ascii = {name.removeprefix(regex.ASCII) for name in implemented - declared - collated.SOURCES - others}
    assert not others and of_ascii <= declared


def test_a_source_is_implemented_once() -> None:
    registry.implementation("int4pl")
    with pytest.raises(ValueError, match="implemented twice"):
        registry.implement("int4pl", lambda left, right: 0)


def test_declarations_load_quickly() -> None:
    program = (
        "import time; from catalog.functions import registry as r; import catalog.types; t = time.perf_counter();"
        "r.operators_named('+'); r.function(177); r.cast(23, 20); r.aggregate(2108); print(time.perf_counter() - t)"
    )
    seconds = min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(3))
    assert seconds < 0.04
