"""Batches: one statement bound and executed many times before a Sync, as JDBC's executeBatch sends it.

Taken one message at a time each row would be three events, a portal and a statement's bookkeeping. Here the rows are
read in one go and run in one loop, and get the answers that they would have got one by one.

A row that fails ends the batch: it gets its error, and what follows is skipped up to the Sync as ever. From a row that
waits for a lock on, the messages are taken one by one. What could not be read as a parameter is nobody's business here:
then all are taken one by one, up to the row that has it. A plan is run like this only where that makes no difference
(`RowPlan.repeats`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.many import FEW, Reader, reader_of
from engine.session.prepared import ParameterDecoder, Prepared
from engine.txn.interface import SERIALIZABLE
from wire import core, messages
from wire.ready import complete_bytes

if TYPE_CHECKING:
    from engine.session.session import Session

BATCH = 128  # rows in one go: some milliseconds, then others get their turn
_NUMBERS = {oids.INT2: "h", oids.INT4: "i", oids.INT8: "q", oids.FLOAT4: "f", oids.FLOAT8: "d"}  # as they are sent


def run_batch(session: Session, bind: core.Bind, batch: core.Batch) -> tuple[list[bytes], SqlError | None] | None:
    """Runs a batch: the answers to its rows, up to the first one that fails or has to wait, and the error of the one
    that failed. None: nothing has happened, it is to be taken one by one."""
    prepared = session.ready_plan(bind.statement)
    if prepared is None or prepared.row is None or not prepared.row.repeats:
        return None
    if len(bind.parameters) != len(prepared.parameter_types):
        return None
    if session.status == "E":
        return None  # refused at Bind
    transaction = session.transaction
    if (session.default_isolation if transaction is None else transaction.isolation) == SERIALIZABLE:
        return None  # what each statement has read counts there, also what was undone
    try:
        run = prepared.run_row(prepared.formats(bind.result_formats))
        rows = _read(prepared, bind, batch.rows)
    except SqlError:
        return None
    counts, failed = session.execute_rows(prepared, run, rows)
    if not counts and failed is None:
        return None
    head = messages.BIND_COMPLETE + messages.NO_DATA if batch.described else messages.BIND_COMPLETE
    answers = [head + complete_bytes(prepared.command, count) for count in counts]
    if failed is not None:
        answers.append(head)
    return answers, failed


def _read(prepared: Prepared, bind: core.Bind, rows: list[list[bytes | None]]) -> list[tuple[object, ...]]:
    """The rows' parameters in internal form, read column by column. Raises what the types' inputs raise."""
    decoders = prepared.decoders(bind.parameter_formats)
    if not decoders:
        return [()] * len(rows)
    formats = bind.parameter_formats or (0,)
    if len(formats) == 1:
        formats = formats * len(decoders)
    columns = [
        _column(values, decode, _NUMBERS.get(oid, "") if code else "", None if code else reader_of(oid))
        for values, decode, oid, code in zip(
            zip(*rows, strict=True), decoders, prepared.parameter_types, formats, strict=True
        )
    ]
    return list(zip(*columns, strict=True))


def _column(
    values: tuple[bytes | None, ...], decode: ParameterDecoder, number: str, many: Reader | None
) -> Sequence[object]:
    """One parameter of every row. `number`: the letter of the struct module for the form that they all have, if it is
    one; `many` reads many texts, if the type has that. What comes more than once is read once."""
    distinct = set(values)
    if number and None not in distinct:
        present = cast(tuple[bytes, ...], values)
        if set(map(len, present)) == {struct.calcsize(">" + number)}:
            return struct.unpack(f">{len(present)}{number}", b"".join(present))
    wanted = [value for value in distinct if value is not None]
    if 2 * len(wanted) > len(values) and None not in distinct:
        wanted = cast(list[bytes], list(values))
    read = many(wanted) if many is not None and len(wanted) >= FEW else None
    if read is None:
        read = list(map(decode, wanted))
    if len(wanted) == len(values):
        return read
    known: dict[bytes | None, object] = dict(zip(wanted, read, strict=True))
    known[None] = None
    return [known[value] for value in values]
