"""What is made once for a plan, and used for every execution of it: the messages that do not depend on parameters."""

from __future__ import annotations

from catalog.errors import SqlError
from engine.session.answer import tag
from engine.session.prepared import ParameterDecoder, Prepared, RunRow
from wire import core, messages
from wire.messages import command_complete

_TAGS: dict[tuple[str, int], bytes] = {}


def complete_bytes(command: str, count: int) -> bytes:
    """CommandComplete, remembered for the small counts that nearly all statements have."""
    if count > 256:
        return command_complete(tag(command, count))
    known = _TAGS.get((command, count))
    if known is None:
        known = _TAGS[(command, count)] = command_complete(tag(command, count))
    return known


def control_bytes(name: str) -> bytes:
    """The same of BEGIN, COMMIT and their kin."""
    known = _TAGS.get((name, -1))
    if known is None:
        known = _TAGS[(name, -1)] = command_complete(name)
    return known


class ReadyExecution:
    """An execution of a plan, with all that does not depend on the parameters. `run` is None for BEGIN and its kin, and
    for what reads the past."""

    __slots__ = ("decoders", "formats", "head", "one", "prepared", "run")

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
        self.one = complete_bytes(prepared.command, 1)


def ready_execution(execution: core.Execution, prepared: Prepared) -> ReadyExecution | None:
    """What is made once for a plan that is executed in this way; None where Bind has something to complain of, and
    where a limit counts."""
    if execution.count != len(prepared.parameter_types) or (execution.limited and prepared.fields is not None):
        return None
    try:
        formats = prepared.formats(execution.result_formats)
        decoders = prepared.decoders(execution.parameter_formats)
    except SqlError:
        return None
    head = messages.BIND_COMPLETE
    if execution.described:
        head += messages.NO_DATA if prepared.fields is None else description(prepared, formats)
    run = prepared.run_row(formats) if prepared.kind == "row" else None
    ready = execution.memo = ReadyExecution(prepared, decoders, run, head, formats)
    return ready


def description(prepared: Prepared, formats: tuple[int, ...]) -> bytes:
    """RowDescription of a plan that returns rows, in these formats."""
    known = prepared.wire_cache.get(formats)
    if known is None:
        assert prepared.fields is not None
        known = prepared.wire_cache[formats] = messages.row_description(prepared.fields, formats)
    return known
