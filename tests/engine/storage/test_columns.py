"""What types say of their columns (`SqlType.columns`) is what their codecs do value by value."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catalog.errors import SqlError
from catalog.types import Layout, Order, by_oid, columns_of, lookup, oids
from catalog.types.array import ArrayType, VectorType
from catalog.types.base import DEFAULT_FORMAT, SqlType, TypeRef
from catalog.types.extensions import _SCALARS as OF_EXTENSIONS
from catalog.types.text import OutputOnlyText
from engine.columnar.cells import binary_cells, text_cells
from engine.storage.columns import column_form, from_values, one_array, to_values
from engine.storage.keys import encode_keys, row_key_encoder
from tests.engine.storage.samples import SAMPLES

MORE = {
    "money": ["$0.00", "-$1,234.56", "$92,233,720,368,547,758.07"],
    "pg_lsn": ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"],
    "xid": ["0", "7", "4294967295"],
    "cid": ["0", "4294967295"],
    "tid": ["(0,1)", "(7,65535)"],
    "inet": ["10.0.0.1", "10.0.0.1/8", "::1", "fe80::1/64"],
    "cidr": ["10.0.0.0/8", "::/0"],
    "macaddr": ["08:00:2b:01:02:03", "ff:ff:ff:ff:ff:ff"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "bit": ["0", "1"],
    "varbit": ["", "0", "101", "1" * 70],
    "xml": ['<a b="1">x</a>', "text", '<?xml version="1.0" encoding="latin1"?><a/>'],
    "jsonpath": ["$", '$."a"[*]'],
    "tsvector": ["", "'a' 'b'", "'a':1A,2 'bc':3"],
    "tsquery": ["'a'", "'a' & !'b' | 'c':*"],
    "int4range": ["empty", "[1,5)", "(,)", "[7,)"],
    "int8range": ["[1,5)"],
    "numrange": ["[1.10,5.0]"],
    "tsrange": ['["2000-01-01 00:00:00","2001-01-01 00:00:00")'],
    "tstzrange": ['["2000-01-01 00:00:00+00","2001-01-01 00:00:00+00")'],
    "daterange": ["[2000-01-01,2001-01-01)"],
    "int4multirange": ["{}", "{[1,5),[7,9)}"],
    "int8multirange": ["{[1,5)}"],
    "nummultirange": ["{[1.5,2.5]}"],
    "tsmultirange": ['{["2000-01-01 00:00:00","2001-01-01 00:00:00")}'],
    "tstzmultirange": ['{["2000-01-01 00:00:00+00","2001-01-01 00:00:00+00")}'],
    "datemultirange": ["{[2000-01-01,2001-01-01)}"],
    "point": ["(1.123456789012345,-2)"],
    "lseg": ["[(0,0),(1.123456789012345,1)]"],
    "path": ["((0,0),(1,1.123456789012345))", "[(0,0),(1,1)]"],
    "box": ["(1.123456789012345,1),(0,0)"],
    "polygon": ["((0,0),(1.123456789012345,1),(1,0))"],
    "line": ["{1,-1,0.123456789012345}"],
    "circle": ["<(1.123456789012345,2),3>"],
    "regconfig": ["english", "simple"],
    "regdictionary": ["simple"],
    "refcursor": ["", "c"],
    "cstring": ["", "a"],
    "unknown": ["", "a"],
    "citext": ["", "Ab", "é"],
    "hstore": ["", '"a"=>"1", "b"=>NULL'],
    "ltree": ["", "top", "Top.Science.Astronomy_1"],
    "lquery": ["*", "Top.*{1,2}.!Science|art@*.end"],
    "ltxtquery": ["Europe & Russia*@ & !Transport", "a"],
    "query_int": ["1", "1&(2|!3)"],
    "pg_snapshot": ["10:10:", "10:20:10,14,15"],
    "txid_snapshot": ["10:10:", "10:20:10,14,15"],
}
NUMBERED = {name: ["0", "1", "4294967295"] for name in (
    "regproc", "regprocedure", "regoper", "regoperator", "regclass", "regtype", "regnamespace", "regrole",
    "regcollation",
)}  # fmt: skip
CHANGED = {
    "char": ["", "a", "z", "\\310", "\\"],
    "float8": [*SAMPLES["float8"], "0.1234567890123"],
}
TEXTS = {**SAMPLES, **MORE, **NUMBERED, **CHANGED}
_WITHOUT_TEXT = (oids.VOID, oids.RECORD, oids.PG_DDL_COMMAND)
SCALARS: tuple[SqlType, ...] = tuple(
    known
    for known in (*by_oid.values(), *OF_EXTENSIONS.values())
    if not isinstance(known, (ArrayType, VectorType, OutputOnlyText)) and known.oid not in _WITHOUT_TEXT
)
OTHER_SETTINGS = replace(
    DEFAULT_FORMAT, date_style="German", date_order="DMY", interval_style="iso_8601", timezone="Asia/Tokyo",
    bytea_output="escape", extra_float_digits=-5, text_search="simple",
)  # fmt: skip


def values_of(known: SqlType) -> list[Any]:
    decode = known.text_decoder()
    return [decode(text) for text in TEXTS[known.name]]


scalars = pytest.mark.parametrize("known", SCALARS, ids=lambda known: known.name)


@scalars
def test_values_go_into_columns_and_back(known: SqlType) -> None:
    values = [*values_of(known), None]
    column = one_array(from_values(values, known.oid))
    assert column.type == column_form(known.oid).arrow_type
    found = to_values(column, known.oid)
    assert [repr(value) for value in found] == [repr(value) for value in values]
    assert columns_of(known.oid) is known.columns


@scalars
def test_a_key_that_is_a_number(known: SqlType) -> None:
    key, encode = known.columns.key, known.key_encoder()
    if key is None:
        return
    assert encode is not None
    code, bias = key
    assert [encode(value) for value in values_of(known)] == [
        struct.pack(f">{code}", value + bias) for value in values_of(known)
    ]


@scalars
def test_what_is_sent(known: SqlType) -> None:
    values, encode = values_of(known), known.binary_encoder()
    if known.columns.sent:
        kind = np.dtype(known.columns.sent)
        assert [encode(value) for value in values] == [np.array([value]).astype(kind).tobytes() for value in values]
    if known.columns.sent_as_held:
        held = from_values(values, known.oid).to_pylist()
        assert [item.encode() if isinstance(item, str) else item for item in held] == [encode(item) for item in values]


@scalars
def test_what_is_printed(known: SqlType) -> None:
    values, encode = values_of(known), known.text_encoder()
    column = from_values(values, known.oid)
    if known.columns.printed:
        assert [item.encode() for item in column.to_pylist()] == [encode(value) for value in values]
    if pa.types.is_integer(column.type):
        digits = [str(item).encode() for item in column.to_pylist()]
        assert known.columns.digits == (digits == [encode(value) for value in values])


@scalars
def test_what_depends_on_settings(known: SqlType) -> None:
    values, texts = values_of(known), TEXTS[known.name]
    usual, other = known.text_encoder(), known.text_encoder(OTHER_SETTINGS)
    differs = [usual(value) for value in values] != [other(value) for value in values]
    assert known.columns.output_of_settings == differs
    if not known.columns.input_of_settings:
        decode = known.text_decoder(OTHER_SETTINGS)
        assert [repr(decode(text)) for text in texts] == [repr(value) for value in values]


@scalars
def test_cells_and_keys_of_whole_columns(known: SqlType) -> None:
    """As the codecs make them, value by value; under settings that change the text, too."""
    values = values_of(known)
    column = one_array(from_values([*values, None], known.oid))
    for settings in (DEFAULT_FORMAT, OTHER_SETTINGS):
        made = text_cells(known.oid, settings)(column).as_values().to_pylist()
        assert [as_bytes(item) for item in made[:-1]] == [known.text_encoder(settings)(value) for value in values]
    if known.oid == oids.QUERY_INT:
        with pytest.raises(SqlError, match="no binary output function available for type query_int"):
            binary_cells(known.oid)(column)
    else:
        made = binary_cells(known.oid)(column).as_values().to_pylist()
        assert [as_bytes(item) for item in made[:-1]] == [known.binary_encoder()(value) for value in values]
    if known.key_encoder() is not None:
        type_ref = TypeRef(known.oid)
        keys = encode_keys(7, [type_ref], [from_values(values, known.oid)]).to_pylist()
        assert keys == [row_key_encoder(7, [type_ref])((value,)) for value in values]


def as_bytes(item: str | bytes) -> bytes:
    return item.encode() if isinstance(item, str) else item


@scalars
def test_what_is_compared_by_keys_has_keys(known: SqlType) -> None:
    if known.columns.order is Order.BY_KEY:
        assert known.key_encoder() is not None
    if known.columns.order is Order.NONE:
        assert known.key_encoder() is None


def test_nothing_is_said_of_other_types() -> None:
    for oid in (oids.ANY, oids.INT4_ARRAY, 1 << 29):
        assert columns_of(oid).layout is Layout.VALUES and columns_of(oid).order is Order.NATIVE
    assert lookup(oids.INT4_ARRAY).columns.key is None
