"""Intervals: input forms, the four output styles, modifiers and arithmetic, as PostgreSQL has them."""

from __future__ import annotations

import random

import psycopg
import pytest

from catalog.types import FormatSettings, Interval, lookup, oids
from catalog.types import datetime as calendar
from tests.catalog.types.oracle_codec import assert_same

TEXTS = """1 day|2 days|1 year 2 mons 3 days 4 hours 5 minutes 6.789 seconds|@ 1 minute|@ 1 hour 2 secs ago|1 day ago
-1 day
+1 day|1-2|-1-2|1-12|1 2:03:04|1 2:03|2:03|2:03:04.5|-2:03:04|1 -2:03:04|-1 +2:03:04|1-2 3 4:05:06|-1-2 -3 -4:05:06
-1-2 3 4:05:06
-1-2 +3 -4:05:06|100|1.5|-1.5|.5|1.5 days|1.5 weeks|1.5 months|1.5 years|1.5 decades|1.23 months|0.1 years
-1.5 months|1 c 1 dec
1 century|1 centuries|1 millennium|1 millennia|1 mil|1 mils|1 quarter|1 qtr|1 us|1 usecs|1 microsecond|1 microseconds
1.5 us|1 ms
1 milliseconds|1.5 ms|1.0005 ms|1 s 1 ms 1 us|1.5 s 1 ms|1 sec 1 second|1 day 1 day|1 m|1 mon|1 mm|1 y|1 yr|1 yrs|1 h
1 hr|1 hrs
1 d|1 w|1 weeks|1 fortnight||  |abc|day|1 day x|ago|1 ago|1 day ago ago|infinity|today|epoch|1 am|1:2:3:4|1:60|1:2:61
1:2:60
24:00:00|25:00|100:00:00|999999999:00:00|2562047788:00:54.775807|2562047789:00:00|P1Y2M3DT4H5M6S|P1Y|P1M|PT1M|P1W|P1D
PT1H|PT1S
P0001-02-03T04:05:06|P00010203T040506|P1.5Y|P1.5M|P1.5W|P1.5D|PT1.5H|PT1.5M|PT1.5S|P-1Y-2M|P-1Y2M3DT-4H5M|PT-0.5S|P
PT|P1|P1T|PT1
P1Y2|P1Y-2|P1YT|P1S|PT1D|P1Y1Y|P0001-02|P0001|P0001-02-03|PT04:05|PT04:05:06.7|PT040506|PT0405|P1H|p1y|P 1Y|P1Y |P1X
P0001-02-03T
2147483647 years|178956970 years 7 months|178956970 years 8 months|-178956970 years -8 months|2147483647 months
2147483648 months
2147483647 days|2147483648 days|9223372036854775807 us|9223372036854775808 us|-9223372036854775808 us
1000000000000 hours
1 day -1 day|1 mon -1 day|1 year -1 mon|-1 year 1 mon 1 day|1 day -00:00:01|-1 day 00:00:01|0|0 days|-0.000001
1 mon -1 sec
1 year 1 day 1 sec|-1 year -1 day -1 sec|0.000001 s|0.0000005 s|0.0000015 s|1.9999999 s|1 day 0.5|1 hour 30|3 4|1 2 3
3d 4h|3d4h5m6s
1y2mon|1 y2 mon|+1-2|+ 1 day|- 1 day|1 day -|1..5 days|1.5.5|1.|1. days|.|. days|1,000 days|1 day, 2 hours|(1 day)
1_0 days|١ days
1 day 2:03 4|1 day 12|1 12:00|12 1 day|10 at 2 hours|1 day on|-1 day 2|- 1:00|1 -1|1 -1:00|-1:00 1|1/2 days
1 month 1:2|jan|5 j
1 timezone|1 timezone_hour|1 isodow|1 dow|-0:00:01|-0 0:0:1|+0:1|1e3 days|1 secs 0.5 mins|0.7 secs|-0.7 secs
1 min 0.1 sec"""

STYLES = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"]


def literals(text: str) -> list[str]:
    return [literal for line in text.split("\n") for literal in line.split("|")]


def with_style(postgres: psycopg.Connection, style: str) -> FormatSettings:
    postgres.execute("select set_config('intervalstyle', %s, false)", (style,))
    return FormatSettings(interval_style=style)


@pytest.mark.parametrize("style", STYLES)
def test_forms_and_styles(postgres: psycopg.Connection, style: str) -> None:
    settings = with_style(postgres, style)
    assert_same(postgres, oids.INTERVAL, "interval", literals(TEXTS), settings=settings)


@pytest.mark.parametrize("style", STYLES)
def test_random_intervals(postgres: psycopg.Connection, style: str) -> None:
    settings = with_style(postgres, style)
    dice = random.Random(style)

    def part(most: int) -> int:
        return dice.choice((0, 1, -1, dice.randrange(-most, most)))

    texts = [
        f"{part(50)} mons {part(100)} days {part(100)} hours {part(100)} mins {part(100)} secs {part(10**6)} us"
        for _ in range(500)
    ]
    assert_same(postgres, oids.INTERVAL, "interval", texts, settings=settings)


RANGES = [
    "year", "month", "day", "hour", "minute", "second", "year to month", "day to hour", "day to minute",
    "day to second", "hour to minute", "hour to second", "minute to second", "second(2)", "day to second(3)",
]  # fmt: skip


@pytest.mark.parametrize("declared", [f"interval {fields}" for fields in RANGES] + ["interval(0)", "interval(3)"])
def test_fields_and_precision(postgres: psycopg.Connection, declared: str) -> None:
    postgres.execute(f"create temp table t (v {declared})")
    query = "select atttypmod, format_type(atttypid, atttypmod) from pg_attribute"
    row = postgres.execute(query + " where attname = 'v' and attrelid = 't'::regclass").fetchone()
    assert row is not None
    texts = [
        "1",
        "1:02",
        "1:02:03.456789",
        "1 day 2:03:04.5",
        "1-2",
        "3 years 4 mons 5 days 6:07:08.999",
        "-1.5",
        "1 2",
    ]
    texts += ["-3 years -4 mons -5 days -6:07:08.995", "1:02.5", "5 hours", "13 mons", "90 secs"]
    assert_same(postgres, oids.INTERVAL, declared, texts, row[0])
    interval = lookup(oids.INTERVAL)
    assert "interval" + interval.typmod_out(row[0]) == row[1]
    assert interval.typmod_in((str(row[0] >> 16), str(row[0] & 0xFFFF))) & 0xFFFF0000 == row[0] & 0xFFFF0000


def test_arithmetic(postgres: psycopg.Connection) -> None:
    dice = random.Random(3)
    decode, show = lookup(oids.INTERVAL).text_decoder(), lookup(oids.INTERVAL).text_encoder()

    def value() -> Interval:
        return Interval(dice.randrange(-99, 99), dice.randrange(-99, 99), dice.randrange(-(10**12), 10**12))

    rows = [(value(), value(), round(dice.uniform(-20, 20), 3) or 1.0) for _ in range(300)]
    theirs = postgres.execute(
        """select array[a + b, a - b, -a, a * f, a / f,
            justify_hours(a), justify_days(a), justify_interval(a)]::text[], a < b
        from unnest(%s::text[], %s::text[], %s::float8[]) as r(x, y, f),
        lateral (select x::interval as a, y::interval as b) as v""",
        ([show(a).decode() for a, _, _ in rows], [show(b).decode() for _, b, _ in rows], [f for _, _, f in rows]),
    ).fetchall()
    for (a, b, factor), (expected, less) in zip(rows, theirs, strict=True):
        ours = [
            calendar.add_intervals(a, b),
            calendar.subtract_intervals(a, b),
            calendar.negate_interval(a),
            calendar.multiply_interval(a, factor),
            calendar.divide_interval(a, factor),
            calendar.justify_hours(a),
            calendar.justify_days(a),
            calendar.justify_interval(a),
        ]
        assert [show(item).decode() for item in ours] == expected
        assert (calendar.interval_span(a) < calendar.interval_span(b)) == less
        assert decode(show(a).decode()) == a


def test_equal_spans_have_equal_keys() -> None:
    interval = lookup(oids.INTERVAL)
    encode = interval.key_encoder()
    assert encode is not None
    assert encode(Interval(1, 0, 0)) == encode(Interval(0, 30, 0)) == encode(Interval(0, 29, 86_400_000_000))
    assert encode(Interval(0, 0, -1)) < encode(Interval(0, 0, 0)) < encode(Interval(0, 0, 1))
