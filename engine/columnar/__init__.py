"""The columnar path: what reads many rows runs as DuckDB SQL in a process of its own, the worker.

    generate/         an analysed tree -> DuckDB SQL
    worker/           the process: its tables, its queries, its limits
    interface.py      the path as sessions see it
    client.py         the engine's side: starts the worker, sends queries (request.py)
    result_streams.py results of queries, and which of these are sent again
    feed.py           which changes each of the worker's tables still lacks; every query first sends them
    ahead.py          tables that a commit filled in bulk are sent before a query asks for them
    frames.py         the frames between the two processes;  frame_protocol.py  the engine's end of their socket
    descriptions.py   tables as the worker has to know them;  virtual.py  rows of system views on their way to it
    literals.py       parameters as DuckDB SQL
    cells.py, datarow.py    result columns -> text or binary cells -> DataRow messages
    arrow_stream.py   results as Arrow streams
    worker_answers.py whether the worker hears where nobody waits for it any more; another one takes its place if not
    worker_report.py  what the worker tells of its tables and of its file: for views, for metrics, for the log
    watch.py          whether the worker does anything for those who wait; another one takes its place if not

How values look in columns: catalog/types, "Values in columns".
"""
