"""How far a stream was read, what is kept for it, and what is let go.

    position   shoal_change_stream_advance(): a row (storage id 41, the stream's OID) in pg_default, written by the
               caller's transaction. Nothing above it is let go, but for the limit; where no position was set it is
               the LSN at which the stream began
    limit      `retain` of the stream: of more bytes than that the oldest go, whoever still wants them. The stream is
               retired then: reading from its position says so, and from where reading can go on
    letting go the leader of the tablespace deletes, in commits of its own of up to TRIMMED rows each; each of them says
               how far they are gone in the row with LSN 0, so that no reader takes a gap for the whole

It is looked at when a position has moved, and every CHECK_BYTES of changes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.rows import CHANGE_POSITIONS
from catalog.schema import ChangeStream
from engine.changes import record
from engine.changes.log import Log
from engine.replica import identity_of
from engine.txn.interface import UPDATE

if TYPE_CHECKING:
    from engine.node_services import NodeServices
    from engine.storage.interface import Reader
    from engine.txn.transaction import Transaction

CHECK_BYTES = 1 << 20
TRIMMED = 2000
_KEY = struct.Struct(">II")
_VALUE = struct.Struct("<BQ")
_FORMAT = 1


def position_key(stream: ChangeStream) -> bytes:
    """Where the stream's position is kept."""
    return _KEY.pack(CHANGE_POSITIONS, stream.oid)


def position_of(reader: Reader, stream: ChangeStream) -> int:
    """The LSN up to which the stream was read."""
    row = reader.get(position_key(stream))
    return stream.start if row is None else max(stream.start, _VALUE.unpack(row)[1])


def advance(transaction: Transaction, stream: ChangeStream, lsn: int, durable: int) -> int:
    """Moves the position on, as part of the transaction; where it is then. Raises 55000 for one that lies back, 22023
    for an LSN above `durable`, the tablespace's newest; LockWait."""
    transaction.refuse_if_read_only("shoal_change_stream_advance()")
    key = position_key(stream)
    row = transaction.get_locked(key, UPDATE)
    known = stream.start if row is None else max(stream.start, _VALUE.unpack(row)[1])
    if lsn < known:
        raise SqlError(
            "55000",
            f'cannot move change stream "{stream.name}" back to LSN {lsn}',
            detail=f"Its position is LSN {known}; earlier changes may have been deleted.",
        )
    if lsn > durable:
        raise SqlError("22023", f"LSN {lsn} has not been reached", detail=f"The newest commit here is LSN {durable}.")
    if lsn > known:
        transaction.put(key, _VALUE.pack(_FORMAT, lsn))
    return lsn


class Trimmer:
    """Lets go of what no stream needs. On the engine's thread, where this node leads the log's tablespace."""

    def __init__(self, node: NodeServices) -> None:
        self._node = node
        self._oldest: dict[bytes, int] = {}  # by the log's prefix: up to this LSN there is nothing left
        self._begun: dict[int, int] = {}  # bulk changes of which the rows below a number are gone

    def forget(self) -> None:
        """This node has begun or ceased to lead."""
        self._oldest.clear()
        self._begun.clear()

    def trim(self, log: Log, streams: list[ChangeStream]) -> bool:
        """One step: whether there is more to do. `streams`: those of the log."""
        if not self._leads(log) or log.space.failure is not None:
            return False
        reader = log.space.current
        wanted = [(position_of(self._node.store.current, stream), stream.retain) for stream in streams]
        end = log.end()
        known, upto = log.get_trimmed(reader)
        last, full = known, False
        writes: dict[bytes, bytes | None] = {}
        lsn = oldest = self._oldest.get(log.prefix, 0)
        for lsn, number, part in log.parts(reader, oldest):
            head = record.decode_head(part)
            if lsn > last:
                full = len(writes) >= TRIMMED
                if full or any(lsn > position and end - head.end < retain for position, retain in wanted):
                    break
                last = lsn
            upto = max(upto, head.end)
            if not self._delete_references(log, part, head.place, writes):
                full = True
                break  # its row goes when all to which it refers is gone
            writes[log.key(lsn, number)] = None
        if not writes:
            return False
        writes[log.key(0)] = log.gone_row(last, upto)
        self._node.commits.sequence(writes)
        self._oldest[log.prefix] = lsn - 1 if full else last
        return full

    def _delete_references(self, log: Log, part: bytes, place: int, writes: dict[bytes, bytes | None]) -> bool:
        """Deletes what a part refers to; False if that is more than goes at once."""
        for operation, _, key, _, _ in record.decode_changes(part, place):
            if operation == record.REFERENCE:
                number, rows, _ = record.REFERRED.unpack(key)
                begin = self._begun.get(number, 0)
                stop = min(begin + max(TRIMMED - len(writes), 1), rows)
                writes.update(dict.fromkeys(log.key(number, row) for row in range(begin, stop)))
                if stop < rows:
                    self._begun[number] = stop
                    return False
                self._begun.pop(number, None)
        return True

    def _leads(self, log: Log) -> bool:
        replica = self._node.replica
        return replica is None or replica.leads_in((identity_of(self._node.shared_catalog, log.table.tablespace),))
