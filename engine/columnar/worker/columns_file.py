"""The file that keeps the worker's tables after its end: a separate DuckDB database, attached as `columns`.

A commit writes no log and syncs nothing (RECOVERY_MODE no_wal_writes), because the changelog is the log. `save` writes
each table's description and the LSN up to which it has all changes, and then makes all tables durable by CHECKPOINT,
which is atomic. So after any end of the process the file has the state of the last save, and a table lacks the changes
since then: engine/storage/key_notes.py has the keys of the changed rows.

    columns.about   one row: the version of DuckDB and the layout that made the file; a file of another version or
                    layout is replaced by a new one
    columns.saved   one row for each table, with the properties that must be the same to use the table again
    columns.pin     see engine/columnar/worker/database.py
    columns.t<storage id>

If the file is damaged, or cannot be read for another reason, the worker makes a new one and builds its tables again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import pyarrow as pa

from catalog.functions.duckdb_errors import no_room_error
from engine.columnar.interface import GROUP_ROWS

LAYOUT = 1  # incremented with each change of the layout of tables: columns, their types, their forms
SCHEMA = "columns"
LEAST_FREE = 64 << 20  # bytes of the file system that a save leaves free for transactions
LEAST_FREE_TO_BUILD = 128 << 20  # left free by an insert: room for the save that frees the space of a failed build
SIZES_AT_ONCE = 20  # tables
SAVE_IDLE_SECONDS = 5.0  # after the last change
SAVE_SECONDS = 60.0  # after the first change
SAVE_AGAIN_SECONDS = 30.0  # after a save that has failed
_LOCK_SECONDS = 10.0  # for which the previous process may hold the file
_DAMAGE = ("Corrupt database file", "does not match stored checksum", "not a valid DuckDB database file")
_UNSAVED = ("IN_MEMORY_TABLE",)  # tags in duckdb_memory()
_TABLES = ("BASE_TABLE", "IN_MEMORY_TABLE")
_NAMES = ("storage_id", "lsn", "token", "whole", "description")
_OF_SAVED = "storage_id UBIGINT, lsn UBIGINT, token VARCHAR, whole BOOLEAN, description VARCHAR"


@dataclass(frozen=True, slots=True)
class Saved:
    """A saved table. `token` identifies its list of changed keys; `whole`: its arrays are held as text."""

    storage_id: int
    lsn: int
    token: str
    whole: bool
    description: str


def table_name(storage_id: int) -> str:
    """Returns the name of a table in SQL."""
    return f"{SCHEMA}.t{storage_id}"


class ColumnsFile:
    """The file, or if `path` is None a database in memory that is lost when the process ends. Only one thread uses
    it."""

    def __init__(self, connection: Any, path: str | None) -> None:
        self.path = self._wanted = path
        self._connection = connection
        self._inode = 0
        self._saved: dict[int, Saved] = {}
        self._sizes: dict[int, tuple[int, int]] = {}  # by storage id: LSN at which the size was determined, bytes
        try:
            self._attach()
            self.tables = self._read()
        except duckdb.Error as error:
            print(f"columnar worker: the columns are built again: {error}", file=sys.stderr, flush=True)
            self._make_anew()
            self.tables = {}

    def _make_anew(self) -> None:
        """Makes a new file, or a database in memory if the disk has no room."""
        for path in (self.path, None):
            self._detach()
            self.remove()
            self.path = path
            try:
                self._attach()
                self._begin()
                return
            except duckdb.Error as error:
                if path is None:
                    raise
                print(f"columnar worker: the columns are not kept: {error}", file=sys.stderr, flush=True)

    def _detach(self) -> None:
        with contextlib.suppress(duckdb.Error):
            self._connection.execute(f"DETACH {SCHEMA}")

    def _attach(self) -> None:
        if self.path is None:
            self._connection.execute(f"ATTACH ':memory:' AS {SCHEMA}")
            return
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                escaped = self.path.replace("'", "''")
                self._connection.execute(f"ATTACH '{escaped}' AS {SCHEMA} (RECOVERY_MODE no_wal_writes)")
                self._inode = os.stat(self.path).st_ino
                return
            except duckdb.IOException as error:
                if "lock" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _read(self) -> dict[int, Saved]:
        """Returns the tables that can be used again. Raises duckdb.Error for a file that cannot be read."""
        known = {
            name for (name,) in self._rows(f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{SCHEMA}'")
        }
        if not known:
            self._begin()
            return {}
        made_by = self._rows(f"SELECT made_by FROM {SCHEMA}.about")
        if made_by != [(_made_by(),)]:
            raise duckdb.InvalidInputException(f"they were made by {made_by[0][0] if made_by else 'something else'}")
        saved = {row[0]: Saved(*row) for row in self._rows(f"SELECT * FROM {SCHEMA}.saved")}
        for name in known - {"about", "saved", "pin", *(f"t{storage_id}" for storage_id in saved)}:
            self._connection.execute(f"DROP TABLE {SCHEMA}.{name}")
        return {storage_id: table for storage_id, table in saved.items() if f"t{storage_id}" in known}

    def _rows(self, sql: str) -> list[Any]:
        return list(self._connection.execute(sql).fetchall())

    def _begin(self) -> None:
        self._connection.execute(f"CREATE TABLE {SCHEMA}.about AS SELECT '{_made_by()}' AS made_by")
        self._connection.execute(f"CREATE TABLE {SCHEMA}.saved ({_OF_SAVED})")
        self._connection.execute(f"CREATE TABLE {SCHEMA}.pin (x INTEGER)")

    def save(self, tables: Sequence[Saved]) -> None:
        """Makes the committed state durable, with the descriptions of the tables. Raises duckdb.Error, and OSError if
        the file has been removed, or the disk has little room: a CHECKPOINT without room invalidates the database."""
        connection = self._connection
        if self._wanted is not None:
            if self.path is not None and not self._is_here():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
            if self.path is None or self._free_bytes() < LEAST_FREE + self.memory_bytes(_UNSAVED):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._wanted)
        connection.execute("BEGIN")
        try:
            connection.execute(f"DELETE FROM {SCHEMA}.saved")
            if tables:
                connection.register("told", pa.Table.from_pylist([asdict(table) for table in tables]))
                connection.execute(f"INSERT INTO {SCHEMA}.saved SELECT {', '.join(_NAMES)} FROM told")
                connection.unregister("told")
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(duckdb.Error):
                connection.execute("ROLLBACK")
            raise
        if self.path is not None:
            connection.execute(f"CHECKPOINT {SCHEMA}")
        self._saved = {table.storage_id: table for table in tables}

    def _is_here(self) -> bool:
        """Whether the open file is the one that the next worker will open."""
        assert self.path is not None
        try:
            return os.stat(self.path).st_ino == self._inode
        except FileNotFoundError:
            return False

    def _free_bytes(self) -> int:
        """Returns the free bytes of the file system."""
        assert self._wanted is not None
        status = os.statvfs(os.path.dirname(self._wanted))
        return status.f_bavail * status.f_frsize

    def is_displaced(self) -> bool:
        """Whether a new worker could keep tables and this one cannot: the file has been removed, or the disk had no
        room for a file and has room now."""
        if self.path is not None:
            return not self._is_here()
        return self._wanted is not None and self._free_bytes() >= LEAST_FREE_TO_BUILD

    def check_room(self, rows: int) -> None:
        """Raises 53100 if an insert of so many rows would leave too little free space to transactions."""
        are_in_file = self.path is not None and rows >= GROUP_ROWS and self._is_here()
        if are_in_file and self._free_bytes() < LEAST_FREE_TO_BUILD:
            raise no_room_error()

    def memory_bytes(self, kinds: Sequence[str] = _TABLES) -> int:
        """Returns the bytes of memory that tables take: cached parts of the file, and rows that are not in the file
        yet. `kinds` are tags in duckdb_memory()."""
        used = "coalesce(sum(memory_usage_bytes + temporary_storage_bytes), 0)::BIGINT"
        listed = ", ".join(f"'{kind}'" for kind in kinds)
        return int(self._rows(f"SELECT {used} FROM duckdb_memory() WHERE tag IN ({listed})")[0][0])

    def sizes(self) -> dict[int, tuple[int, int | None]]:
        """Returns the rows and the bytes on disk of each saved table. Each call determines the bytes of at most
        `SIZES_AT_ONCE` changed tables; the bytes of others are older, or None."""
        rows = dict(
            self._rows(f"SELECT table_name, estimated_size FROM duckdb_tables() WHERE database_name = '{SCHEMA}'")
        )
        (block_size,) = self._rows(f"SELECT block_size FROM pragma_database_size() WHERE database_name = '{SCHEMA}'")[0]
        for storage_id in self._sizes.keys() - {table.storage_id for table in self._saved.values()}:
            del self._sizes[storage_id]
        unknown = SIZES_AT_ONCE
        for storage_id, table in self._saved.items():
            if unknown and self._sizes.get(storage_id, (0, -1))[0] != table.lsn:
                unknown -= 1
                segments = f"pragma_storage_info('{table_name(storage_id)}')"
                ((blocks,),) = self._rows(f"SELECT count(DISTINCT block_id) FROM {segments} WHERE persistent")
                self._sizes[storage_id] = table.lsn, blocks * block_size
        return {
            storage_id: (rows[f"t{storage_id}"], self._sizes.get(storage_id, (0, None))[1])
            for storage_id in self._saved
        }

    def remove(self) -> None:
        """Removes the file; the next worker makes a new one. Open cursors still work."""
        if self.path is not None:
            for path in (self.path, self.path + ".wal"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


class Saving:
    """The time of the next save: soon after the last change, and not too long after the first."""

    def __init__(self, after: float = 0.0) -> None:
        """Nothing is saved in the next `after` seconds."""
        self._first: float | None = None
        self._last = 0.0
        self._not_before = time.monotonic() + after

    def note_change(self) -> None:
        self._last = time.monotonic()
        if self._first is None:
            self._first = self._last

    def note_saved(self) -> None:
        self._first = None

    def note_failure(self) -> None:
        self._not_before = time.monotonic() + SAVE_AGAIN_SECONDS

    def seconds_left(self) -> float | None:
        """Returns the seconds until the next save; None if nothing has changed."""
        if self._first is None:
            return None
        due = min(self._last + SAVE_IDLE_SECONDS, self._first + SAVE_SECONDS)
        return max(due, self._not_before, now := time.monotonic()) - now


def is_damage(error: BaseException) -> bool:
    """Whether the error says that the file is damaged or cannot be read."""
    text = str(error)
    return any(part in text for part in _DAMAGE) or (text.startswith("IO Error") and "ould not read" in text)


def _made_by() -> str:
    return f"DuckDB {duckdb.__version__}, layout {LAYOUT}"
