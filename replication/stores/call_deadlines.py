"""The deadlines of the calls to one store: each call has some seconds to make progress, and `close` ends all calls.

async with calls.begin() as deadline:
    ...                     # StoreUnavailableError when it takes longer than the timeout, or the store is closed
    deadline.extend()       # a piece of a large file was transferred: the time begins again
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

from catalog.durations import durations
from replication.interface import ObjectDamagedError, ObjectExistsError, ObjectMissingError, StoreUnavailableError

AT_ONCE = 16  # requests of one `get_each`
_ANSWERS = (ObjectExistsError, ObjectMissingError)


class Calls:
    """`timeout` in seconds; `store` names the store in errors, without credentials."""

    def __init__(self, store: str, timeout: float) -> None:
        self.store = store
        self.timeout = timeout
        self.closed = False
        self.running: set[Deadline] = set()

    def begin(self) -> Deadline:
        """A context for one call. Entering raises StoreUnavailableError after the store is closed."""
        return Deadline(self)

    def unavailable(self, why: str) -> StoreUnavailableError:
        """The error of an ended call, with the name of the store."""
        return StoreUnavailableError(f"{self.store}: {why}")

    def close(self) -> None:
        """Ends all running calls with StoreUnavailableError, and refuses later ones."""
        self.closed = True
        for deadline in list(self.running):
            deadline.end()


class Deadline:
    """The deadline of one call."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._timeout = asyncio.timeout(calls.timeout)
        self._began = time.monotonic()

    def extend(self, more: float = 0.0) -> None:
        """The call has made progress: its time begins again, with this many more seconds."""
        if not self._calls.closed:
            with contextlib.suppress(RuntimeError):  # it is ending already
                self._timeout.reschedule(asyncio.get_running_loop().time() + self._calls.timeout + more)

    def end(self) -> None:
        """The call ends now."""
        with contextlib.suppress(RuntimeError):  # it is ending already
            self._timeout.reschedule(asyncio.get_running_loop().time() - 1)

    async def __aenter__(self) -> Deadline:
        if self._calls.closed:
            raise self._calls.unavailable("closed")
        await self._timeout.__aenter__()
        self._calls.running.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls.running.discard(self)
        outcome = "ok" if kind is None or kind in _ANSWERS else "error"
        durations("shoal_store_seconds", store=self._calls.store, outcome=outcome).add_seconds(
            time.monotonic() - self._began
        )
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            why = "closed" if self._calls.closed else f"no answer within {self._calls.timeout:g} s"
            raise self._calls.unavailable(why) from None


async def get_each(
    get: Callable[[str], Awaitable[bytes]], names: Sequence[str], found: dict[str, bytes] | None = None
) -> dict[str, bytes]:
    """`ChangelogStore.get_many` for a store that returns one object per request. Adds each object to `found`, which
    keeps the objects before an error."""
    found = {} if found is None else found
    left = iter(names)

    async def ask() -> None:
        for name in left:
            with contextlib.suppress(ObjectMissingError, ObjectDamagedError):
                found[name] = await get(name)

    tasks = [asyncio.ensure_future(ask()) for _ in range(min(AT_ONCE, len(names)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return found
