"""From an analysed statement to a plan of the row path, or to None where the columnar path is to run it.

A plan is made once and cached by the session with the statement; its two functions, one for rows in internal form and
one per combination of result formats for DataRow bytes, are compiled when they are first asked for.
"""

from __future__ import annotations

from catalog.schema import Catalog
from catalog.types.base import FormatSettings
from engine.execute.code import Code, NotOnRowPath
from engine.execute.context import RowPlan
from engine.execute.encode import DataRowSink
from engine.execute.frame import CompiledPlan, Run, result_fields, write_function
from engine.execute.modify import ModifyPlan
from engine.execute.output import ListSink, Sink
from engine.execute.pull_up import pull_up
from engine.execute.select import QueryCompiler
from engine.sql import tree

__all__ = ["NotOnRowPath", "plan_row"]


def plan_row(analyzed: tree.Analyzed, catalog: Catalog, settings: FormatSettings) -> RowPlan | None:
    """The row plan of a statement; None if it is not one for the row path.

    The plan is good for this catalog version and these settings.
    """
    try:
        if isinstance(analyzed.statement, tree.Query):
            return SelectPlan(analyzed, catalog, settings)
        if isinstance(analyzed.statement, tree.Merge):
            return None
        return ModifyPlan(analyzed, catalog, settings)
    except NotOnRowPath:
        return None


class SelectPlan(CompiledPlan):
    """A SELECT compiled. With FOR UPDATE and its kin `writes` is true: it needs a transaction, to hold the locks."""

    command = "SELECT"

    def __init__(self, analyzed: tree.Analyzed, catalog: Catalog, settings: FormatSettings) -> None:
        assert isinstance(analyzed.statement, tree.Query)
        self._query = analyzed.statement
        self._catalog = catalog
        self._settings = settings
        fields = result_fields(self._query.targets, (self._query,))
        super().__init__(fields, analyzed)
        self.writes = bool(self._query.row_marks)
        self.encoded((0,) * len(self.fields))  # shows whether it can be compiled; text is what is asked for most

    def _compile(self, formats: tuple[int, ...] | None) -> Run:
        code = Code(self.literals)
        compiler = QueryCompiler(code, self._catalog, self._settings, pull_up(self._query), None)
        sink: Sink
        if formats is None:
            sink = ListSink(code)
        else:
            outputs = [target.expression for target in self._query.output]
            sink = DataRowSink(code, outputs, (self._query,), formats, self._settings, compiler.at_most_one_row)
        write_function(code, len(self.parameter_types), "context.reader", lambda: compiler.write(sink))
        self._notes = compiler.notes
        return code.finish("run")
