"""Statements in the SQL of other databases: their text in, PostgreSQL's text out (the setting `sql_dialect`).

    names.py        the dialects, and what tells each from the others
    statements.py   a query string in any dialect -> its statements
    translation.py  the same for other dialects than PostgreSQL's
    reader.py       text -> sqlglot's tree
    writer.py       sqlglot's tree -> text; the parts of a tree that are known, by class:
    queries.py, joins.py, operators.py, values.py, casts.py, calls.py, changes.py
    functions.py    functions by dialect and name: number_functions.py, text_functions.py, date_functions.py

sqlglot reads the text. It forgives, so what it has read is not trusted: it also has a generator for PostgreSQL, which
warns of what it cannot carry over, or passes it on as it is. The writer here knows classes of nodes and their arguments
one by one, each with the meaning that it has in the dialect. What it does not know is refused by name (0A000), with
both dialects. Functions are not left to sqlglot's own classes, which join functions of several dialects that differ in
small things: the reader leaves each call as it is written, and functions.py has the name in the dialect, or it is
refused.

Statements that are about the session (SET, SHOW, BEGIN, COMMIT, ...) are PostgreSQL's in every dialect, so there is
always a way back.
"""
