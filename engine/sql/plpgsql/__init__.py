"""PL/pgSQL: the text of a function's body -> a parse tree (PostgreSQL 16 manual, chapter 43).

parser.py          blocks, control structures, whole bodies;  sql_statements.py, declarations.py, reader.py  below it
tree.py            the parse tree;  scope.py  the names that are visible at a place
conditions.py      the names of error conditions
"""
