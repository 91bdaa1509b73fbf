"""The row path: an analysed statement becomes one Python function that reads rows by keys, and runs at once.

Nothing here waits. A plan that meets too many rows raises `RowPathFull` before it has written anything, and the
statement runs on the columnar path. A lock that somebody else holds raises `LockWait`; the statement is rolled back to
its beginning, waits, and runs again.

    planner.py        analysed tree -> plan, or None for the columnar path
    pull_up.py        sub-queries in FROM, and so views, dissolved into the query around them
    constants.py      constants that fail before the first row, and what they keep from being computed
    select.py         SELECT;  row_lock_words.py  FOR UPDATE and its kin
    modify.py         INSERT, UPDATE, DELETE;  together.py  INSERT of many rows at once
    context.py        what a running statement carries with it
    joins.py, access.py, scan.py, whole_rows.py    order of loops; which keys confine a table; the loops themselves
    code.py, frame.py    the source of a plan's functions, and what all plans share
    expressions.py, array_expressions.py, compiled_value.py, operations.py, python_sides.py, values.py
                      expressions as Python source, and what it calls
    aggregates.py, extremes.py, row_order.py, sets.py, set_functions.py, subqueries.py    parts of queries
    recursion.py      WITH RECURSIVE, step by step
    records.py        rows of no declared type
    virtual.py        tables of pg_catalog
    row_decoder.py, encode.py, output.py    stored rows -> columns -> DataRow messages
    writer.py         a row, its index entries, uniqueness;  written.py  counts them
    conflicts.py, foreign_keys.py, exclusions.py, deferred.py    constraints: ON CONFLICT, foreign keys, EXCLUDE and
                      DEFERRABLE keys, what is checked at COMMIT
    index_expressions.py    index columns, predicates, defaults
    measured.py       what a plan tells the meter of its statement, and which calls may take long (`may_last`)
    explain.py, shown.py    EXPLAIN's lines; values in errors, as far as the user may see them

    small.py, closures.py, reads.py    a new SELECT over few rows, without code of its own: a statement that runs once
                      does not pay for compiling
"""
