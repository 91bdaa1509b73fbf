"""Sets the stack sizes of threads to the size that Python's recursion limit needs.

Nested SQL is parsed, analysed, planned and compiled by recursion, up to RECURSION_LIMIT calls of Python. Deeper nesting
is refused (54001). A call may use up to about 1 kB of the C stack (`sorted` with a key uses most), and the usual 8 MB
end long before 20,000 calls: the process would end by SIGSEGV in place of an error. So threads that run the engine have
STACK bytes. These are addresses, and use memory only when touched.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

RECURSION_LIMIT = 20_000  # calls of Python
STACK = 64 << 20  # bytes: 3.3 kB for each call

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def raise_stack_limits() -> None:
    """Raises the stack limits of the main thread, which must be the caller, and of threads that start later, and then
    Python's recursion limit. The recursion limit is lower if the process may not have so large a stack (the hard limit
    of `ulimit -s`).

    Linux lets the main thread's stack grow to the limit in force at that moment, and keeps 128 MB of addresses below it
    free.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    room = STACK if hard == resource.RLIM_INFINITY else min(STACK, hard)
    if soft != resource.RLIM_INFINITY and soft < room:
        resource.setrlimit(resource.RLIMIT_STACK, (room, hard))
    threading.stack_size(STACK)
    sys.setrecursionlimit(RECURSION_LIMIT * room // STACK)


@contextlib.contextmanager
def deep_thread() -> Iterator[None]:
    """Threads that start within this context have a stack of STACK bytes. Raises Python's recursion limit, which
    threads share."""
    before = threading.stack_size(STACK)
    try:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
        yield
    finally:
        threading.stack_size(before)


class DeepExecutor(ThreadPoolExecutor):
    """An executor whose threads have such stacks. It plans long texts. The threads start when there is work."""

    def submit(
        self, work: Callable[Arguments, Result], /, *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Future[Result]:
        with deep_thread():
            return super().submit(work, *arguments, **named)
