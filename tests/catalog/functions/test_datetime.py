"""Date and time functions on both paths against PostgreSQL: limits, infinities, BC, leap days, zones and their gaps."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from catalog.types.base import FormatSettings
from tests.catalog.functions.expressions import check
from tests.samples import Part, parts, some

DATES = ("2000-01-01", "2024-02-29", "1999-12-31", "0044-03-15 BC", "4714-11-24 BC", "5874897-12-31", "294240-12-31",
         "2021-01-03", "infinity", "-infinity", None)  # fmt: skip
TIMES = ("00:00", "12:34:56.789012", "23:59:59.999999", "24:00:00", "01:30")
TIMESTAMPS = ("2000-01-01 00:00", "2024-02-29 23:59:59.999999", "1999-12-31 12:00", "2001-01-01 00:00:00.5",
              "0044-03-15 01:02:03.000004 BC", "2021-01-03 10:11:12.3", "2024-03-10 02:30", "2024-11-03 01:30",
              "infinity", "-infinity", None)  # fmt: skip
FAR_TIMESTAMPS = ("4714-11-24 00:00 BC", "4713-01-31 00:00 BC", "294240-12-31 23:59:59")
INTERVALS = ("0", "1 day", "-1 day", "1 month", "-13 months", "1 year 2 months 3 days 04:05:06.789", "23:59:59.999999",
             "-1 month 30 days", "1 month -1 hour", "400000 years", "-7000 years", "100 days 1000 hours",
             "00:00:00.000001", None)  # fmt: skip
ZONES = ("UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")


@pytest.fixture(params=ZONES)
def settings(request: pytest.FixtureRequest) -> FormatSettings:
    return FormatSettings(timezone=request.param)


def test_dates_and_days(postgres: psycopg.Connection[Any]) -> None:
    days = ("0", "1", "-1", "365", "2147483647", "-2147483648", None)
    check(postgres, ["{a} + {b}", "{b} + {a}", "{a} - {b}"], a=("date", DATES), b=("int4", days))
    check(postgres, ["{a} - {b}"], a=("date", DATES), b=("date", DATES))
    check(postgres, ["{a}::timestamp", "{a}::text", "isfinite({a})"], a=("date", DATES))


def test_timestamps_and_intervals(postgres: psycopg.Connection[Any]) -> None:
    check(postgres, ["{a} + {b}", "{b} + {a}", "{a} - {b}"],
          a=("timestamp", TIMESTAMPS + FAR_TIMESTAMPS), b=("interval", INTERVALS))  # fmt: skip
    check(postgres, ["{a} + {b}", "{b} + {a}", "{a} - {b}"], a=("date", DATES), b=("interval", INTERVALS))
    check(postgres, ["{a} - {b}"], a=("timestamp", TIMESTAMPS), b=("timestamp", TIMESTAMPS))
    check(postgres, ["{a}::date", "{a}::time", "isfinite({a})"], a=("timestamp", TIMESTAMPS + FAR_TIMESTAMPS))
    check(postgres, ["{a} + {b}", "{b} + {a}"], a=("date", DATES), b=("time", TIMES))


def test_times(postgres: psycopg.Connection[Any]) -> None:
    check(postgres, ["{a} + {b}", "{b} + {a}", "{a} - {b}"], a=("time", TIMES), b=("interval", INTERVALS))
    check(postgres, ["{a} - {b}"], a=("time", TIMES), b=("time", TIMES))
    timetz = ("00:00+00", "12:34:56.789+05:30", "23:59:59-08", "24:00+00")
    check(postgres, ["{a} + {b}", "{b} + {a}", "{a} - {b}"], a=("timetz", timetz), b=("interval", INTERVALS))
    check(postgres, ["{a}::time", "{a}::timetz(2)"], a=("timetz", timetz))
    check(postgres, ["{a}::interval", "{a}::time(3)", "{a}::time::text"], a=("time", TIMES))
    check(postgres, ["{a}::time"], a=("interval", INTERVALS))
    check(postgres, ["{a} + {b}", "{b} + {a}"], a=("date", DATES), b=("timetz", timetz))


def test_intervals(postgres: psycopg.Connection[Any]) -> None:
    check(postgres, ["{a} + {b}", "{a} - {b}", "{a} = {b}", "{a} < {b}", "interval_cmp({a}, {b})"],
          a=("interval", INTERVALS), b=("interval", INTERVALS))  # fmt: skip
    factors = ("0", "1", "-1", "2.5", "0.333333333", "-1.7", "1e10", "NaN", "Infinity", None)
    check(postgres, ["{a} * {b}", "{b} * {a}", "{a} / {b}"], a=("interval", INTERVALS), b=("float8", factors))
    check(postgres, ["- {a}", "justify_hours({a})", "justify_days({a})", "justify_interval({a})", "isfinite({a})",
                     "{a}::interval(2)"], a=("interval", (*INTERVALS, "-2147483648 days", "-178956970 years -8 months")))  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("part", parts(2))
def test_in_the_sessions_zone(postgres: psycopg.Connection[Any], settings: FormatSettings, part: Part) -> None:
    timestamps = tuple(part.of(TIMESTAMPS))
    check(postgres, ["{a}::date", "{a}::time", "{a}::timetz", "{a}::timestamp", "extract(timezone from {a})",
                     "extract(timezone_hour from {a})", "extract(timezone_minute from {a})", "date_part('hour', {a})",
                     "extract(epoch from {a})", "extract(day from {a})", "date_trunc('hour', {a})",
                     "date_trunc('week', {a})", "date_trunc('year', {a})", "date_trunc('minute', {a})",
                     "extract(julian from {a})", "extract(year from {a})", "date_part('timezone', {a})"],
          settings, a=("timestamptz", timestamps))  # fmt: skip
    check(postgres, ["{a}::timestamptz"], settings, a=("timestamp", timestamps))
    check(postgres, ["{a}::timestamptz"], settings, a=("date", DATES[:5] + DATES[6:]))
    check(postgres, ["{a} + {b}", "{b} + {a}", "{a} - {b}"], settings, a=("timestamptz", timestamps),
          b=("interval", INTERVALS))  # fmt: skip
    operators = ["{a} = {b}", "{a} < {b}", "{a} >= {b}", "{b} <> {a}", "{b} > {a}", "{b} <= {a}"]
    days = tuple(day for day in DATES if day != "5874897-12-31")
    check(postgres, operators, settings, a=("date", days), b=("timestamptz", timestamps))
    check(postgres, operators, settings, columnar=False, a=("date", DATES), b=("timestamptz", timestamps))
    check(postgres, operators, settings, a=("timestamp", timestamps), b=("timestamptz", timestamps))
    check(postgres, ["{a} + {b}"], settings, a=("date", DATES[:4]), b=("time", TIMES))
    check(postgres, ["timestamptz({a}, {b})"], settings, a=("date", DATES[:4]), b=("time", TIMES))


def test_ages(postgres: psycopg.Connection[Any], settings: FormatSettings) -> None:
    moments = (*TIMESTAMPS, "2020-03-31 00:00", "2020-02-28 13:00", "2019-12-31 23:59:59.999999")
    check(postgres, ["age({a}, {b})"], settings, a=("timestamp", moments), b=("timestamp", moments))
    check(postgres, ["age({a}, {b})", "{a} - {b}"], settings, a=("timestamptz", moments), b=("timestamptz", moments))


FIELDS = ("microseconds", "milliseconds", "second", "minute", "hour", "day", "month", "quarter", "week", "year",
          "decade", "century", "millennium", "isoyear", "julian", "dow", "isodow", "doy", "epoch", "timezone",
          "timezone_hour", "Y", "mm", "m", "jan", "infinity", "nonsense", "")  # fmt: skip


@pytest.mark.parametrize("oid", some(["timestamptz", "interval", "date", "timestamp", "timetz", "time"], 3))
@pytest.mark.parametrize("part", parts(2))
def test_fields(postgres: psycopg.Connection[Any], oid: str, part: Part) -> None:
    values = {
        "date": DATES,
        "timestamp": TIMESTAMPS + FAR_TIMESTAMPS[:2],
        "timestamptz": TIMESTAMPS,
        "time": TIMES,
        "timetz": ("12:34:56.789012+05:30", "00:00-08:30:15"),
        "interval": INTERVALS,
    }[oid]
    calls = [f"{name}('{field}', {{a}})" for field in part.of(FIELDS) for name in ("extract", "date_part")]
    calls = [call.replace("extract('", "pg_catalog.extract('") for call in calls]
    check(postgres, calls, a=(oid, values))


@pytest.mark.parametrize("part", parts(2))
def test_truncation(postgres: psycopg.Connection[Any], part: Part) -> None:
    for oid, values in (("timestamp", TIMESTAMPS + FAR_TIMESTAMPS[:2]), ("interval", INTERVALS),
                        ("timestamptz", TIMESTAMPS)):  # fmt: skip
        check(postgres, [f"date_trunc('{field}', {{a}})" for field in part.of(FIELDS)], a=(oid, values))
    zones = ("UTC", "America/New_York", "Asia/Kathmandu", "+03", "EST", "Nowhere/Land", "MSK")
    check(postgres, [f"date_trunc('{unit}', {{a}}, {{b}})" for unit in ("day", "hour", "month", "nonsense")],
          a=("timestamptz", TIMESTAMPS), b=("text", zones))  # fmt: skip


def test_bins(postgres: psycopg.Connection[Any]) -> None:
    strides = ("15 minutes", "1 day", "7 days 1 second", "0", "-1 hour", "1 month", "300000 years", "1000000000 days")
    for oid in ("timestamp", "timestamptz"):
        check(postgres, ["date_bin({a}, {b}, {c})"], a=("interval", strides), b=(oid, TIMESTAMPS),
              c=(oid, TIMESTAMPS[:5] + TIMESTAMPS[-3:]))  # fmt: skip


def test_series(postgres: psycopg.Connection[Any], settings: FormatSettings) -> None:
    steps = ("1 day", "12 hours", "-1 day", "1 month", "0", "1 day -24 hours")
    ends = ("2024-03-08 00:00", "2024-03-12 12:00", "2024-01-31 00:00")
    for oid in ("timestamp", "timestamptz"):
        check(postgres, ["generate_series({a}, {b}, {c})"], settings, a=(oid, ends), b=(oid, ends),
              c=("interval", steps), returns_set=True)  # fmt: skip


def test_overlapping_periods(postgres: psycopg.Connection[Any]) -> None:
    for oid, values in (
        ("timestamp", ("2000-01-01", "2000-01-02", "2000-01-03", None)),
        ("time", ("01:00", "02:00", "03:00", None)),
        ("timetz", ("01:00+00", "02:00+01", "03:00+00", None)),
    ):
        check(postgres, ["({a}, {b}) overlaps ({c}, {d})"], a=(oid, values), b=(oid, values), c=(oid, values),
              d=(oid, values))  # fmt: skip
    days = ("2000-01-01", "2000-01-03", None)
    lengths = ("1 day", "-1 day", "0", None)
    for oid in ("timestamp", "timestamptz"):
        check(postgres, ["({a}, {b}) overlaps ({c}, {d})"], a=(oid, days), b=("interval", lengths), c=(oid, days),
              d=("interval", lengths))  # fmt: skip
        check(postgres, ["({a}, {b}) overlaps ({c}, {d})"], a=(oid, days), b=(oid, days), c=(oid, days),
              d=("interval", lengths))  # fmt: skip


def test_zones(postgres: psycopg.Connection[Any]) -> None:
    zones = ("UTC", "America/New_York", "europe/BERLIN", "EST", "edt", "MSK", "+03", "-05:30", "EST5EDT", "UTC+3",
             "Nowhere/Land", "", "z", "art", None)  # fmt: skip
    for oid in ("timestamp", "timestamptz"):
        moments = (*TIMESTAMPS, "1970-06-01 12:00", "2012-07-01 00:00")
        check(postgres, ["{a} at time zone {b}"], a=(oid, moments), b=("text", zones))
        check(postgres, ["{a} at time zone {b}"], a=(oid, moments), b=("interval", ("3:30", "-08:00:30.9", "1 day")))
    times = ("00:00+00", "12:34:56.789+05:30")
    fixed = ("UTC", "EST", "+03", "Asia/Kathmandu", "nowhere")
    check(postgres, ["{a} at time zone {b}"], a=("timetz", times), b=("text", fixed))
    check(postgres, ["{a} at time zone {b}"], a=("timetz", times), b=("interval", ("3:30", "-08:00:30.9")))


@pytest.mark.parametrize("part", parts(3))
def test_making(postgres: psycopg.Connection[Any], part: Part) -> None:
    settings = FormatSettings(timezone="America/New_York")
    years, months, days = ("2024", "-44", "0", "5874898", "294277", "-4714"), ("0", "2", "12", "13"), ("0", "29", "31")
    check(postgres, ["make_date({a}, {b}, {c})"], a=("int4", years), b=("int4", months), c=("int4", days))
    hours, minutes = ("0", "23", "24", "25", "-1"), ("0", "59", "60")
    seconds = ("0", "59.9999999", "60", "60.1", "-0.5", "NaN", "Infinity", "1e10", "12.345678")
    check(postgres, ["make_time({a}, {b}, {c})"], a=("int4", hours), b=("int4", minutes), c=("float8", seconds))
    rows = [(y, m, "1", h, "0", s) for y in years for m in ("2", "12", "13") for h in hours for s in seconds[:4]]
    number = ("int4", ())
    check(postgres, ["make_timestamp({a}, {b}, {c}, {d}, {e}, {f})", "make_timestamptz({a}, {b}, {c}, {d}, {e}, {f})"],
          settings, part.of(rows), a=number, b=number, c=number, d=number, e=number, f=("float8", ()))  # fmt: skip
    zones = ("UTC", "+3", "-5:30", "3", "+99", "America/New_York", "EST", "nowhere", "MSK", "-12:34:56")
    check(postgres, ["make_timestamptz({a}, 3, 4, 5, 6, 7.5, {b})"], settings, a=("int4", years[:2]), b=("text", zones))
    numbers = ("0", "1", "-3", "100000")
    check(postgres, ["make_interval({a}, {b}, {c}, {d})"], settings, a=("int4", numbers), b=("int4", numbers),
          c=("int4", numbers), d=("int4", numbers))  # fmt: skip
    check(postgres, ["make_interval(hours => {a}, mins => {b}, secs => {c})"], settings, columnar=False,
          a=("int4", numbers), b=("int4", numbers), c=("float8", seconds))  # fmt: skip
    unix = ("0", "1.5", "-1e10", "1e18", "9224318016000", "9224318015999.99", "-210866803200", "-210866803201", "NaN",
            "Infinity", "-Infinity", "1234567890.123456")  # fmt: skip
    check(postgres, ["to_timestamp({a})"], settings, columnar=False, a=("float8", unix))


def test_the_clock(postgres: psycopg.Connection[Any]) -> None:
    found = postgres.execute("SELECT 1").fetchone()
    assert found is not None
    check(postgres, ["now() = transaction_timestamp()", "clock_timestamp() > '2020-01-01'", "length(timeofday()) > 30",
                     "{a} > now() - interval '1 day'", "age(now()) > '-2 days'",
                     "statement_timestamp() >= '2020-01-01'"], a=("timestamptz", ("1999-01-01", "2099-01-01")))  # fmt: skip  # noqa: E501
