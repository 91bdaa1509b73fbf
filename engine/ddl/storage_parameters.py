"""Storage parameters: WITH (...) of tables and indexes, ALTER TABLE SET (...) and RESET (...).

Names, bounds and messages are PostgreSQL's (reloptions.c). A table's parameters are stored and shown, and have no
effect. The exception is `columnar`, which is Shoal's own: engine/columnar/ahead.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from catalog.errors import SqlError
from catalog.schema import COLUMNAR, COLUMNAR_SETTINGS
from catalog.types.boolean import SPELLINGS

Allowed = tuple[()] | tuple[str, ...] | tuple[int, int] | tuple[float, float]
"""The allowed values of a parameter: (), for a boolean; words; or the minimum and maximum of an integer or a number."""
Parameters = tuple[tuple[str, str], ...]

_MOST = 2**31 - 1
_ALSO_BOOLEAN = frozenset(("vacuum_index_cleanup",))
_BOOLEANS = frozenset(("true", "false", "on", "off", "yes", "no", "1", "0"))
_AUTOVACUUM: Mapping[str, Allowed] = {
    "autovacuum_enabled": (),
    "autovacuum_vacuum_threshold": (0, _MOST),
    "autovacuum_vacuum_insert_threshold": (-1, _MOST),
    "autovacuum_vacuum_cost_limit": (1, 10_000),
    "autovacuum_freeze_min_age": (0, 1_000_000_000),
    "autovacuum_multixact_freeze_min_age": (0, 1_000_000_000),
    "autovacuum_freeze_max_age": (100_000, 2_000_000_000),
    "autovacuum_multixact_freeze_max_age": (10_000, 2_000_000_000),
    "autovacuum_freeze_table_age": (0, 2_000_000_000),
    "autovacuum_multixact_freeze_table_age": (0, 2_000_000_000),
    "log_autovacuum_min_duration": (-1, _MOST),
    "autovacuum_vacuum_cost_delay": (0.0, 100.0),
    "autovacuum_vacuum_scale_factor": (0.0, 100.0),
    "autovacuum_vacuum_insert_scale_factor": (0.0, 100.0),
    "vacuum_index_cleanup": ("on", "off", "auto"),
    "vacuum_truncate": (),
}
OF_TABLES: Mapping[str, Allowed] = {
    **_AUTOVACUUM,
    **{f"toast.{name}": allowed for name, allowed in _AUTOVACUUM.items()},
    "autovacuum_analyze_threshold": (0, _MOST),
    "autovacuum_analyze_scale_factor": (0.0, 100.0),
    "fillfactor": (10, 100),
    "toast_tuple_target": (128, 8160),
    "parallel_workers": (0, 1024),
    "user_catalog_table": (),
    COLUMNAR: COLUMNAR_SETTINGS,
}


def check_parameters(given: Parameters, allowed: Mapping[str, Allowed]) -> None:
    """Raises 22023 for an unknown parameter, a duplicate, or an invalid value."""
    seen: set[str] = set()
    for name, value in given:
        space, dot, _ = name.rpartition(".")
        if dot and space not in ("toast", ""):
            raise SqlError("22023", f'unrecognized parameter namespace "{space}"')
        if name in seen:
            raise SqlError("22023", f'parameter "{name.removeprefix("toast.")}" specified more than once')
        seen.add(name)
        bare = name.removeprefix("toast.")
        if name not in allowed:
            raise SqlError("22023", f'unrecognized parameter "{bare}"')
        _check(bare, value, allowed[name])


def without_oids(given: Parameters) -> Parameters:
    """CREATE TABLE accepts `oids` if it is false. Raises 42601, 0A000."""
    for name, value in given:
        if name == "oids":
            if value.lower() not in _BOOLEANS - {"yes", "no"}:
                raise SqlError("42601", "oids requires a Boolean value")
            if value.lower() in ("true", "on", "1"):
                raise SqlError("0A000", "tables declared WITH OIDS are not supported")
    return tuple((name, value) for name, value in given if name != "oids")


def without_toast(given: Parameters) -> Parameters:
    """ALTER TABLE ignores the parameters of a TOAST table, because there is none."""
    return tuple((name, value) for name, value in given if not name.startswith("toast."))


def after_set(now: Parameters, given: Parameters) -> Parameters:
    """The parameters after SET: the given ones come last. Parameters of the TOAST table are not included."""
    names = {name for name, _ in given}
    return (*((name, value) for name, value in now if name not in names), *without_toast(given))


def after_reset(now: Parameters, names: Iterable[str]) -> Parameters:
    """The parameters after RESET."""
    gone = set(names)
    return tuple((name, value) for name, value in now if name not in gone)


def _check(name: str, value: str, allowed: Sequence[object]) -> None:
    if not allowed:
        if value.lower() not in SPELLINGS:
            raise SqlError("22023", f'invalid value for boolean option "{name}": {value}')
        return
    least, most = allowed[0], allowed[-1]
    if isinstance(least, str):
        _check_word(name, value, [str(word) for word in allowed])
    elif isinstance(least, float) and isinstance(most, float):
        _check_between(name, value, float, (least, most), "floating point", ".6f")
    elif isinstance(least, int) and isinstance(most, int):
        _check_between(name, value, _whole, (least, most), "integer", "d")


def _whole(value: str) -> int:
    """parse_int: rounds fractions. Raises ValueError."""
    try:
        return int(value, 0)
    except ValueError:
        return round(float(value))


def _check_word(name: str, value: str, words: Sequence[str]) -> None:
    if value.lower() not in words and not (name in _ALSO_BOOLEAN and value.lower() in _BOOLEANS):
        listed = ", ".join(f'"{word}"' for word in words[:-1]) + f', and "{words[-1]}"'
        detail = f"Valid values are {listed}."
        raise SqlError("22023", f'invalid value for enum option "{name}": {value}', detail=detail)


def _check_between(
    name: str,
    value: str,
    read: Callable[[str], float],
    bounds: tuple[float, float],
    kind: str,
    form: str,
) -> None:
    try:
        number = read(value)
        if math.isnan(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise SqlError("22023", f'invalid value for {kind} option "{name}": {value}') from None
    if not bounds[0] <= number <= bounds[1]:
        detail = f'Valid values are between "{bounds[0]:{form}}" and "{bounds[1]:{form}}".'
        raise SqlError("22023", f'value {value} out of bounds for option "{name}"', detail=detail)
