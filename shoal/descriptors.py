"""Raises the limit of files that the server's process may open: connections, tables, the changelog, bulk runs."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("shoal")

OWN = 200  # what the server has open beside its connections, and a statement's files
MOST = 1 << 20


def raise_limit(connections: int) -> None:
    """Raises the process's soft limit to the hard one, and says so in the log where that is short of what so many
    connections may need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft != resource.RLIM_INFINITY and soft < connections + OWN:
        message = "the server may open %d files, and %d connections need up to %d: raise the limit (ulimit -n)"
        log.warning(message, soft, connections, connections + OWN)
