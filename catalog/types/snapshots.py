"""pg_snapshot and txid_snapshot: the numbers of the transactions that a snapshot does not see. Internal form: (xmin,
xmax, numbers in progress)."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Order, SqlType, Storage
from catalog.types.texts import bad_syntax

_FORM = re.compile(r"(\d{1,20}):(\d{1,20}):((?:\d{1,20}(?:,\d{1,20})*)?)\Z", re.ASCII)
_HEAD = struct.Struct(">iqq")


def _parse(text: str) -> tuple[int, int, tuple[int, ...]]:
    match = _FORM.match(text)
    if match is None:
        raise bad_syntax("pg_snapshot", text)
    low, high = int(match[1]), int(match[2])
    numbers = tuple(map(int, match[3].split(","))) if match[3] else ()
    ordered = all(one <= other for one, other in pairwise(numbers))
    if not 0 < low <= high < 1 << 64 or not ordered or not all(low <= number < high for number in numbers):
        raise bad_syntax("pg_snapshot", text)
    return low, high, tuple(dict.fromkeys(numbers))


def _print(value: Any) -> bytes:
    low, high, numbers = value
    return f"{low}:{high}:{','.join(map(str, numbers))}".encode()


def _send(value: Any) -> bytes:
    low, high, numbers = value
    return _HEAD.pack(len(numbers), low, high) + struct.pack(f">{len(numbers)}q", *numbers)


class SnapshotType(SqlType):
    category = "U"
    preferred = False
    length = -1
    columns = Columns(printed=True, order=Order.NONE)

    def __init__(self, oid: int, array_oid: int, name: str) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = self.sql_name = name
        self.storage = Storage(None, _print, lambda stored: _parse(cast(bytes, stored).decode()))

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return _parse

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return _print

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def decode(data: bytes) -> object:
            try:
                count, low, high = _HEAD.unpack_from(data)
                numbers = struct.unpack(f">{count}q", data[_HEAD.size :])
            except struct.error:
                raise SqlError("22P03", "invalid external pg_snapshot data") from None
            return low, high, numbers

        return decode

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return _send

    def key_encoder(self) -> Callable[[object], bytes] | None:
        return None

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


SNAPSHOTS = (
    SnapshotType(oids.PG_SNAPSHOT, oids.PG_SNAPSHOT_ARRAY, "pg_snapshot"),
    SnapshotType(oids.TXID_SNAPSHOT, oids.TXID_SNAPSHOT_ARRAY, "txid_snapshot"),
)
