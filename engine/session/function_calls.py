"""The calls of functions in one session, if the setting track_functions says so, and the statistics as the session sees
them (stats_fetch_consistency).

Counted are functions in PL/pgSQL and, with track_functions = all, functions in SQL that run statements. A function in
SQL that is expanded into the statement that calls it is not counted, as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter
from typing import TYPE_CHECKING

from catalog.schema import Routine
from engine.node.function_statistics import CallCounts

if TYPE_CHECKING:
    from engine.session.interface import SessionCore

_UNCOUNTED = nullcontext()


class FunctionCalls:
    """See the module's text."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self._pending: dict[int, CallCounts] = {}
        self._running: set[int] = set()
        self._nested = 0.0  # seconds of the calls that have ended
        self._seen: dict[int, CallCounts | None] = {}
        self._pages: int | None = None  # the same for `notification_pages`
        self._seen_by: object = None  # the transaction and the consistency that `_seen` is for
        self._languages: tuple[str, ...] = ()
        self.follow()

    def follow(self) -> None:
        """The settings have changed."""
        tracked = self._session.settings.get("track_functions")
        self._languages = {"none": (), "pl": ("plpgsql",), "all": ("plpgsql", "sql")}[tracked]

    # ---- counting ---------------------------------------------------------------------------------------------------

    def counts(self, routine: Routine) -> bool:
        """Whether calls of a function are counted."""
        return routine.language in self._languages

    def count(self, routine: Routine) -> AbstractContextManager[None]:
        """A block that runs the body of a function."""
        return self._count_call(routine.oid) if routine.language in self._languages else _UNCOUNTED

    @contextmanager
    def _count_call(self, oid: int) -> Iterator[None]:
        is_outermost = oid not in self._running
        self._running.add(oid)
        self._pending.setdefault(oid, CallCounts())  # also for a call that fails
        self._session.present.function_statistics.waiting.add(self)
        nested, began = self._nested, perf_counter()
        try:
            yield
        finally:
            if is_outermost:
                self._running.discard(oid)
        took = perf_counter() - began
        counts = self._pending.setdefault(oid, CallCounts())
        counts.calls += 1
        counts.own += took - (self._nested - nested)
        if is_outermost:  # else the time is part of that of the outer call
            counts.total += took
        self._nested = nested + took

    def hand_over(self) -> None:
        """Adds the calls to the node's, unless the transaction block that has made them has not ended. Calls of
        functions that are gone do not count."""
        session = self._session
        if not (self._running or session.in_block):
            self._hand_over()

    def close(self) -> None:
        self._hand_over()

    def _hand_over(self) -> None:
        node = self._session.present
        node.function_statistics.waiting.discard(self)
        catalog = node.catalogs.get(self._session.database_oid)
        node.function_statistics.add(self._pending, () if catalog is None else catalog.objects)
        self._pending.clear()

    # ---- reading ----------------------------------------------------------------------------------------------------

    def pending(self) -> dict[int, CallCounts]:
        """The calls of the present transaction."""
        self.hand_over()
        return self._pending

    def get(self, oid: int) -> CallCounts | None:
        """The statistics of a function. Within a transaction the first look decides, unless
        stats_fetch_consistency is none."""
        consistency = self._session.settings.get("stats_fetch_consistency")
        statistics = self._session.present.function_statistics
        if consistency == "none":
            statistics.collect()
            return statistics.get(oid)
        seen = self._seen_now(consistency)
        if oid not in seen and consistency == "cache":
            statistics.collect()
            seen[oid] = statistics.get(oid)
        return seen.get(oid)

    def by_function(self) -> dict[int, CallCounts]:
        """The statistics of all functions, as `get` returns them."""
        statistics = self._session.present.function_statistics
        statistics.collect()
        found = {oid: self.get(oid) for oid in {**statistics.by_function(), **self._seen}}
        return {oid: counts for oid, counts in found.items() if counts is not None}

    def notification_pages(self) -> int:
        """The pages of notifications that this node has sent, as this session sees them."""
        consistency = self._session.settings.get("stats_fetch_consistency")
        listeners = self._session.present.listeners
        if consistency == "none" or self._session.transaction is None:
            return listeners.pages
        self._seen_now(consistency)
        if self._pages is None:
            self._pages = listeners.pages
        return self._pages

    def _seen_now(self, consistency: str) -> dict[int, CallCounts | None]:
        transaction = self._session.transaction
        now = consistency, id(transaction), transaction and transaction.start_time
        if now != self._seen_by or transaction is None:
            self._seen_by, self._seen, self._pages = now, {}, None
            if consistency == "snapshot":
                self._pages = self._session.present.listeners.pages
                statistics = self._session.present.function_statistics
                statistics.collect()
                self._seen = dict(statistics.by_function())
        return self._seen

    def clear_snapshot(self) -> None:
        self._seen_by, self._seen, self._pages = None, {}, None

    # ---- resetting --------------------------------------------------------------------------------------------------

    def reset(self, oid: int) -> None:
        """pg_stat_reset_single_function_counters()."""
        statistics = self._session.present.function_statistics
        statistics.collect()
        statistics.reset(oid)

    def reset_all(self) -> None:
        """The functions' part of pg_stat_reset()."""
        statistics = self._session.present.function_statistics
        statistics.collect()
        for oid in statistics.by_function():
            if oid in self._session.catalog.objects:
                statistics.reset(oid)
