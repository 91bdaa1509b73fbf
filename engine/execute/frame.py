"""Parts that all compiled plans share: their fields, the function around the generated body, one encoder per
formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

from catalog.errors import SqlError
from catalog.types.oids import RECORDS
from engine.execute.code import Code, LineUse
from engine.execute.context import ExecContext, Field, Together, begin_meter
from engine.execute.explain import PlanNote, explain_lines
from engine.execute.records import Levels, known_type
from engine.sql import tree

Run = Callable[[ExecContext, Sequence[object]], tuple[Any, int]]
Encoded = Callable[[ExecContext, Sequence[object]], tuple[bytes, int]]


class CompiledPlan:
    """A RowPlan (engine/execute/context.py). Subclasses write the function in `_compile`."""

    repeats = False
    finds_rows = False
    values = 1

    def __init__(self, fields: tuple[Field, ...], analyzed: tree.Analyzed) -> None:
        self.fields = fields
        self.parameter_types = analyzed.parameter_types
        self.relations = analyzed.relations
        self.literals = analyzed.literals
        self._encoded: dict[tuple[int, ...], Encoded] = {}
        self._rows: Run | None = None
        self._notes: list[PlanNote] = []

    @cached_property
    def together(self) -> Together | None:
        """See RowPlan."""
        return None

    def _compile(self, formats: tuple[int, ...] | None) -> Run:
        """The function that returns rows (None) or DataRow bytes in these formats."""
        raise NotImplementedError

    def rows(self, context: ExecContext, parameters: Sequence[object]) -> tuple[list[tuple[object, ...]], int]:
        """See RowPlan."""
        if self._rows is None:
            self._rows = self._compile(None)
        return self._rows(context, parameters)

    def make_encoder(self, formats: tuple[int, ...]) -> Encoded:
        """See RowPlan. Raises 08P01 if the number of formats differs from that of the columns."""
        found = self._encoded.get(formats)
        if found is None:
            if len(formats) != len(self.fields):
                raise SqlError(
                    "08P01", f"bind message has {len(formats)} result formats but query has {len(self.fields)} columns"
                )
            found = cast(Encoded, self._compile(formats))
            self._encoded[formats] = found
        return found

    def explain(self) -> list[str]:
        """The plan as EXPLAIN (COSTS OFF) prints it."""
        return explain_lines(self._notes)


def result_fields(targets: Sequence[tree.Target], levels: Levels) -> tuple[Field, ...]:
    """RowDescription's columns. Raises NotOnRowPath for one that could not be encoded."""
    sent = [target for target in targets if not target.junk]
    for target in sent:
        if target.expression.type.oid in RECORDS:
            known_type(target.expression, levels)
    return tuple(
        Field(target.name, target.expression.type, target.origin_table, target.origin_column) for target in sent
    )


def minds_memory(code: Code, start: int = 0, large_calls: int = 0) -> bool:
    """Whether the lines from `start` on, before which there were `large_calls`, use the memory account."""
    return code.large_calls > large_calls or bool(code.uses_from(start) & (LineUse.METER | LineUse.KEPT))


def _leave_meter_out(code: Code, start: int, small: bool) -> None:
    """Removes memory accounting from a plan that runs once, if its parameters are `small` and only rows that it reads
    whole may be large, which are checked when they are read."""
    if small and not code.uses_from(start) & LineUse.METER:
        code.leave_out(start, LineUse.KEPT)
        code.small = True
    for name, made in code.when_written:
        code.names[name] = made(not code.small)
    code.when_written.clear()


def write_function(
    code: Code, parameters: int, reader: str, body: Callable[[], None], may_leave: bool = False, small: bool = False
) -> None:
    """Writes `run(context, parameters)`: the common locals, then the body. `may_leave`: `metered`; `small`: no
    parameter can be large.

    The function sets up only what the body uses, so the body is written first and the head inserted before it.
    """
    start, large_calls = code.position, code.large_calls
    code.indent("def run(context, parameters):")
    head = code.position
    body()
    code.dedent_to(0)
    if code.when_written:
        _leave_meter_out(code, start, small and code.large_calls == large_calls)
    lines = []
    if parameters == 1:
        lines.append("p1, = parameters")
    elif parameters:
        lines.append(f"{', '.join(f'p{number}' for number in range(1, parameters + 1))} = parameters")
    uses = code.uses_from(start)
    uses_get, uses_scan = bool(uses & LineUse.GET), bool(uses & LineUse.SCAN)
    if uses_get and not uses_scan:
        lines.append(f"get = {reader}.get")
    elif uses_scan and not uses_get:
        lines.append(f"scan = {reader}.scan")
    elif uses_scan:
        lines.append(f"reader = {reader}")
        lines.append("get, scan = reader.get, reader.scan")
    if uses & LineUse.COUNT:
        lines.append("n = 0")
    if minds_memory(code, start, large_calls) or code.lasts:
        lines.append(f"memory = metered(context, parameters, {may_leave}, {code.calls})")
        code.names["metered"] = begin_meter
        if code.has_large:
            lines.append("memory.seen = True")
    code.insert(head, lines + code.prologue)
