"""DuckDB's execution of a columnar query, for EXPLAIN (ANALYZE, VERBOSE): its operators, with rows and times.

The worker runs the query again under DuckDB's own EXPLAIN ANALYZE, in addition to the statement and on the same
snapshot. So the measurement does not change the statement's time. Scans show the SQL names of tables and columns.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from catalog.errors import SqlError
from catalog.schema import Table
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.columnar.interface import ColumnarEngine, ColumnarQuery, OutputColumn, VirtualContent

_TEXT = OutputColumn("", TypeRef(oids.TEXT), "VARCHAR")
_WRAPPERS = frozenset(("RESULT_COLLECTOR", "EXPLAIN_ANALYZE", "QUERY"))
_HIDDEN = frozenset(("Estimated Cardinality", "Table", "Type"))
_COLUMN = re.compile(r"\bc([0-9]+)\b")
_STORED = re.compile(r"\bt([0-9]+)\Z")


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of DuckDB: its kind, its description, its rows, and its own time."""

    name: str
    details: tuple[tuple[str, str], ...]
    rows: int
    seconds: float
    inputs: tuple[Operator, ...]


@dataclass(slots=True)
class Profile:
    """The profile of a portal for EXPLAIN. `operators` are set if it has run on the columnar path. `seconds`: the time
    of the profile."""

    operators: list[Operator] = field(default_factory=list)
    seconds: float = 0.0

    async def take(
        self,
        engine: ColumnarEngine,
        query: ColumnarQuery,
        values: Sequence[object],
        reader: object,
        virtual: VirtualContent,
        memory: int,
    ) -> None:
        """Runs the query for its profile. Errors are ignored, because the statement itself reports them."""
        began = time.perf_counter()
        asked = replace(
            query,
            sql=f"EXPLAIN (ANALYZE, FORMAT JSON) {query.sql}",
            columns=(_TEXT, _TEXT),
            in_whole=None,
            in_digits=None,
        )
        try:
            stream = await engine.batches(asked, values, reader, virtual, memory)
            try:
                async for batch in stream:
                    self.operators = read_profile(_first_text(batch), query.tables)
            finally:
                await stream.close()
        except SqlError:
            self.operators = []
        self.seconds = time.perf_counter() - began


def _first_text(batch: Any) -> str:
    return str(batch.column(1)[0].as_py())


def read_profile(text: str, tables: Sequence[Table] = ()) -> list[Operator]:
    """The top operators in DuckDB's JSON."""
    found = orjson.loads(text)
    names = {table.storage_id: table for table in tables}
    return [item for part in found.get("operator", ()) for item in _operators(part, names)]


def _operators(part: Mapping[str, Any], tables: Mapping[int, Table]) -> Iterator[Operator]:
    inputs = tuple(item for child in part.get("children", ()) for item in _operators(child, tables))
    if part["type"] in _WRAPPERS:
        yield from inputs
        return
    extra = part.get("extra_info", {})
    stored = _STORED.search(str(extra.get("Table", "")))
    table = tables.get(int(stored[1])) if stored else None
    name = str(part["name"]).strip().replace("_", " ").title()
    details = [(label, _show_detail(value, table)) for label, value in extra.items() if label not in _HIDDEN and value]
    if part.get("total_row_groups_to_scan"):
        scanned = f"{part.get('row_groups_scanned', 0)} of {part['total_row_groups_to_scan']}"
        details.append(("Row Groups Scanned", scanned))
    title = name if table is None else f"{name} on {table.name}"
    yield Operator(title, tuple(details), int(part.get("intermediate_rows", 0)), float(part.get("timing", 0)), inputs)


def _show_detail(value: Any, table: Table | None) -> str:
    text = " AND ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = " ".join(text.split())
    if table is None:
        return text
    names = {column.number: column.name for column in table.columns}
    return _COLUMN.sub(lambda found: names.get(int(found[1]), found[0]), text)


def operator_lines(operators: Sequence[Operator], depth: int = 1) -> list[str]:
    """The operators as lines in the style of PostgreSQL's plans."""
    lines: list[str] = []
    for item in operators:
        margin = " " * (depth * 6 - 4)
        lines.append(f"{margin}->  {item.name} (actual time={item.seconds * 1000:.3f} rows={item.rows})")
        lines += [f"{margin}      {label}: {value}" for label, value in item.details]
        lines += operator_lines(item.inputs, depth + 1)
    return lines


def operator_tree(operators: Sequence[Operator]) -> list[dict[str, object]]:
    """The operators as nested Plans for the other formats."""
    found: list[dict[str, object]] = []
    for item in operators:
        node: dict[str, object] = {"Node Type": item.name, **dict(item.details)}
        node["Actual Rows"], node["Actual Total Time"] = item.rows, round(item.seconds * 1000, 3)
        if item.inputs:
            node["Plans"] = operator_tree(item.inputs)
        found.append(node)
    return found
