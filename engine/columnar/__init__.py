"""The columnar path: statements that read many rows run as DuckDB SQL in a separate process, the worker.

    generate/         an analysed tree -> DuckDB SQL
    worker/           the process: its tables, its queries, its limits
    interface.py      the path as sessions see it
    client.py         the engine's side: sends queries (request.py);  worker_process.py  starts and ends the worker
    result_streams.py results of queries; retries of queries
    feed.py           the changes that each of the worker's tables lacks; every query first sends them
    ahead.py          sends tables that a commit has filled in bulk, before a query needs them
    drafts.py         columns of a bulk load's rows, made while the load runs
    reshape.py        columns that ALTER TABLE adds or drops, in a table that the worker has
    frames.py         the frames between the two processes;  frame_protocol.py  the engine's end of their socket
    descriptions.py   descriptions of tables for the worker;  virtual.py  rows of system views for the worker
    literals.py       parameters as DuckDB SQL
    cells.py, datarow.py    result columns -> text or binary cells -> DataRow messages
    arrow_stream.py   results as Arrow streams
    worker_answers.py replaces a worker that no longer answers messages
    worker_report.py  what the worker reports of its tables and of its file: for views, metrics and the log
    watch.py          replaces a worker that makes no progress while sessions wait

Values in columns: catalog/types, "Values in columns".
"""
