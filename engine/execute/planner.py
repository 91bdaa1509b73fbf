"""From an analysed statement to a plan of the row path, or to None for the columnar path.

A plan is made once and cached by the session with the statement. Its functions, one for rows in internal form and one
per combination of result formats for DataRow bytes, are compiled at their first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any, cast

from catalog.catalog import Catalog
from catalog.types.base import FormatSettings
from catalog.types.oids import SMALL
from engine.execute.code import Code, NotOnRowPath
from engine.execute.context import ExecContext, RowPathFull, RowPlan
from engine.execute.encode import DataRowSink, FramedSink, row_framer
from engine.execute.explain import explain_lines
from engine.execute.frame import CompiledPlan, Run, result_fields, write_function
from engine.execute.modify import ModifyPlan
from engine.execute.output import ListSink, Sink
from engine.execute.pull_up import pull_up
from engine.execute.routine_source import calls_routines
from engine.execute.select import QueryCompiler
from engine.execute.small import NotSmall, small_query
from engine.execute.variants import NONE, Variant, by_parameters
from engine.execute.whole_rows import LargeRows
from engine.sql import tree
from engine.sql.parts import reads_a_stage

__all__ = ["NotOnRowPath", "plan_row"]

# Types of parameters whose values never count as memory.


def plan_row(
    analyzed: tree.Analyzed, catalog: Catalog, settings: FormatSettings, brief: bool = False
) -> RowPlan | None:
    """The row path plan of a statement; None for the columnar path.

    The plan is valid for this catalog version and these settings. `brief`: it will run once, see Code.
    """
    try:
        if isinstance(analyzed.statement, tree.Query):
            return SelectPlan(analyzed, catalog, settings, brief)
        if isinstance(analyzed.statement, tree.Merge):
            return None
        return ModifyPlan(analyzed, catalog, settings)
    except NotOnRowPath:
        return None


class _Framed:
    """The function of a brief plan. It is the same in all formats except for the global `frame`, which makes DataRows
    of rows of these types."""

    run: Run

    def __init__(self, oids: tuple[int, ...], frame: str) -> None:
        self.oids = oids
        self.frame = frame

    def in_formats(self, formats: tuple[int, ...], settings: FormatSettings) -> Run:
        function = cast(FunctionType, self.run)
        names = {**function.__globals__, self.frame: row_framer(self.oids, formats, settings)}
        return FunctionType(function.__code__, names)


class SelectPlan(CompiledPlan):
    """A compiled SELECT. With FOR UPDATE and similar `writes` is true: it needs a transaction, to hold the locks."""

    command = "SELECT"

    def __init__(
        self, analyzed: tree.Analyzed, catalog: Catalog, settings: FormatSettings, brief: bool, written: bool = False
    ) -> None:
        """`written`: generates code even if the interpreter could run it (engine/execute/small.py)."""
        assert isinstance(analyzed.statement, tree.Query)
        self._stays = calls_routines(catalog, analyzed.statement) or reads_a_stage(analyzed.statement)
        self.writes = self.finds_rows = bool(analyzed.locked)
        brief = brief and not self._stays
        self._brief = brief
        self._framed: _Framed | None = None
        self._query = analyzed.statement
        self._analyzed = analyzed
        self._catalog = catalog
        self._settings = settings
        fields = result_fields(self._query.targets, (self._query,))
        super().__init__(fields, analyzed)
        self._pulled_up = pull_up(self._query)
        may_be_small = brief and not written
        self._small = (
            small_query(self._pulled_up, catalog, self.parameter_types, self.literals) if may_be_small else None
        )
        self.make_encoder((0,) * len(self.fields))  # tests whether it can be compiled; text is most frequent

    def _compile(self, formats: tuple[int, ...] | None) -> Run:
        if not self._brief:
            return by_parameters(lambda without: self._variant(formats, without))
        if self._small is not None and (small := self._in_small(formats)) is not None:
            return self._at_first(small, formats)
        if self._framed is not None and formats is not None:
            run = self._framed.in_formats(formats, self._settings)
        else:
            run = by_parameters(lambda without: self._variant(formats, without))
            if self._framed is not None and formats is not None:
                self._framed.run = run
        return self._at_first(run, formats)

    def _variant(self, formats: tuple[int, ...] | None, without: frozenset[int]) -> Variant:
        code, _ = self._make_code(formats, without)
        if code.provided or without:
            self._framed = None
        return code.finish("run"), code.provided

    def _in_small(self, formats: tuple[int, ...] | None) -> Run | None:
        """See engine/execute/small.py; None if sending the rows needs generated code."""
        assert self._small is not None
        rows_of = self._small.run
        if formats is None:

            def give(context: ExecContext, parameters: Sequence[object]) -> tuple[Any, int]:
                rows = rows_of(context, parameters)
                return rows, len(rows)

            return give
        frame = row_framer(tuple([field.type.oid for field in self.fields]), formats, self._settings)
        if frame is None:
            return None

        def send(context: ExecContext, parameters: Sequence[object]) -> tuple[Any, int]:
            rows = rows_of(context, parameters)
            return b"".join(map(frame, rows)), len(rows)

        return send

    def _at_first(self, run: Run, formats: tuple[int, ...] | None) -> Run:
        """`run` for the first time. If it runs again, or visits large rows, a permanent plan replaces it."""
        analyzed, catalog, settings = self._analyzed, self._catalog, self._settings
        ran, lasting, brief = False, None, False

        def either(context: ExecContext, parameters: Sequence[object]) -> tuple[Any, int]:
            nonlocal ran, lasting, brief
            if not ran:
                ran = True
                try:
                    return run(context, parameters)
                except LargeRows:
                    pass
                except NotSmall:
                    brief = True
            if lasting is None:
                try:
                    plan = SelectPlan(analyzed, catalog, settings, brief, written=True)
                except NotOnRowPath:  # its source is longer
                    raise RowPathFull from None
                lasting = plan.rows if formats is None else plan.make_encoder(formats)
            return lasting(context, parameters)

        return either

    def explain(self) -> list[str]:
        """See RowPlan. Made at its first use, because most plans are never explained."""
        code, compiler = self._make_code(None)
        lines = explain_lines(compiler.notes)
        code.let_go()
        return lines

    def _make_code(self, formats: tuple[int, ...] | None, without: frozenset[int] = NONE) -> tuple[Code, QueryCompiler]:
        code = Code(self.literals, self._brief, self._stays)
        code.without = without
        code.exact = not (self.writes or self._stays)
        code.in_plan = True
        try:
            return code, self._write(code, formats)
        except BaseException:
            code.let_go()
            raise

    def _write(self, code: Code, formats: tuple[int, ...] | None) -> QueryCompiler:
        compiler = QueryCompiler(code, self._catalog, self._settings, self._pulled_up, None)
        sink: Sink
        if formats is None:
            sink = ListSink(code)
        else:
            sink = self._data_rows(code, formats, compiler.at_most_one_row)
        small = SMALL.issuperset(self.parameter_types)
        write_function(
            code,
            len(self.parameter_types),
            "context.reader",
            lambda: compiler.write(sink),
            not self.writes,
            small,
        )
        return compiler

    def _data_rows(self, code: Code, formats: tuple[int, ...], single: bool) -> Sink:
        outputs = [target.expression for target in self._query.output]
        if self._brief:
            oids = tuple(output.type.oid for output in outputs)
            frame = row_framer(oids, formats, self._settings)
            if frame is not None:
                sink = FramedSink(code, frame, single)
                self._framed = _Framed(oids, sink.frame)
                return sink
        return DataRowSink(code, outputs, (self._query,), formats, self._settings, single)
