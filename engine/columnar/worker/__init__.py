"""The worker: a process with DuckDB that answers analytic queries. Only this package imports duckdb.

    __main__.py   entry point and protocol;  serve.py  reads frames and executes them
    sandbox.py    gives up files, network, privileges and priority, before anything else runs
    database.py   the DuckDB database;  columns_file.py  the file with its tables;  room.py  limits of memory and disk
    tables.py     tables: built from LMDB at first use, then updated by changes;  keys.py  finds a row by its key
    held_table.py converts rows to a table's columns;  drafts.py  columns of running bulk loads
    timestamps.py refuses timestamps that DuckDB cannot store;  progress.py  reports progress to the engine
    query.py      one query: its snapshot and its thread; `Slots` decides which queries run
    udf.py        Python functions inside DuckDB;  values.py  their values;  calls.py  interrupts long calls
    memory.py     limits resident memory

The process can open only its own files and LMDB's, has no network, and ends when the engine's process ends.
"""
