"""One partitioned table: bounds in comparable form, the partition of a key, and the partitions for conditions.

   list     key bytes -> partition; NULL and DEFAULT are separate
   range    the lower ends in order, so bisection finds the partition of a key; keys outside of all ranges go to DEFAULT
   hash     the row's hash modulo the largest modulus -> partition

An end of a range is a tuple with one (rank, key bytes) for each column. The ranks are 0 for MINVALUE, 1 for a value, 2
for MAXVALUE, so tuples compare as PostgreSQL compares bounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import product
from typing import Any

from catalog.catalog import Catalog
from catalog.derived import DerivedValues
from catalog.functions.hash_functions import partition_hash
from catalog.schema import PENDING, PartitionBound, Partitioning, Table
from catalog.types import lookup
from catalog.types.integer import fits

End = tuple[tuple[int, bytes], ...]
Key = Sequence[object]
_RANKS = {"-": 0, "v": 1, "+": 2}


class Datums:
    """Converts values of a partition key's columns, from text and to key bytes."""

    def __init__(self, partitioning: Partitioning) -> None:
        self.types = [column.type.oid for column in partitioning.columns]
        encoders = [lookup(oid).key_encoder() for oid in self.types]
        assert partitioning.strategy == "h" or None not in encoders
        self.encode: list[Callable[[Any], bytes]] = [item for item in encoders if item is not None]

    def value(self, place: int, text: str) -> object:
        """A bound's value in internal form."""
        return lookup(self.types[place]).text_decoder()(text)

    def end(self, ends: Sequence[tuple[str, str]]) -> End:
        """An end of a range in comparable form."""
        return tuple(
            (_RANKS[kind], self.encode[place](self.value(place, text)) if kind == "v" else b"")
            for place, (kind, text) in enumerate(ends)
        )

    def key(self, values: Key) -> End:
        """A row's key in the form of an end."""
        return tuple([(1, encode(value)) for encode, value in zip(self.encode, values, strict=True)])

    def find_listed(self, text: str | None) -> bytes | None:
        return None if text is None else self.encode[0](self.value(0, text))


class Limits:
    """The limits that conditions set for one column of a key: the possible values (None: any), or bounds.

    Bounds are (value, inclusive)."""

    def __init__(self) -> None:
        self.values: list[object] | None = None
        self.lower: tuple[object, bool] | None = None
        self.upper: tuple[object, bool] | None = None


class Level:
    """The partitions of one table in one catalog."""

    def __init__(self, catalog: Catalog, table: Table) -> None:
        assert table.partitioning is not None
        self.table = table
        self.partitioning = table.partitioning
        self.strategy = table.partitioning.strategy
        self.datums = Datums(table.partitioning)
        children = (catalog.table(oid) for oid in catalog.children.get(table.oid, ()))
        self.partitions = [item for item in children if item.detaching != PENDING]
        self.default = next((item for item in self.partitions if _get_bound(item).kind == "d"), None)

    @cached_property
    def _list_members(self) -> dict[bytes | None, Table]:
        return {self.datums.find_listed(text): item for item in self.partitions for text in _get_bound(item).values}

    @cached_property
    def _ranges(self) -> tuple[list[End], list[End], list[Table]]:
        """The lower ends in order, with their upper ends and partitions."""
        found = sorted(
            (
                (self.datums.end(_get_bound(item).lower), self.datums.end(_get_bound(item).upper), item)
                for item in self.partitions
                if item is not self.default
            ),
            key=lambda part: part[0],
        )
        return [part[0] for part in found], [part[1] for part in found], [part[2] for part in found]

    @cached_property
    def _hash_members(self) -> tuple[Callable[[tuple[Any, ...]], int], list[Table | None]]:
        size = max((_get_bound(item).modulus for item in self.partitions), default=1)
        slots: list[Table | None] = [None] * size
        for item in self.partitions:
            bound = _get_bound(item)
            for place in range(bound.remainder, size, bound.modulus):
                slots[place] = item
        return partition_hash(tuple(self.datums.types)), slots

    def find(self, key: Key) -> Table | None:
        """The partition for a key (internal form), or None."""
        if self.strategy == "h":
            hash_key, slots = self._hash_members
            return slots[hash_key(tuple(key)) % len(slots)]
        if self.strategy == "l":
            value = key[0]
            return self._list_members.get(None if value is None else self.datums.encode[0](value), self.default)
        if None in key:
            return self.default
        lower, upper, tables = self._ranges
        end = self.datums.key(key)
        place = bisect_right(lower, end) - 1
        return tables[place] if place >= 0 and end < upper[place] else self.default

    # ---- conditions -------------------------------------------------------------------------------------------------

    def matching(self, limits: Sequence[Limits]) -> list[Table]:
        """The partitions that may have rows within the limits, which are one for each column of the key."""
        if any(item.values == [] for item in limits):
            return []
        if all(item.values is not None for item in limits) and not self._many(limits):
            keys = product(*(item.values or [] for item in limits))
            return self._in_order(self.find(key) for key in keys if self._possible(key))
        if self.strategy == "h":
            return self.partitions
        return self._in_order(self._within(limits[0]))

    def _many(self, limits: Sequence[Limits]) -> bool:
        size = 1
        for item in limits:
            size *= len(item.values or ())
        return size > 10_000

    def _possible(self, key: Key) -> bool:
        """Whether the values fit the types of the columns. If one does not fit, no row has it."""
        return all(map(fits, self.datums.types, key))

    def _in_order(self, found: Iterable[Table | None]) -> list[Table]:
        chosen = {item.oid for item in found if item is not None}
        return [item for item in self.partitions if item.oid in chosen]

    def _within(self, limits: Limits) -> list[Table]:
        """Compares the first column only: a partition is left out if none of its values can be within the limits."""
        low, high = self._low(limits), self._high(limits)
        if low is None or high is None:
            return []
        if self.strategy == "l":
            found = [
                item for value, item in self._list_members.items() if value is not None and low <= (1, value) <= high
            ]
            if limits.values is None and limits.lower is None and limits.upper is None:
                return self.partitions
        else:
            lower, upper, tables = self._ranges
            inclusive = limits.values is not None or limits.upper is None or limits.upper[1]
            found = [
                item
                for start, end, item in zip(lower, upper, tables, strict=True)
                if (start[0] <= high if inclusive else start[0] < high)
                and (end[0] > low or (end[0] == low and len(end) > 1))
            ]
        return found if self.default is None else [*found, self.default]

    def _low(self, limits: Limits) -> tuple[int, bytes] | None:
        """The lowest value within the limits; None if there is none, or only NULL is possible."""
        ends = [] if limits.lower is None else [limits.lower[0]]
        if limits.values is not None:
            known = [item for item in limits.values if item is not None]
            if None in limits.values:
                return (0, b"")
            ends += [min(known, key=self._order)] if known else []
        return self._end(ends, max, (0, b""), above=False)

    def _high(self, limits: Limits) -> tuple[int, bytes] | None:
        ends = [] if limits.upper is None else [limits.upper[0]]
        if limits.values is not None:
            known = [item for item in limits.values if item is not None]
            if None in limits.values:
                return (2, b"")
            ends += [max(known, key=self._order)] if known else []
        return self._end(ends, min, (2, b""), above=True)

    def _order(self, value: object) -> Any:
        return value if isinstance(value, int) else self.datums.encode[0](value)

    def _end(
        self, values: Sequence[object], choose: Callable[..., Any], free: tuple[int, bytes], above: bool
    ) -> tuple[int, bytes] | None:
        ends = []
        for value in values:
            if value is None:
                return None
            if not fits(self.datums.types[0], value):
                assert isinstance(value, int)
                if (value > 0) != above:
                    return None
                continue
            ends.append((1, self.datums.encode[0](value)))
        return choose(ends) if ends else free


_levels: DerivedValues[int, Level] = DerivedValues()


def level_of(catalog: Catalog, table: Table) -> Level:
    """The level of a partitioned table, computed once for each catalog."""
    levels = _levels.of(catalog)
    found = levels.get(table.oid)
    if found is None or found.table is not table:
        found = levels[table.oid] = Level(catalog, table)
    return found


def _get_bound(table: Table) -> PartitionBound:
    assert table.bound is not None
    return table.bound
