"""The scan of a whole table in a plan that runs once: an existing function reads and decodes all rows.

    for c1, c2, in rows(scan(first, last)):         the loop of such a plan
        ...

Compiling a loop costs more than reading a small table, so the common part of such loops is not compiled. Memory
accounting is left out too if the plan cannot make large values: if a stored row is large, `LargeRows` causes a plan
with accounting (engine/execute/measured.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from catalog.memory import LARGE, meter
from engine.execute.access import Access
from engine.execute.code import Code, LineUse
from engine.execute.compiled_value import Value
from engine.execute.context import RowPathFull
from engine.storage.keys import storage_prefix, successor
from engine.storage.rows import codec_of

Rows = Callable[[Iterable[tuple[bytes, bytes]]], Iterable[Any]]


class LargeRows(Exception):  # noqa: N818 - not an error: the plan is written again
    """A plan without memory accounting has read a large stored row."""


def write_whole_rows(
    code: Code,
    access: Access,
    relation: int,
    needed: Sequence[int],
    named: Sequence[int],
    limit: int,
    reverse: bool,
    columns: dict[tuple[int, int], Value],
) -> None:
    """Opens the loop over all rows of a table, raising RowPathFull for more than `limit` rows, with locals for the
    `named` columns; the other `needed` ones are taken from the row."""
    table = access.table
    low = storage_prefix(table.storage_id)
    scan = (
        f"scan({code.name_value(low, 'first')}, {code.name_value(successor(low), 'last')}{', True' if reverse else ''})"
    )
    positions = {column.number: position for position, column in enumerate(table.columns)}
    names = {number: code.temporary("c") for number in named if number in positions}
    pick = itemgetter(*(positions[number] for number in names)) if names else None
    whole = "" if len(names) == len(needed) else code.temporary("row")
    decode = codec_of(table).decode if needed else None
    rows = code.temporary("rows")
    code.when_written.append((rows, lambda minding: _reader(decode, None if whole else pick, limit, minding)))
    target = ", ".join(names.values()) + ("," if len(names) > 1 else "")
    code.indent(f"for {whole or target or '_'} in {rows}({scan}):", LineUse.SCAN)
    if whole and pick is not None:
        code.line(f"{target} = {code.name_value(pick, 'pick')}({whole})")
    for number in needed:
        position = positions[number]
        nullable = not (table.columns[position].not_null or number in table.key_columns)
        source = names.get(number) or f"{whole}[{position}]"
        place = (whole, len(table.columns), position) if whole else None
        columns[relation, number] = Value(source, nullable, atom=True, place=place)


def _reader(
    decode: Callable[[bytes], Any] | None, pick: Callable[[Any], Any] | None, limit: int, minding: bool
) -> Rows:
    """A function that returns the decoded rows, or the columns picked out of them. `minding` large ones; otherwise it
    raises LargeRows."""

    def rows(found: Iterable[tuple[bytes, bytes]]) -> Iterable[Any]:
        values: list[Any] = []
        for _, value in islice(found, limit + 1):
            if len(value) > LARGE:
                if not minding:
                    raise LargeRows
                meter().stored_row(2 * len(value))  # the stored bytes, and decoded
            values.append(value)
        if len(values) > limit:
            raise RowPathFull
        if decode is None:
            return values
        decoded = map(decode, values)
        return decoded if pick is None else map(pick, decoded)

    return rows
