"""Set-returning system functions, and those of information_schema (written in SQL in PostgreSQL).

Shoal has no publications and similar objects: the functions that list them return no rows.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from catalog import types
from catalog.catalog import Catalog
from catalog.functions.base import CallContext, Function
from catalog.functions.registry import declare, implement, implements
from catalog.schema import Index, Table
from catalog.types import oids
from catalog.types.base import Array, Interval

_RECORD, _ANYARRAY, _ANYELEMENT = oids.RECORD, oids.ANYARRAY, oids.ANYELEMENT
_DATA = Path(__file__).resolve().parent.parent / "data"

implement("pg_get_publication_tables", lambda *arguments: ())


# ---- partitions -----------------------------------------------------------------------------------------------------


def _parent_of(catalog: Catalog, oid: int) -> int | None:
    item = catalog.get(oid)
    if isinstance(item, Index):
        return item.parent
    return item.parents[0] if isinstance(item, Table) and item.bound is not None else None


def _in_partition_tree(catalog: Catalog, oid: int) -> bool:
    """Whether a table or an index is partitioned, or a partition."""
    item = catalog.get(oid)
    if isinstance(item, Index):
        return item.parent is not None or catalog.table(item.table).partitioning is not None
    return isinstance(item, Table) and (item.bound is not None or item.partitioning is not None)


def _catalog_of(call: CallContext) -> Catalog:
    return cast(Catalog, call.session.catalog)  # type: ignore[attr-defined]


def _ancestors_of(catalog: Catalog, oid: int) -> list[int]:
    """pg_partition_ancestors: the relation, then its parents up to the root; empty for a relation that is neither
    partitioned nor a partition."""
    if not _in_partition_tree(catalog, oid):
        return []
    found = [oid]
    while (above := _parent_of(catalog, found[-1])) is not None:
        found.append(above)
    return found


@implements("pg_partition_ancestors", needs_session=True)
def _partition_ancestors(call: CallContext, oid: int) -> Iterable[int]:
    return _ancestors_of(_catalog_of(call), oid)


@implements("pg_partition_root", needs_session=True)
def _partition_root(call: CallContext, oid: int) -> int | None:
    return next(reversed(_ancestors_of(_catalog_of(call), oid)), None)


@implements("pg_partition_tree", needs_session=True)
def _partition_tree(call: CallContext, root: int) -> Iterable[tuple[int, int | None, bool, int]]:
    catalog = _catalog_of(call)
    if not _in_partition_tree(catalog, root):
        return
    pending = [(root, 0)]
    while pending:
        oid, level = pending.pop(0)
        item = catalog.get(oid)
        below = catalog.index_children if isinstance(item, Index) else catalog.children
        table = catalog.get(item.table) if isinstance(item, Index) else item
        leaf = isinstance(table, Table) and table.partitioning is None
        yield oid, _parent_of(catalog, oid), leaf, level
        pending += [(child, level + 1) for child in below.get(oid, ())]


@implements("pg_options_to_table")
def _options(options: Array) -> Iterable[tuple[object, object]]:
    for option in options.elements:
        name, equals, value = str(option).partition("=")
        yield name, value if equals else None


@implements("pg_get_keywords")
def _keywords() -> Iterable[tuple[object, ...]]:
    described = {
        "U": "unreserved",
        "C": "unreserved (cannot be function or type name)",
        "T": "reserved (can be function or type name)",
        "R": "reserved",
    }
    for line in (_DATA / "pg_keywords.tsv").read_text().splitlines()[1:]:
        word, category, bare = line.split("\t")
        label = "can be bare label" if bare == "t" else "requires AS"
        yield word, category, bare == "t", described[category], label


@implements("pg_timezone_names")
def timezone_names() -> Iterable[tuple[str, str | None, Interval, bool]]:
    """Yields every time zone at the current time: name, abbreviation, offset from UTC, whether daylight saving time is
    in effect."""
    moment = datetime.now(UTC)
    for name in sorted(zoneinfo.available_timezones()):
        local = moment.astimezone(zoneinfo.ZoneInfo(name))
        offset = local.utcoffset()
        seconds = int(offset.total_seconds()) if offset is not None else 0
        yield name, local.tzname(), Interval(0, 0, seconds * 1_000_000), bool(local.dst())


# ---- information_schema ---------------------------------------------------------------------------------------------


def _own(
    oid: int, name: str, arguments: tuple[int, ...], result: int, python: Callable[..., Any] | None, **more: Any
) -> None:
    declare(Function(oid, name, name, "f", True, "output_types" in more, "i", arguments, result, 0, 0, **more))
    if python is not None:
        implement(name, python)


def _expand(array: Array) -> Iterable[tuple[object, int]]:
    return ((item, number) for number, item in enumerate(array.elements, 1))


def character_length(oid: int, typmod: int) -> int | None:
    """character_maximum_length of information_schema.columns."""
    if typmod == -1:
        return None
    if oid in oids.OF_LENGTH:
        return typmod - 4
    return typmod if oid in (oids.BIT, oids.VARBIT) else None


def _octet_length(oid: int, typmod: int) -> int | None:
    if oid not in oids.TEXTS:
        return None
    length = character_length(oid, typmod)
    return 1 << 30 if typmod == -1 else None if length is None else length * 4


_BITS = {oids.INT2: 16, oids.INT4: 32, oids.INT8: 64, oids.FLOAT4: 24, oids.FLOAT8: 53}


def _precision(oid: int, typmod: int) -> int | None:
    if oid == oids.NUMERIC:
        return None if typmod == -1 else (typmod - 4) >> 16 & 65535
    return _BITS.get(oid)


def _radix(oid: int, typmod: int) -> int | None:
    return 10 if oid == oids.NUMERIC else 2 if oid in _BITS else None


def _scale(oid: int, typmod: int) -> int | None:
    if oid == oids.NUMERIC:
        return None if typmod == -1 else (typmod - 4) & 65535
    return 0 if oid in oids.INTEGERS else None


def _datetime_precision(oid: int, typmod: int) -> int | None:
    if oid == oids.DATE:
        return 0
    if oid in (oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TIMETZ):
        return 6 if typmod < 0 else typmod
    if oid == oids.INTERVAL:
        return 6 if typmod < 0 or typmod & 65535 == 65535 else typmod & 65535
    return None


def _interval_type(oid: int, typmod: int) -> str | None:
    """Returns 'DAY TO SECOND' for interval day to second(3)."""
    if oid != oids.INTERVAL:
        return None
    fields = types.format_type(oid, typmod).removeprefix("interval").partition("(")[0].strip()
    return fields.upper() or None


def _through_domain(own: int, kind: str, base: int) -> int:
    """Returns the type or modifier of a column; for a domain, those of its base type."""
    return base if kind == "d" else own


_own(
    9910, "_pg_expandarray", (_ANYARRAY,), _RECORD, _expand,
    output_names=("x", "n"), output_types=(_ANYELEMENT, oids.INT4),
)  # fmt: skip
_own(9911, "_pg_index_position", (oids.OID, oids.INT2), oids.INT4, None)
for _oid, (_name, _function) in enumerate(
    {
        "_pg_char_max_length": character_length,
        "_pg_char_octet_length": _octet_length,
        "_pg_numeric_precision": _precision,
        "_pg_numeric_precision_radix": _radix,
        "_pg_numeric_scale": _scale,
        "_pg_datetime_precision": _datetime_precision,
    }.items(),
    9912,
):
    _own(_oid, _name, (oids.OID, oids.INT4), oids.INT4, _function)
COLUMNS_OF_ROWS = {
    "_pg_truetypid": ("atttypid", "typtype", "typbasetype"),
    "_pg_truetypmod": ("atttypmod", "typtype", "typtypmod"),
}
"""The columns that two functions use of rows of pg_attribute and pg_type: analysis replaces the rows by these
columns."""
for _oid, (_name, _own_value) in enumerate({"_pg_truetypid": oids.OID, "_pg_truetypmod": oids.INT4}.items(), 9982):
    _own(_oid, _name, (_own_value, oids.CHAR, _own_value), _own_value, _through_domain)
_own(9918, "_pg_interval_type", (oids.OID, oids.INT4), oids.TEXT, _interval_type)
