"""DuckDB's SQL and types as trees, from which functions and the generator of the columnar path build statements.

types.py        types: DECIMAL with its digits, LISTs with their elements, STRUCTs with their fields
nodes.py        SQL as nodes, which are converted to text once
templates.py    templates of SQL, parsed once
"""
