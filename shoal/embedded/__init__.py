"""The database inside a program: `import shoal; db = shoal.open("path")`.

database.py        an open directory; transactions; statements that commit on their own
connection.py      PEP 249 connections and cursors
tables.py          the key-value interface
values.py          conversion between Python's values and the database's
engine_thread.py   the engine on a thread of its own, and connections to it
errors.py          PEP 249's exceptions;  types.py  its type objects and constructors
"""
