"""The columnar worker: a process with DuckDB that answers analytic queries. The frames: engine/columnar/frames.py.

    engine -> worker                                      worker -> engine
                                                          ready    {watchers: ids of threads that only read or look,
                                                                    tables: storage ids that the file has}
    load      a table: bring it to what LMDB has          loaded   {storage_id, lsn, built, seconds, memory}
                                                          or lost  {...}
    describe  a table has a new row layout, with columns that come or go
    apply     changed keys with their new values          applied  {bytes}            or  lost
    run       the same, as a bulk run's file, which the worker removes when it has applied it,
              with the number of its draft (0: none)
              (the last of an LSN's changes have it: reached)
    draft     a bulk load's file, of which columns are made while it grows (engine/columnar/drafts.py)
    draft_rows     so many bytes of it are there         draft_grown {draft, rows}  or  draft_lost {draft, message}
    draft_discard  they are not needed
    drop      a table
    save      the file, now; it is saved by itself too    saved    {id, tables: [storage id, LSN, rows, bytes], seconds,
                                                                    memory}
                                                          unsaved  {id, message}
              of load, run and save, while they last      progress {storage_id, phase, total, done, bytes}
    virtual   a virtual table's content, under a name
    forget    that name
    query     SQL with its overlays and encoding          rows | batch, then end | error
    credit    bytes of a result have been taken
    cancel    a query
    hear      a question, with its number: whether frames are read                    alive    {id}

Threads: the main thread reads frames. `cancel`, `credit` and `hear` act at once; everything else goes, in order, to the
applier thread, which alone writes to DuckDB. When a query's turn comes, the applier opens a cursor and pins it to
DuckDB's state of that moment, that is after every delta sent before the query and before every one sent after it;
then a thread runs the query while the applier goes on. So a query sees exactly what the engine sent before it.

Before it ends by itself it says why: full, grown, broken, displaced (client.py).

The process ends when its socket or its standard input does: its parent has died or wants it to. It leaves through
os._exit, since nothing here outlives it and DuckDB's bindings complain on the way out of an interpreter.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys

from engine.columnar.worker import sandbox
from engine.columnar.worker.room import Room
from engine.pandas_import import refuse_pandas


def main() -> None:
    parser = argparse.ArgumentParser(prog="engine.columnar.worker")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--memory-limit", type=int, required=True, help="bytes that DuckDB may hold")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--spill-directory", required=True)
    parser.add_argument("--spill", type=int, default=0, help="bytes that it may hold (0: what is free)")
    parser.add_argument("--save-after", type=float, default=0.0, help="seconds for which nothing is saved")
    parser.add_argument("--columns", help="the file in which tables outlive the process")
    arguments = parser.parse_args()
    os.umask(0o077)
    sandbox.end_with_parent()
    refuse_pandas()
    sandbox.enter(arguments.fd, arguments.memory_limit)
    # Only now: these start threads, and the sandbox must be entered with one.
    from engine.columnar.worker.serve import Server

    connection = socket.socket(fileno=arguments.fd)
    status = 1
    try:
        room = Room(
            arguments.memory_limit,
            arguments.spill_directory,
            arguments.spill,
            arguments.columns,
            arguments.save_after,
        )
        Server(connection, room, arguments.threads).serve()
        status = 0
    except BaseException as error:
        print(f"columnar worker: {error!r}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
