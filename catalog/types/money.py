"""money: an amount in cents, internal form `int` of 8 bytes. The text form is that of the locale C: $1,234.56."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, FormatSettings
from catalog.types.integer import Integer
from catalog.types.texts import bad_syntax

_LEAST = -(1 << 63)
_BLANKS = r"[ \t\n\v\f\r]*"
_HEAD = re.compile(rf"{_BLANKS}\$?{_BLANKS}([-(+]?){_BLANKS}\$?{_BLANKS}")
_TAIL = re.compile(r"[ \t\n\v\f\r)+$-]*")


def parse_money(text: str) -> int:
    """cash_in: returns cents. Rounds by the third decimal, and ignores the rest. Raises 22P02, 22003."""
    head = _HEAD.match(text)
    assert head is not None
    negative = head[1] in ("-", "(") and bool(head[1])
    value, decimals, place = 0, -1, head.end()
    while place < len(text):
        char = text[place]
        if "0" <= char <= "9" and decimals < 2:
            value = value * 10 + int(char)
            decimals += decimals >= 0
        elif char == "." and decimals < 0:
            decimals = 0
        elif char != ",":
            break
        place += 1
    if "5" <= text[place : place + 1] <= "9":
        value += 1
    value *= 100 if decimals < 1 else 10 if decimals == 1 else 1
    while "0" <= text[place : place + 1] <= "9":
        place += 1
    tail = _TAIL.match(text, place)
    assert tail is not None
    if tail.end() < len(text):
        raise bad_syntax("money", text)
    if negative or "-" in tail[0]:
        value = -value
    if not _LEAST <= value < -_LEAST:
        raise SqlError("22003", f'value "{text}" is out of range for type money')
    return value


def print_money(value: int) -> str:
    """cash_out."""
    sign, cents = ("-", -value) if value < 0 else ("", value)
    return f"{sign}${cents // 100:,}.{cents % 100:02}"


class Money(Integer):
    """money. The binary form is that of int8."""

    def __init__(self) -> None:
        super().__init__(oids.MONEY, oids.MONEY_ARRAY, "money", "money", 8, digits=False)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return parse_money

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return lambda value: print_money(value).encode()


MONEY = Money()
