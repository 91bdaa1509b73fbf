"""The worker: a process with DuckDB that answers analytic queries. Only this package imports duckdb.

    __main__.py   the entry, and the protocol;  serve.py  the loop: frames in, tables and queries behind them
    sandbox.py    what the process gives up before it does anything else: files, network, privileges, priority
    database.py   the DuckDB database;  columns_file.py  the file that its tables are in;  room.py  what it may take
    tables.py     tables: built from LMDB at their first use, then kept up by changes;  keys.py  finds a row by its key
    held_table.py rows on their way into a table's columns;  drafts.py  columns of bulk loads that are under way
    timestamps.py refuses timestamps that DuckDB cannot store;  progress.py  reports progress to the engine
    query.py      one query: its snapshot, its thread, and `Slots`, which say who runs when memory is short
    udf.py        Python functions inside DuckDB;  values.py  their values;  calls.py  ends those that take long
    memory.py     bounds what is resident in memory

The process has no files but its own and LMDB's, and no network, and ends when the engine's process ends.
"""
