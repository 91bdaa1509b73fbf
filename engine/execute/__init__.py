"""The row path: an analysed statement becomes one Python function that reads rows by keys, and runs at once.

Nothing here waits. A plan that visits too many rows raises `RowPathFull` before it has written anything, and the
statement runs on the columnar path. A lock that another transaction holds raises `LockWait`; the statement is rolled
back to its beginning, waits, and runs again.

    planner.py        analysed tree -> plan, or None for the columnar path
    pull_up.py        sub-queries in FROM, and so views, merged into the outer query
    constants.py      constants that fail before the first row, and expressions that constants exclude
    select.py         SELECT;  row_lock_words.py  FOR UPDATE and similar
    modify.py         INSERT, UPDATE, DELETE;  together.py  INSERT of many rows at once
    context.py        the context of a running statement
    joins.py, access.py, scan.py, whole_rows.py    order of loops; access paths; the loops themselves
    code.py, frame.py    the source of a plan's functions; parts that all plans share
    expressions.py, array_expressions.py, compiled_value.py, operations.py, python_sides.py, values.py
                      expressions as Python source, and the functions that it calls
    aggregates.py, extremes.py, row_order.py, sets.py, set_functions.py, subqueries.py    parts of queries
    recursion.py      WITH RECURSIVE, step by step
    records.py        rows of no declared type
    virtual.py        tables of pg_catalog
    row_decoder.py, encode.py, output.py    stored rows -> columns -> DataRow messages
    writer.py         a row, its index entries, uniqueness;  written.py  counts written rows
    conflicts.py, foreign_keys.py, exclusions.py, deferred.py    constraints: ON CONFLICT, foreign keys, EXCLUDE and
                      DEFERRABLE keys, checks at COMMIT
    index_expressions.py    index columns, predicates, defaults;  definition_expressions.py  their analysis
    index_forms.py    expressions and predicates of indexes, to be compared with conditions
    variants.py       plans with indexes that answer for some values of the parameters
    measured.py       memory accounting in a plan, and calls that may take long (`may_last`)
    explain.py, shown.py    EXPLAIN's lines; values in errors, as far as the user may see them

    small.py, closures.py, reads.py    a new SELECT over few rows, interpreted: a statement that runs once is not
                      compiled
"""
