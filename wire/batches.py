"""Batches: one statement bound and executed many times before a Sync, as JDBC's executeBatch sends it.

Taken one message at a time each row would be three events, a portal and a statement's bookkeeping. Here the rows are
read in one go and run in one loop, and get the answers that they would have got one by one.

What goes wrong is nobody's business here: whatever the batch has written is undone, nothing has been answered, and its
messages are taken one by one, up to the row that waits for a lock or fails. A plan is run like this only where that
makes no difference (`RowPlan.repeats`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.execute.context import RowPathFull
from engine.session.errors import canceled
from engine.session.prepared import StalePlan
from engine.txn.interface import SERIALIZABLE, LockWait
from wire import core, messages
from wire.ready import complete_bytes

if TYPE_CHECKING:
    from engine.session.session import Session

BATCH = 128  # rows in one go: some milliseconds, then others get their turn


def run_batch(session: Session, bind: core.Bind, batch: core.Batch) -> list[bytes] | None:
    """Runs a batch: the answer to each of its rows. None: nothing has happened, it is to be taken one by one."""
    prepared = session.ready_plan(bind.statement)
    if prepared is None or prepared.row is None or not prepared.row.repeats:
        return None
    if len(bind.parameters) != len(prepared.parameter_types):
        return None
    transaction = session.transaction
    if (session.default_isolation if transaction is None else transaction.isolation) == SERIALIZABLE:
        return None  # what each statement has read counts there, also what was undone
    try:
        run = prepared.run_row(prepared.formats(bind.result_formats))
        decoders = prepared.decoders(bind.parameter_formats)
        rows = [
            [None if value is None else decode(value) for value, decode in zip(row, decoders, strict=True)]
            for row in batch.rows
        ]
        counts = session.execute_rows(prepared, run, rows)
    except LockWait as wait:
        wait.ticket.cancel(canceled())  # it is asked for again by the row that needs it
        return None
    except (SqlError, RowPathFull, StalePlan):
        return None
    head = messages.BIND_COMPLETE + messages.NO_DATA if batch.described else messages.BIND_COMPLETE
    return [head + complete_bytes(prepared.command, count) for count in counts]
