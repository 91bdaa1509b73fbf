"""Translates statements from the SQL of other databases to PostgreSQL's (the setting `sql_dialect`).

    names.py        the dialects, and their differences
    statements.py   a query string in any dialect -> its statements
    translation.py  the same for dialects other than PostgreSQL's
    reader.py       text -> sqlglot's tree
    writer.py       sqlglot's tree -> text. The supported parts of a tree, by class:
                    queries.py, joins.py, operators.py, values.py, casts.py, calls.py, changes.py
    functions.py    functions by dialect and name: number_functions.py, text_functions.py, date_functions.py

sqlglot parses the text. It is tolerant, so its result is not trusted. Its own generator for PostgreSQL warns of
constructs that it cannot translate, or passes them on unchanged. The writer here supports classes of nodes and their
arguments one by one, with their meaning in the dialect. It refuses everything else by name (0A000), with both dialects.
sqlglot's own classes of functions are not used, because they join functions of several dialects that differ in details:
the reader keeps each call as it is written, and functions.py has the name in the dialect, or the call is refused.

Statements about the session (SET, SHOW, BEGIN, COMMIT, ...) are PostgreSQL's in every dialect, so a session can always
return to PostgreSQL's SQL.
"""
