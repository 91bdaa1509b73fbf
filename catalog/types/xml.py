"""xml, a type without order and equality. Internal form `str`: the text as it was given, with its declaration."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, Order, SqlType
from catalog.types.long_values import LONG_SORTED
from catalog.types.text import TEXT
from catalog.types.texts import decode_utf8
from catalog.types.xml_text import check, show

_ENCODING = re.compile(rb"<\?xml[^>]*?encoding[ \t\r\n]*=[ \t\r\n]*['\"]([A-Za-z0-9._-]+)['\"]")


def _receive(data: bytes) -> object:
    """xml_recv: the bytes are in the encoding that the declaration names."""
    found = _ENCODING.match(data)
    name = found[1].decode("ascii") if found else "utf-8"
    if name.lower() in ("utf-8", "utf8"):
        return check(decode_utf8(data), document=False)
    try:
        text = data.decode(name)
    except (LookupError, UnicodeDecodeError):
        raise SqlError("22021", f'encoding "{name}" of an XML value is not known, or does not fit') from None
    return check(text, document=False)


def _encode(value: object) -> bytes:
    return show(cast(str, value)).encode()


class XmlType(SqlType):
    """xml."""

    oid = oids.XML
    array_oid = oids.XML_ARRAY
    name = "xml"
    sql_name = "xml"
    category = "U"
    preferred = False
    length = -1
    long = LONG_SORTED
    storage = TEXT.storage
    columns = Columns(layout=Layout.TEXT, order=Order.NONE)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return partial(check, document=settings.xml_option == "document")

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return _encode

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return _receive

    def binary_encoder(self) -> Callable[[object], bytes]:
        return _encode

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"
