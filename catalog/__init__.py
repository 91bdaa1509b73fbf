"""Types, functions, schema objects, system views and errors. This package does no I/O and imports no other package of
Shoal.

    types/              every type: text, binary, row, key and DuckDB forms
    functions/          every function, operator, cast and aggregate that can run
    duckdb/             DuckDB's SQL and types as trees, for functions and for the columnar path
    system/             pg_catalog and information_schema, as relations whose rows are computed
    text_search/        full text search: parser, dictionaries, tsvector and tsquery, ranks
    data/               PostgreSQL 15's declarations: tools/dump_builtin_catalog.py writes catalog/data/pg_*.tsv,
                        tools/dump_extensions.py writes catalog/data/extensions

    catalog.py          `Catalog`: all schema objects at one moment
    schema.py           schema objects (Table, Index, View, Role, ...). `Source` resolves the names in the stored text
                        of a view or a routine
    rows.py             schema objects as rows of system tables, which is their stored form
    records.py          frozen dataclasses that are cheap to create: nodes of trees, values in plans
    identifiers.py      names and constants in the form of SQL
    errors.py           `SqlError`, the one exception that a client receives, with its SQLSTATE
    privileges.py       access control lists, and the privileges of a role
    row_security.py     whether the policies of a table restrict a role
    partitions.py       keys and bounds of partitioned tables as text, and the constraints of bounds
    operator_classes.py access methods of indexes and their operator classes
    memory.py           limits of memory for statements and connections: meters and accounts. Plans report to the meter
                        (engine/execute/measured.py), and so do writes (`put` in engine/txn/transaction.py), stored
                        results (engine/statements/collect.py) and connections (wire/connection.py)
    patience.py         interrupts long calls by a timer, so that none blocks the event loop
    processes.py        processes that work for a statement and end with it;  stillness.py  detects processes without
                        progress
    durations.py        durations as histograms, for /metrics
    text_caches.py      caches by text: patterns, templates, time zones
    encodings.py        client encodings;  binary_texts.py  texts within binary values;  long_numbers.py  long digits
    scram.py            the stored form of a password

Subjects that this package shares with others:

    user-defined types  `Enum`, `Domain`, `Composite`, `UserRange` in schema.py; usertypes.py makes their codecs,
                        row_types.py those of the rows of tables; type_descriptions.py passes them to other processes;
                        types/user.py finds a type by its OID; engine/sql/analyze/domains.py and
                        engine/sql/analyze/declared.py determine the domain or row type of an expression;
                        engine/ddl/user_types.py and engine/ddl/composites.py change them
    user-defined functions    `Routine` in schema.py; routines.py is for resolution; engine/ddl/routines.py creates
                        them; engine/sql/analyze/routines.py replaces a call by the body; engine/statements/call.py
                        runs a call that is a whole statement
    extensions          extensions.py lists them; data/extensions contains their declarations; functions/added.py
                        finds their names; engine/ddl/extensions.py creates and drops them
    collations          collations.py lists them; icu.py calls the library; types/collated.py is text under a collation;
                        engine/sql/analyze/collations.py derives collations; engine/ddl/collations.py creates them
"""
