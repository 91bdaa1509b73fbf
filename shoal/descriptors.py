"""Raises the limit of open files of the server's process: connections, tables, the changelog, bulk runs."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("shoal")

OWN = 200  # open files other than connections, including the files of a statement
MOST = 1 << 20


def raise_limit(connections: int) -> None:
    """Raises the process's soft limit to the hard one, and logs a warning if that is too low for the number of
    connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft != resource.RLIM_INFINITY and soft < connections + OWN:
        message = "the server may open %d files, and %d connections need up to %d: raise the limit (ulimit -n)"
        log.warning(message, soft, connections, connections + OWN)
