"""The positions of streams, and the retention and removal of changes.

  position   shoal_change_stream_advance() writes a row (storage id 41, the stream's OID) in pg_default, in the caller's
             transaction. Changes above it are kept, up to the limit. Without a row, the position is the LSN at which
             the stream was created.
  limit      `retain` of the stream: the oldest changes beyond that number of bytes are removed, even if they were not
             read. The stream is then retired: a read from its position raises an error with the next possible one.
  removal    The leader of the tablespace deletes changes in commits of its own, up to TRIMMED rows each. Each commit
             records the removed LSN in the row with LSN 0, so that no reader misses a gap.

The check runs when a position has moved, and after every CHECK_BYTES of changes.
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
    """The key of the stream's position."""
    return _KEY.pack(CHANGE_POSITIONS, stream.oid)


def position_of(reader: Reader, stream: ChangeStream) -> int:
    """The LSN up to which the stream was read."""
    row = reader.get(position_key(stream))
    return stream.start if row is None else max(stream.start, _VALUE.unpack(row)[1])


def advance(transaction: Transaction, stream: ChangeStream, lsn: int, durable: int) -> int:
    """Moves the position, as part of the transaction, and returns the new position. Raises 55000 for an earlier
    position, 22023 for an LSN above `durable`, the tablespace's newest; LockWait."""
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
    """Removes changes that no stream needs. Used on the engine's thread of the node that leads the log's tablespace."""

    def __init__(self, node: NodeServices) -> None:
        self._node = node
        self._oldest: dict[bytes, int] = {}  # by the log's prefix: up to this LSN there is nothing left
        self._begun: dict[int, int] = {}  # bulk changes of which the rows below a number are gone

    def forget(self) -> None:
        """Called when this node starts or stops leading."""
        self._oldest.clear()
        self._begun.clear()

    def trim(self, log: Log, streams: list[ChangeStream]) -> bool:
        """Does one step, and returns whether there is more to do. `streams`: those of the log."""
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
                break  # the row is removed after all changes that it refers to
            writes[log.key(lsn, number)] = None
        if not writes:
            return False
        writes[log.key(0)] = log.gone_row(last, upto)
        self._node.commits.sequence(writes)
        self._oldest[log.prefix] = lsn - 1 if full else last
        return full

    def _delete_references(self, log: Log, part: bytes, place: int, writes: dict[bytes, bytes | None]) -> bool:
        """Deletes the changes that a part refers to. False if there are more than one step deletes."""
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
