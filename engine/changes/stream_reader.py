"""shoal_changes(): the changes of a stream after an LSN, as rows.

    SELECT * FROM shoal_changes('s', after => 120, "limit" => 1000)

It returns whole transactions in the order of their LSNs, until there are at least `limit` changes. `after` NULL is the
stream's position. A reader that continues after the LSN of its last row gets every change exactly once. `ordinal` reads
a large transaction in pieces; to read the transaction after LSN n in pieces from its start, use after n + 1, ordinal 0.
All changes are durable. A follower returns the changes that it has applied.

Privileges are checked now: the reader must own the stream, and have SELECT on all of its existing tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.privileges import acts_as, may_columns
from catalog.row_security import is_restricted
from catalog.schema import ChangeStream, Role, Table
from engine.changes import record
from engine.changes.log import Log
from engine.changes.positions import position_of
from engine.changes.shapes import ReadShape
from engine.changes.tables import find_streamed

if TYPE_CHECKING:
    from engine.changes.streams import ChangeStreams
    from engine.storage.interface import Reader

Row = tuple[int, int, int, int, int, str, str, "str | None", "str | None", "str | None"]


def find(catalog: Catalog, name: str, role: Role | None) -> ChangeStream:
    """The stream of that name. Raises 42704, and 42501 if the role may not read it."""
    stream = catalog.change_streams.get(name)
    if stream is None:
        raise SqlError("42704", f'change stream "{name}" does not exist')
    if role is None or not acts_as(catalog, role, stream.owner):
        raise SqlError("42501", f"permission denied for change stream {name}")
    if not role.superuser:
        for table in tables_of(catalog, stream):
            if not may_columns(catalog, table, role, "r", frozenset(column.number for column in table.columns)):
                raise SqlError("42501", f"permission denied for table {table.name}")
            if is_restricted(catalog, table, role):  # a stream has whole rows, before and after changes
                message = f'query would be affected by row-level security policy for table "{table.name}"'
                raise SqlError("42501", message)
    return stream


def tables_of(catalog: Catalog, stream: ChangeStream) -> list[Table]:
    """The tables that the stream names, or all tables with changes in it."""
    if not stream.all_tables:
        return [item for oid in stream.tables if isinstance(item := catalog.get(oid), Table)]
    return [catalog.table(oid) for oid, streams in find_streamed(catalog.objects).items() if stream in streams]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of shoal_changes(). `ordinal`: the read continues within transaction `after`, after that change of
    it, and ends exactly at the limit."""

    after: int | None
    limit: int
    ordinal: int | None = None


def read(
    changes: ChangeStreams, reader: Reader, stream: ChangeStream, wanted: Wanted, cut: Callable[[int], None]
) -> Iterator[Row]:
    """The rows of shoal_changes(). Raises 55000 if some of the changes were removed. `cut` is called with the LSN after
    which there is more."""
    log = changes.log_of(stream)
    within = wanted.ordinal is not None and wanted.after is not None
    after = wanted.after - 1 if within and wanted.after else wanted.after
    start = begin(log, reader, stream, after)
    given = last = 0
    commit = _Commit(log, reader, stream.oid, 0)
    for lsn, _, part in log.parts(reader, start):
        if lsn != last:
            if given >= wanted.limit:
                cut(last)
                return
            last = lsn
            commit = _Commit(log, reader, stream.oid, (wanted.ordinal or 0) if lsn == wanted.after else 0)
        head = record.decode_head(part)
        if stream.oid not in head.streams:
            continue
        for shape, operation, before, after_row in commit.changes(part, head.place):
            given += 1
            row = before if after_row is None else after_row
            write_key = shape.key
            yield (
                lsn, lsn, commit.ordinal, head.commit_time, head.schema_version, chr(operation), shape.name,
                None if row is None or write_key is None else write_key(row),
                None if before is None else shape.row(before),
                None if after_row is None else shape.row(after_row),
            )  # fmt: skip
            if within and given >= wanted.limit:
                return


class _Commit:
    """The changes of one commit in a stream, without the first `skipped`. `ordinal` counts them."""

    def __init__(self, log: Log, reader: Reader, stream: int, skipped: int) -> None:
        self.ordinal = 0
        self._log = log
        self._reader = reader
        self._stream = stream
        self._skipped = skipped

    def changes(self, part: bytes, place: int) -> Iterator[tuple[ReadShape, int, bytes | None, bytes | None]]:
        """(shape, operation, row before, row after) of a part, with references resolved."""
        for operation, shape_id, key, before, after in record.decode_changes(part, place):
            shape = self._log.shape(self._reader, shape_id)
            if self._stream not in shape.streams:
                continue
            if operation != record.REFERENCE:
                self.ordinal += 1
                if self.ordinal > self._skipped:
                    yield shape, operation, before, after
                continue
            _, rows, _ = record.REFERRED.unpack(key)
            passed = min(max(self._skipped - self.ordinal, 0), rows)
            self.ordinal += passed
            for inner, _, _, was, becomes in self._log.read_referred(self._reader, key, passed):
                self.ordinal += 1
                yield shape, inner, was, becomes


def begin(log: Log, reader: Reader, stream: ChangeStream, after: int | None) -> int:
    """The LSN after which the read starts. Raises 55000 if some of the changes were removed."""
    position = position_of(reader, stream)
    start = position if after is None else max(after, stream.start)
    gone, _ = log.get_trimmed(reader)
    if start < gone:
        raise retention_error(stream, start, gone, position)
    return start


def reach(log: Log, reader: Reader, stream: ChangeStream, after: int, limit: int | None) -> int:
    """The LSN that `read` would reach with this limit, or without one. It does not make rows."""
    if limit is None:
        back = (lsn for lsn, part in log.parts_back(reader) if stream.oid in record.decode_head(part).streams)
        return max(after, next(back, 0))
    count, last = 0, after
    for lsn, _, part in log.parts(reader, after):
        if lsn != last and count >= limit:
            break
        head = record.decode_head(part)
        if stream.oid in head.streams:
            last = lsn
            count += sum(
                record.REFERRED.unpack(key)[1] if operation == record.REFERENCE else 1
                for operation, shape, key, _, _ in record.decode_changes(part, head.place)
                if stream.oid in log.shape(reader, shape).streams
            )
    return last


def retention_error(stream: ChangeStream, after: int, gone: int, position: int) -> SqlError:
    """55000: the requested changes were removed."""
    detail = f"It fell further behind than its limit (retain) of {stream.retain} bytes."
    if gone <= position:
        detail = f"Its position was moved to LSN {position}: older changes have been removed."
    return SqlError(
        "55000",
        f'change stream "{stream.name}" no longer has the changes after LSN {after}: it begins after LSN {gone}',
        detail=detail,
        hint="Copy the tables again, then read after the LSN of that copy, "
        f"or read the remaining changes with after => {gone}.",
    )
