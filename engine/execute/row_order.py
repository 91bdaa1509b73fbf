"""Sorting of buffered rows in PostgreSQL's order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from catalog.types.base import SqlType


def sort_function(
    position: int, known: SqlType, descending: bool, nulls_first: bool
) -> Callable[[Sequence[object]], Any]:
    """A key function for list.sort over tuples, by the item at `position`.

    A descending sort uses reverse=True, which keeps equal rows in order; the flag for NULL is reversed with it.
    """
    key = known.sort_key()
    item = itemgetter(position)
    null_is_high = nulls_first == descending

    def of_row(row: Sequence[object]) -> tuple[bool, object]:
        value = item(row)
        if value is None:
            return null_is_high, 0
        return not null_is_high, value if key is None else key(value)

    return of_row


def sort_rows(rows: list[Sequence[object]], order: Sequence[tuple[Callable[[Sequence[object]], Any], bool]]) -> None:
    """Sorts by several items, each a function of `sort_function` and whether it is descending."""
    for key, descending in reversed(order):
        rows.sort(key=key, reverse=descending)


def each_once(rows: Iterable[Sequence[object]], kinds: Sequence[SqlType]) -> Iterator[Sequence[object]]:
    """The first of the rows whose first items, of these types, are equal; NULLs are equal."""
    keys = [kind.sort_key() for kind in kinds]
    seen = set()
    for row in rows:
        known = identity_of(row, keys)
        if known not in seen:
            seen.add(known)
            yield row


def identity_of(row: Sequence[object], keys: Sequence[Callable[[Any], Any] | None]) -> tuple[object, ...]:
    """A value that is equal for rows with equal first items; `keys`: `SqlType.sort_key` of each."""
    return tuple([v if k is None or v is None else k(v) for k, v in zip(keys, row, strict=False)])
