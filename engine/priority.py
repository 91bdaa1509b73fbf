"""What may take long stands back from processors that others want.

The engine's thread answers point reads and commits; beside it threads of bulk statements keep processors busy for as
long as the client sends. Where there are fewer processors than threads, Linux shares them out evenly, and whoever waits
for a row waits for other threads' turns of some milliseconds, one after the other. So they get less where a processor
is wanted, and everything where it is not. Not much less: a thread that has the interpreter when it loses its processor
keeps the engine's thread waiting until it gets one again. For the same reason all of them are equally nice: none is to
take the processor from another one that has the interpreter.

Of Linux alone, where niceness is a thread's: elsewhere nothing is done.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading

NICENESS = 5  # a third of what a thread of niceness 0 gets where both want the same processor


def stand_back() -> None:
    """The calling thread, and those that it starts, yield to others from now on. There is no way back: to become less
    nice takes a privilege."""
    if sys.platform != "linux":
        return
    thread = threading.get_native_id()
    with contextlib.suppress(OSError):
        os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, thread, min(os.getpriority(os.PRIO_PROCESS, thread) + NICENESS, 19))
