"""From an analysed statement to a plan of the row path, or to None where the columnar path is to run it.

A plan is made once and cached by the session with the statement; its two functions, one for rows in internal form and
one per combination of result formats for DataRow bytes, are compiled when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalog.schema import Catalog
from catalog.types.base import FormatSettings
from engine.execute.code import Code, NotOnRowPath
from engine.execute.context import ExecContext, RowPlan
from engine.execute.encode import DataRowSink, FramedSink, row_framer
from engine.execute.explain import explain_lines
from engine.execute.frame import CompiledPlan, Run, result_fields, write_function
from engine.execute.modify import ModifyPlan
from engine.execute.output import ListSink, Sink
from engine.execute.pull_up import pull_up
from engine.execute.select import QueryCompiler
from engine.execute.whole_rows import LargeRows
from engine.sql import tree

__all__ = ["NotOnRowPath", "plan_row"]

# Types of parameters that the meter has no eye for, whatever their values are.
_SMALL = frozenset((16, 20, 21, 23, 26, 700, 701, 1082, 1083, 1114, 1184, 1700))


def plan_row(
    analyzed: tree.Analyzed, catalog: Catalog, settings: FormatSettings, brief: bool = False
) -> RowPlan | None:
    """The row plan of a statement; None if it is not one for the row path.

    The plan is good for this catalog version and these settings. `brief`: it will run once, see Code.
    """
    try:
        if isinstance(analyzed.statement, tree.Query):
            return SelectPlan(analyzed, catalog, settings, brief)
        if isinstance(analyzed.statement, tree.Merge):
            return None
        return ModifyPlan(analyzed, catalog, settings)
    except NotOnRowPath:
        return None


class SelectPlan(CompiledPlan):
    """A SELECT compiled. With FOR UPDATE and its kin `writes` is true: it needs a transaction, to hold the locks."""

    command = "SELECT"

    def __init__(self, analyzed: tree.Analyzed, catalog: Catalog, settings: FormatSettings, brief: bool) -> None:
        assert isinstance(analyzed.statement, tree.Query)
        self._brief = brief
        self._query = analyzed.statement
        self._analyzed = analyzed
        self._catalog = catalog
        self._settings = settings
        fields = result_fields(self._query.targets, (self._query,))
        super().__init__(fields, analyzed)
        self.writes = bool(self._query.row_marks)
        self.encoded((0,) * len(self.fields))  # shows whether it can be compiled; text is what is asked for most

    def _compile(self, formats: tuple[int, ...] | None) -> Run:
        code, _ = self._written(formats)
        run: Run = code.finish("run")
        return self._or_minding(run, formats) if code.small else run

    def _or_minding(self, run: Run, formats: tuple[int, ...] | None) -> Run:
        """`run`; where that meets large rows, what a plan that minds them does."""
        analyzed, catalog, settings = self._analyzed, self._catalog, self._settings

        def either(context: ExecContext, parameters: Sequence[object]) -> tuple[Any, int]:
            try:
                return run(context, parameters)
            except LargeRows:
                plan = SelectPlan(analyzed, catalog, settings, brief=False)
                return (plan.rows if formats is None else plan.encoded(formats))(context, parameters)

        return either

    def explain(self) -> list[str]:
        """See RowPlan. Nobody asks for it of most plans, so it is made when it is asked for."""
        return explain_lines(self._written(None)[1].notes)

    def _written(self, formats: tuple[int, ...] | None) -> tuple[Code, QueryCompiler]:
        code = Code(self.literals, self._brief)
        compiler = QueryCompiler(code, self._catalog, self._settings, pull_up(self._query), None)
        sink: Sink
        if formats is None:
            sink = ListSink(code)
        else:
            sink = self._data_rows(code, formats, compiler.at_most_one_row)
        small = _SMALL.issuperset(self.parameter_types)
        write_function(
            code,
            len(self.parameter_types),
            "context.reader",
            lambda: compiler.write(sink),
            not self._query.row_marks,
            small,
        )
        return code, compiler

    def _data_rows(self, code: Code, formats: tuple[int, ...], single: bool) -> Sink:
        outputs = [target.expression for target in self._query.output]
        if self._brief:
            frame = row_framer(tuple(output.type.oid for output in outputs), formats, self._settings)
            if frame is not None:
                return FramedSink(code, frame, single)
        return DataRowSink(code, outputs, (self._query,), formats, self._settings, single)
