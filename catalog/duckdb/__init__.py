"""DuckDB's SQL and types as trees: what functions and the generator of the columnar path put statements together from.

types.py        types: DECIMAL with its digits, LISTs with their elements, STRUCTs with their fields
nodes.py        SQL as nodes, of which text is made once
templates.py    templates of SQL, parsed once
"""
