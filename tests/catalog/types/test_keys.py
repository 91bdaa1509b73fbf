"""Storage keys and sort keys order values as PostgreSQL's btree does, and give equal bytes to equal values."""

from __future__ import annotations

import random
import struct

import psycopg
import pytest

from catalog.types import by_oid, lookup, oids

dice = random.Random(11)
NUMBERS = [
    "0",
    "1",
    "-1",
    "1.0",
    "1.00",
    "-1.0",
    "0.1",
    "0.01",
    "0.010",
    "10",
    "100",
    "99.9",
    "-99.9",
    "-100",
    "1e20",
    "1e-20",
    "1234567.1234567",
    "-0.001",
    "NaN",
]
NUMBERS += [
    "Infinity",
    "-Infinity",
    "-1e20",
    "12",
    "123",
    "1234",
    "-12",
    "-123",
    "9999",
    "10000",
    "10001",
    "0.00001",
    "1.5",
    "-1.50",
]

VALUES = {
    "bool": ["t", "f"],
    "int2": ["0", "1", "-1", "32767", "-32768", "255", "256"],
    "int4": [str(dice.randrange(-(2**31), 2**31)) for _ in range(50)] + ["0", "-1", "1"],
    "int8": [str(dice.randrange(-(2**63), 2**63)) for _ in range(50)] + ["0", "-1", "1"],
    "oid": ["0", "1", "4294967295", "2147483648", "2147483647"],
    "xid8": ["0", "1", "18446744073709551615"],
    "float4": ["0", "-0", "1.5", "-1.5", "NaN", "Infinity", "-Infinity", "1e-45", "3.4e38", "-1e-45"],
    "float8": [*NUMBERS, "-0", *[repr(dice.uniform(-1e3, 1e3)) for _ in range(50)]],
    "numeric": [*NUMBERS, *[f"{dice.uniform(-1e3, 1e3):.{dice.randrange(6)}f}" for _ in range(200)]],
    "text": ["", "a", "b", "ab", "a ", "A", "ä", "z", "日本", "a\x01", "\x01", "aa", "a\tb", "\U0001f600", "\uffff"],
    "varchar": ["", "a", "a ", "ab"],
    "bpchar": ["", "a", "a ", "a  b", "ab", "  ", "b"],
    "name": ["", "a", "ab", "b_c"],
    '"char"': ["a", "b", " ", "~"],
    "bytea": [r"\x", r"\x00", r"\x0000", r"\x0001", r"\x00ff", r"\xff", r"\xffff", r"\x01", r"\xff00", r"\x0100"],
    "uuid": [bytes(dice.randbytes(16)).hex() for _ in range(20)],
    "date": ["2000-01-01", "1999-12-31", "0044-03-15 BC", "infinity", "-infinity", "5874897-12-31", "2024-02-29"],
    "time": ["00:00", "24:00", "12:34:56.789", "23:59:59.999999"],
    "timetz": ["12:00+00", "13:00+01", "11:00-01", "12:00+01", "00:00+15", "24:00-15", "12:00:00.5+00"],
    "timestamp": ["2000-01-01", "1999-12-31 23:59:59.999999", "infinity", "-infinity", "294276-12-31", "4714-11-24 BC"],
    "timestamptz": ["2000-01-01 00:00+00", "2000-01-01 01:00+01", "infinity", "-infinity", "1970-01-01 00:00-08"],
    "interval": ["1 day", "24:00", "1 mon", "30 days", "31 days", "-1 day", "0", "1 year", "12 mons", "-1 us", "1 us"],
    "pg_lsn": ["0/0", "0/FFFFFFFF", "1/0", "FFFFFFFF/FFFFFFFF"],
    "tid": ["(0,1)", "(1,0)", "(0,0)", "(4294967295,65535)"],
    "text[]": ["{}", "{a}", "{a,b}", "{NULL}", "{a,NULL}", '{""}', "{b}", "{{a}}", "{ab}", '{"",""}', "[0:0]={a}"],
    "numeric[]": ["{1.0}", "{1.00}", "{1,2}", "{-1}", "{NaN}", "{1.00,0}"],
    "inet": [
        "10.0.0.0/8",
        "10.0.0.1/8",
        "10.0.0.0",
        "10.0.0.0/16",
        "9.0.0.0/8",
        "0.0.0.0/0",
        "::/0",
        "::1",
        "11.0.0.0",
    ],
    "oidvector": ["1 2", "", "1", "2", "1 2 3"],
}


def oid_of(name: str) -> int:
    name = name.strip('"')
    return int(getattr(oids, name[:-2].upper() + "_ARRAY" if name.endswith("[]") else name.upper()))


@pytest.mark.parametrize("name", VALUES)
def test_keys_order_as_postgresql_does(postgres: psycopg.Connection, name: str) -> None:
    sql_type, texts = lookup(oid_of(name)), VALUES[name]
    collation = ' collate "C"' if name in ("text", "varchar", "bpchar", "text[]") else ""
    query = f"select rank() over (order by v{collation}) from unnest($1::text[]) with ordinality as t(s, n), "
    query += f"lateral (select s::{name} as v offset 0) as c order by n"
    ranks = [row[0] for row in psycopg.RawCursor(postgres).execute(query, (texts,)).fetchall()]
    decode, sort_key, encode = sql_type.text_decoder(), sql_type.sort_key(), sql_type.key_encoder()
    assert encode is not None
    values = [decode(text) for text in texts]
    keys = [encode(value) for value in values]
    sortable = values if sort_key is None else [sort_key(value) for value in values]
    for i, rank in enumerate(ranks):
        for j, other in enumerate(ranks):
            assert (keys[i] < keys[j]) == (rank < other), (texts[i], texts[j])
            assert (keys[i] == keys[j]) == (rank == other), (texts[i], texts[j])
            assert (sortable[i] < sortable[j]) == (rank < other), (texts[i], texts[j])  # type: ignore[operator]
            assert (sortable[i] == sortable[j]) == (rank == other), (texts[i], texts[j])
            assert rank == other or not keys[j].startswith(keys[i]), "keys must end by themselves"
            assert rank != other or hash(sortable[i]) == hash(sortable[j])


def test_types_without_order_have_no_keys() -> None:
    assert lookup(oids.JSON).key_encoder() is None
    assert lookup(oids.JSON_ARRAY).key_encoder() is None
    assert lookup(oids.XID).key_encoder() is None


def test_fixed_storage_fits_struct_and_numpy() -> None:
    for sql_type in by_oid.values():
        code = sql_type.storage.struct_code
        if code is not None:
            assert code in {"?", "h", "i", "q", "I", "Q", "f", "d", "16s"}
            assert struct.calcsize("<" + code) in (1, 2, 4, 8, 16)
