"""Runs PL/pgSQL: a body (engine/sql/plpgsql) becomes one Python function, and its statements run in the session.

    known.py      what is known of the texts: their plans, and where their parameters are
    names.py      what a name in an SQL text of the body means: a variable, a field of one, or a column
    fragments.py  the SQL in a body: expressions as Python source, statements as plans
    program.py    a compiled body
    compile.py    the body's control structures as Python source
    never_null.py the variables that are never NULL
    frame.py      what a running function does: expressions, loops over rows, errors, results
    frame_cursors.py  its cursors
    nested.py     the statements of a function
    programs.py   compiled bodies, kept with their catalog
    records.py    values of type record, and assignment of rows
    utilities.py  statements that are neither queries nor changes of rows: CALL, CREATE TABLE AS, ...
    stack.py      the context of notices
    errors.py     RAISE, ASSERT, the context of errors
    call.py       calls as statements of their own, CALL and DO;  within.py  calls within other statements
    suspend.py    lets a function that runs at once wait in the middle

A function is a plain Python function that runs at once, in a greenlet: where one of its statements has to wait (for a
lock, for the worker, for durability), the greenlet is left and entered again (suspend.py). So a loop costs what a loop
in Python costs, and nothing holds the event loop: every loop looks at the clock.
"""
