"""Batches: one statement bound and executed many times before a Sync, as JDBC's executeBatch sends it.

Taken one message at a time each execution would be three events, a portal and a statement's bookkeeping. Here their
parameters are read in one go, and they get the answers that they would have got one by one. INSERT ... VALUES is run as
one statement of all the rows (`RowPlan.together`); anything else, and rows of which one fails so or has to wait, in one
loop. An INSERT of many rows is a batch by itself.

An execution that fails ends the batch: it gets its error, and what follows is skipped up to the Sync as ever. From one
that waits for a lock on, the messages are taken one by one. What could not be read as a parameter is nobody's business
here: then all are taken one by one, up to the one that has it. A plan is run like this only where that makes no
difference (`RowPlan.repeats`).
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

BATCH = 256  # rows in one go: some milliseconds, then others get their turn


def run_batch(session: Session, machine: core.ProtocolCore, bind: core.Bind) -> BatchResult | None:
    """Runs what a Bind begins, if that is a batch: what it did, up to the first execution that fails or has to wait.
    None: nothing has happened, it is to be taken one by one."""
    prepared = session.ready_plan(bind.statement)
    if prepared is None or (row := prepared.plan.row) is None or not row.repeats:
        return None
    if len(bind.parameters) != len(prepared.parameters.types) or session.status == "E":
        return None  # refused at Bind
    transaction = session.transaction
    if (session.default_isolation if transaction is None else transaction.isolation) == SERIALIZABLE:
        return None  # what each statement has read counts there, also what was undone
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
    """The parameters of the rows in internal form, read column by column; `each`: so many make a row. Raises what the
    types' inputs raise."""
    decoders = prepared.parameters.decoders(bind.parameter_formats)
    if not decoders:
        return [()] * len(batch.ends)
    formats = bind.parameter_formats or (0,)
    if len(formats) == 1:
        formats = formats * len(decoders)
    if formats[:each] * (len(formats) // each) != formats:
        raise SqlError("0A000", "rows in different formats")  # which they have one by one
    columns = [
        _column(values, decode, reader_of(oid, code))
        for values, decode, oid, code in zip(
            batch.columns(each), decoders[:each], prepared.parameters.types[:each], formats[:each], strict=True
        )
    ]
    return list(zip(*columns, strict=True))


def _column(values: Values, decode: ParameterDecoder, many: Reader | None) -> Sequence[object]:
    """The values of one parameter in every row; `many` reads many values, if the type has that."""
    if values.shortest >= 0:
        return _decode_present(values, decode, many)
    if values.longest < 0:
        return [None] * len(values)
    given = values.lengths >= 0
    known = iter(_decode_present(values.take(given), decode, many))
    return [next(known) if there else None for there in given.tolist()]


def _decode_present(values: Values, decode: ParameterDecoder, many: Reader | None) -> Sequence[object]:
    """Values none of which is NULL. What comes more than once is read once."""
    read = many(values) if many is not None and len(values) >= FEW else None
    if read is not None:
        return read
    each = values.each()
    distinct = set(each)
    if 2 * len(distinct) > len(each):
        return list(map(decode, each))
    known = dict(zip(distinct, map(decode, distinct), strict=True))
    return [known[value] for value in each]
