"""Types with values that must come back as they went in: ordinary ones, extremes, Unicode, NULL."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass
from decimal import Decimal

NAN = float("nan")
INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Case:
    """`values` go in; `come_back` come out where they differ (char(n) is padded)."""

    type: str
    values: tuple[object, ...]
    come_back: tuple[object, ...] | None = None

    @property
    def name(self) -> str:
        """For the test's id."""
        return self.type

    @property
    def expected(self) -> tuple[object, ...]:
        return self.values if self.come_back is None else self.come_back


CASES = (
    Case("bool", (True, False)),
    Case("int2", (0, 1, -32768, 32767)),
    Case("int4", (0, 1, -(2**31), 2**31 - 1)),
    Case("int8", (0, 1, -(2**63), 2**63 - 1)),
    Case("float4", (0.0, 1.5, -0.25, INFINITY, -INFINITY, NAN)),
    Case("float8", (0.0, -0.0, 0.1, 1.7976931348623157e308, 5e-324, INFINITY, -INFINITY, NAN)),
    Case(
        "numeric",
        tuple(
            map(Decimal, ("0", "1.10", "-99999999999999999999999999999999999999.99", "0.00000000000000000001", "NaN"))
        ),
    ),
    Case("numeric(12,4)", tuple(map(Decimal, ("0.0000", "1.1000", "-99999999.9999", "99999999.9999")))),
    Case("text", ("", "plain", "äöü ß 漢字 😀", 'it\'s \\ "quoted"\t\n', "x" * 10_000)),
    Case("varchar(20)", ("", "ünïcode", "y" * 20)),
    Case("char(5)", ("", "ab", "äöüßé"), ("     ", "ab   ", "äöüßé")),
    Case("bytea", (b"", b"\0", bytes(range(256)))),
    Case("date", (dt.date(2000, 2, 29), dt.date.min, dt.date.max)),
    Case("time", (dt.time.min, dt.time(12, 30, 15, 1), dt.time.max)),
    Case(
        "timestamp",
        (dt.datetime(2024, 2, 29, 12, 0, 0, 123456), dt.datetime.min, dt.datetime(9999, 12, 31, 23, 59, 59, 999998)),
    ),
    Case(
        "timestamptz",
        (
            dt.datetime(2024, 2, 29, 12, 0, 0, 123456, dt.UTC),
            dt.datetime(1900, 1, 1, tzinfo=dt.UTC),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999998, dt.UTC),  # asyncpg takes the last one for infinity
        ),
    ),
    Case(
        "interval",
        (dt.timedelta(), dt.timedelta(days=-1, seconds=3, microseconds=1), dt.timedelta(36500), dt.timedelta(hours=25)),
    ),
    Case("uuid", (uuid.UUID(int=0), uuid.UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479"), uuid.UUID(int=2**128 - 1))),
)
BY_TYPE = {case.type: case for case in CASES}
ARRAYS = tuple(
    Case(
        f"{case.type}[]",
        ([], [None], [*case.values, None]),
        None if case.come_back is None else ([], [None], [*case.come_back, None]),
    )
    for case in CASES
)
JSON: tuple[object, ...] = ({"a": [1, 2.5, None, True, "ünï"], "b": {}}, [], "text", 0, None)


def same(got: object, expected: object) -> bool:
    """Equality in which NaN equals itself, 0.0 is not -0.0 and a Decimal's scale counts."""
    return repr(got) == repr(expected) and type(got) is type(expected)


def alike(got: object, expected: object) -> bool:
    """Equality for drivers with types of their own for UUIDs and zones; psycopg2 writes -0.0 as a numeric."""
    return same(got, expected) or got == expected
