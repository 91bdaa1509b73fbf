"""DuckDB's SQL and types as trees. Functions and the generator of the columnar path build statements from them.

types.py        types: DECIMAL with precision and scale, LISTs with elements, STRUCTs with fields
nodes.py        nodes of SQL, which are converted to text once
templates.py    templates of SQL, which are parsed once
"""
