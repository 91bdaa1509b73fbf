"""JSON: what is valid, what jsonb makes of it, its order, and PostgreSQL's words for what is wrong."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from catalog.errors import SqlError
from catalog.memory import at_most
from catalog.processes import Errand
from catalog.types import lookup, oids
from catalog.types.beside import read_beside
from catalog.types.json import canonical, parse_jsonb
from catalog.types.json_text import check_json
from tests.catalog.types.oracle_codec import assert_same

VALID = r"""{}¦[]¦null¦true¦false¦0¦-0¦1¦-1.50¦1e2¦1E-3¦1.5e+3¦"a"¦""¦{"a":1}¦{"a": 1, "a": 2}
{"bb":1,"a":2,"c":3,"":4}¦ [1 , 2]
[1,[2,[3,{"x":[]}]]]¦"\u00e4\n\t\"\\\/\b\f\r"¦"ä日本"¦{"ä":1,"zz":2,"b":3}¦"\ud83d\ude00"¦"\u001f"¦"\u007f"
{"a":{"b":{"c":null}}}
12345678901234567890.12345678901234567890¦1e100¦1e-100¦{"a":"1","b":1.0,"c":1.00}¦[true,false,null]¦"\\u0041"
"\\\\u0000"
{"a\"b":1}¦[1.10,1.1]¦{"k":[{"z":1,"y":2}]}¦"/"¦"<&>'"¦[ ]¦{ }¦[{}]¦1e131071¦0e10¦-0.0"""
INVALID = r"""¦ ¦{¦}¦[¦]¦[1¦[1,¦[1,]¦[,1]¦{"a"¦{"a":¦{"a":1¦{"a":1,¦{"a":1,}¦{a:1}¦{"a" 1}¦{1:2}¦{"a":1 "b":2}¦[1 2]
1 2¦tru¦nul¦TRUE
NaN¦Infinity¦-Infinity¦01¦-¦1.¦.5¦1e¦1e+¦+1¦0x10¦1a¦-a¦'a'¦"a¦"a\¦"\x"¦"\u12"¦"\u12g4"¦"\u¦{"a":}¦{"a"::1}¦{,}¦[}¦{]
"a" "b"¦ä¦"a"ä
@¦{"a":@}¦[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,x]¦{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":nope}
"\ud83d"¦"\ud83dx"¦"\ude00"¦"\ud83d\ud83d"¦"\u0000"¦"\ud83d\n"¦"\ud83d\u0041"¦["\u0000"]¦1e131072¦1.5.5¦--1¦1-1¦// x
{"a":1}}¦[1]]
nullx¦true false¦{"a":tru}¦_¦"\é"¦"\uää11"¦{"x":"y"z}¦1,2¦"a":1¦1e5x¦1_0"""
CONTROL = [
    '"a\tb"',
    '"a\nb"',
    '{\n"a":\n x}',
    "[1,\n2,\n3 4]",
    '{"a":\r\n1,,}',
    '"\x01"',
    "\ufeff1",
    "[\n\n",
    '"x\n',
    "\x0b1",
    "\xa01",
]


def literals(text: str) -> list[str]:
    return [literal for line in text.split("\n") for literal in line.split("¦")]


@pytest.mark.parametrize("name", ["json", "jsonb"])
def test_valid_and_invalid_texts(postgres: psycopg.Connection, name: str) -> None:
    assert_same(postgres, getattr(oids, name.upper()), name, literals(VALID) + literals(INVALID) + CONTROL)


@pytest.mark.parametrize("kind", ["check", "jsonb"])
@pytest.mark.parametrize(
    "text", ['{"b": [1.50, "ä\\n"], "a": null}', "[1,\n2,\n3 4]", '"\\u0000"', "[" * 100_000, "[1e131072]"]
)
def test_a_process_beside_reads_as_this_one(kind: str, text: str) -> None:
    def outcome(read: Callable[[], object]) -> object:
        try:
            return read()
        except SqlError as error:
            return error.sqlstate, error.message, error.detail, error.context

    here = outcome(lambda: parse_jsonb(text) if kind == "jsonb" else check_json(text) or "")
    assert outcome(lambda: read_beside(text, kind)) == here


@pytest.mark.parametrize(
    "text", [*filter(None, literals(VALID)), '[{"b": [1, {"c": 1}], "a": 2, "b": 1.0}, ["x", 1e3]]']
)
def test_what_is_shown_as_it_is_read_is_the_same(text: str) -> None:
    assert canonical(text) == parse_jsonb(text)


def test_reading_beside_has_the_memory_of_its_statement() -> None:
    text = "[" + ",".join(f'"{number}"' for number in range(4_000_000)) + "]"
    with at_most(2 << 30):
        assert read_beside(text, "check") == ""
    for kind in ("check", "jsonb"):
        with at_most(64 << 20), pytest.raises(SqlError) as caught:
            read_beside(text, kind)
        assert caught.value.sqlstate == "53200" and "query_memory_limit" in str(caught.value.hint)


def test_objects_take_little_more_than_their_text() -> None:
    text = "[" + '{"a": 1, "b": "xyz"},' * 1_000_000 + "1]"  # 21 MB, of which Python would make 600
    with at_most(192 << 20):
        assert read_beside(text, "check") == ""
        assert len(read_beside(text, "jsonb")) == 22_000_003


def test_reading_beside_ends_with_its_errand() -> None:
    errand, states = Errand(), []
    text = "[" + "[1, 2], " * 5_000_000 + "1]"

    def read() -> None:
        try:
            errand.run(lambda: read_beside(text, "jsonb"))
        except SqlError as error:
            states.append(error.sqlstate)

    thread = threading.Thread(target=read)
    thread.start()
    while not (processes := set(errand._processes)):
        time.sleep(0.01)
    began = time.monotonic()
    errand.end()
    thread.join(60)
    assert states == ["53200"] and [process.returncode for process in processes] == [-signal.SIGKILL]
    assert time.monotonic() - began < 20  # at once, on a machine that does nothing else
    read()
    assert states[1:] == ["57014"]


def test_order_of_jsonb(postgres: psycopg.Connection) -> None:
    texts = [text for text in literals(VALID) if text.isascii()] + [
        "[0]",
        "[null]",
        '["b"]',
        '{"b":1}',
        '{"a":2}',
        "[[1]]",
    ]
    texts += ["2", "10", '"b"', '"ab"', '{"a":1,"b":2}', '{"aa":1}', "[1,2,3]", "[1,3]", "-5", '[{"a":1}]', "[[]]"]
    jsonb = lookup(oids.JSONB)
    decode, key, encode = jsonb.text_decoder(), jsonb.sort_key(), jsonb.key_encoder()
    assert key is not None and encode is not None
    values = [str(decode(text)) for text in texts]
    query = """select shown from (select s::jsonb::text as shown, rank() over (order by s::jsonb) as place
        from unnest(%s::text[]) s) as t order by place, shown collate "C" """
    theirs = [row[0] for row in postgres.execute(query, (values,)).fetchall()]
    assert sorted(values, key=lambda value: (key(value), value)) == theirs  # type: ignore[arg-type, return-value]
    assert sorted(values, key=lambda value: (encode(value), value)) == theirs


def test_deep_nesting_is_refused_not_fatal() -> None:
    for name in (oids.JSON, oids.JSONB):
        with pytest.raises(Exception, match="stack depth limit exceeded"):
            lookup(name).text_decoder()("[" * 100_000)
