"""How a process of Shoal ends after an error from which it cannot recover."""

from __future__ import annotations

import logging
import os

from catalog.errors import SqlError

log = logging.getLogger("shoal")


def end_process(error: BaseException) -> None:
    """Logs the error and ends the process, with status 70. It must not acknowledge or answer anything more;
    acknowledged commits are on disk. Any thread may call it."""
    known = isinstance(error, OSError | SqlError)  # of the disk or its data: a traceback is of no use
    log.critical("stopping after an unrecoverable error: %s", error, exc_info=None if known else error)
    os._exit(70)
