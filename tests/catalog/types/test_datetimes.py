"""Dates and times: every input form, every style, every zone rule, as PostgreSQL has them."""

from __future__ import annotations

import random

import psycopg
import pytest

from catalog.types import FormatSettings, lookup, oids
from catalog.types.base import Interval
from catalog.types.datetime import add_interval_in_zone, to_utc
from catalog.types.timezones import find_zone
from tests.catalog.types.oracle_codec import assert_same

DATES = """2001-02-16|2001-2-6|20010216|010216|99-01-08|1999-Jan-08|Jan-08-1999|08-Jan-1999|99-Jan-08|08-Jan-99
Jan-08-99
January 8, 1999|8 January 1999|Jan 8 99|1/8/1999|1/18/1999|18/1/1999|01/02/03|2001.046|1999.008|2001-366|2000.366
J2451187
J0|J2451544.5|january 8, 99 BC|0001-01-01|0000-01-01|0044-03-15 BC|4714-11-24 BC|4714-11-23 BC|5874897-12-31
5874898-01-01
2000-02-29|2001-02-29|2001-02-30|2001-13-01|2001-00-10|2001-01-00|2001-01-32|1900-02-29|epoch|infinity|-infinity
+infinity
today|tomorrow x|Sat Jan 1 2000|Saturday, January 01, 2000|2001-02-16 BC|2001-02-16 AD|2001-02-16 20:38:40|||
2001-02-16 +00|2001-02-16 -08:30|2001-02-16 +14|2001-02-16 +15:59|2001-02-16 +16|2001-02-30 +00|2001-02-16 +00:60
abc|1|12
123
2001|200101|2001-02|2001-|-2001-01-01|2001--01-01|2001-02-16-|2001/02/16|2001.02.16|16.02.2001|2.16.2001|2001 02 16
02 16 2001
2001-02-16T20:38:40Z|  2001-02-16  |2001-02-16x|x2001-02-16|Feb 29 2000|Feb 30 2000|February29,2000|29feb2000
2000feb29
1-1-1|1-1-0|0-0-0|99-1-1 BC|12-25|dec 25|mon|infinityx|inf|ten|10000-01-01|99999-01-01|123456-01-01|1999-01-08 bc bc
20010229|2001022|201302291|1999 Jan 8|8 1999 Jan|Jan 1999 8|y2001m02d16|2001-02-16 J5|allballs|now x|2001-02-16 on
at 2001-02-16
70-01-01|69-12-31|00-01-01|1-2-3 ad|10-10-10-10|2001-1-1-1|jan|13/13/2001|31/12/2001|12/31/2001|2001/31/12
epoch today"""

TIMESTAMPS = """2001-02-16 20:38:40|2001-02-16T20:38:40|2001-02-16 20:38:40.5|2001-02-16 20:38:40.1234567
2001-02-16 20:38
2001-02-16 24:00:00|2001-02-16 24:00:01|2001-02-16 23:59:60|2001-02-16 25:00|2001-02-16 20:60|2001-02-16 20:38:61
20010216T203840
20010216T2038|20010216 203840|20010216 203840.25|2001-02-16 20:38:40 PM|2001-02-16 8:38:40 PM|2001-02-16 12:00 AM
2001-02-16 12:00 PM|2001-02-16 13:00 AM|2001-02-16 04:05 am|2001-02-16 20:38:40+01|2001-02-16 20:38:40-08:30
2001-02-16 20:38:40+0530|2001-02-16 20:38:40 +05:30:15|2001-02-16 20:38:40+16|2001-02-16 20:38:40+15:60
2001-02-16 20:38:40Z
2001-02-16 20:38:40 UTC|2001-02-16 20:38:40 EST|2001-02-16 20:38:40 EDT|2001-07-16 20:38:40 MSK
1990-07-16 20:38:40 MSK
2001-07-16 20:38:40 America/New_York|2001-02-16 20:38:40 america/new_york|2001-02-16 20:38:40 Nowhere/Land
2001-02-16 xyz
2001-02-16 20:38:40 Europe/Berlin|2001-07-16 20:38:40 EST5EDT|2001-02-16 20:38:40 FOO+3|2001-02-16 20:38:40 EST DST
2001-03-25 02:30:00 Europe/Berlin|2001-10-28 02:30:00 Europe/Berlin|1800-01-01 00:00 Europe/Berlin
2500-07-01 00:00 Europe/Berlin
epoch|infinity|-infinity|294276-12-31 23:59:59.999999|294277-01-01 00:00:00|4714-11-24 00:00:00 BC
4714-11-23 23:59:59 BC
Thu Feb 16 20:38:40 2001|Fri Feb 16 20:38:40 2001 PST|Fri Feb 16 20:38:40.5 2001|Feb 16 20:38:40 2001
16/02/2001 20:38:40
02/16/2001 20:38:40|16.02.2001 20:38:40|J2451957|J2451957.5|J2451957 12:00|2001-02-16 J12|2001.047 20:38
20:38:40 2001-02-16
20:38:40|2001-02-16 203840-08|2001-02-16 t 203840|2001-02-16 t|t 2001-02-16|2001-02-16 now|2001-02-16 allballs
today allballs x
2001-02-16 20:38:40 20:38:40|2001-02-16 2001-02-16|2001-02-16 20:38:40.|2001-02-16 20:38:.5|2001-02-16 20:
2001-02-16 :20
2001-02-16 20:38:40.5.5|2001-02-16 -1:00|2001-02-16 +|2001-02-16 + 01|2001-02-16 20:38:40 +1
2001-02-16 20:38:40 -infinity|
2001-02-16 20:38:40 BC|0001-01-01 00:00:00|0001-12-31 23:59:59.5 BC|2001-02-16 20.5|2001-02-16 20|2001-02-16 2038
y 2001 m 2 d 16
2001-02-16 h 20 mm 38 s 40|2001-02-16 20:38:40 SAT|12:13:14.15 Feb 16 2001|2001-02-16 20:38:40.999999999
99999-01-01 00:00
9999-12-31 23:59:59.9999999|1-1-1 1:1:1|2001-02-16,20:38:40|(2001-02-16 20:38:40)|2001-02-16 20:38:40 @
2001-02-16T20:38:40.5+02
2001-02-16 20:38:40 ZULU|2001-02-16 20:38:40 z|2001-02-16 20:38:40 LHDT|2001-02-16 20:38:40 GMT+3
2001-02-16 20:38:40 UTC-3
2001-02-16 20:38:40 LMT|2038-07-01 12:00 America/Los_Angeles|2001-02-16 20:38:40 VLAST|ü2001-02-16
2001-02-16 20:38:40 Ü
2001-02-16 20:38:40 PST8PDT|2001-02-16 20:38:40 <+03>-3|1901-01-01 00:00 LMT|2001-02-16 20:38 a.m.|2001-02-16 1:2:3 p
2001-02-16 12345|2001-02-16 1234567|2001-02-16 123456.7|12/31|1-Jan|2001-W05-1|2001-02-16t20:38:40z
20010216t203840z"""

TIMES = """20:38:40|20:38|20:38:40.5|20:38:40.1234567|203840|2038|203840.5|24:00:00|24:00:01|23:59:60|23:59:60.5
25:00|20:60|20
8:38 PM|8:38pm|12:00 am|12:00 pm|13:00 pm|00:00 am|20:38:40+01|20:38:40-08:30|20:38:40 UTC|20:38:40 EST|20:38 EDT
20:38:40 America/New_York|2001-07-16 20:38:40 America/New_York|2001-02-16 20:38:40 America/New_York
2001-07-16 20:38:40
20:38:40 Asia/Kolkata|20:38:40 Etc/GMT+3|allballs|now x|today|infinity|epoch|abc||20:38:40 BC|t 20:38:40|t203840
T20:38:40
203840-08|20:38:40 MSK|2001-07-16 20:38 MSK|1:2:3|1:2|:1|1:|20:38:40.|20:38:40.9999999|23:59:59.9999999|1 pm|12345
123456
1234567|h 20 mm 38 s 40|Jan 1 20:38|20:38:40+16|20:38:40+15:59|20:38:40 +5 DST|EST DST 10:00|20.5|2038.5|20:38:40 x
0:0:0.0000005
20:38:40 20:38:40|Fri 20:38:40|20:38:40Z|J2451957 20:38:40|20:38:40 2001-02-16|04:05:06.789-8|040506.789+08
040506+0730"""


YEARS = (1850, 1916, 1945, 1970, 1999, 2011, 2024, 2037, 2050, 2600, 12000)


def literals(text: str) -> list[str]:
    return [literal for line in text.split("\n") for literal in line.split("|")]


SETTINGS = [
    FormatSettings(date_style=style, date_order=order, timezone=zone)
    for style, order, zone in (
        ("ISO", "MDY", "UTC"),
        ("SQL", "DMY", "America/New_York"),
        ("Postgres", "DMY", "Europe/Berlin"),
        ("Postgres", "MDY", "Asia/Kolkata"),
        ("German", "YMD", "Australia/Lord_Howe"),
        ("SQL", "MDY", "America/Sao_Paulo"),
        ("ISO", "YMD", "Europe/Dublin"),
    )
]


def apply(postgres: psycopg.Connection, settings: FormatSettings) -> None:
    for name, value in (
        ("datestyle", f"{settings.date_style}, {settings.date_order}"),
        ("timezone", settings.timezone),
        ("intervalstyle", settings.interval_style),
    ):
        postgres.execute("select set_config(%s, %s, false)", (name, value))


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: f"{s.date_style}-{s.date_order}-{s.timezone}")
@pytest.mark.parametrize(
    ("name", "texts"),
    [("date", DATES), ("timestamp", TIMESTAMPS), ("timestamptz", TIMESTAMPS), ("time", TIMES), ("timetz", TIMES)],
)
def test_forms_and_styles(postgres: psycopg.Connection, settings: FormatSettings, name: str, texts: str) -> None:
    apply(postgres, settings)
    assert_same(postgres, getattr(oids, name.upper()), name, literals(texts), settings=settings)


@pytest.mark.parametrize(
    "zone", ["Europe/London", "America/New_York", "Pacific/Apia", "Africa/Casablanca", "EST5EDT", "<+03>-3"]
)
def test_random_instants_in_zones(postgres: psycopg.Connection, zone: str) -> None:
    settings = FormatSettings(timezone=zone)
    apply(postgres, settings)
    dice = random.Random(zone)
    years = [dice.choice(YEARS) for _ in range(300)]
    texts = [
        f"{year}-{dice.randrange(1, 13):02d}-{dice.randrange(1, 29):02d} {dice.randrange(24)}:{dice.randrange(60)}:00"
        for year in years
    ]
    assert_same(postgres, oids.TIMESTAMPTZ, "timestamptz", texts, settings=settings)


@pytest.mark.parametrize("precision", [0, 1, 3, 6])
def test_precision(postgres: psycopg.Connection, precision: int) -> None:
    texts = ["2001-02-16 20:38:40.5", "2001-02-16 20:38:40.55555", "1969-12-31 23:59:59.5", "1999-12-31 23:59:59.9999"]
    for name in ("timestamp", "timestamptz"):
        assert_same(postgres, getattr(oids, name.upper()), f"{name}({precision})", texts, precision)
    times = ["20:38:40.5", "23:59:59.99999", "0:0:0.0000005", "20:38:40.45"]
    for name in ("time", "timetz"):
        assert_same(postgres, getattr(oids, name.upper()), f"{name}({precision})", times, precision)


def test_now_and_today_are_those_of_the_transaction() -> None:
    noon = lookup(oids.TIMESTAMPTZ).text_decoder()("2024-03-10 12:00:00+00")
    assert isinstance(noon, int)
    settings = FormatSettings(transaction_time=noon, timezone="America/New_York")
    show = lookup(oids.TIMESTAMPTZ).text_encoder(settings)
    decode = lookup(oids.TIMESTAMPTZ).text_decoder(settings)
    shown = [show(decode(text)).decode() for text in ("now", "today", "tomorrow", "yesterday 13:00")]
    assert shown == [
        "2024-03-10 08:00:00-04",
        "2024-03-10 00:00:00-05",
        "2024-03-11 00:00:00-04",
        "2024-03-09 13:00:00-05",
    ]
    assert lookup(oids.DATE).text_decoder(settings)("today") == noon // 86_400_000_000
    assert lookup(oids.TIME).text_decoder(settings)("now") == 8 * 3_600_000_000


def test_timestamptz_plus_interval_follows_the_zone(postgres: psycopg.Connection) -> None:
    zone = find_zone("America/New_York")
    postgres.execute("set timezone = 'America/New_York'")
    dice = random.Random(5)
    decode, show = lookup(oids.TIMESTAMPTZ).text_decoder(), lookup(oids.TIMESTAMPTZ).text_encoder()
    for _ in range(100):
        start = f"2024-{dice.choice((1, 3, 10, 11)):02d}-{dice.randrange(1, 29):02d} {dice.randrange(24):02d}:30:00+00"
        parts = (dice.randrange(-14, 14), dice.randrange(-40, 40), dice.randrange(-100, 100))
        value = decode(start)
        assert isinstance(value, int)
        ours = add_interval_in_zone(value, Interval(parts[0], parts[1], parts[2] * 3_600_000_000), zone)
        row = postgres.execute(
            "select (%s::timestamptz + make_interval(0, %s, 0, %s, %s)) at time zone 'UTC' || '+00'",
            (start, *parts),
        ).fetchone()
        assert row is not None
        assert show(ours).decode() == row[0]


def test_local_times_in_gaps_and_overlaps(postgres: psycopg.Connection) -> None:
    for zone, local in (
        ("Europe/Berlin", "2024-03-31 02:30:00"),
        ("Europe/Berlin", "2024-10-27 02:30:00"),
        ("America/New_York", "2024-03-10 02:30:00"),
        ("Pacific/Apia", "2011-12-30 12:00:00"),
        ("Australia/Lord_Howe", "2024-10-06 02:10:00"),
    ):
        value = lookup(oids.TIMESTAMP).text_decoder()(local)
        assert isinstance(value, int)
        row = postgres.execute(
            "select extract(epoch from %s::timestamp at time zone %s)::bigint", (local, zone)
        ).fetchone()
        assert row is not None
        assert to_utc(value, find_zone(zone)) // 1_000_000 + 946_684_800 == row[0]
