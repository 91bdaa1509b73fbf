"""The columnar worker: a process with DuckDB that answers analytic queries. The frames: engine/columnar/frames.py.

    engine -> worker                                      worker -> engine
                                                          ready    {watchers: ids of threads that only read or look,
                                                                    tables: storage ids that the file has}
    load      builds a table, or updates it to LMDB       loaded   {storage_id, lsn, built, seconds, memory}
                                                          or lost  {...}
    describe  adds and drops columns of a table, whose row layout has changed
    apply     changed keys with their new values          applied  {bytes}            or  lost
    run       the same as the file of a bulk run, with the number of its draft (0: none); the worker removes the
              file when it has applied the run
              (apply and run: `reached` is the LSN, if these are its last changes)
    draft     the file of a bulk load, whose columns are made while it grows (engine/columnar/drafts.py)
    draft_rows     the file has so many bytes            draft_grown {draft, rows}  or  draft_lost {draft, message}
    draft_discard  drops a draft, and removes its file
    drop      drops a table
    save      saves the columns now (the worker also      saved    {id, tables: [storage id, LSN, rows, bytes], seconds,
              saves without this)                                   memory}
                                                          unsaved  {id, message}
              during load, run and save                   progress {storage_id, phase, total, done, bytes}
    virtual   stores a virtual table's content, under a name
    forget    drops the content of that name
    query     SQL with its overlays and encoding          rows | batch, then end | error
    credit    the reader of a result has taken so many bytes
    cancel    cancels a query
    hear      asks, by a number, whether frames are read                              alive    {id}

Threads: the main thread reads frames. `cancel`, `credit` and `hear` act at once. The applier thread executes all other
frames in order, and only this thread writes to DuckDB. For a query, the applier opens a cursor and pins it to DuckDB's
current state; then another thread runs the query. So a query sees exactly the changes that the engine sent before it.

Before the worker ends by itself, it sends a reason: full, grown, broken, displaced (engine/columnar/worker_report.py).

The process ends when its socket or its standard input ends: its parent has died, or ends the worker. It exits by
os._exit, because nothing needs a clean shutdown and DuckDB's bindings print errors at the interpreter's exit.
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
