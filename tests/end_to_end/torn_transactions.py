"""Followers that apply each part of a transaction when its log brings it: called in a node's process
(tests/cluster.py), to see whether anybody notices."""

from __future__ import annotations

from replication.interface import LogEntry
from shoal.cluster.apply_order import ApplyOrder


def install() -> None:
    def admit(self: ApplyOrder, tablespace: bytes, entry: LogEntry) -> None:
        return None

    ApplyOrder.admit = admit  # type: ignore[method-assign]
