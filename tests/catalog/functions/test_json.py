"""json and jsonb on both paths against PostgreSQL."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.catalog.functions.expressions import check

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


def test_changes(postgres: psycopg.Connection[Any]) -> None:
    check(postgres, ["{a} || {b}", "{a} @> {b}", "{a} <@ {b}"], a=("jsonb", DOCUMENTS), b=("jsonb", DOCUMENTS))
    check(postgres, ["{a} - {b}", "{a} ? {b}"], a=("jsonb", DOCUMENTS), b=("text", KEYS))
    check(postgres, ["{a} - {b}"], a=("jsonb", DOCUMENTS), b=("int4", INDEXES))
    lists = ("{}", "{a,b}", "{a,nothing}", "{NULL,a}", None)
    check(postgres, ["{a} - {b}", "{a} ?| {b}", "{a} ?& {b}"], a=("jsonb", DOCUMENTS), b=("_text", lists))
    check(postgres, ["{a} #- {b}", "jsonb_set({a}, {b}, '[7]')", "jsonb_set({a}, {b}, '{{\"n\": 1}}', false)",
                     "jsonb_insert({a}, {b}, '\"new\"')", "jsonb_insert({a}, {b}, '\"new\"', true)"],
          a=("jsonb", DOCUMENTS), b=("_text", (*PATHS, "{{a},{b}}", "{b,c,1}", "{b,new}")))  # fmt: skip
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
