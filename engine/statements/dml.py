"""A change of rows on the columnar path: a query of columns computes the rows and their new values (data_change.py)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from engine.columnar.generate import ColumnarDml, generate_dml
from engine.sql import tree
from engine.statements.columnar_path import QueryPath, describe_plan, parameter_values, take_profile
from engine.statements.data_change import Call, Done
from engine.statements.insert import Insertion
from engine.statements.merge import Merging
from engine.statements.update import RowChange

if TYPE_CHECKING:
    from engine.session.portal import Portal
    from engine.session.session import Session


class ColumnarChange(QueryPath):
    """INSERT, UPDATE, DELETE or MERGE."""

    dml: ColumnarDml

    def generate(self) -> None:
        root = self.analyzed.statement
        assert not isinstance(root, tree.Query)
        self.dml = generate_dml(root, self.analyzed.parameter_types, self.settings, self.computes)

    async def begin(self, session: Session, portal: Portal, held: Mapping[Hashable, int]) -> None:
        """Runs the statement, which has its table locks. Raises errors of constraints, 40001, 40P01, 55P03, 57014."""
        statement = self.analyzed.statement
        assert not isinstance(statement, tree.Query) and session.transaction is not None
        columns = portal.prepared.plan.columns
        if portal.profile is not None:
            session.transaction.begin_statement()
            values = parameter_values(self.dml.query, portal.parameters, session.context())
            await take_profile(session, portal, self.dml.query, values)
        held_before = held.get(statement.table.oid, 0)
        done = await run(
            Call(session, session.transaction, self, columns, portal.parameters, portal.formats, held_before)
        )
        portal.count = done.count
        if done.returned is not None:
            portal.stream = done.returned
            portal.chunks = done.returned.__aiter__()

    def explain(self, command: str, verbose: bool) -> list[str]:
        """See `ColumnarPath` of rows_plan.py."""
        return describe_plan(self.dml.query, f"{command.title()} through Columnar Query", verbose)


async def run(call: Call) -> Done:
    """Runs a statement that may be part of another one; such a part raises LockWait and Again."""
    statement = call.change.analyzed.statement
    if isinstance(statement, tree.Insert):
        return await Insertion(call, statement).run()
    if isinstance(statement, tree.Merge):
        return await Merging(call, statement).run()
    assert isinstance(statement, tree.Update | tree.Delete)
    return await RowChange(call, statement).run()
