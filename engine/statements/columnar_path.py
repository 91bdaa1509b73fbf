"""The common part of the paths through DuckDB: constants replace parameters, and the engine computes some values first.

    price * $1 > 100      numeric of unknown scale: a UDF for every row
    price * 1.19 > 100    DECIMAL arithmetic

DuckDB runs constants natively: numbers with their scales, patterns, units, formats, keys of json. So on the columnar
path every value of a simple kind replaces its parameter, including lifted literals. The text for the worker is then
new, but the worker parses it for each execution anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Self

from catalog.errors import SqlError
from catalog.memory import HEAVY
from catalog.patience import TooLong, begin_folding, fold, too_long
from catalog.types import lookup, oids
from catalog.types.base import FormatSettings
from engine.columnar.interface import FIRST_COMPUTED, STATEMENT_TIME, TRANSACTION_TIME, ColumnarQuery
from engine.execute.context import ExecContext, small_values
from engine.execute.expressions import compile_expression
from engine.execute.fold import fold_constants
from engine.sql import tree
from engine.sql.tree_walk import transform

if TYPE_CHECKING:
    from engine.session.portal import Portal
    from engine.session.session import Session

KEPT = 16  # sets of values whose plans a statement keeps
LONGEST = 1000  # characters of a value that becomes part of a statement
_KINDS = oids.INTEGERS | oids.VARYING_TEXTS | oids.TIMESTAMPS | {oids.BOOL, oids.NUMERIC, oids.FLOAT8, oids.DATE}


class QueryPath:
    """One statement on the columnar path. `computes`: the engine computes constants for it, because none has taken
    long."""

    def __init__(self, analyzed: tree.Analyzed, settings: FormatSettings, computes: bool = True) -> None:
        """Raises errors of generating the query."""
        self.analyzed = fold_constants(analyzed, settings)
        self.settings = settings
        self.computes = computes
        self._with_constants: dict[str, Self] = {}  # by parameters
        self.generate()

    def generate(self) -> None:
        """Makes the DuckDB query of `analyzed`."""
        raise NotImplementedError

    def compute_in_worker(self) -> None:
        """See `ColumnarPath` of rows_plan.py."""
        if not self.computes:
            raise too_long() from None
        self.computes = False
        self._with_constants = {}
        self.generate()

    def with_constants(self, parameters: Sequence[object]) -> Self:
        """See `ColumnarPath` of rows_plan.py."""
        values = {
            number: (oid, value)
            for number, (oid, value) in enumerate(zip(self.analyzed.parameter_types, parameters, strict=False), 1)
            if oid in _KINDS and not (isinstance(value, str | Decimal) and len(str(value)) > LONGEST)
        }
        if not values:
            return self
        key = repr(values)  # 1.0 and 1.00 are equal, but not identical
        found = self._with_constants.get(key)
        if found is None:
            found = self._substitute(values)
            if len(self._with_constants) >= KEPT:
                self._with_constants.pop(next(iter(self._with_constants)))
            self._with_constants[key] = found
        return found

    def _substitute(self, values: dict[int, tuple[int, object]]) -> Self:
        def change(node: object, depth: int) -> object:
            if isinstance(node, tree.Param) and node.number in values:
                oid, value = values[node.number]
                if oid == node.type.oid:
                    return tree.Const(value, node.type, node.location)
            return node

        begin_folding()
        statement = transform(self.analyzed.statement, change)
        try:
            return type(self)(replace(self.analyzed, statement=statement), self.settings, self.computes)
        except SqlError:
            return self  # as parameters they may succeed, or fail at their turn


async def take_profile(session: Session, portal: Portal, query: ColumnarQuery, values: Sequence[object]) -> None:
    """Passes DuckDB's profile to EXPLAIN, if the portal runs for it."""
    if portal.profile is not None:
        content, memory = session.views.content(), session.query_memory
        await portal.profile.take(session.node.columnar, query, values, session.transaction, content, memory)


def describe_plan(query: ColumnarQuery, head: str, verbose: bool) -> list[str]:
    """The lines of EXPLAIN."""
    found = [head]
    names = [table.name for table in query.tables] + [table.name for table in query.virtual_tables]
    if names:
        found.append(f"  Tables: {', '.join(names)}")
    if verbose:
        found.append(f"  SQL: {query.sql}")
    return found


def parameter_values(query: ColumnarQuery, parameters: Sequence[object], context: ExecContext) -> list[object]:
    """The values of `query.parameters`, in order. Raises TooLong if the worker must compute them."""
    if query.computed:
        computed = _compute(query, parameters, context)
    values: list[object] = []
    texts = dict(query.texts)
    for source, _ in query.parameters:
        if source >= 1:
            value = parameters[source - 1]
            if value is not None and source in texts:
                value = lookup(texts[source]).text_encoder()(value).decode()
            values.append(value)
        elif source == STATEMENT_TIME:
            values.append(context.call.statement_time)
        elif source == TRANSACTION_TIME:
            values.append(context.call.transaction_time)
        else:
            values.append(computed[FIRST_COMPUTED - source])
    return values


def _compute(query: ColumnarQuery, parameters: Sequence[object], context: ExecContext) -> list[object]:
    """The values that the engine computes for the query, if they are not large. Raises TooLong."""
    if any(isinstance(value, str | bytes) and len(value) > HEAVY for value in parameters):
        raise TooLong
    begin_folding()
    with small_values(context):
        return [
            fold(compile_expression(expression, context.format), (context, parameters)) for expression in query.computed
        ]
