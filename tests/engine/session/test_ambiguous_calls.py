"""Which function or operator a call means, and which calls are not unique (42725): matrices of arguments over built-in
names and over overloads that users made, beside PostgreSQL."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus

from tests.engine.session.conftest import Pair
from tests.samples import some

VALUES = (
    "null", "'1'", "1", "1::int8", "1::int2", "1.5", "1::float4", "1::float8", "'1'::text", "'1'::varchar", "'1'::name",
    "'1'::bpchar", "true", "'2020-01-01'::date", "'2020-01-01'::timestamp", "'2020-01-01'::timestamptz",
    "'1 day'::interval", "'12:00'::time", "'{1}'", "array[1]", "array['a']", "array[null]", "'1'::jsonb", "'1'::json",
    "'1'::bytea", "'1'::oid", "point(1, 2)", "'[1,2)'::int4range", "row(1, 2)", "B'1'", "'1'::money",
)  # fmt: skip
FUNCTIONS = (
    "abs", "length", "lower", "substr", "round", "trunc", "sign", "mod", "power", "log", "concat", "format", "to_char",
    "date_trunc", "date_part", "age", "extract", "justify_days", "overlay", "position", "strpos", "replace", "left",
    "repeat", "lpad", "btrim", "array_append", "array_prepend", "array_cat", "array_length", "unnest", "max", "min",
    "sum", "avg", "count", "coalesce", "nullif", "isfinite", "area", "div", "gcd", "width_bucket",
    "generate_series", "to_json", "jsonb_typeof", "upper", "isempty", "lower_inc", "range_merge", "set_byte", "get_bit",
    "encode", "decode", "md5", "sha256", "quote_literal", "quote_nullable", "to_timestamp", "make_date", "timezone",
    "date", "text", "int4", "float8", "bool", "numeric", "interval", "box", "circle", "center", "diameter", "path",
    "polygon", "host", "family", "masklen", "bit_length", "octet_length", "char_length", "ceil", "floor", "factorial",
    "exp", "sqrt", "bit_count", "reverse", "similar_escape", "regexp_replace", "string_agg", "array_agg", "lag",
)  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "%", "^", "||", "=", "<", ">=", "<>", "~", "~~", "&", "|", "#", "<<", ">>", "@>", "<@",
             "&&", "->", "->>", "#>", "?", "@@", "-|-", "<->", "&<", "|>>", "##", "~*", "!~~*", "^@", "@?")  # fmt: skip
PREFIXES = ("+", "-", "@", "~", "|/", "||/", "!!", "#", "@-@", "@@", "?-", "?|")


def told(connection: psycopg.Connection, call: str) -> object:
    """The type of a call or its error: the call is analysed, and not run."""
    result = connection.pgconn.prepare(b"", f"select {call}".encode())
    if result.status == ExecStatus.COMMAND_OK:
        return connection.pgconn.describe_prepared(b"").ftype(0)
    fields = DiagnosticField.SQLSTATE, DiagnosticField.MESSAGE_PRIMARY, DiagnosticField.MESSAGE_HINT
    found = tuple((result.error_field(field) or b"").decode() for field in fields)
    return found if found[0] == "42704" else (*found, result.error_field(DiagnosticField.STATEMENT_POSITION))


def compare(pair: Pair, calls: Iterator[str]) -> None:
    different = []
    for call in calls:
        ours, theirs = told(pair.shoal, call), told(pair.postgres, call)
        if ours != theirs and not (isinstance(ours, tuple) and ours[0] == "0A000"):
            different.append(f"{call}: {ours}, PostgreSQL {theirs}")
    if different:
        pytest.fail(f"{len(different)} differ:\n" + "\n".join(different[:40]))


def test_functions_of_one_argument(pair: Pair) -> None:
    compare(pair, (f"{name}({value})" for name in FUNCTIONS for value in VALUES))


def test_functions_of_several_arguments(pair: Pair) -> None:
    choose = random.Random(5)
    calls = []
    for name in FUNCTIONS:
        calls += [f"{name}({', '.join(pair_)})" for pair_ in itertools.product(VALUES[:3], repeat=2)]
        calls += [f"{name}({', '.join(choose.choices(VALUES, k=choose.choice((2, 2, 3, 4))))})" for _ in range(25)]
    compare(pair, iter(calls))


def test_operators(pair: Pair) -> None:
    choose = random.Random(6)
    calls = []
    for name in OPERATORS:
        calls += [f"{one} {name} {other}" for one, other in itertools.product(("null", "'1'"), VALUES)]
        calls += [f"{one} {name} {other}" for other, one in itertools.product(("null", "'1'"), VALUES)]
        calls += [f"{choose.choice(VALUES)} {name} {choose.choice(VALUES)}" for _ in range(25)]
    calls += [f"{name} {value}" for name in PREFIXES for value in VALUES]
    compare(pair, iter(calls))


PARAMETERS = ("int", "bigint", "numeric", "float8", "text", "varchar", "date", "timestamptz", "bool", "int[]",
              "anyelement", "anyarray", "anycompatible", "jsonb", "point")  # fmt: skip
DEFAULTS = {"int": "1", "bigint": "1", "text": "'x'", "bool": "true", "numeric": "1.5"}


def overloads(choose: random.Random) -> list[str]:
    """The parameter lists of a few functions of one name."""
    found = []
    for _ in range(choose.randint(2, 5)):
        types = choose.choices(PARAMETERS, k=choose.randint(0, 3))
        parts = [f"p{choose.randint(0, 1)}{number} {type_}" for number, type_ in enumerate(types)]
        for place in reversed(range(len(parts))):
            if types[place] not in DEFAULTS or choose.random() < 0.4:
                break
            parts[place] += f" default {DEFAULTS[types[place]]}"
        if len(parts) == len(types) and choose.random() < 0.25 and "default" not in " ".join(parts):
            parts.append(f"variadic v {choose.choice(('int[]', 'text[]', 'anyarray', 'numeric[]'))}")
        found.append(", ".join(parts))
    return found


def calls_of(choose: random.Random) -> Iterator[str]:
    some = ("null", "'1'", "1", "1::int8", "1.5", "'1'::text", "true", "'2020-01-01'::date", "array[1]", "'{1}'")
    yield "f()"
    yield from (f"f({value})" for value in some)
    yield from (f"f(variadic {value})" for value in ("array[1]", "array['a']", "'{1}'", "null", "1"))
    for _ in range(25):
        given = choose.choices(some, k=choose.randint(2, 4))
        yield f"f({', '.join(given)})"
        names = [f"p{choose.randint(0, 1)}{number} => {value}" for number, value in enumerate(given)]
        cut = choose.randint(0, len(given))
        named = [*given[:cut], *names[cut:]]
        if cut == 0:
            choose.shuffle(named)
        yield f"f({', '.join(named)})"
    yield "f(v => array[1])"
    yield "f(variadic v => array[1])"
    yield "f(1, variadic v => array[1])"


@pytest.mark.parametrize("seed", some(range(40), 2))
def test_overloads_of_users(pair: Pair, seed: int) -> None:
    """Overloads of two schemas of the path, some with defaults or VARIADIC; each has a result type of its own."""
    choose = random.Random(seed)
    pair.run("create schema overloads_beside", "set search_path = statements, overloads_beside")
    try:
        results = iter(("int", "text", "bool", "date", "float8", "numeric", "time", "json", "uuid", "box", "money"))
        for schema in ("statements", "overloads_beside"):
            for parameters in overloads(choose):
                type_ = next(results)
                create = (
                    f"create function {schema}.f({parameters}) returns {type_} language sql as 'select null::{type_}'"
                )
                made = []
                for connection in (pair.shoal, pair.postgres):
                    try:
                        connection.execute(create.encode())
                        made.append("")
                    except psycopg.Error as error:
                        made.append(error.sqlstate or "")
                assert made[0] == made[1], create
        compare(pair, calls_of(choose))
    finally:
        pair.run("drop schema overloads_beside cascade")
