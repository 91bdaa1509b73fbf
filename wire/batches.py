"""Batches: one statement bound and executed many times before a Sync, as JDBC's executeBatch sends it.

Taken one message at a time each row would be three events, a portal and a statement's bookkeeping. Here the rows are
read in one go and run in one loop, and get the answers that they would have got one by one.

What goes wrong is nobody's business here: whatever the batch has written is undone, nothing has been answered, and its
messages are taken one by one, up to the row that waits for a lock or fails. A plan is run like this only where that
makes no difference (`RowPlan.repeats`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from catalog.errors import SqlError
from catalog.types import oids
from engine.execute.context import RowPathFull
from engine.session.errors import canceled
from engine.session.prepared import ParameterDecoder, Prepared, StalePlan
from engine.txn.interface import SERIALIZABLE, LockWait
from wire import core, messages
from wire.ready import complete_bytes

if TYPE_CHECKING:
    from engine.session.session import Session

BATCH = 128  # rows in one go: some milliseconds, then others get their turn
_NUMBERS = {oids.INT2: "h", oids.INT4: "i", oids.INT8: "q", oids.FLOAT4: "f", oids.FLOAT8: "d"}  # as they are sent


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
        counts = session.execute_rows(prepared, run, _read(prepared, bind, batch.rows))
    except LockWait as wait:
        wait.ticket.cancel(canceled())  # it is asked for again by the row that needs it
        return None
    except (SqlError, RowPathFull, StalePlan):
        return None
    head = messages.BIND_COMPLETE + messages.NO_DATA if batch.described else messages.BIND_COMPLETE
    return [head + complete_bytes(prepared.command, count) for count in counts]


def _read(prepared: Prepared, bind: core.Bind, rows: list[list[bytes | None]]) -> list[tuple[object, ...]]:
    """The rows' parameters in internal form, read column by column. Raises what the types' inputs raise."""
    decoders = prepared.decoders(bind.parameter_formats)
    if not decoders:
        return [()] * len(rows)
    formats = bind.parameter_formats or (0,)
    if len(formats) == 1:
        formats = formats * len(decoders)
    columns = [
        _column(values, decode, _NUMBERS.get(oid, "") if code else "")
        for values, decode, oid, code in zip(
            zip(*rows, strict=True), decoders, prepared.parameter_types, formats, strict=True
        )
    ]
    return list(zip(*columns, strict=True))


def _column(values: tuple[bytes | None, ...], decode: ParameterDecoder, number: str) -> Sequence[object]:
    """One parameter of every row. `number`: the letter of the struct module for the form that they all have, if it is
    one. What comes more than once is read once."""
    distinct = set(values)
    if None not in distinct:
        present = cast(tuple[bytes, ...], values)
        if number and set(map(len, present)) == {struct.calcsize(">" + number)}:
            return struct.unpack(f">{len(present)}{number}", b"".join(present))
        if 2 * len(distinct) > len(present):
            return list(map(decode, present))
    known = {value: None if value is None else decode(value) for value in distinct}
    return [known[value] for value in values]
