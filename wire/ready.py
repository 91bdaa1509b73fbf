"""Messages that are made once for a plan, and used for every execution: those that do not depend on parameters."""

from __future__ import annotations

from catalog.errors import SqlError
from engine.session.answer import tag
from engine.session.parameters import ParameterDecoder
from engine.session.plan import ResultColumns, RunRow
from engine.session.prepared import Prepared
from wire import core, messages
from wire.messages import command_complete

_TAGS: dict[tuple[str, int], bytes] = {}


def complete_bytes(command: str, count: int) -> bytes:
    """CommandComplete, cached for the small counts of nearly all statements. -1: the tag has no count."""
    known = _TAGS.get((command, count))
    if known is None:
        if count > 256:
            return command_complete(tag(command, count))
        known = _TAGS[(command, count)] = command_complete(command if count < 0 else tag(command, count))
    return known


class ReadyExecution:
    """An execution of a plan, with everything that does not depend on the parameters. `run` is None if it is not on the
    row path."""

    __slots__ = ("command", "decoders", "formats", "head", "one", "prepared", "run")

    def __init__(
        self,
        prepared: Prepared,
        decoders: tuple[ParameterDecoder, ...],
        run: RunRow | None,
        head: bytes,
        formats: tuple[int, ...],
    ) -> None:
        self.prepared = prepared
        self.formats = formats
        self.decoders = decoders
        self.run = run
        self.head = head
        self.command = prepared.plan.command
        self.one = complete_bytes(self.command, 1)


def ready_execution(execution: core.Execution, prepared: Prepared) -> ReadyExecution | None:
    """The parts of an execution that are made once; None if Bind must raise an error, and if a limit applies."""
    columns = prepared.plan.columns
    if execution.count != len(prepared.parameters.types) or (execution.limited and columns is not None):
        return None
    try:
        formats = prepared.formats(execution.result_formats)
        decoders = prepared.parameters.decoders(execution.parameter_formats)
    except SqlError:
        return None
    head = messages.BIND_COMPLETE
    if execution.described:
        head += messages.NO_DATA if columns is None else description(columns, formats)
    run = prepared.plan.row_run(formats)
    ready = execution.memo = ReadyExecution(prepared, decoders, run, head, formats)
    return ready


def description(columns: ResultColumns, formats: tuple[int, ...]) -> bytes:
    """RowDescription in these formats."""
    known = columns.descriptions.get(formats)
    if known is None:
        known = columns.descriptions[formats] = messages.row_description(columns.fields, formats)
    return known
