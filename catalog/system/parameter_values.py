"""Values of PostgreSQL's parameters, as SET takes and SHOW shows them (guc.c).

canonical(parameter, 'work_mem', '4096')     4MB
canonical(parameter, 'work_mem', '1.5GB')    1536MB
canonical(parameter, 'jit', 'no')            off
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from catalog.errors import SqlError

if TYPE_CHECKING:
    from catalog.system.parameters import Parameter

MEMORY = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
TIME = {"us": 1, "ms": 1000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_HINTS = {
    "memory": 'Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".',
    "time": 'Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".',
    "range": "Value exceeds integer range.",
}
_NUMBER = re.compile(r"\s*([+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))\s*([A-Za-z]*)\s*", re.ASCII)
_ON, _OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")


def canonical(parameter: Parameter, name: str, value: str) -> str:
    """Returns the value in SHOW's form; `name` is for messages. Raises 22023."""
    if parameter.kind == "bool":
        return "on" if boolean(name, value) else "off"
    if parameter.kind == "enum":
        return _choice(parameter, name, value)
    if parameter.kind in ("integer", "real"):
        return _number(parameter, name, value)
    return value


def boolean(name: str, value: str) -> bool:
    """Returns a Boolean value, which may be abbreviated. Raises 22023."""
    word = value.lower()
    for found, words in ((True, ("true", "yes")), (False, ("false", "no"))):
        if word and any(item.startswith(word) for item in words):
            return found
    if word in ("on", "1"):
        return True
    if word in ("of", "off", "0"):
        return False
    raise SqlError("22023", f'parameter "{name}" requires a Boolean value')


def _choice(parameter: Parameter, name: str, value: str) -> str:
    choices, word = parameter.choices or (), value.lower()
    if word in choices:
        return word
    for shown, words in (("on", _ON), ("off", _OFF)):
        if shown in choices and word in words:
            return shown
    raise invalid(name, value, f"Available values: {', '.join(choices)}.")


def invalid(name: str, value: str, hint: str | None = None) -> SqlError:
    return SqlError("22023", f'invalid value for parameter "{name}": "{value}"', hint=hint)


def _number(parameter: Parameter, name: str, value: str) -> str:
    found = _NUMBER.fullmatch(value)
    if found is None:
        raise invalid(name, value)
    digits, unit = found.groups()
    base = parameter.unit
    number = float(int(digits, 16)) if "x" in digits.lower() else float(digits)
    if unit:
        if base is None:
            raise invalid(name, value)
        units, hint = (MEMORY, _HINTS["memory"]) if base in MEMORY else (TIME, _HINTS["time"])
        if unit not in units or unit == "8kB":
            raise invalid(name, value, hint)
        number = number * units[unit] / units[base]
    assert parameter.least is not None and parameter.most is not None
    shown_unit = f" {base}" if base else ""
    if parameter.kind == "real":
        if not float(parameter.least) <= number <= float(parameter.most):
            least, most = (f"{float(end):g}" for end in (parameter.least, parameter.most))
            raise _outside(name, f"{number:g}{shown_unit}", least, most)
        return in_largest_unit(parameter, number)
    whole = round(number)
    if not -(2**31) <= whole < 2**31:
        raise invalid(name, value, _HINTS["range"])
    if not int(parameter.least) <= whole <= int(parameter.most):
        raise _outside(name, f"{whole}{shown_unit}", parameter.least, parameter.most)
    return in_largest_unit(parameter, whole)


def _outside(name: str, value: str, least: str, most: str) -> SqlError:
    return SqlError("22023", f'{value} is outside the valid range for parameter "{name}" ({least} .. {most})')


def in_largest_unit(parameter: Parameter, number: float) -> str:
    """Returns a number in the parameter's unit as SHOW does: in the largest unit that keeps it whole."""
    if parameter.unit is None or number <= 0:
        return f"{number:g}" if parameter.kind == "real" else str(number)
    units = MEMORY if parameter.unit in MEMORY else TIME
    amount = number * units[parameter.unit]
    largest = [unit for unit, size in units.items() if unit != "8kB" and not amount % size]
    unit = max(largest, key=units.__getitem__) if largest else parameter.unit
    shown = amount / units[unit] if parameter.kind == "real" else int(amount) // units[unit]
    return f"{shown:g}{unit}" if parameter.kind == "real" else f"{shown}{unit}"
