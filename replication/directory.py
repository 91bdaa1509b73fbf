"""The directory of a cluster: which nodes there are, and which of them leads what, kept up by watches.

Read from the znodes `nodes/*` and `tablespaces/*/{spec,epoch}` (replication/interface.py) once, and then whatever a
watch says has changed. Who asks is answered at once, from memory.

While the coordination service cannot be reached the last state stands, and `stale` says so: a router must go on
connecting clients then, and the nodes decide by themselves what they may still answer. When the session is over
another one is opened, and everything is read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

import orjson

from catalog.errors import SqlError
from replication.interface import Coordination, CoordinationUnavailableError, Node, SessionState

log = logging.getLogger("shoal.directory")

RETRY_PAUSE = 0.5  # seconds
_PARTS = ("spec", "epoch")  # of what is below a tablespace
_NODE_FIELDS = frozenset(field.name for field in dataclasses.fields(Node))


class NodeDirectory(Protocol):
    """What a router asks."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes that are registered, by their names."""

    @property
    def stale(self) -> bool:
        """Whether the coordination service cannot be reached, so that this may be old."""

    def leader(self, tablespace: str) -> str:
        """The node that leads a tablespace (its name in SQL), '' if nobody does."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls back after every change of the above."""


class CoordinatedDirectory:
    """The directory in a coordination service. `open_session` gives a new session each time it is called."""

    def __init__(
        self, open_session: Callable[[], Awaitable[Coordination]], *, retry_pause: float = RETRY_PAUSE
    ) -> None:
        self._open_session = open_session
        self._retry_pause = retry_pause
        self._session: Coordination | None = None
        self._nodes: dict[str, Node] = {}
        self._names: dict[str, str] = {}  # of tablespaces, by their ids
        self._leaders: dict[str, str] = {}  # by the ids of tablespaces
        self._followed: set[str] = set()  # values that are watched
        self._callbacks: list[Callable[[], None]] = []
        self._to_read: dict[str, None] = {}  # paths, in the order in which they were found to have changed
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.stale = True

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self._nodes

    def leader(self, tablespace: str) -> str:
        """The node that leads it; '' also where a name is not known yet."""
        for identifier, name in self._names.items():
            if name == tablespace:
                return self._leaders.get(identifier, "")
        return ""

    def on_change(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    async def start(self) -> None:
        """Opens the first session and reads everything. Raises what opening raises."""
        self._use(await self._open_session())
        with contextlib.suppress(CoordinationUnavailableError):
            await self._read_all()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._session is not None:
            await self._session.close()

    # ---- following --------------------------------------------------------------------------------------------------

    def _use(self, session: Coordination) -> None:
        self._session = session
        self._followed.clear()
        session.on_state(partial(self._state_changed, session))
        self._changed("nodes")
        self._changed("tablespaces")

    def _state_changed(self, session: Coordination, state: SessionState) -> None:
        if session is self._session and state != "connected":
            self._tell(stale=True)
            self._wake.set()

    def _changed(self, path: str) -> None:
        self._to_read[path] = None
        self._wake.set()

    async def _follow(self) -> None:
        while True:
            try:
                await self._wake.wait()
                self._wake.clear()
                if self._session is None or self._session.state == "lost":
                    self._use(await self._open_session())
                await self._read_all()
            except (CoordinationUnavailableError, SqlError) as error:
                log.warning("the directory of the cluster cannot be read: %s", error)
                self._tell(stale=True)
                await asyncio.sleep(self._retry_pause)
                self._wake.set()

    async def _read_all(self) -> None:
        """Reads every path that has changed; what cannot be read stays on the list."""
        session = self._session
        assert session is not None
        while self._to_read:
            path = next(iter(self._to_read))
            await self._read(session, path)
        self._tell(stale=session.state != "connected")

    async def _read(self, session: Coordination, path: str) -> None:
        # A change during the read must put the path back on the list: it is taken off first.
        self._to_read.pop(path)
        try:
            watch = partial(self._watched, session, path)
            if path in ("nodes", "tablespaces"):
                self._listed(path, await session.children(path, watch))
            else:
                found = await session.get(path, watch)
                self._found(path, None if found is None else orjson.loads(found.data))
        except CoordinationUnavailableError:
            self._to_read[path] = None
            raise

    def _watched(self, session: Coordination, path: str) -> None:
        if session is self._session:
            self._changed(path)

    def _listed(self, path: str, names: list[str]) -> None:
        listed = set(names)
        if path == "nodes":
            for gone in self._nodes.keys() - listed:
                del self._nodes[gone]
            paths = [f"nodes/{name}" for name in names]
        else:
            for gone in self._names.keys() - listed:
                del self._names[gone]
                self._leaders.pop(gone, None)
            paths = [f"tablespaces/{name}/{part}" for name in names for part in _PARTS]
        folder = path + "/"
        self._followed -= {item for item in self._followed if item.startswith(folder)} - set(paths)
        self._to_read.update(dict.fromkeys(item for item in paths if item not in self._followed))
        self._followed.update(paths)

    def _found(self, path: str, value: dict[str, Any] | None) -> None:
        parts = path.split("/")
        if parts[0] == "nodes":
            if value is None:
                self._nodes.pop(parts[1], None)
            else:
                self._nodes[parts[1]] = Node(**{name: item for name, item in value.items() if name in _NODE_FIELDS})
        elif value is None:
            (self._names if parts[2] == "spec" else self._leaders).pop(parts[1], None)
        elif parts[2] == "spec":
            self._names[parts[1]] = str(value.get("name", ""))
        else:
            self._leaders[parts[1]] = str(value.get("leader", ""))

    def _tell(self, *, stale: bool) -> None:
        self.stale = stale
        for callback in self._callbacks:
            callback()
