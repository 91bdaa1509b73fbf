"""The directories of a node's tablespaces over local changelogs.

    DATA/rows, DATA/changelog, DATA/lock      pg_default
    DATA/tablespaces/<id, 32 hex digits>/     each other one, with the same content
    DATA/tablespaces/<id>/undecided           its CREATE or DROP runs: the catalog decides whether it exists
    DATA/tablespaces/<id>.gone/               dropped, or not marked yet; the next start removes it after a crash
    DATA/dropped/<id>/changelog               of a dropped one, where history is kept (shoal/history.py)
    DATA/dropped/<id>/dropped                 when: `Dropped`

The catalog, whose rows are in pg_default, lists the tablespaces. CREATE makes the directory with a mark, commits, then
removes the mark. DROP sets the mark, commits, then removes the directory. So at a start a marked directory that the
catalog does not have is removed, and a marked one that it has loses its mark. A directory without a mark that the
catalog does not have does not belong to this database: it is not touched, with a warning. A tablespace of the catalog
without a directory is damage, and the server does not start.

All tablespaces are opened together, because a commit may have parts in several (engine/storage/joints.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import orjson

from catalog.errors import SqlError
from catalog.schema import Tablespace as CatalogItem
from engine.storage.checkpoint import sync_directory
from engine.storage.interface import EngineThread, LocalLog
from engine.storage.joints import Recovering, decide
from engine.storage.stores import close_together
from engine.storage.tablespace import Tablespace

log = logging.getLogger("shoal.storage")

MARK = "undecided"
DROPPED = "dropped"
GONE = ".gone"
_NAME = re.compile(r"[0-9a-f]{32}")


class OpenLog(Protocol):
    def __call__(
        self,
        directory: str,
        tablespace: bytes,
        committed: Callable[[int], None],
        failed: Callable[[BaseException], None],
    ) -> LocalLog:
        """The changelog of the tablespace with this directory."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A dropped tablespace whose changelog is kept."""

    lsn: int  # of pg_default, when it was dropped
    time: int  # microseconds since 1970-01-01 UTC


class LocalTablespaces:
    """engine.node.tablespaces.TablespaceStorage over directories. Call `open` first. `keep`: changelogs of dropped
    tablespaces stay, until `forget`."""

    def __init__(
        self,
        data: str,
        open_log: OpenLog,
        engine_thread: EngineThread,
        on_fatal: Callable[[BaseException], None],
        keep: bool = False,
    ) -> None:
        self._data = data
        self._root = os.path.join(data, "tablespaces")
        self._dropped = os.path.join(data, DROPPED)
        self._keep = keep
        self.dropped: dict[bytes, Dropped] = {}
        """The dropped tablespaces whose changelog is kept, by id."""
        self._open_log = open_log
        self._engine_thread = engine_thread
        self._on_fatal = on_fatal
        self._open: dict[bytes, Tablespace] = {}  # every one, pg_default first
        self._logs: dict[bytes, LocalLog] = {}  # their changelogs
        self.found: dict[bytes, Tablespace] = {}
        """The tablespaces beside pg_default that were open when it was, by id."""
        self._broken: dict[bytes, SqlError] = {}  # marked ones that cannot be opened

    # --- start -------------------------------------------------------------------------------------------------

    def open(self) -> Tablespace:
        """Opens and recovers every tablespace; returns pg_default. Raises the errors of Tablespace.open."""
        with ExitStack() as undo:
            first = self._prepare(self._data, undo)
            recovering = [first]
            for name in self._names():
                try:
                    recovering.append(self._prepare(os.path.join(self._root, name), undo, bytes.fromhex(name)))
                except SqlError as error:
                    if not os.path.exists(os.path.join(self._root, name, MARK)):
                        raise
                    self._broken[bytes.fromhex(name)] = error
            decide(recovering)
            for item in recovering:
                item.tablespace.recover()
            undo.pop_all()
        self._find_dropped()
        self._open = {item.tablespace.tablespace_id: item.tablespace for item in recovering}
        self.found = {item.tablespace.tablespace_id: item.tablespace for item in recovering[1:]}
        return first.tablespace

    def close(self) -> None:
        """Closes every tablespace (Tablespace.close). Raises 58030 after closing all."""
        close_together(list(self._open.values()))
        self._open.clear()

    def _names(self) -> list[str]:
        """The directories of tablespaces; removes the rest of dropped ones."""
        if not os.path.isdir(self._root):
            return []
        for name in os.listdir(self._root):
            if name.endswith(GONE):
                shutil.rmtree(os.path.join(self._root, name), ignore_errors=True)  # another process may use it
        return sorted(name for name in os.listdir(self._root) if _NAME.fullmatch(name))

    def _prepare(self, path: str, undo: ExitStack, identity: bytes | None = None) -> Recovering:
        logs: list[LocalLog] = []

        def open_log(
            tablespace: bytes, committed: Callable[[int], None], failed: Callable[[BaseException], None]
        ) -> LocalLog:
            logs.append(self._open_log(path, tablespace, committed, failed))
            return logs[0]

        space = Tablespace.prepare(path, open_log, self._engine_thread, on_fatal=self._on_fatal, identity=identity)
        undo.callback(space.undo_prepare)
        if identity is not None and space.tablespace_id != identity:
            raise SqlError("XX001", f'directory "{path}" holds tablespace {space.tablespace_id.hex()}')
        self._logs[space.tablespace_id] = logs[0]
        return Recovering(space, logs[0])

    def settle(self, known: Collection[bytes]) -> None:
        """Decides about the marked directories by the ids of the catalog. Raises XX001 if one is missing."""
        for identity in known:
            if identity in self._broken:
                raise self._broken[identity]
            if identity not in self.found:
                raise SqlError(
                    "XX001",
                    f'the directory of tablespace {identity.hex()} is missing: "{self._path(identity)}"',
                    hint="Put it back, or restore the whole data directory.",
                )
            self.keep(identity)
        for identity in [*self.found, *self._broken]:
            if identity in known:
                continue
            space = self.found.pop(identity, None)
            if os.path.exists(self._mark(identity)):
                self._remove(identity, space)
            else:
                log.warning(
                    "the catalog knows no tablespace %s: %s is left alone", identity.hex(), self._path(identity)
                )
        self._broken.clear()

    def obtain(self, item: CatalogItem) -> Tablespace | None:
        """None: there is no other node."""
        return None

    def on_altered(self) -> None:
        """Options have no effect here."""

    def on_attached(self, space: Tablespace) -> None:
        return

    def check_options(self, options: Mapping[str, str], item: CatalogItem | None) -> None:
        """All options are kept; those of a cluster have no effect."""

    async def make_ready(self, options: Mapping[str, str]) -> None:
        """Nothing is needed."""

    async def stands(self, identity: bytes) -> bool:
        """Returns at once."""
        return True

    # --- CREATE and DROP ---------------------------------------------------------------------------------------

    def create(self, identity: bytes) -> Tablespace:
        """A new tablespace, marked. Raises 58030 if it cannot be made."""
        path = self._path(identity)
        try:
            with ExitStack() as undo:
                begun = path + GONE  # until it is marked
                undo.callback(shutil.rmtree, begun, ignore_errors=True)
                os.makedirs(begun, 0o700)
                _put_mark(begun)
                undo.callback(shutil.rmtree, path, ignore_errors=True)
                os.rename(begun, path)
                sync_directory(self._root)
                sync_directory(self._data)
                space = self._prepare(path, undo, identity).tablespace
                space.recover()
                undo.pop_all()
        except OSError as error:
            raise SqlError("58030", f'could not create directory "{path}": {error.strerror}') from error
        self._open[identity] = space
        return space

    def doubt(self, identity: bytes) -> None:
        """Marks the directory: a transaction that drops the tablespace is about to commit. Raises 58030."""
        path = self._path(identity)
        try:
            _put_mark(path)
        except OSError as error:
            raise SqlError("58030", f'could not mark directory "{path}": {error.strerror}') from error

    def keep(self, identity: bytes) -> None:
        """Removes the mark: the tablespace stays. If that fails, the next start does it, because a rollback, or the
        work after a commit, must not fail half-way."""
        try:
            if os.path.exists(self._mark(identity)):
                os.unlink(self._mark(identity))
                sync_directory(self._path(identity))
        except OSError as error:
            log.warning("the mark of tablespace %s could not be removed: %s", identity.hex(), error)

    def remove(self, space: Tablespace) -> None:
        """Closes a tablespace that is not, or no longer, in the catalog, and removes its marked directory. If that
        fails, the next start does it, and the commit or rollback continues."""
        self._remove(space.tablespace_id, space)

    def _remove(self, identity: bytes, space: Tablespace | None) -> None:
        self._open.pop(identity, None)
        if space is not None:
            space.give_up()
        gone = None
        try:
            if self._keep and space is not None and space.durable_lsn:
                gone = self._keep_changelog(identity)
            else:
                gone = self._move_away(identity)
        except OSError as error:
            log.warning("the directory of tablespace %s stays until the next start: %s", identity.hex(), error)
            if not os.path.isdir(self._place(identity)):
                self.dropped.pop(identity, None)
        threading.Thread(target=partial(_clear, space, gone), name="drop-tablespace", daemon=True).start()

    def _move_away(self, identity: bytes) -> str:
        gone = self._path(identity) + GONE
        os.rename(self._path(identity), gone)
        sync_directory(self._root)
        return gone

    # --- history of dropped tablespaces ------------------------------------------------------------------------

    def _keep_changelog(self, identity: bytes) -> str:
        """Moves a tablespace's directory to the dropped ones; returns the place of the rest, which can be removed."""
        first = next(iter(self._open.values()))
        self.dropped[identity] = dropped = Dropped(first.durable_lsn, time.time_ns() // 1000)
        path, place = self._path(identity), self._place(identity)
        with open(os.path.join(path, DROPPED), "wb") as file:
            file.write(orjson.dumps(dropped))
            file.flush()
            os.fsync(file.fileno())
        os.makedirs(self._dropped, 0o700, exist_ok=True)
        os.rename(path, place)
        self._logs[identity].has_moved(os.path.join(place, "changelog"))
        for directory in (place, self._dropped, self._root, self._data):
            sync_directory(directory)
        return os.path.join(place, "rows")

    def _find_dropped(self) -> None:
        """The tablespaces that earlier processes have kept; finishes their removals. A process without history does not
        touch them: it may be a command that only reads the directory."""
        if not self._keep or not os.path.isdir(self._dropped):
            return
        for name in filter(_NAME.fullmatch, sorted(os.listdir(self._dropped))):
            place = os.path.join(self._dropped, name)
            shutil.rmtree(os.path.join(place, "rows"), ignore_errors=True)
            with open(os.path.join(place, DROPPED), "rb") as file:
                self.dropped[bytes.fromhex(name)] = Dropped(**orjson.loads(file.read()))
            self._open_log(place, bytes.fromhex(name), _ignore, _ignore).close()

    def forget(self, identity: bytes) -> None:
        """Removes the history of a dropped tablespace."""
        self.dropped.pop(identity, None)
        shutil.rmtree(self._place(identity), ignore_errors=True)

    def _place(self, identity: bytes) -> str:
        return os.path.join(self._dropped, identity.hex())

    def _path(self, identity: bytes) -> str:
        return os.path.join(self._root, identity.hex())

    def _mark(self, identity: bytes) -> str:
        return os.path.join(self._path(identity), MARK)


def _clear(space: Tablespace | None, path: str | None) -> None:
    """In a thread: the slow part. A failed flush does not matter any more. `path`: the part that can be removed now."""
    if space is not None:
        with contextlib.suppress(SqlError):
            space.close()
    if path is not None:
        shutil.rmtree(path, ignore_errors=True)


def _ignore(_: object) -> None:
    """A callback for a closed changelog: nothing becomes durable, and nothing fails."""


def _put_mark(path: str) -> None:
    """A transaction that makes or drops the tablespace of this directory is about to commit."""
    os.close(os.open(os.path.join(path, MARK), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    sync_directory(path)
