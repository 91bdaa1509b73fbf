"""Bulk work: COPY, large INSERT ... SELECT, UPDATE and DELETE, and the jobs of schema changes, in whole columns.

    rows.py        the rows of a batch: Arrow columns, or tuples for values that columns cannot hold
    complete.py    defaults, generated columns, NOT NULL and CHECK
    encode.py      rows -> keys, stored rows, index entries
    insert.py      new rows into bulk runs, with uniqueness (claims.py: against other writers)
    change.py      changed and deleted rows
    single.py      new rows one by one;   references.py  foreign keys of many rows;   locks.py  see below
    load.py        COPY FROM: copy_lines.py splits lines and fields, copy_parse.py parses rows, read_columns.py reads
                  columns by Arrow, copy_binary.py and copy_arrow.py read these formats, copy_options.py checks options
    copy_output.py lines of COPY TO
    backfill.py    jobs of schema changes
    thread.py      a thread for one statement;   spool.py  results until they are read

A statement starts small. Its first rows are collected. If there are no more, they are written one by one through
`TableWriter`, with a lock on each. A larger statement works in whole columns, in a thread beside the engine's. It
writes bulk runs (engine/storage/runs.py), and the transaction's commit refers to them.

**Locks.** Bulk runs do not lock rows one by one:

   new rows                     ROW EXCLUSIVE, as a single INSERT. Others may write at the same time. Only equal unique
                                keys conflict: claims.py compares them, and locks the keys of a run
   changed or deleted rows      EXCLUSIVE: no other writers and no row locks. It is taken when the size is known, before
                                anything is written (locks.py)

Plain reads continue in every case. A weaker lock that an UPDATE or DELETE itself took is released first. So two such
statements wait for each other, and do not deadlock over an upgrade.

**Order.** A commit applies its runs first, and then its single writes (engine/storage/edits.py). So a key that the
transaction has written singly must also be written singly later.

**Uniqueness** is checked batch by batch against existing rows (engine/storage/newest.py). Batches of one statement may
have equal keys. The sort at the end of the run finds these.

In UPDATE, the state after the statement must be unique. So `SET id = id + 1` over many rows passes, where row-by-row
checks would depend on the order of the rows.
"""
