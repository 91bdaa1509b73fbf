"""Binary values that are wrong: the SQLSTATE that PostgreSQL gives for the same bytes in a bind message."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.adapt import Dumper
from psycopg.pq import Format

from catalog.errors import SqlError
from catalog.types import lookup, oids


class RawBytes:
    """A parameter's bytes, sent as they are."""

    def __init__(self, oid: int, data: bytes) -> None:
        self.oid = oid
        self.data = data


CASES = [
    ("bool", b""), ("bool", b"\2"), ("bool", b"\1\1"),
    ("int2", b"\0"), ("int4", b"\0\0\0\1"), ("int4", b"\0\0\1"), ("int4", b"\0\0\0\0\1"), ("int8", b"\0" * 7),
    ("oid", b"\xff\xff\xff\xff"), ("oid", b"\0"), ("float4", b"\x7f\x80\0\0"), ("float8", b"\0" * 9),
    ("text", b"\xff"), ("text", b"a\0b"), ("text", b"\xe2\x82"), ("text", b"ok"), ("varchar", b"\xc3\x28"),
    ("uuid", b"\0" * 15), ("uuid", b"\0" * 16), ("uuid", b"\0" * 17),
    ("date", b"\x7f\xff\xff\xff"), ("date", b"\x7f\xff\xff\xfe"), ("date", b"\0\0"),
    ("time", (86_400_000_001).to_bytes(8, "big")), ("time", b"\0" * 8), ("timetz", b"\0" * 8 + b"\x7f\0\0\0"),
    ("timestamp", b"\x7f" + b"\xff" * 7), ("timestamp", b"\x7f" + b"\xff" * 6 + b"\xfe"), ("timestamptz", b"\0"),
    ("interval", b"\0" * 15), ("interval", b"\0" * 16),
    ("numeric", b""), ("numeric", b"\0\1\0\0\0\0\0\0\x27\x10"), ("numeric", b"\0\1\0\0\x12\x34\0\0\0\1"),
    ("numeric", b"\0\1\0\0\0\0\0\0\0\1"), ("numeric", b"\0\1\0\0\0\0\0\0"), ("numeric", b"\0\0\0\0\0\0\x7f\xff"),
    ("numeric", b"\0\1\xff\xff\0\0\0\1\x04\xd2"), ("numeric", b"\0\1\0\0\0\0\0\0\0\1\0"),
    ("numeric", b"\0\2\0\0\x40\0\0\2\0\0\x04\xd2"), ("numeric", b"\0\1\0\4\0\0\0\0\0\1"),
    ("jsonb", b""), ("jsonb", b"\2{}"), ("jsonb", b"\1{"), ("jsonb", b"\1{}"), ("json", b"{"), ("json", b"[]"),
    ("int4_array", b""), ("int4_array", b"\0\0\0\0" * 2 + b"\0\0\0\x17"),
    ("int4_array", b"\0\0\0\0" * 2 + b"\0\0\0\x19"),
    ("int4_array", b"\xff\xff\xff\xff" + b"\0\0\0\0\0\0\0\x17"),
    ("int4_array", b"\0\0\0\7" + b"\0\0\0\0\0\0\0\x17"),
    ("int4_array", b"\0\0\0\1\0\0\0\2\0\0\0\x17"),
    ("int4_array", b"\0\0\0\1\0\0\0\0\0\0\0\x17\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0"),
    ("int4_array", b"\0\0\0\1\0\0\0\0\0\0\0\x17\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0\5"), ("pg_lsn", b"\0"),
    ("bytea", b"\0\xff"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data"), CASES)
def test_received_bytes(postgres: psycopg.Connection, name: str, data: bytes) -> None:
    oid = int(getattr(oids, name.upper()))

    class RawDumper(Dumper):
        format = Format.BINARY

        def dump(self, obj: RawBytes) -> bytes:
            return obj.data

    RawDumper.oid = oid
    postgres.adapters.register_dumper(RawBytes, RawDumper)
    try:
        row = postgres.execute("select $1::text".replace("$1", "%b"), (RawBytes(oid, data),)).fetchone()
        assert row is not None
        theirs = ("", str(row[0]))
    except psycopg.Error as error:
        theirs = (error.sqlstate or "", str(error.diag.message_primary).replace(" in bind parameter 1", ""))
    sql_type = lookup(oid)
    try:
        ours = ("", sql_type.text_encoder()(sql_type.binary_decoder()(data)).decode())
    except SqlError as error:
        ours = (error.sqlstate, error.message)
    if name == "bool" and not ours[0]:
        ours = ("", {"t": "true", "f": "false"}[ours[1]])
    assert ours == theirs
