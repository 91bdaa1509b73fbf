"""Columnar statements whose parameters are constants, while they run.

    price * $1 > 100      numeric of unknown scale: a UDF for every row
    price * 1.19 > 100    DECIMAL arithmetic

What is known beforehand DuckDB runs natively: numbers with their scales, patterns, units, formats, keys of json. On
the columnar path every value of a simple kind is put in the place of its parameter, literals that were lifted from the
text among them; the text for the worker is new then, which it is read from anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.types import oids
from engine.session import planning
from engine.session.prepared import Prepared
from engine.sql import tree
from engine.sql.tree_walk import transform

if TYPE_CHECKING:
    from engine.session.session import Session

KEPT = 16  # sets of values whose plans a statement keeps
LONGEST = 1000  # characters of a value that becomes part of a statement
_KINDS = oids.INTEGERS | oids.VARYING_TEXTS | oids.TIMESTAMPS | {oids.BOOL, oids.NUMERIC, oids.FLOAT8, oids.DATE}


def settled(session: Session, prepared: Prepared, parameters: Sequence[object]) -> Prepared:
    """The statement with these values in it, with its columnar plan; itself where nothing is to be gained."""
    if not parameters or prepared.compound is not None or prepared.analyzed is None:
        return prepared
    values = {
        number: (oid, value)
        for number, (oid, value) in enumerate(zip(prepared.parameter_types, parameters, strict=False), 1)
        if oid in _KINDS and not (isinstance(value, str | Decimal) and len(str(value)) > LONGEST)
    }
    if not values:
        return prepared
    key = repr(values)  # 1.0 and 1.00 are equal, and not the same
    found = prepared.settled.get(key)
    if found is None:
        found = _with_constants(session, prepared, values)
        if len(prepared.settled) >= KEPT:
            prepared.settled.pop(next(iter(prepared.settled)))
        prepared.settled[key] = found
    return found


def _with_constants(session: Session, prepared: Prepared, values: dict[int, tuple[int, object]]) -> Prepared:
    analyzed = prepared.analyzed
    assert analyzed is not None

    def change(node: object, depth: int) -> object:
        if isinstance(node, tree.Param) and node.number in values:
            oid, value = values[node.number]
            if oid == node.type.oid:
                return tree.Const(value, node.type, node.location)
        return node

    statement = transform(analyzed.statement, change)
    made = replace(
        prepared,
        analyzed=replace(analyzed, statement=statement),
        columnar=None, dml=None, binary_columnar={}, settled={},
    )  # fmt: skip
    try:
        return planning.columnar_of(session, made)
    except SqlError:
        return prepared  # as parameters they may pass, or fail in their turn
