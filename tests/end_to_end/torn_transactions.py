"""Followers that apply each part of a transaction when its log brings it: called in a node's process
(tests/cluster.py), to see whether anybody notices."""

from __future__ import annotations

from replication.interface import LogEntry
from shoal.cluster.arrivals import Arrivals


def install() -> None:
    def admit(self: Arrivals, tablespace: bytes, entry: LogEntry) -> None:
        return None

    Arrivals.admit = admit  # type: ignore[method-assign]
