"""A query on the columnar path: DuckDB SQL, and the stream of its rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from catalog.patience import TooLong
from catalog.types import lookup, oids
from catalog.types.named_objects import holds_names
from engine.columnar.generate import generate
from engine.columnar.interface import ColumnarQuery, RowEncoding
from engine.execute.context import ExecContext
from engine.sql import tree
from engine.statements.columnar_path import QueryPath, describe_plan, parameter_values, take_profile
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.portal import Portal
    from engine.session.session import Session


class ColumnarRead(QueryPath):
    """A query on the columnar path. `query` is for results in text."""

    query: ColumnarQuery
    _in_binary: dict[tuple[int, ...], ColumnarQuery]  # by formats

    def generate(self) -> None:
        root = self.analyzed.statement
        assert isinstance(root, tree.Query)
        self.query = generate(root, self.analyzed.parameter_types, self.settings, (), self.computes)
        self._in_binary = {}

    def in_formats(self, formats: tuple[int, ...]) -> ColumnarQuery:
        """The query for results in these formats: records and names of objects in binary need a separate one."""
        found = self._in_binary.get(formats)
        if found is not None:
            return found
        found = self.query
        binary = {n for n, column in enumerate(found.columns) if formats[n] and _has_text_of_its_own(column.type.oid)}
        if binary:
            root = self.analyzed.statement
            assert isinstance(root, tree.Query)
            found = generate(root, self.analyzed.parameter_types, self.settings, binary, self.computes)
        self._in_binary[formats] = found
        return found

    def in_internal_form(self) -> tuple[int, ...]:
        """The formats of results that another part reads: names of objects as their OIDs."""
        return tuple([int(column.type.oid != oids.RECORD) for column in self.query.columns])

    def call(
        self, parameters: Sequence[object], context: ExecContext, formats: tuple[int, ...] | None = None
    ) -> tuple[ColumnarQuery, list[object]]:
        """The query (`formats`: for results in these), and the values of its parameters."""
        while True:
            query = self.query if formats is None else self.in_formats(formats)
            try:
                return query, parameter_values(query, parameters, context)
            except TooLong:
                self.compute_in_worker()

    async def begin(self, session: Session, portal: Portal, held: Mapping[Hashable, int]) -> None:
        """See `ColumnarPath` of rows_plan.py."""
        transaction = session.transaction
        assert transaction is not None
        transaction.begin_statement()
        query = self.in_formats(portal.formats)
        values = await _values(session, query, portal.parameters)
        await take_profile(session, portal, query, values)
        encoding = RowEncoding("datarow", portal.formats, session.key.format)
        stream = await session.node.columnar.rows(
            query, values, transaction, encoding, session.views.content(), memory=session.query_memory
        )
        portal.stream = stream
        portal.chunks = stream.__aiter__()

    def explain(self, command: str, verbose: bool) -> list[str]:
        """See `ColumnarPath` of rows_plan.py."""
        return describe_plan(self.query, "Columnar Query", verbose)


def _has_text_of_its_own(oid: int) -> bool:
    """Whether columns of the type come as text from the worker by default."""
    return oid == oids.RECORD or holds_names(lookup(oid))


async def _values(session: Session, query: ColumnarQuery, parameters: Sequence[object]) -> list[object]:
    """The values of the query; functions among them may have to wait (engine/session/other_waits.py)."""
    while True:
        try:
            return parameter_values(query, parameters, session.context())
        except LockWait as wait:
            await session.wait_for(wait)
