"""Calls that read or write dates, times and numbers by a long text: a template, the name of a zone or of a field, or
what is to be read."""

from __future__ import annotations

import random
from collections.abc import Iterator

# What long texts are repetitions of: what each function reads as its own kind, and what it knows nothing of.
_UNITS = (
    "Month ", "YYYY-MM-DD ", "HH24:MI:SS.US ", "TMDay ", "FMDDDth ", "\"ab", "\"\\\"", "\\", "x", "9", "0", "G999",
    "FM", "L", "V9", "RN", "EEEE", "TH", "PR", ",", ".", "-1 ", "+1", "1 day ", "year ", "2020-01-01 ", "12:00:00 ",
    " ", "\t", "/", "UTC", "EST5EDT,", "<+01>-1", "Europe/", "January ", "é", "J", "CC ", "IYYY-IW-ID ", "SSSS", "TZ",
    "OF ", "P.M. ", "P1Y", "T", ":", "@ ", "infinity ", "bc ", "1:", "12345678901234567890",
)  # fmt: skip
CALLS = (
    "to_char(now(), {0})", "to_char(localtimestamp, {0})", "to_char(interval '1 year 2 days', {0})",
    "to_char(12.5, {0})", "to_char(1234567, {0})", "to_char(1.5::float8, {0})", "to_char(12345678901::int8, {0})",
    "to_timestamp({0}, 'YYYY')", "to_timestamp('2020', {0})", "to_timestamp({0}, {0})", "to_date({0}, 'YYYY-MM-DD')",
    "to_date('2020-01-01', {0})", "to_date({0}, {0})", "to_number({0}, '999')", "to_number('12', {0})",
    "to_number({0}, {0})", "now() AT TIME ZONE {0}", "localtimestamp AT TIME ZONE {0}",
    "localtime::timetz AT TIME ZONE {0}", "timezone({0}, now())", "date_trunc({0}, now())",
    "date_trunc('day', now(), {0})", "date_part({0}, now())", "date_part({0}, interval '1 day')",
    "make_timestamptz(2020, 1, 1, 0, 0, 0, {0})", "{0}::timestamptz", "{0}::timestamp", "{0}::date", "{0}::time",
    "{0}::timetz", "{0}::interval", "set_config('TimeZone', {0}, true)", "set_config('DateStyle', {0}, true)",
    "set_config('IntervalStyle', {0}, true)", "{0}::money", "{0}::numeric", "{0}::float8", "{0}::int4",
    "date_bin({0}::interval, now(), now())", "now() + {0}::interval",
    "'2020-01-01 00:00:00'::timestamp - {0}::interval", "{0}::daterange", "{0}::tstzrange",
)  # fmt: skip
LENGTHS = (1_000, 30_000, 1_000_000, 60_000_000)


def text(unit: str, length: int) -> str:
    """SQL of a long text."""
    quoted = unit.replace("'", "''")
    return f"repeat('{quoted}', {max(length // len(unit), 1)})"


def statements(seed: int) -> Iterator[str]:
    """Calls in an order of the seed, of texts that are computed, sent, or in a table's row; without end."""
    chance = random.Random(seed)
    while True:
        made = chance.choice(CALLS).format(text(chance.choice(_UNITS), chance.choice(LENGTHS)))
        rows = " FROM (SELECT FROM pg_class LIMIT 3) AS some" if chance.randrange(3) == 0 else ""
        yield f"SELECT length(({made})::text){rows}"
