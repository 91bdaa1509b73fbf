"""A node's regional copy of the changelog (replication/stores/regional.py): reads go through it, and objects that the
log has dropped are removed from it."""

from __future__ import annotations

import asyncio
import logging

from replication.background import run_in_background
from replication.interface import ChangelogStore, StoreUnavailableError
from replication.observer import Observer
from replication.stores.regional import RegionalStore, sweep_regional

log = logging.getLogger("shoal.cluster")

SWEEP = 600.0  # seconds between two sweeps for removed objects; every node of the region does it


class Region:
    """`store`: the regional store, which the caller closes."""

    def __init__(self, store: ChangelogStore, pause: float = SWEEP) -> None:
        self._store = store
        self._pause = pause
        self._over: dict[ChangelogStore, RegionalStore] = {}
        self._task: asyncio.Task[None] | None = None

    def wrap_store(self, primary: ChangelogStore) -> RegionalStore:
        """A store whose objects are read through the region."""
        found = self._over.get(primary)
        if found is None:
            found = self._over[primary] = RegionalStore(primary, self._store)
        return found

    def start(self, observer: Observer) -> None:
        self._task = run_in_background(self._run(observer))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for store in self._over.values():
            await store.stop()

    async def _run(self, observer: Observer) -> None:
        while True:
            await asyncio.sleep(self._pause)
            seen = observer.tablespaces.values()
            if observer.stale or not seen:
                continue
            oldest = {item.tablespace.hex(): item.ledger_list.first_ledger for item in seen}
            try:
                gone = await sweep_regional(self._store, oldest)
            except StoreUnavailableError as error:
                log.info("cannot clean the regional store now: %s", error)
            else:
                if gone:
                    log.info("%d dropped ledgers were removed from the regional store", gone)
