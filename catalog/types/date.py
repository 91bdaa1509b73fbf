"""date: days since 2000-01-01."""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable
from typing import Any

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, EPOCH_DAYS, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.datetime import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    END_DATE,
    MIN_DATE,
    ORDINAL_EPOCH,
    UNIX_EPOCH_DAYS,
    check_date,
    date_is_infinite,
)
from catalog.types.datetime_input import (
    BadFormatError,
    FieldOverflowError,
    ZoneOverflowError,
    parse_datetime,
    sql_error,
)
from catalog.types.datetime_output import date_formatter
from catalog.types.integer import INT4
from catalog.types.texts import wrong_length
from catalog.types.timezones import find_zone

# The zone that JDBC's driver adds to a date is ignored.
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?: [+-](?:0\d|1[0-4])(?::[0-5]\d)?)?\Z", re.ASCII)
_SPECIAL = {"epoch": -UNIX_EPOCH_DAYS, "infinity": DATE_INFINITY, "-infinity": DATE_MINUS_INFINITY}


def iso_form(text: str) -> tuple[int, int] | None:
    """Reads the common form, with or without a zone. Returns the number of characters of the date, and the date; None
    for other forms."""
    match = _ISO.match(text)
    if match is None:
        return None
    try:
        return match.end(1), datetime.date.fromisoformat(match[1]).toordinal() - ORDINAL_EPOCH
    except ValueError:
        return None


def parse_date(text: str, settings: FormatSettings = DEFAULT_FORMAT) -> int:
    """Reads a date as date_in does. Raises 22007, 22008, 22009, 22023."""
    try:
        moment = parse_datetime(text, settings, find_zone(settings.timezone))
    except (BadFormatError, FieldOverflowError, ZoneOverflowError) as error:
        raise sql_error(error, "date", text) from None
    if moment.special:
        return _SPECIAL[moment.special]
    days = moment.days()
    if not MIN_DATE <= days < END_DATE:
        raise SqlError("22008", f'date out of range: "{text}"')
    return days


class Date(SqlType):
    """date, internal form `int`."""

    oid = oids.DATE
    array_oid = oids.DATE_ARRAY
    name = "date"
    sql_name = "date"
    category = "D"
    preferred = False
    length = 4
    storage = Storage("i")
    columns = Columns(
        layout=Layout.NUMBERS, arrow="date32", epoch=EPOCH_DAYS, key=("I", 1 << 31), sent=">i4",
        output_of_settings=True, input_of_settings=True,
    )  # fmt: skip

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        match_iso, from_iso = _ISO.match, datetime.date.fromisoformat

        def decode(text: str) -> object:
            found = match_iso(text)
            if found is not None:
                try:
                    return from_iso(found[1]).toordinal() - ORDINAL_EPOCH
                except ValueError:
                    pass  # the general reader raises the error
            return parse_date(text, settings)

        return decode

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        form = date_formatter(settings)
        return lambda value: form(value).encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def decode(data: bytes) -> object:
            if len(data) != 4:
                raise wrong_length(data, 4)
            days = int.from_bytes(data, "big", signed=True)
            return days if date_is_infinite(days) else check_date(days)

        return decode

    def binary_encoder(self) -> Callable[[object], bytes]:
        return struct.Struct(">i").pack

    def key_encoder(self) -> Callable[[object], bytes] | None:
        return INT4.key_encoder()

    def duckdb_type(self, typmod: int = -1) -> str:
        return "DATE"


DATE = Date()
