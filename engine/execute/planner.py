"""From an analysed statement to a plan of the row path, or to None where the columnar path is to run it.

A plan is made once and cached by the session with the statement; its two functions, one for rows in internal form and
one per combination of result formats for DataRow bytes, are compiled when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from catalog.errors import SqlError
from catalog.schema import Catalog
from catalog.types.base import FormatSettings
from engine.execute.code import Code, NotOnRowPath
from engine.execute.context import ExecContext, Field, RowPlan
from engine.execute.encode import DataRowSink
from engine.execute.explain import PlanNote, explain_lines
from engine.execute.output import ListSink, Sink
from engine.execute.select import QueryCompiler
from engine.sql import tree

Run = Callable[[ExecContext, Sequence[object]], tuple[Any, int]]

__all__ = ["NotOnRowPath", "plan_row"]


def plan_row(analyzed: tree.Analyzed, catalog: Catalog, settings: FormatSettings) -> RowPlan | None:
    """The row plan of a statement; None if it is not one for the row path.

    The plan is good for this catalog version and these settings.
    """
    try:
        if isinstance(analyzed.statement, tree.Query):
            return SelectPlan(analyzed, catalog, settings)
        from engine.execute.modify import plan_modification

        return plan_modification(analyzed, catalog, settings)
    except NotOnRowPath:
        return None


def result_fields(targets: Sequence[tree.Target]) -> tuple[Field, ...]:
    """RowDescription's columns."""
    return tuple(
        Field(target.name, target.expression.type, target.origin_table, target.origin_column)
        for target in targets
        if not target.junk
    )


class SelectPlan:
    """A SELECT compiled. With FOR UPDATE and its kin `writes` is true: it needs a transaction, to hold the locks."""

    command = "SELECT"

    def __init__(self, analyzed: tree.Analyzed, catalog: Catalog, settings: FormatSettings) -> None:
        assert isinstance(analyzed.statement, tree.Query)
        self._query = analyzed.statement
        self._catalog = catalog
        self._settings = settings
        self._encoded: dict[tuple[int, ...], Callable[[ExecContext, Sequence[object]], tuple[bytes, int]]] = {}
        self._notes: list[PlanNote] = []
        self.fields = result_fields(self._query.targets)
        self.parameter_types = analyzed.parameter_types
        self.relations = analyzed.relations
        self.writes = bool(self._query.row_marks)
        self.rows = self._compile(None)

    def _compile(self, formats: tuple[int, ...] | None) -> Run:
        code = Code()
        compiler = QueryCompiler(code, self._catalog, self._settings, self._query, None)
        sink: Sink
        if formats is None:
            sink = ListSink(code)
        else:
            types = [field.type for field in self.fields]
            sink = DataRowSink(code, types, formats, self._settings, compiler.at_most_one_row)
        write_function(code, len(self.parameter_types), "context.reader", lambda: compiler.write(sink))
        self._notes = compiler.notes
        return code.finish("run")

    def encoded(self, formats: tuple[int, ...]) -> Callable[[ExecContext, Sequence[object]], tuple[bytes, int]]:
        """See RowPlan. Raises 08P01 where the number of formats is not that of the columns."""
        found = self._encoded.get(formats)
        if found is None:
            if len(formats) != len(self.fields):
                raise SqlError(
                    "08P01", f"bind message has {len(formats)} result formats but query has {len(self.fields)} columns"
                )
            found = cast("Callable[[ExecContext, Sequence[object]], tuple[bytes, int]]", self._compile(formats))
            self._encoded[formats] = found
        return found

    def explain(self) -> list[str]:
        """The plan as EXPLAIN (COSTS OFF) prints it."""
        return explain_lines(self._notes)


def write_function(code: Code, parameters: int, reader: str, body: Callable[[], None]) -> None:
    """Writes `run(context, parameters)`: the locals that everything relies on, then the body.

    Only what the body uses is set up, so the body is written first and the head put before it.
    """
    start = code.position
    code.indent("def run(context, parameters):")
    head = code.position
    body()
    code.dedent_to(0)
    text = code.text_from(start)
    lines = []
    if parameters == 1:
        lines.append("p1, = parameters")
    elif parameters:
        lines.append(f"{', '.join(f'p{number}' for number in range(1, parameters + 1))} = parameters")
    uses_get, uses_scan = "get(" in text, "scan(" in text
    if uses_get and not uses_scan:
        lines.append(f"get = {reader}.get")
    elif uses_scan:
        lines.append(f"reader = {reader}")
        lines.append("get, scan = reader.get, reader.scan")
    if "n += 1" in text or "nonlocal n" in text:
        lines.append("n = 0")
    code.insert(head, lines + code.prologue)
