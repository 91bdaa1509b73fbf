"""The file in which the worker's tables outlive it: a DuckDB database of its own, attached as `columns`.

Nothing of it is written to a log and nothing is synced when a change of a table is committed (RECOVERY_MODE
no_wal_writes): the changelog is the log. `save` writes what each table is, up to which LSN it has all changes, and then
all of it durably (CHECKPOINT, which takes effect as a whole). So after any end of the process the file is what it was
at the last save, and a table lacks what was committed since: engine/storage/key_notes.py knows which rows that is.

    columns.about   one row: which DuckDB and which layout the file was made by; another one's file is made anew
    columns.saved   a row a table, with what has to be the same for it to be used again
    columns.pin     see engine/columnar/worker/database.py
    columns.t<storage id>

A file that is damaged, or cannot be read for any other reason, is made anew, and its tables are built again.
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

LAYOUT = 1  # counts up whenever tables are laid out in another way: columns, their types, their forms
SCHEMA = "columns"
LEAST_FREE = 64 << 20  # bytes of the file system that a save leaves: transactions go on with them
LEAST_FREE_TO_BUILD = 128 << 20  # the same of rows that are put into the file: a save gives their space back
SIZES_AT_ONCE = 20  # tables
SAVE_IDLE_SECONDS = 5.0  # after the last change
SAVE_SECONDS = 60.0  # after the first change
SAVE_AGAIN_SECONDS = 30.0  # after a save that has failed
_LOCK_SECONDS = 10.0  # for which the process before may hold the file
_DAMAGE = ("Corrupt database file", "does not match stored checksum", "not a valid DuckDB database file")
_UNSAVED = ("IN_MEMORY_TABLE",)  # as DuckDB counts memory
_TABLES = ("BASE_TABLE", "IN_MEMORY_TABLE")
_NAMES = ("storage_id", "lsn", "token", "whole", "description")
_OF_SAVED = "storage_id UBIGINT, lsn UBIGINT, token VARCHAR, whole BOOLEAN, description VARCHAR"


@dataclass(frozen=True, slots=True)
class Saved:
    """A table as it was saved. `token`: by which its list of changed keys is known; `whole`: its arrays are text."""

    storage_id: int
    lsn: int
    token: str
    whole: bool
    description: str


def table_name(storage_id: int) -> str:
    """The name of a table, to be used in SQL."""
    return f"{SCHEMA}.t{storage_id}"


class ColumnsFile:
    """`path` is None where nothing is kept. Only one thread uses it."""

    def __init__(self, connection: Any, path: str | None) -> None:
        self.path = self._wanted = path
        self._connection = connection
        self._inode = 0
        self._saved: dict[int, Saved] = {}
        self._sizes: dict[int, tuple[int, int]] = {}  # the LSN as of which they are known, and bytes
        try:
            self._attach()
            self.tables = self._read()
        except duckdb.Error as error:
            print(f"columnar worker: the columns are built again: {error}", file=sys.stderr, flush=True)
            self._make_anew()
            self.tables = {}

    def _make_anew(self) -> None:
        """A new file; where there is no room for one, none."""
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
        """The tables that can be used again. Raises duckdb.Error for a file that cannot be read."""
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
        """Makes durable what has been committed, with what is to be known of the tables. Raises duckdb.Error, and
        OSError where the file is gone, or there is little room: a CHECKPOINT that finds none ends the database."""
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
        """Whether the file that is open is the one that the next worker finds."""
        assert self.path is not None
        try:
            return os.stat(self.path).st_ino == self._inode
        except FileNotFoundError:
            return False

    def _free_bytes(self) -> int:
        """What the file system has left."""
        assert self._wanted is not None
        status = os.statvfs(os.path.dirname(self._wanted))
        return status.f_bavail * status.f_frsize

    def is_displaced(self) -> bool:
        """Whether a worker that begins anew could keep what this one cannot: its file has been removed, or there was
        no room for one, and now is."""
        if self.path is not None:
            return not self._is_here()
        return self._wanted is not None and self._free_bytes() >= LEAST_FREE_TO_BUILD

    def check_room(self, rows: int) -> None:
        """Raises 53100 where so many rows at a time would take of the file system what others need."""
        are_in_file = self.path is not None and rows >= GROUP_ROWS and self._is_here()
        if are_in_file and self._free_bytes() < LEAST_FREE_TO_BUILD:
            raise no_room_error()

    def memory_bytes(self, kinds: Sequence[str] = _TABLES) -> int:
        """What memory tables take: those of the file, or parts of them, and what is not in the file yet."""
        used = "coalesce(sum(memory_usage_bytes + temporary_storage_bytes), 0)::BIGINT"
        listed = ", ".join(f"'{kind}'" for kind in kinds)
        return int(self._rows(f"SELECT {used} FROM duckdb_memory() WHERE tag IN ({listed})")[0][0])

    def sizes(self) -> dict[int, tuple[int, int | None]]:
        """Rows and bytes on the disk of each table, as they are saved. Bytes are looked for a few tables at a time:
        until then they are those of an earlier time, or None."""
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
        """Removes the file; the next worker makes another one. What is open goes on."""
        if self.path is not None:
            for path in (self.path, self.path + ".wal"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


class Saving:
    """When the file is to be saved: soon after the last change, and not too long after the first."""

    def __init__(self, after: float = 0.0) -> None:
        """`after`: seconds from now on for which nothing is saved."""
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
        """Seconds until then; None where nothing has changed."""
        if self._first is None:
            return None
        due = min(self._last + SAVE_IDLE_SECONDS, self._first + SAVE_SECONDS)
        return max(due, self._not_before, now := time.monotonic()) - now


def is_damage(error: BaseException) -> bool:
    """Whether DuckDB has found that what it reads is not what it wrote."""
    text = str(error)
    return any(part in text for part in _DAMAGE) or (text.startswith("IO Error") and "ould not read" in text)


def _made_by() -> str:
    return f"DuckDB {duckdb.__version__}, layout {LAYOUT}"
