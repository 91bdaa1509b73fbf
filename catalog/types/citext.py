"""citext: text with case-insensitive comparisons (the extension citext; PostgreSQL 16 manual, F.9).

Values keep their case; comparisons and keys use their `lower()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from catalog.functions.letter_case import lower
from catalog.types import oids
from catalog.types.base import Columns, Layout, Order
from catalog.types.text import Text
from catalog.types.texts import text_key


class CiText(Text):
    """Internal form `str`."""

    columns = Columns(layout=Layout.TEXT, sent_as_held=True, printed=True, order=Order.BY_KEY)

    def sort_key(self) -> Callable[[object], object]:
        return cast(Callable[[object], object], lower)

    def key_encoder(self) -> Callable[[Any], bytes]:
        return lambda value: text_key(lower(value))


CITEXT = CiText(oids.CITEXT, oids.CITEXT_ARRAY, "citext")
