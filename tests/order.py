"""In which order tests run, and beside what, under `pytest -n 3 --dist loadfile`.

What takes long comes first: when only short files are left, no worker waits for the other's last one. (xdist's own
order is by the number of a file's tests, which has the files of one long test each at the end.) All that is in one of
the folders of `TOGETHER` stays with one worker, because their tests share what is dear to start.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

WAITING = ("spark", "end_to_end", "docs", "shoal", "drivers", "torture", "conformance")
"""Folders whose tests wait for processes, the longest first."""
LONG = (*WAITING, "replication/log", "engine/session")
"""Those, and the folders of the longest files among the others."""
TOGETHER = ("tests/spark/", "tests/tidy/")
"""One Spark for all its tests: another one would start, and warm up, for a minute. One parse of all sources."""


def in_order(items: list[pytest.Item]) -> None:
    """Sorts them: the folders of `LONG`, then the others; within each as they were collected."""
    places = {f"tests/{folder}/": place for place, folder in enumerate(LONG)}

    def place(item: pytest.Item) -> int:
        return next((place for folder, place in places.items() if item.nodeid.startswith(folder)), len(LONG))

    items.sort(key=place)


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """By file, in the order of the tests, and by folder where a folder is to stay together."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return next((folder for folder in TOGETHER if scope.startswith(folder)), scope)
