"""Values of every type, as text, and tables made of types: shared by the storage tests."""

from __future__ import annotations

import random
from typing import Any

from catalog.schema import Column, Layout, Table
from catalog.types import by_name
from catalog.types.base import TypeRef

SAMPLES: dict[str, list[str]] = {
    "bool": ["t", "f"],
    "int2": ["0", "-1", "32767", "-32768", "7"],
    "int4": ["0", "-1", "2147483647", "-2147483648", "256", "255"],
    "int8": ["0", "-1", "9223372036854775807", "-9223372036854775808", "4294967296"],
    "oid": ["0", "1", "4294967295", "2147483648"],
    "xid8": ["0", "18446744073709551615"],
    "float4": ["0", "-0", "1.5", "-1.5", "NaN", "Infinity", "-Infinity", "1e-38"],
    "float8": ["0", "-0", "1.5", "-1.5", "NaN", "Infinity", "-Infinity", "1e-300", "-1e300"],
    "numeric": [
        "0",
        "1.10",
        "1.1",
        "-1.10",
        "NaN",
        "Infinity",
        "-Infinity",
        "0.000000000012",
        "123456789012345678901234567890.5",
    ],
    "text": ["", "a", "ab", "a b", "é", "z" * 600, "z" * 599 + "y", "\x01", "日本"],
    "varchar": ["", "a", "ab", "b"],
    "bpchar": ["a", "a  ", "b", ""],
    "name": ["", "pg_class"],
    "char": ["", "a", "z"],
    "bytea": ["\\x", "\\x00", "\\x0000", "\\x00ff", "\\xff", "\\x01"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "date": ["2000-01-01", "1970-01-01", "infinity", "-infinity", "4713-01-01 BC", "9999-12-31"],
    "time": ["00:00:00", "24:00:00", "12:34:56.789012"],
    "timetz": ["00:00:00+00", "12:34:56.789012-08", "23:59:59+14"],
    "timestamp": [
        "2000-01-01 00:00:00",
        "1970-01-01 00:00:00.000001",
        "infinity",
        "-infinity",
        "0044-03-15 12:00:00 BC",
    ],
    "timestamptz": ["2000-01-01 00:00:00+00", "1969-12-31 23:59:59.999999+00", "infinity", "-infinity"],
    "interval": ["0", "1 mon", "-1 mon", "30 days", "1 year 2 mons 3 days 04:05:06.789", "-00:00:00.000001"],
    "json": ['{"a": 1}', "[]"],
    "jsonb": ['{"a": 1}', "[]"],
    "_int4": ["{}", "{1,2,NULL}", "{-1}"],
    "_text": ["{}", '{a,"b c",NULL}'],
}
ORDERED = [name for name in SAMPLES if name in by_name and by_name[name].key_encoder() is not None]
STORED = [name for name in SAMPLES if name in by_name]


def values_of(name: str) -> list[Any]:
    """The samples in internal form."""
    decode = by_name[name].text_decoder()
    return [decode(text) for text in SAMPLES[name]]


def make_table(*names: str, key: tuple[int, ...] = (1,)) -> Table:
    """A table with columns c1.. of these types, storage id 7, one layout."""
    types = tuple(TypeRef(by_name[name].oid) for name in names)
    columns = tuple(Column(number, f"a{number}", kind) for number, kind in enumerate(types, 1))
    layout = Layout(1, tuple(column.number for column in columns), types)
    return Table(20000, 2200, "t", columns, 7, key, (layout,))


def random_rows(names: list[str], count: int, seed: int, nulls: bool) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    pools = [values_of(name) for name in names]
    return [
        tuple(None if nulls and chance.random() < 0.3 else chance.choice(pool) for pool in pools) for _ in range(count)
    ]
