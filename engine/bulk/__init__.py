"""Bulk work: COPY, large INSERT ... SELECT, UPDATE and DELETE, and the jobs of schema changes, in whole columns.

    rows.py        rows on their way: Arrow columns, or tuples where columns cannot hold them
    complete.py    defaults, generated columns, NOT NULL and CHECK
    encode.py      rows -> keys, stored rows, index entries
    insert.py      new rows into bulk runs, with uniqueness (claims.py: beside other writers)
    change.py      changed and deleted rows
    single.py      new rows one by one;   references.py  foreign keys of many rows;   locks.py  see below
    load.py        COPY FROM: copy_lines.py cuts and splits, copy_parse.py makes rows, read_columns.py those that Arrow
                   reads, copy_binary.py and copy_arrow.py those formats, copy_options.py checks options
    copy_output.py lines of COPY TO
    backfill.py    jobs of schema changes
    thread.py      a thread for one statement;   spool.py  results that wait for their reader

A statement starts small. Its first rows are gathered, and if they are all there is, they are written one by one through
`TableWriter`, with a lock on each. Only a larger one works in whole columns, in a thread beside the engine's, into bulk
runs (engine/storage/runs.py) that the transaction's commit refers to.

**Locks.** Bulk runs lock no rows one by one:

    new rows                     ROW EXCLUSIVE, as a single INSERT. Others write beside it; only equal unique keys meet:
                                 claims.py compares them, and locks those that a run has
    changed or deleted rows      EXCLUSIVE: no other writer, and nobody who locks rows; taken when the size is known and
                                 before anything is written (locks.py)

Plain reads go on in every case. The weaker lock that an UPDATE or DELETE began with is given back first where it was
the statement's own, so two of them wait for each other and do not deadlock over an upgrade.

**Order.** A commit applies its runs first and its single writes on top (engine/storage/edits.py). A key that the
transaction has written singly therefore goes on being written singly.

**Uniqueness** is looked for batch by batch against what exists (engine/storage/newest.py). Batches of one statement may
overlap each other; that shows when the run is finished, which sorts it.

In UPDATE, uniqueness is judged by the state after the statement, so `SET id = id + 1` over many rows passes where
row-by-row checks would depend on the order of the rows.
"""
