"""json and jsonb on both paths against PostgreSQL."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from catalog.types.base import FormatSettings
from tests.catalog.functions.expressions import check
from tests.samples import Part, parts

DOCUMENTS = (
    "{}", "[]", "null", "true", '"text"', '""', "12", "1.50", "-0", "1e3",
    '{"a": 1, "b": {"c": [1, 2, {"d": null}]}, "": "empty", "1": "one"}',
    '{"a": "1.5", "b": "x\\"y\\\\z", "c": "\\u00e9\\n", "d": [true, false, null], "e": 1.10}',
    '[1, "two", null, {"three": [3, 3.0]}, [4, [5]], "a", 1]',
    '  {"a" :  [1,  2 , {"x":  "y"}] , "b":null}  ', '[[], {}, [[]]]', '{"aa": 1, "b": 2, "a": 3}', '["a", "b", "c"]',
    '{"0": "zero", "-1": {"0": 5}}', None,
)  # fmt: skip
WITH_REPETITIONS = (*DOCUMENTS, '{"a": 1, "b": 2, "a": {"x": 3}, "a": null}', '{"a": "\\ud83d\\ude00"}')
KEYS = ("a", "b", "", "1", "0", "three", "text", "two", "e", "nothing", None)
INDEXES = ("0", "1", "3", "-1", "-7", "-8", "100", "2147483647", "-2147483648", None)
PATHS = ("{}", "{a}", "{b,c}", "{b,c,2,d}", "{b,c,-1}", "{3,three,1}", "{4,1,0}", "{a,2,x}", "{NULL}", "{a,NULL}",
         "{-1,0}", "{b,x}", "{0}", "{-1}", "{99}", "{x}", "{a,b,c}", "{ 1}", "{1x}", None)  # fmt: skip


def test_extraction(postgres: psycopg.Connection[Any]) -> None:
    for kind, documents in (("json", WITH_REPETITIONS), ("jsonb", WITH_REPETITIONS)):
        check(postgres, ["{a} -> {b}", "{a} ->> {b}"], a=(kind, documents), b=("text", KEYS))
        check(postgres, ["{a} -> {b}", "{a} ->> {b}"], a=(kind, documents), b=("int4", INDEXES))
        check(postgres, ["{a} #> {b}", "{a} #>> {b}", f"{kind}_extract_path({{a}}, VARIADIC {{b}})"],
              a=(kind, documents), b=("_text", PATHS))  # fmt: skip
        check(postgres, [f"{kind}_extract_path_text({{a}}, 'b', 'c', '0')", f"{kind}_typeof({{a}})",
                         f"{kind}_array_length({{a}})", f"{kind}_strip_nulls({{a}})"], a=(kind, documents))  # fmt: skip


def test_sets(postgres: psycopg.Connection[Any]) -> None:
    for kind in ("json", "jsonb"):
        names = ("array_elements", "array_elements_text", "object_keys")
        check(postgres, [f"{kind}_{name}({{a}})" for name in names], returns_set=True, a=(kind, WITH_REPETITIONS))
    columns = ["key", "value"]
    for kind in ("json", "jsonb"):
        for name in ("each", "each_text"):
            calls = [f"(SELECT string_agg(t.{c}::text, '|') FROM {kind}_{name}({{a}}) AS t)" for c in columns]
            check(postgres, calls, columnar=False, a=(kind, WITH_REPETITIONS))


def test_impossible_escapes(postgres: psycopg.Connection[Any]) -> None:
    documents = ('{"a": "\\u0000"}', '{"a": "\\ud83d"}', '["\\u0000"]')
    check(postgres, ["{a} ->> 'a'", "{a} -> 'a'", "{a} ->> 0", "json_typeof({a})"], a=("json", documents))


@pytest.mark.parametrize("part", parts(2))
def test_changes(postgres: psycopg.Connection[Any], part: Part) -> None:
    documents = tuple(part.of(DOCUMENTS))
    check(postgres, ["{a} || {b}", "{a} @> {b}", "{a} <@ {b}"], a=("jsonb", documents), b=("jsonb", DOCUMENTS))
    check(postgres, ["{a} - {b}", "{a} ? {b}"], a=("jsonb", documents), b=("text", KEYS))
    check(postgres, ["{a} - {b}"], a=("jsonb", documents), b=("int4", INDEXES))
    lists = ("{}", "{a,b}", "{a,nothing}", "{NULL,a}", None)
    check(postgres, ["{a} - {b}", "{a} ?| {b}", "{a} ?& {b}"], a=("jsonb", documents), b=("_text", lists))
    check(postgres, ["{a} #- {b}", "jsonb_set({a}, {b}, '[7]')", "jsonb_set({a}, {b}, '{{\"n\": 1}}', false)",
                     "jsonb_insert({a}, {b}, '\"new\"')", "jsonb_insert({a}, {b}, '\"new\"', true)"],
          a=("jsonb", documents), b=("_text", (*PATHS, "{{a},{b}}", "{b,c,1}", "{b,new}")))  # fmt: skip
    for treatment in ("delete_key", "return_target", "use_json_null", "raise_exception", "nonsense"):
        check(postgres, [f"jsonb_set_lax({{a}}, {{b}}, NULL, true, '{treatment}')"], a=("jsonb", DOCUMENTS[10:12]),
              b=("_text", PATHS[:5]))  # fmt: skip


def test_containment(postgres: psycopg.Connection[Any]) -> None:
    values = ("1", "1.0", "[1]", "[1, [1, 2]]", "[[1]]", "[]", "{}", '{"a": {"b": 1}}',
              '{"a": {}}', '{"a": []}', '"x"', '["x", "y"]', "[null]", "null", '{"a": [1, {"b": 2}]}',
              '{"a": [{"b": 2}]}', "[1, 1]", "[true, 1]")  # fmt: skip
    check(postgres, ["{a} @> {b}"], a=("jsonb", values), b=("jsonb", values))
    check(postgres, ["{a} = {b}", "{a} < {b}", "jsonb_cmp({a}, {b})"], a=("jsonb", values), b=("jsonb", values))


def test_forms_and_casts(postgres: psycopg.Connection[Any]) -> None:
    check(postgres, ["jsonb_pretty({a})", "{a}::json", "{a}::text"], a=("jsonb", DOCUMENTS))
    check(postgres, ["{a}::jsonb", "{a}::text"], a=("json", WITH_REPETITIONS))
    numbers = ("1", "1.5", "-2.5", "32768", "1e30", "1e400", "true", "false", "null", '"1"', "[1]", "{}", None)
    casts = [f"{{a}}::{name}" for name in ("bool", "int2", "int4", "int8", "float4", "float8", "numeric")]
    check(postgres, casts, a=("jsonb", numbers))


NEW_YORK = FormatSettings(timezone="America/New_York")
SAMPLES = {
    "int4": ("1", None),
    "float8": ("1.5", "NaN", "Infinity", "1e20", "-0"),
    "numeric": ("1.50", "NaN", "-Infinity", "12345678901234567890"),
    "bool": ("t", "f"),
    "text": ("plain", 'quo"te\\\n\t\x01é', ""),
    "date": ("2024-02-29", "infinity", "0044-03-15 BC"),
    "timestamp": ("2024-02-29 12:34:56.789", "-infinity", "0044-03-15 01:02:03 BC"),
    "timestamptz": ("2024-02-29 12:34:56.789", "2024-07-01 00:00", "infinity", "0044-03-15 01:02:03 BC", "1700-01-01"),
    "time": ("12:34:56.5",),
    "interval": ("1 day 02:03:04",),
    "uuid": ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",),
    "bytea": ("\\x00ff",),
    "json": ('{"a":  1}', "[]"),
    "jsonb": ('{"a":  1}', "null"),
    "_int4": ("{1,2,NULL}", "{}", "{{1,2},{3,4}}", "[0:1]={5,6}", "{{{1},{2}}}"),
    "_text": ('{a,"b c",NULL}',),
    "_timestamptz": ('{2024-07-01,"2024-01-01 01:02:03"}',),
    "bpchar": ("ab  ",),
}


def test_values_as_json(postgres: psycopg.Connection[Any]) -> None:
    for type_name, values in SAMPLES.items():
        calls = ["to_json({a})", "to_jsonb({a})", "json_build_array({a}, 1, NULL, {a})",
                 "jsonb_build_array({a}, 'x'::text)", "json_build_object('k'::text, {a})",
                 "jsonb_build_object('k'::text, {a}, 2, {a})", "json_build_object({a}, 1)",
                 "jsonb_build_object({a}, 'v'::text)"]  # fmt: skip
        if type_name.startswith("_"):
            calls += ["array_to_json({a})", "array_to_json({a}, true)"]
        check(postgres, calls, NEW_YORK, a=(type_name, values))


def test_building_from_arrays_and_nothing(postgres: psycopg.Connection[Any]) -> None:
    arrays = ("{}", "{a,1,b,NULL}", "{a}", "{{a,1},{b,2}}", "{{a,b,c}}", "{NULL,1}", "{{{a,b}}}", None)
    check(postgres, ["json_object({a})", "jsonb_object({a})"], a=("_text", arrays))
    check(postgres, ["json_object({a}, {b})", "jsonb_object({a}, {b})"], a=("_text", arrays), b=("_text", arrays))
    check(postgres, ["json_build_object()", "jsonb_build_object()", "json_build_array()", "jsonb_build_array()",
                     "json_build_object('a'::text)", "jsonb_build_object('a'::text, 1, NULL::text, 2)",
                     "json_build_object('a'::text, {a}, 'a'::text, 2)"], a=("int4", ("1",)))  # fmt: skip


def test_aggregates(postgres: psycopg.Connection[Any]) -> None:
    for type_name in ("int4", "numeric", "text", "date", "timestamp", "jsonb", "_int4", "bool"):
        samples = [value for value in SAMPLES[type_name] if value is None or "'" not in value]
        literals = ", ".join("(NULL)" if value is None else f"('{value}')" for value in samples)
        literals = literals.replace("{", "{{").replace("}", "}}")
        source = f"(VALUES {literals}) AS s(v)"
        calls = [f'(SELECT {name}(v::"{type_name}") FROM {source})' for name in ("json_agg", "jsonb_agg")]
        calls += [f"(SELECT {name}('k'::text, v::\"{type_name}\") FROM {source})"
                  for name in ("json_object_agg", "jsonb_object_agg")]  # fmt: skip
        check(postgres, calls, columnar=False, a=("int4", ("1",)))
    check(postgres, ["(SELECT json_agg(1) FROM (VALUES (1)) s(v) WHERE false)",
                     "(SELECT json_object_agg(v, 1) FROM (VALUES (NULL::text)) s(v))"], columnar=False,
          a=("int4", ("1",)))  # fmt: skip


def test_rows(postgres: psycopg.Connection[Any]) -> None:
    source = "(SELECT {a} AS x, 'k'::text AS \"Y z\", NULL::int4 AS n, 1.50 AS d)"
    check(postgres, [f"(SELECT row_to_json(t) FROM {source} AS t)", f"(SELECT to_jsonb(t) FROM {source} AS t)",
                     f"(SELECT json_build_object('row', t) FROM {source} AS t)", "row_to_json(ROW({a}, 'x'::text))",
                     f"(SELECT json_agg(t) FROM {source} AS t)", f"(SELECT jsonb_agg(t) FROM {source} AS t)",
                     "(SELECT json_agg(t) FROM (VALUES (1, {a}), (2, {a})) AS t(id, v))",
                     "(SELECT json_agg(v) FROM (VALUES ({a}), ({a})) AS t(v))",
                     "(SELECT json_object_agg(id, t) FROM (VALUES (1, {a}), (2, {a})) AS t(id, v))",
                     "row_to_json(ROW({a}, ROW(1, {a})), false)"],
          NEW_YORK, a=("timestamptz", ("2024-07-01 00:00", None)))  # fmt: skip
    check(postgres, ["(SELECT json_agg(v) FROM (VALUES ({a}), ({a}), (NULL)) AS t(v))"], NEW_YORK,
          a=("_timestamptz", ('{2024-07-01}', '{}')))  # fmt: skip


def test_arrays_behind_variadic(postgres: psycopg.Connection[Any]) -> None:
    arrays = ("{a,b}", "{}", "{NULL,x}", "{{a,b},{c,d}}", None)
    calls = ["concat(VARIADIC {a})", "concat_ws(','::text, VARIADIC {a})", "format('%s-%s'::text, VARIADIC {a})",
             "num_nulls(VARIADIC {a})", "num_nonnulls(VARIADIC {a})", "json_build_array(VARIADIC {a})",
             "json_build_object(VARIADIC {a})", "jsonb_build_object(VARIADIC {a})"]  # fmt: skip
    check(postgres, calls, a=("_text", arrays))
    check(postgres, ["concat(VARIADIC {a})", "jsonb_build_array(VARIADIC {a})"], a=("_int4", ("{1,2}", "{}", None)))
