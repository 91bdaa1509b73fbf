"""to_char, to_number, to_date and to_timestamp against PostgreSQL, over many templates."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import psycopg
import pytest

from catalog.types.base import FormatSettings
from tests.catalog.functions.expressions import check
from tests.samples import Part, parts, some

NUMBER_TEMPLATES = (
    "9", "99", "999.99", "FM999.99", "FM990.00", "000.000", "S999", "999S", "SG999", "999SG", "MI999", "999MI", "999PR",
    "FM999PR", "PL999", "999PL", "9,999,999", "9G999G999D99", "FM9,999.00", "L999", "RN", "rn", "FMRN", "9.99EEEE",
    "99.9EEEE", "9EEEE", "999th", "999TH", "99V99", "9V999", "\"text \"999", "B999", "0999", "FM0999", "9990.99", ".99",
    "999D9S", "FM999D9S", "999.", "FM999.", "S9.9", "9.9S", "FMS9.9", "0", "00000000", "9 9 9", "99-99", "a9b", "",
    "FM999999999999999999.999999999", "999999999.9999", "9.9.9", "PR9", "S9S", "9.99EEEE9", "9VD", "FM9.9", "FM0.9",
    "FM.9", "99999999999999999999", "S0000", "FMS0000", "9,9", "FM9,9", "0,000.0",
)  # fmt: skip


def test_numbers_to_text(postgres: psycopg.Connection[Any]) -> None:
    for type_name, values in (
        ("numeric", ("0", "1", "-1", "12.34", "-12.345", "0.5", "-0.05", "999.995", "1234567.891", "NaN", "Infinity",
                     "485", "0.00001", "-0.99", "100", "12345678901234567890.5")),
        ("int4", ("0", "1", "-1", "12", "-12345", "2147483647", "3999", "11", "112", "23")),
        ("int8", ("0", "-7", "9223372036854775807", "101")),
        ("float8", ("0", "1.5", "-12.345", "1e20", "0.1", "NaN", "-Infinity", "123456789.123456", "1e-5", "999.5")),
        ("float4", ("0", "1.5", "-12.345", "1e10", "0.1", "123456.7")),
    ):  # fmt: skip
        check(postgres, ["to_char({a}, {b})"], a=(type_name, values), b=("text", (*NUMBER_TEMPLATES, None)))


BEGINNINGS = ("", "9", "FM", "V", "S", "9.", "9V", "B", "FM9.9")
UNITS = (
    "9", "0", "V9", "9V9", "V99", "D9", "G9", ",9", ".9", "EEEE", "RN", "PR9", "S9", "9S", "MI9", "PL9", "SG9", "TH",
    "FM9", "L9", "B9", '"a"9', "V", "9EEEE",
)  # fmt: skip
EXTREMES = {
    "int4": ("0", "-5", "2147483647"),
    "int8": ("0", "-7", "9223372036854775807"),
    "numeric": ("0", "1.5", "-123456.789", "1e30", "NaN", "Infinity"),
    "float4": ("0", "1.5", "-3.4e38", "1e-40", "NaN", "-Infinity"),
    "float8": ("0", "1.5", "-1e308", "1e-310", "NaN", "Infinity"),
}


@pytest.mark.parametrize("seed", some(range(12), 12))
@pytest.mark.parametrize("part", parts(3))
def test_extreme_numbers_by_long_templates(postgres: psycopg.Connection[Any], seed: int, part: Part) -> None:
    cases = [*product(EXTREMES, BEGINNINGS, UNITS, (1, 3, 40, 320, 1000))]
    texts = []
    for type_name, beginning, unit, times in part.of(random.Random(seed).sample(cases, 120)):
        template = beginning + unit * times
        texts += [f"to_char('{value}'::{type_name}, '{template}')" for value in EXTREMES[type_name]]
    check(postgres, texts)


def test_text_to_numbers(postgres: psycopg.Connection[Any]) -> None:
    texts = ("12", "-12.34", "12.34-", "<12>", "1,234,567.89", "  7", "+5", "$ 45", "12th", "abc", "", "1 2 3", "0.05",
             "-", "9999999", "1.2.3", "12-", ".5", "+-3", None)  # fmt: skip
    templates = ("9", "99", "99999.99", "S99.99", "99.99S", "99PR", "9,999,999.99", "9G999G999D99", "L99", "99th",
                 "MI99", "99MI", "SG99", "PL99", "9 9 9", "99V9", "FM99", "a99", "",
                 "RN", "9EEEE", ".99", "S9", "0")  # fmt: skip
    check(postgres, ["to_number({a}, {b})"], a=("text", texts), b=("text", templates))


WORDS = (
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "Day", "Dy", "D", "FF1", "FF3", "FF6",
    "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM", "MONTH", "MON", "MS",
    "Month", "Mon", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ", "US", "WW", "W",
    "Y,YYY", "YYYY", "YYY", "YY", "Y",
)  # fmt: skip
TEMPLATES = (
    *WORDS, *(word.lower() for word in WORDS), *("FM" + word for word in WORDS), *(word + "th" for word in WORDS),
    "YYYY-MM-DD HH24:MI:SS.US", "FMMonth FMDDth, YYYY", "Day, DD Mon YYYY", '"year" YYYY \\" "a\\"b"', "TMMonth TMDay",
    "FMHH:FMMI AM", "DD/MM/YY", "HH24hMIm", "xyz", "FM", "FMx", "", "YYYY\tMM", "äYYYY", "DDTH DDth DDSP",
)  # fmt: skip
MOMENTS = ("2024-02-29 13:04:05.678901", "2000-01-01 00:00", "1999-12-31 23:59:59", "0044-03-15 01:02:03 BC",
           "12345-11-12 12:00", "2021-01-03 11:00", "infinity", "0001-01-01 00:00", None)  # fmt: skip


@pytest.mark.parametrize("part", parts(3))
def test_timestamps_to_text(postgres: psycopg.Connection[Any], part: Part) -> None:
    templates = tuple(part.of(TEMPLATES))
    check(postgres, ["to_char({a}, {b})"], a=("timestamp", MOMENTS), b=("text", templates))
    for zone in ("America/New_York", "Asia/Kathmandu"):
        check(postgres, ["to_char({a}, {b})"], FormatSettings(timezone=zone), a=("timestamptz", MOMENTS[::3]),
              b=("text", templates))  # fmt: skip
    check(postgres, ["to_char({a}, {b})"], a=("date", ("2024-02-29", "infinity")), b=("text", TEMPLATES[-15:]))


@pytest.mark.parametrize("part", parts(3))
def test_intervals_to_text(postgres: psycopg.Connection[Any], part: Part) -> None:
    intervals = ("0", "1 year 2 months 3 days 04:05:06.789", "-1 year -2 months -3 days -04:05:06.789", "100:00:00",
                 "12 months", "-12 months", "-1 month", "5000 years", "1 day -01:00")  # fmt: skip
    templates = tuple(t for t in part.of(TEMPLATES) if not t.upper().startswith(("I", "J", "FMI", "FMJ", "WW", "FMWW")))
    check(postgres, ["to_char({a}, {b})"], a=("interval", intervals), b=("text", templates))


READINGS = (
    ("2024-02-29", "YYYY-MM-DD"), ("2024-02-30", "YYYY-MM-DD"), ("20240229", "YYYYMMDD"),
    ("29 Feb 2024", "DD Mon YYYY"), ("29 February 2024", "DD Month YYYY"), ("february 29, 2024", "FMMonth DD, YYYY"),
    ("24-02-29", "YY-MM-DD"), ("69", "YY"), ("70", "YY"), ("519", "YYY"), ("520", "YYY"), ("9", "Y"),
    ("2024 060", "YYYY DDD"), ("2024-366", "YYYY-DDD"), ("2023-366", "YYYY-DDD"), ("2024-09-4", "IYYY-IW-ID"),
    ("2024-09", "IYYY-IW"), ("2024 09", "YYYY WW"), ("2024 060", "IYYY IDDD"), ("2024-09", "YYYY-IW"),
    ("2460370", "J"), ("44 BC", "YYYY BC"), ("44-03-15 b.c.", "YYYY-MM-DD b.c."), ("21", "CC"), ("21 24", "CC YY"),
    ("20 00", "CC YY"), ("5 BC", "CC BC"), ("XII 2024", "RM YYYY"), ("vii", "rm"), ("1,234", "Y,YYY"),
    ("1234", "Y,YYY"), ("2024-13-01", "YYYY-MM-DD"), ("2024-00-01", "YYYY-MM-DD"), ("Thursday", "Day"),
    ("nonsense", "Day"), ("nonsense words", "Month"), ("Thu 29", "Dy DD"), ("13:04:05", "HH24:MI:SS"),
    ("01:04 PM", "HH:MI AM"), ("12:00 am", "HH12:MI AM"), ("13:00", "HH12:MI"), ("25:00", "HH24:MI"),
    ("12:60", "HH24:MI"), ("12:30:45.678901", "HH24:MI:SS.US"), ("12:30:45.6", "HH24:MI:SS.MS"),
    ("12:30:45.678", "HH24:MI:SS.MS"), ("12:30:45.5", "HH24:MI:SS.FF1"), ("12:30:45.123456", "HH24:MI:SS.FF3"),
    ("45296", "SSSSS"), ("86400", "SSSSS"), ("2024-02-29 13:00 +05:30", "YYYY-MM-DD HH24:MI TZH:TZM"),
    ("2024-02-29 13:00-08", "YYYY-MM-DD HH24:MITZH"), ("2024-02-29 EST", "YYYY-MM-DD TZ"), ("12", "OF"),
    ("2024 +16", "YYYY TZH"), ("  2024   02  29  ", "YYYY MM DD"), ("2024/02.29", "YYYY-MM-DD"),
    ("20240229", "YYYY-MM-DD"), ("2024-2-9", "YYYY-MM-DD"), ("2024-2-9", "FXYYYY-MM-DD"),
    ("2024 - 02 - 29", "FXYYYY-MM-DD"), ("2", "MMDD"), ("2x", "MMDD"), ("x", "MM"), ("99999999999", "YYYY"),
    ("12024-01-01", "YYYY-MM-DD"), ("2024-01-01 2025", "YYYY-MM-DD YYYY"), ("2024-01-01 extra", "YYYY-MM-DD"),
    ("", "YYYY"), ("2024", ""), ("29th of Feb", 'DDth "of" Mon'), ("1st", "FMDDth"), ("2024Q1", 'YYYY"Q"Q'),
    ("2024-W1", 'YYYY-"W"W'), ("15 3 2024", "W MM YYYY"), ("-44-03-15", "YYYY-MM-DD"), ("0000-01-01", "YYYY-MM-DD"),
    ("294276-12-31", "YYYY-MM-DD"), ("294277-01-01", "YYYY-MM-DD"), ("5874898-01-01", "YYYY-MM-DD"),
    ("2024-03-10 02:30", "YYYY-MM-DD HH24:MI"), ("2024-02-29T13:04", "YYYY-MM-DDTHH24:MI"),
    ("2024-02-29T13:04", 'YYYY-MM-DD"T"HH24:MI'), ("05121445482000", "MMDDHH24MISSYYYY"), ("19971116", "YYYYMMDD"),
    ("20000-1116", "YYYY-MMDD"), ("1997 AD 11 16", "YYYY BC MM DD"), ("9-1116", "Y-MMDD"),
    ("2011 12  18", "YYYY MM DD"), ("2011+ 12+ 18", "YYYY MM DD"), ("2011- 12-18", "YYYY  MM   DD"),
    ('15 "text between quote marks" 98 54 45', 'HH24 "\\"text between quote marks\\"" YY MI SS'),
)  # fmt: skip


def test_reading(postgres: psycopg.Connection[Any]) -> None:
    columns = ("text", ())
    check(postgres, ["to_date({a}, {b})"], rows=READINGS, a=columns, b=columns)
    for zone in ("UTC", "America/New_York"):
        check(postgres, ["to_timestamp({a}, {b})"], FormatSettings(timezone=zone), rows=READINGS, a=columns, b=columns)


FIELDS = (
    "YYYY", "YYY", "YY", "Y", "Y,YYY", "IYYY", "IY", "I", "MM", "Month", "MON", "mon", "RM", "rm", "DD", "DDD", "D",
    "Day", "dy", "ID", "IDDD", "IW", "WW", "W", "CC", "J", "Q", "BC", "a.d.", "HH24", "HH12", "HH", "MI", "SS", "SSSS",
    "MS", "US", "FF1", "FF6", "AM", "p.m.", "TZH", "TZM", "TZ", "OF", "DDth", "FMDD", "FMMonth", "TMMon", "FX", "SP",
)  # fmt: skip
BETWEEN = ("", "", " ", "  ", "-", "/", ":", ".", ",", "+", "\t", "T", '"x"', '"', "\\", "#", "th")
PIECES = (
    "2024", "24", "4", "0", "00", "-1", "12", "13", "1", "31", "366", "99", "1,234", "12345678901", "March", "mar",
    "XII", "vi", "Monday", "MON", "BC", "a.d.", "AM", "p.m.", "+05", "-8", "+", "-", "UTC", "EST", "1st", "2nd", "x",
    "Q1",
)  # fmt: skip


def reading(chance: random.Random) -> tuple[str, str]:
    """A text and a template for it; often neither of use to the other. ASCII: PostgreSQL's errors cut characters."""

    def parts(words: tuple[str, ...]) -> str:
        made = "".join(
            chance.choice(BETWEEN) + (chance.choice(words) if chance.randrange(6) else "")
            for _ in range(chance.randrange(5))
        )
        return made + chance.choice(BETWEEN)

    return parts(PIECES), parts(FIELDS)


@pytest.mark.parametrize("seed", some(range(12), 12))
@pytest.mark.long
def test_any_text_is_read_by_any_template(postgres: psycopg.Connection[Any], seed: int) -> None:
    chance = random.Random(seed)
    rows = tuple(reading(chance) for _ in range(1500))
    columns = ("text", ())
    texts = ["to_date({a}, {b})", "to_timestamp({a}, {b})", "to_number({a}, {b})"]
    check(postgres, texts, rows=rows, a=columns, b=columns)
