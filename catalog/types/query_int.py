"""query_int: a query of integers for arrays (the extension intarray; PostgreSQL 16 manual, F.20).

Internal form `str`: the text that PostgreSQL prints, `1 & ( 2 | 3 )`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

from catalog.errors import SqlError
from catalog.text_caches import remembering
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType
from catalog.types.boolean_queries import Query, QueryReader, show
from catalog.types.text import TEXT

_NUMBER = re.compile(r"-?[0-9]{1,15}")


class _Reader(QueryReader):
    def operand(self) -> object:
        found = _NUMBER.match(self.text, self.at)
        if found is None or not -(1 << 31) <= int(found[0]) < 1 << 31:
            raise SqlError("42601", "syntax error")
        self.at = found.end()
        return int(found[0])


@remembering(256)
def parse_query(text: str) -> Query:
    """Returns the tree of a query. Raises 42601."""
    return _Reader(text).whole()


class QueryInt(SqlType):
    """query_int."""

    oid = oids.QUERY_INT
    array_oid = oids.QUERY_INT_ARRAY
    name = sql_name = "query_int"
    category = "U"
    preferred = False
    length = -1
    storage = TEXT.storage
    columns = Columns(layout=Layout.TEXT, printed=True)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return lambda text: show(parse_query(text), str)

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return cast(Callable[[object], bytes], str.encode)

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def receive(_: bytes) -> object:
            raise SqlError("42883", "no binary input function available for type query_int")

        return receive

    def binary_encoder(self) -> Callable[[object], bytes]:
        def send(_: object) -> bytes:
            raise SqlError("42883", "no binary output function available for type query_int")

        return send

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


QUERY_INT = QueryInt()
