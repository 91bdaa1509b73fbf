"""Batches: one statement bound and executed many times before a Sync, as JDBC's executeBatch sends it.

Processed one message at a time, each execution would be three events, a portal and a statement's bookkeeping. Here
their parameters are read together, and the answers are the same as one by one. INSERT ... VALUES runs as one statement
of all the rows (`RowPlan.together`). Other statements, and rows if one of them fails in this way or has to wait, run in
one loop. An INSERT of many rows is a batch by itself.

An execution that fails ends the batch: it gets its error, and the following ones are skipped up to the Sync as usual.
From an execution that waits for a lock on, the messages are processed one by one. If a parameter cannot be read, all
messages are processed one by one, up to the one with the error. A plan runs as a batch only if that makes no difference
(`RowPlan.repeats`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.types.many import FEW, Reader, Values, reader_of
from engine.session.parameters import ParameterDecoder
from engine.session.prepared import Prepared
from engine.txn.interface import SERIALIZABLE
from wire import core, messages
from wire.ready import complete_bytes

if TYPE_CHECKING:
    from engine.session.session import Session

BATCH = 256  # rows at a time: some milliseconds, then others get their turn


def run_batch(session: Session, machine: core.ProtocolCore, bind: core.Bind) -> BatchResult | None:
    """Runs the batch that a Bind begins, up to the first execution that fails or has to wait. None: it is not a batch,
    nothing has happened."""
    prepared = session.ready_plan(bind.statement)
    if prepared is None or (row := prepared.plan.row) is None or not row.repeats:
        return None
    if len(bind.parameters) != len(prepared.parameters.types) or session.status == "E":
        return None  # refused at Bind
    transaction = session.transaction
    if (session.default_isolation if transaction is None else transaction.isolation) == SERIALIZABLE:
        return None  # rows that each statement has read count there, also if undone
    values = row.values
    batch = machine.batch(bind, max(BATCH // values, 1), 1 if values >= FEW else 2)
    if batch is None:
        return None
    together = row.together
    if together is None and len(batch.ends) == 1:
        return None
    try:
        run = prepared.plan.row_run(prepared.formats(bind.result_formats))
        assert run is not None
        rows = _read(prepared, bind, batch, len(bind.parameters) if together is None else together.parameters)
    except SqlError:
        return None
    head = messages.BIND_COMPLETE + messages.NO_DATA if batch.described else messages.BIND_COMPLETE
    if together is not None and session.rows.together(prepared, rows):
        answer = head + complete_bytes(prepared.plan.command, together.rows)
        return BatchResult(batch, len(batch.ends), len(rows), answer * len(batch.ends), None)
    if together is not None:
        rows = together.executions(rows)
    counts, failed = session.rows.each(prepared, run, rows)
    if not counts and failed is None:
        return None
    answers = [head + complete_bytes(prepared.plan.command, count) for count in counts]
    if failed is not None:
        answers.append(head)
    return BatchResult(batch, len(answers), len(answers) * values, b"".join(answers), failed)


class BatchResult:
    """The result of a batch: the number of executions and rows, their answers, and the error of the last one, if it
    failed."""

    __slots__ = ("answers", "batch", "error", "executions", "rows")

    def __init__(self, batch: core.Batch, executions: int, rows: int, answers: bytes, failed: SqlError | None) -> None:
        self.batch = batch
        self.executions = executions
        self.rows = rows
        self.answers = answers
        self.error = failed


def _read(prepared: Prepared, bind: core.Bind, batch: core.Batch, each: int) -> Sequence[Sequence[object]]:
    """The parameters of the rows in internal form, read column by column; `each`: this many make a row. Raises the
    errors of the types' inputs."""
    decoders = prepared.parameters.decoders(bind.parameter_formats)
    if not decoders:
        return [()] * len(batch.ends)
    formats = bind.parameter_formats or (0,)
    if len(formats) == 1:
        formats = formats * len(decoders)
    if formats[:each] * (len(formats) // each) != formats:
        raise SqlError("0A000", "rows in different formats")  # which one by one have it
    columns = [
        _column(values, decode, reader_of(oid, code))
        for values, decode, oid, code in zip(
            batch.columns(each), decoders[:each], prepared.parameters.types[:each], formats[:each], strict=True
        )
    ]
    return list(zip(*columns, strict=True))


def _column(values: Values, decode: ParameterDecoder, many: Reader | None) -> Sequence[object]:
    """The values of one parameter in every row; `many` reads many values, if the type supports it."""
    if values.shortest >= 0:
        return _decode_present(values, decode, many)
    if values.longest < 0:
        return [None] * len(values)
    given = values.lengths >= 0
    known = iter(_decode_present(values.take(given), decode, many))
    return [next(known) if there else None for there in given.tolist()]


def _decode_present(values: Values, decode: ParameterDecoder, many: Reader | None) -> Sequence[object]:
    """Values none of which is NULL. Duplicates are read once."""
    read = many(values) if many is not None and len(values) >= FEW else None
    if read is not None:
        return read
    each = values.each()
    distinct = set(each)
    if 2 * len(distinct) > len(each):
        return list(map(decode, each))
    known = dict(zip(distinct, map(decode, distinct), strict=True))
    return [known[value] for value in each]
