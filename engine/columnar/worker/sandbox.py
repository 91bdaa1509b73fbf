"""What the worker process gives up before it does anything else.

It evaluates what users wrote, in a large library of C++, so it is treated as the part that may be turned against us:

- every descriptor but its socket and the standard streams is closed (the parent already passes no others);
- the network: a network namespace of its own without interfaces, through unshare(2). That needs privileges or
  unprivileged user namespaces; where the kernel refuses both, DuckDB's own switches remain (`enable_external_access`
  and the extension settings are off, and the configuration is locked). The socket pair goes on working: it is
  inherited;
- no new privileges, no core dumps (they would hold users' rows), first choice of the kernel's out-of-memory killer,
  so that the engine is not;
- its place at the processors: SCHED_BATCH and nice 5. A query may keep all of them busy for minutes, and beside it the
  engine's thread is to commit and to answer point reads. Not more, for where the machine is full a query still has to
  end. Where Linux schedules sessions as groups (sched_autogroup), niceness counts within a session only: then the
  group of this process, which is a session of its own, gets it as well;
- memory: engine/columnar/worker/memory.py watches what is resident and ends queries, at worst the process, never the
  machine. DuckDB's own memory_limit is lower and ends a query with 53200; the watch is for what it does not count
  (Arrow, Python, results on their way). RLIMIT_DATA, which since Linux 4.7 counts private writable memory whether it
  comes from brk or mmap, is a far limit for what grows faster than anybody looks. RLIMIT_AS would also count LMDB's
  map, which is as large as the database may grow. The stacks of threads count as a whole, so they are of the usual size
  here, whatever the limit that the parent has for its own;
- its life after its parent's. Standard input is a pipe that nobody writes to, and when the parent's end of it closes,
  be it by SIGKILL, the kernel sends SIGIO, which ends this process in the midst of anything. Its socket ends too, but
  a call into C that keeps the interpreter to itself (one search by a regular expression can, for hours) would let
  nobody read that.

Called first thing in the process, before NumPy or DuckDB start threads: unshare(CLONE_NEWUSER) needs a single thread.
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
    """Gives everything up. `keep` is the descriptor of the socket; `memory_limit` is DuckDB's, in bytes.

    Returns whether the network is out of reach.
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
    """From now on the end of standard input ends this process (fcntl(2), O_ASYNC)."""
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:  # it has ended before
        os._exit(1)


def _limit_stacks(libc: ctypes.CDLL) -> None:
    """The size of the stacks of threads that start from now on; where the C library has no such call, they have what
    the resource limit was when the process began."""
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
