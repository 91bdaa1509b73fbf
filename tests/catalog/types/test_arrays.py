"""Array literals: structure, quoting, bounds and their errors, as PostgreSQL has them."""

from __future__ import annotations

import psycopg

from catalog.types import Array, lookup, oids
from tests.catalog.types.oracle_codec import assert_same

INTEGERS = """{}|{1}|{1,2,3}| { 1 , 2 } |{NULL,1,null}|{{1,2},{3,4}}|{{{1}}}|[2:4]={1,2,3}|[0:1][-1:0]={{1,2},{3,4}}
[3]={1,2,3}|{1,2|1,2}|{1,,2}|{,1}|{1,}|{,}|{{1},{2,3}}|{1,{2}}|{{1},2}|{{}}|{{},{}}|{1}}|{1} x|x{1}
{a}|{1 2}|[1:2]={1}|[1:2]{1,2}
[1:0]={}|[2:1]={1}|[1:2]=1|[a:2]={1,2}|[1:]={1}|[1:2={1,2}|[]={1}|{"1","2"}|{"1"2}|{1"2"}|{"1" "2"}|{{{{{{1}}}}}}
{{{{{{{1}}}}}}}|{99999999999}|[1:1][1:1][1:1][1:1][1:1][1:1][1:1]={1}||{|}|{{1,2},{3}}|{{1},{2}|{{1},{2},}|[1:3]={1,2}
[1:2] = {5,6}|[ 1:2]={5,6}|{{NULL}}|{ {1} , {2} }|{{1}{2}}|{1}{2}|{"NULL"}|{\t1\t,\n2}|{1,\\2}"""
STRINGS = r"""{}|{a,b}|{"a b","c,d"}|{"a\"b",c\\d}|{""}|{NULL,"NULL",null,"null"}|{ a b , c }|{a\ ,b}|{"{}"}
{\{\}}|{ü,日本}|{a"b"}|{"a"b}|{"a|{a\|{"a\"}|{\N\U\L\L}|{'a'}|{"tab	here",a	b}|{ " a " }|{a\"b}
{nullx}|{"\a"}|{a{b}|{a}b}
[0:0]={x}|{(1)}"""


def literals(text: str) -> list[str]:
    return [literal for line in text.split("\n") for literal in line.split("|")]


def test_arrays_of_integers(postgres: psycopg.Connection) -> None:
    assert_same(postgres, oids.INT4_ARRAY, "int4[]", literals(INTEGERS))


def test_arrays_of_strings(postgres: psycopg.Connection) -> None:
    assert_same(postgres, oids.TEXT_ARRAY, "text[]", literals(STRINGS))
    assert_same(postgres, oids.NAME_ARRAY, "name[]", literals(STRINGS))


def test_arrays_of_other_types(postgres: psycopg.Connection) -> None:
    assert_same(postgres, oids.BYTEA_ARRAY, "bytea[]", ['{"\\\\x00ff",abc}'])
    assert_same(postgres, oids.NUMERIC_ARRAY, "numeric[]", ["{1.10,NaN,-0.0}"])
    assert_same(postgres, oids.FLOAT8_ARRAY, "float8[]", ["{1.10,NaN,-0.0,1e300}"])
    assert_same(postgres, oids.BOOL_ARRAY, "bool[]", ["{t,no,NULL}"])
    assert_same(postgres, oids.VARCHAR_ARRAY, "varchar[]", ["{abc,de}"])


def test_vectors(postgres: psycopg.Connection) -> None:
    for oid, name in ((oids.INT2VECTOR, "int2vector"), (oids.OIDVECTOR, "oidvector")):
        assert_same(postgres, oid, name, ["1 2 3", "", " 7 ", "23 1043 0"])


def test_order_of_arrays_is_that_of_postgresql(postgres: psycopg.Connection) -> None:
    shown = ["{}", "{1}", "{1,2}", "{1,NULL}", "{NULL}", "{2}", "{{1,2}}", "[2:3]={1,2}", "{{1},{2}}", "{-1,5}"]
    shown += ["{1,2,3}", "[0:0]={1}", "{NULL,NULL}"]
    array_type = lookup(oids.INT4_ARRAY)
    values = [array_type.text_decoder()(text) for text in shown]
    key, encode = array_type.sort_key(), array_type.key_encoder()
    assert key is not None and encode is not None
    rows = postgres.execute(
        "select v::text as shown from unnest(%s::text[]) s, cast(s as int4[]) v order by v", (shown,)
    )
    expected = [row[0] for row in rows.fetchall()]
    show = array_type.text_encoder()
    assert [show(value).decode() for value in sorted(values, key=key)] == expected  # type: ignore[arg-type]
    assert [show(value).decode() for value in sorted(values, key=encode)] == expected


def test_one_dimensional_arrays_start_at_one() -> None:
    assert Array.of((1, 2)) == lookup(oids.INT4_ARRAY).text_decoder()("{1,2}")
    assert Array.of(()) == lookup(oids.INT4_ARRAY).text_decoder()("{}")
