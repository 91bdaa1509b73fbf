"""PEP 249's type objects and constructors."""

from __future__ import annotations

import datetime
from typing import Any

from catalog.types import oids


class TypeObject:
    """Equal to the type OIDs, in a cursor's description, that it represents."""

    def __init__(self, name: str, *found: int) -> None:
        self._name = name
        self._oids = frozenset(found)

    def __eq__(self, other: object) -> bool:
        return other in self._oids if isinstance(other, int) else self is other

    def __hash__(self) -> int:
        return hash(self._oids)

    def __repr__(self) -> str:
        return self._name


STRING = TypeObject("STRING", oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.JSON, oids.JSONB)
BINARY = TypeObject("BINARY", oids.BYTEA)
NUMBER = TypeObject("NUMBER", oids.INT2, oids.INT4, oids.INT8, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC)
DATETIME = TypeObject("DATETIME", oids.DATE, oids.TIME, oids.TIMETZ, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.INTERVAL)
ROWID = TypeObject("ROWID", oids.OID)

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
DateFromTicks = datetime.date.fromtimestamp
TimestampFromTicks = datetime.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802 - PEP 249's name
    return datetime.datetime.fromtimestamp(ticks).time()


def Binary(value: Any) -> bytes:  # noqa: N802 - PEP 249's name
    return bytes(value)
