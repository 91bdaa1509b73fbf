"""Statements that are made of every function, operator and cast that there is, over values that make it take long."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import psycopg

from catalog.functions.registry import implementation

# Values of each type, by its name: long, deep, wide, or of a form that takes long.
_DIGITS = "repeat('7', 100000)"
_TEXTS = (
    "repeat('a', 45)", r"'^(a*)*\1\1x$'", "repeat('abc def ', 300000)", "repeat('[', 10000)", "repeat('''', 6000000)",
    "repeat('9', 1000000)", "repeat('Month ', 100000)", "repeat('%s', 100000)", "repeat('a & ', 20000) || 'a'",
    "'[' || repeat('1,', 1000000) || '1]'", "repeat('\\', 3000000)", "repeat('aB', 20000000)", "'i'", "','",
    "repeat('e', 3000)", "repeat('{', 3000)", "repeat('1 day ', 30000)", "'english'", "repeat('(a|b)*', 2000)",
    r"repeat('\w', 1000)", "repeat('a|', 150000)", "repeat('b', 40000)",
)  # fmt: skip
_JSONS = (
    "(repeat('[', 3000) || repeat(']', 3000))", "('[' || repeat('1,', 500000) || '1]')",
    "('{' || repeat('\"a\": [1, 2], ', 50000) || '\"b\": 1}')", "'{\"a\": 1}'", f"('[' || {_DIGITS} || ']')",
)  # fmt: skip
_POINTS = "('(' || repeat('(1,2),(5,1),', 3000) || '(3,4))')"
_RANGES = "(SELECT range_agg(int4range(2 * g, 2 * g + 1)) FROM generate_series(1, 20000) AS g)"
VALUES: dict[str, tuple[str, ...]] = {
    "text": _TEXTS,
    "character varying": _TEXTS,
    "character": ("repeat('a ', 3000000)::char(6000000)", "'a'::bpchar"),
    "name": ("'a'::name", "repeat('a', 60)::name"),
    "json": tuple(f"{value}::json" for value in _JSONS),
    "jsonb": tuple(f"{value}::jsonb" for value in _JSONS),
    "jsonpath": ("'$.** ? (exists (@.** ? (@ == 1)))'::jsonpath", "'$[*] ? (exists ($[*] ? (@ == 2)))'::jsonpath"),
    "bytea": ("convert_to(repeat('abc', 5000000), 'UTF8')", "'abc'::bytea"),
    "numeric": ("10::numeric ^ 100000", f"{_DIGITS}::numeric", "1e-16000::numeric", "100000.5", "0.3", "5000::numeric"),
    "smallint": ("32767::int2", "(-1)::int2", "2::int2"),
    "integer": ("1000000000", "100000", "-1", "3", "60"),
    "bigint": ("9223372036854775807", "1000000000", "30000", "7"),
    "real": ("1e38::real", "0.1::real"),
    "double precision": ("1e308::float8", "-0.1::float8", "1e-300::float8"),
    "boolean": ("true",),
    "bit": ("repeat('10', 3000000)::bit(6000000)", "B'101'"),
    "bit varying": ("repeat('10', 3000000)::varbit",),
    "tsvector": ("(repeat('a b c ', 100000))::tsvector", "to_tsvector('english', repeat('abc def ', 30000))"),
    "tsquery": ("(repeat('a & ', 3000) || 'a')::tsquery", "(repeat('a <-> ', 300) || 'a')::tsquery", "'a'::tsquery"),
    "polygon": (f"{_POINTS}::polygon", "'((0,0),(1,1),(2,0))'::polygon"),
    "path": (f"{_POINTS}::path",),
    "anymultirange": (_RANGES,),
    "int4multirange": (_RANGES,),
    "anyrange": ("int4range(1, 100000000)",),
    "anyarray": (
        "array_fill(1, ARRAY[500000])", "string_to_array(repeat('ab,', 300000), ',')", "ARRAY[1, 2]",
        "array_fill(repeat('a', 1000), ARRAY[3000])",
    ),
    "anyelement": ("1", "repeat('abc', 1000000)"),
    "interval": ("'170000000 years'::interval", "'1 day'::interval"),
    "date": ("'5874897-12-31'::date", "'2020-01-31'::date"),
    "timestamp without time zone": ("'294276-12-31'::timestamp", "'2020-01-31'::timestamp"),
    "timestamp with time zone": ("'294276-12-31'::timestamptz", "'4713-01-01 BC'::timestamptz"),
    "time without time zone": ("'23:59:59.999'::time",),
    "uuid": ("'00000000-0000-0000-0000-000000000000'::uuid",),
    "inet": ("'ffff::1/3'::inet",),
    "cidr": ("'10.0.0.0/8'::cidr",),
    "macaddr": ("'08:00:2b:01:02:03'::macaddr",),
    "money": ("'92233720368547758.07'::money",),
    "point": ("'(1,2)'::point",),
    "box": ("'(1,2),(3,4)'::box",),
    "circle": ("'<(1,2),3>'::circle",),
    "lseg": ("'[(1,2),(3,4)]'::lseg",),
    "line": ("'{1,2,3}'::line",),
    "record": ("ROW(1, repeat('a', 1000000))",),
    "regconfig": ("'english'::regconfig",),
    "oid": ("1::oid",),
    "\"any\"": ("1", "repeat('abc', 1000000)", "array_fill(1, ARRAY[100000])"),
}  # fmt: skip
_ARRAYS = {
    "integer": "array_fill(1, ARRAY[500000])", "text": "string_to_array(repeat('ab,', 300000), ',')",
    "double precision": "array_fill(0.5::float8, ARRAY[200000])", "numeric": "array_fill(1.5, ARRAY[100000])",
    "jsonb": "array_fill('[1]'::jsonb, ARRAY[50000])", "\"char\"": "ARRAY['A', 'B']::\"char\"[]",
}  # fmt: skip
_SAME = {
    "anynonarray": "anyelement", "anycompatible": "anyelement", "anycompatiblearray": "anyarray", "anyenum": "",
    "anycompatiblenonarray": "anyelement", "anycompatiblerange": "anyrange", "anycompatiblemultirange": "anymultirange",
}  # fmt: skip
# What waits, ends others, or changes the server, and is not computed.
_NOT = re.compile(
    r"^(pg_|lo_|shoal_|txid_|set_config|setval|nextval|currval|lastval|inet_|binary_upgrade|query_to_|table_to_|"
    r"schema_to_|database_to_|cursor_to_|has_|col_|obj_|shobj_|row_security|.*_(in|out|recv|send)$)"
)
_CASTS = (
    "json", "jsonb", "numeric", "int4[]", "text[]", "numeric[]", "tsvector", "tsquery", "int4multirange", "polygon",
    "path", "interval", "varbit", "bytea", "jsonpath", "timestamptz", "int8", "float8", "inet", "int4range", "uuid",
    "date", "bool", "point", "circle", "xid8", "pg_lsn", "macaddr", "money", "varchar(10)", "char(1000000)",
)  # fmt: skip


def statements(connection: psycopg.Connection, seed: int) -> Iterator[str]:
    """Calls in an order of the seed, each time with other arguments; without end."""
    chance = random.Random(seed)
    known = connection.execute(
        "SELECT proname, prosrc, prokind, ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) AS t)::text[] "
        "FROM pg_proc WHERE prokind IN ('f', 'a') AND pronamespace = 'pg_catalog'::regnamespace ORDER BY oid"
    ).fetchall()
    calls = [
        (name, kind, types)
        for name, source, kind, types in known
        if not _NOT.match(name) and (kind == "a" or implementation(source) is not None)
    ]
    operators = connection.execute(
        "SELECT oprname, format_type(oprleft, NULL), format_type(oprright, NULL) FROM pg_operator ORDER BY oid"
    ).fetchall()
    while True:
        for _ in range(50):
            match chance.randrange(8):
                case 0 | 1:
                    name, left, right = chance.choice(operators)
                    sides = [_value(chance, kind) for kind in (left, right) if kind and kind != "-"]
                    if None in sides or not sides:
                        continue
                    made = f"{sides[0]} OPERATOR(pg_catalog.{name}) {sides[1]}" if len(sides) == 2 else ""
                    if made:
                        yield f"SELECT length(({made})::text)"
                case 2:
                    value = chance.choice(_TEXTS + _JSONS + (_POINTS, f"'{{' || {_DIGITS} || '}}'"))
                    yield f"SELECT length((({value})::{chance.choice(_CASTS)})::text)"
                case _:
                    name, kind, types = chance.choice(calls)
                    arguments = [_value(chance, type_) for type_ in types]
                    if None in arguments:
                        continue
                    call = f'"{name}"({", ".join(map(str, arguments))})'
                    if kind == "a":
                        yield f"SELECT length(({call})::text) FROM generate_series(1, {chance.choice((3, 3000))})"
                    else:
                        yield f"SELECT length(({call})::text)"


def _value(chance: random.Random, kind: str) -> str | None:
    kind = _SAME.get(kind, kind)
    if kind.endswith("[]"):
        return _ARRAYS.get(kind.removesuffix("[]"))
    found = VALUES.get(kind)
    return None if found is None else f"({chance.choice(found)})"
