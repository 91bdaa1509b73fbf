"""The change streams of a node: the interface for its other parts.

commit queue    `capture`, set while there is a stream
catalog         `on_published`, `forget`
durable LSNs    `on_moved`: notifies listeners, removes changes that nobody needs
functions       shoal_changes() and the related functions, the view shoal_change_streams
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import ChangeStream, Role, SchemaObject, Tablespace
from engine.changes import positions, stream_reader
from engine.changes.capture import Capture, Captured
from engine.changes.log import Log
from engine.changes.positions import Trimmer, position_of
from engine.changes.record import decode_head, size_of
from engine.storage.moments import Lsn, lsn_in
from engine.storage.stores import not_here

if TYPE_CHECKING:
    from engine.node_services import NodeServices
    from engine.storage.interface import Reader
    from engine.txn.transaction import Transaction

STREAM = "shoal."  # what the names of channels begin with that tell of new changes in a stream
TOLD_AFTER = 0.005  # seconds in which many commits become one notification


class ChangeStreams:
    """The change streams of a node. Used on the engine's thread."""

    def __init__(self, node: NodeServices) -> None:
        self._node = node
        self._capture = Capture(node)
        self._trimmer = Trimmer(node)
        self._unseen = 0  # bytes of changes since it was last looked whether some may go
        self._look_at = 0  # the LSN in pg_default that is to be durable before it is looked
        self._trimming = False
        self._telling = False
        self._told: dict[int, int] = {}  # by OID of a stream: the LSN of the newest change in a notification

    # ---- the catalog ------------------------------------------------------------------------------------------------

    def activate(self) -> None:
        """Called when the first stream exists or will be created."""
        self._node.commits.capture = self._capture

    def forget(self) -> None:
        """Called when the catalog was read again, or this node starts or stops leading."""
        self._capture.forget(everything=True)
        self._trimmer.forget()
        if any(isinstance(item, ChangeStream) for item in self._objects.values()):
            self.activate()

    def on_published(self, changes: Mapping[int, SchemaObject | None]) -> None:
        """Called when schema changes are committed."""
        if any(isinstance(item, ChangeStream) for item in changes.values()):
            self.activate()
        if self._node.commits.capture is not None:
            self._capture.on_published(changes)

    def on_abandoned(self, changes: Mapping[int, SchemaObject | None]) -> None:
        """Called when schema changes of a transaction are rolled back, possibly within its COMMIT."""
        self._capture.on_abandoned(changes)

    @property
    def _objects(self) -> Mapping[int, SchemaObject]:
        return self._node.shared_catalog.objects if self._node.catalogs else {}

    def captured_tables(self) -> Mapping[bytes, Captured]:
        """The tables whose changes are captured, by the prefix of their keys."""
        return {} if self._node.commits.capture is None else self._capture.tables()

    # ---- what the functions do --------------------------------------------------------------------------------------

    def log_of(self, stream: ChangeStream) -> Log:
        """The log with the changes of a stream. Raises 57P03 if it is not on this node."""
        log = self._capture.logs().get((stream.database, stream.tablespace))
        if log is None:
            raise not_here()
        return log

    def read(
        self,
        catalog: Catalog,
        role: Role | None,
        reader: Reader,
        name: str,
        wanted: stream_reader.Wanted,
        cut: Callable[[int], None],
    ) -> Iterator[stream_reader.Row]:
        """shoal_changes(). Raises 42704, 42501, 55000, 57P03. `cut`: see stream_reader.read."""
        return stream_reader.read(self, reader, stream_reader.find(catalog, name, role), wanted, cut)

    def advance(self, catalog: Catalog, role: Role | None, transaction: Transaction, name: str, lsn: int) -> int:
        """shoal_change_stream_advance(). Raises 42704, 42501, 55000, 22023, 25006; LockWait."""
        stream = stream_reader.find(catalog, name, role)
        return positions.advance(transaction, stream, lsn, self.log_of(stream).space.durable_lsn)

    def reach(
        self, catalog: Catalog, role: Role | None, reader: Reader, name: str, after: int | None, limit: int | None
    ) -> int:
        """shoal_change_stream_reach(). Raises 42704, 42501, 55000, 57P03."""
        stream = stream_reader.find(catalog, name, role)
        log = self.log_of(stream)
        return stream_reader.reach(log, reader, stream, stream_reader.begin(log, reader, stream, after), limit)

    def count_seen(self, catalog: Catalog, role: Role | None, name: str, lsn: Lsn) -> int:
        """shoal_change_stream_snapshot(): the LSN of the statement's snapshot in the stream's tablespace. Raises 42704,
        42501, 57P03."""
        return lsn_in(self.log_of(stream_reader.find(catalog, name, role)).space.slot, lsn)

    def show_streams(self, catalog: Catalog, reader: Reader) -> list[dict[str, object]]:
        """The rows of shoal_change_streams, without the names of roles."""
        return [self._show(catalog, reader, stream) for stream in catalog.change_streams.values()]

    def _show(self, catalog: Catalog, reader: Reader, stream: ChangeStream) -> dict[str, object]:
        owner, place = catalog.get(stream.owner), catalog.get(stream.tablespace)
        position = position_of(reader, stream)
        tables = () if stream.all_tables else stream_reader.tables_of(catalog, stream)
        row: dict[str, object] = {
            "name": stream.name,
            "owner": owner.name if isinstance(owner, Role) else None,
            "tables": ", ".join(f"{catalog.schema_name(table.schema)}.{table.name}" for table in tables),
            "all_tables": stream.all_tables,
            "tablespace": place.name if isinstance(place, Tablespace) else None,
            "start_lsn": stream.start,
            "position": position,
            "retain_bytes": stream.retain,
        }
        try:
            log = self.log_of(stream)
        except SqlError:  # its tablespace is not on this node: shows only the data of the catalog
            return {**row, "state": "elsewhere"}
        gone, _ = log.get_trimmed(reader)
        first, newest = self._ends(log, reader, stream, max(position, gone))
        row |= {"state": "retired" if position < gone else "ready", "oldest_lsn": max(gone, stream.start)}
        if newest is not None and first is not None:
            row |= {"newest_lsn": newest[0], "newest_time": decode_head(newest[1]).commit_time}
            row |= {"lag_bytes": decode_head(newest[1]).end - decode_head(first[1]).end + size_of(first[1])}
            row |= {"lag_since": decode_head(first[1]).commit_time}
        else:
            row |= {"lag_bytes": 0}
        return row

    def _ends(
        self, log: Log, reader: Reader, stream: ChangeStream, after: int
    ) -> tuple[tuple[int, bytes] | None, tuple[int, bytes] | None]:
        """(LSN, body) of the first and the last part of the stream after an LSN."""
        first = next(
            ((lsn, part) for lsn, _, part in log.parts(reader, after) if stream.oid in decode_head(part).streams), None
        )
        if first is None:
            return None, None
        newest = next(found for found in log.parts_back(reader) if stream.oid in decode_head(found[1]).streams)
        return first, newest

    # ---- telling and letting go -------------------------------------------------------------------------------------

    def note_captured(self, size: int) -> None:
        """Called when a commit has changes of `size` bytes."""
        self._unseen += size
        if self._unseen >= positions.CHECK_BYTES:
            self.look()

    def look(self) -> None:
        """Removes changes that nobody needs, soon after the commit that is sequenced next is durable."""
        self._unseen = 0
        self._look_at = self._node.store.of(0).sequenced_lsn + 1
        self._trim_soon()

    def _trim_soon(self) -> None:
        if not self._trimming:
            self._trimming = True
            asyncio.get_running_loop().call_later(TOLD_AFTER, self._trim)

    def _trim(self) -> None:
        self._trimming = False
        if not self._node.catalogs:
            return
        home = self._node.store.of(0)
        if home.durable_lsn < self._look_at <= home.sequenced_lsn:
            self._trim_soon()
            return
        streams = [item for item in self._objects.values() if isinstance(item, ChangeStream)]
        more = False
        for place, log in self._capture.logs().items():
            own = [stream for stream in streams if (stream.database, stream.tablespace) == place]
            more |= self._trimmer.trim(log, own)
        if more:
            self._trim_soon()

    def on_moved(self, _: int) -> None:
        """Called when a tablespace's durable LSN has moved."""
        if self._node.listeners.streams and not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_later(TOLD_AFTER, self._tell)

    def _tell(self) -> None:
        """Notifies sessions that listen to a stream with new changes: LISTEN "shoal.<stream>", payload: the LSN."""
        self._telling = False
        for database, channel in list(self._node.listeners.streams):
            catalog = self._node.catalogs.get(database)
            stream = None if catalog is None else catalog.change_streams.get(channel.removeprefix(STREAM))
            if stream is None:
                continue
            log = self.log_of(stream)
            newest = next(log.parts_back(log.space.current), None)
            if newest is not None and newest[0] > self._told.get(stream.oid, 0):
                self._told[stream.oid] = newest[0]
                self._node.listeners.tell(database, 0, [(channel, str(newest[0]))])
