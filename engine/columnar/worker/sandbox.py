"""The sandbox of the worker process: gives up privileges and resources before anything else runs.

The worker evaluates users' SQL in a large C++ library, so an attacker may take it over:

- files: every descriptor but the socket and the standard streams is closed (the parent already passes no others);
- the network: unshare(2) moves the process into a network namespace without interfaces. That needs privileges or
  unprivileged user namespaces. If the kernel refuses both, DuckDB's own settings remain (`enable_external_access`
  and the extension settings are off, and the configuration is locked). The inherited socket pair still works;
- privileges: no new privileges, no core dumps (they would contain users' rows). The kernel's out-of-memory killer
  chooses the worker first, rather than the engine;
- processors: SCHED_BATCH and nice 5. A query may use all processors for minutes, and meanwhile the engine's thread
  must commit and answer point reads. The niceness is not larger, because a query must also end on a busy machine. If
  Linux schedules sessions as groups (sched_autogroup), niceness counts within a session only: then the group of this
  process, which is in its own session, has the same niceness;
- memory: engine/columnar/worker/memory.py watches resident memory and ends queries, or at worst the process. DuckDB's
  memory_limit is lower and ends a query with 53200; the watch is for memory that DuckDB does not count (Arrow, Python,
  results not yet sent). RLIMIT_DATA, which since Linux 4.7 counts private writable memory of brk and mmap, is a high
  limit for memory that grows faster than the watch looks. RLIMIT_AS would also count LMDB's map, which is as large as
  the maximal database. The limits count whole stacks of threads, so their size here is the usual one, even if the
  parent's limit is another;
- end with the parent: standard input is a pipe without writes. When the parent's end closes, even by SIGKILL, the
  kernel sends SIGIO, which ends this process at once. The socket ends too, but its end would stay unread during a call
  into C that holds the interpreter lock (one search by a regular expression can, for hours).

The process enters the sandbox first, before NumPy or DuckDB start threads: unshare(CLONE_NEWUSER) needs a single
thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select

from engine.columnar.worker.memory import STACK_BYTES, limit_mapped
from engine.priority import stand_apart, stand_back

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_PR_SET_NO_NEW_PRIVS = 38


def enter(keep: int, memory_limit: int) -> bool:
    """Enters the sandbox. `keep` is the descriptor of the socket; `memory_limit` is DuckDB's, in bytes.

    Returns whether the process has lost its network.
    """
    _close_descriptors(keep)
    libc = ctypes.CDLL(None, use_errno=True)
    _limit_stacks(libc)
    stand_back()
    stand_apart()
    alone: bool = libc.unshare(_CLONE_NEWNET) == 0 or libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_mapped(memory_limit)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("900")
    return alone


def end_with_parent() -> None:
    """Makes the end of standard input end this process (fcntl(2), O_ASYNC)."""
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:  # standard input has ended already
        os._exit(1)


def _limit_stacks(libc: ctypes.CDLL) -> None:
    """Sets the stack size of threads that start later. A C library without this call uses the resource limit at the
    start of the process."""
    attributes = ctypes.create_string_buffer(256)  # pthread_attr_t: 56 bytes on 64-bit Linux
    with contextlib.suppress(AttributeError):
        libc.pthread_attr_init(attributes)
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(STACK_BYTES))
        libc.pthread_setattr_default_np(attributes)
        libc.pthread_attr_destroy(attributes)


def _close_descriptors(keep: int) -> None:
    os.closerange(3, keep)
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(keep + 1, min(highest, 1 << 16))
