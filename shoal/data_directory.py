"""The tablespaces of a data directory, over changelogs in that directory."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from engine.storage.directories import LocalTablespaces
from engine.storage.tablespace import Tablespace
from replication.local import LocalChangelog
from shoal.history import HOLDER


def open_spaces(
    data: Path,
    engine_thread: Callable[[Callable[[], None]], object],
    fatal: Callable[[BaseException], None],
    loop: asyncio.AbstractEventLoop | None = None,
    logs: dict[bytes, LocalChangelog] | None = None,
    keep: bool = False,
) -> LocalTablespaces:
    """The tablespaces of a data directory over local changelogs, not opened yet. `loop`: the loop of the engine's
    thread. `logs` gets the changelogs by tablespace id. With `keep`, no segment is removed until history is managed
    (shoal/history.py)."""
    opened = {} if logs is None else logs

    def thread(work: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed, because the process is ending
            engine_thread(work)

    def open_log(
        directory: str, tablespace: bytes, committed: Callable[[int], None], failed: Callable[[BaseException], None]
    ) -> LocalChangelog:
        path = os.path.join(directory, "changelog")
        made = opened[tablespace] = LocalChangelog(path, thread, committed, failed, loop=loop, tablespace=tablespace)
        if keep:
            made.hold(HOLDER, 0)
        return made

    return LocalTablespaces(str(data), open_log, thread, fatal, keep)


def open_store(
    data: Path,
    engine_thread: Callable[[Callable[[], None]], object],
    fatal: Callable[[BaseException], None],
    loop: asyncio.AbstractEventLoop | None = None,
) -> Tablespace:
    """pg_default of a data directory without other tablespaces, over its local changelog."""
    return open_spaces(data, engine_thread, fatal, loop).open()
