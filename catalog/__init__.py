"""Types, functions, schema objects, system views and errors. This package does no I/O and imports nothing above it.

    types/              every type: text, binary, row, key and DuckDB forms
    functions/          every function, operator, cast and aggregate that can run
    duckdb/             DuckDB's SQL and types as trees, for functions and for the columnar path
    system/             pg_catalog and information_schema, as relations whose rows are computed
    text_search/        full text search: parser, dictionaries, tsvector and tsquery, ranks
    data/               what PostgreSQL 15 declares: tools/dump_builtin_catalog.py writes catalog/data/pg_*.tsv,
                        tools/dump_extensions.py writes catalog/data/extensions

    catalog.py          `Catalog`: all schema objects at one moment
    schema.py           schema objects (Table, Index, View, Role, ...). `Source` is what the stored text of a view or a
                        routine means
    rows.py             schema objects as rows of system tables, which is how they are stored
    records.py          frozen dataclasses that are cheap to make: nodes of trees, values in plans
    identifiers.py      names and constants as they stand in SQL
    errors.py           `SqlError`, the one exception that reaches a client, with its SQLSTATE
    privileges.py       access control lists, and what a role holds by them
    partitions.py       keys and bounds of partitioned tables as text, and the constraints that bounds mean
    operator_classes.py access methods of indexes and their operator classes
    memory.py           what statements and connections may hold in memory: meters and accounts. Plans tell the meter
                        (engine/execute/measured.py), and so do writes (`put` in engine/txn/transaction.py), results
                        that are kept (engine/statements/collect.py) and connections (wire/connection.py)
    patience.py         calls that take long: a timer interrupts them, so that no call holds the event loop
    processes.py        processes that work for a statement and end with it;  stillness.py  those that do nothing more
    durations.py        how long things take, as histograms for /metrics
    text_caches.py      caches of what is made of a text: patterns, templates, time zones
    encodings.py        the encodings that clients may ask for;  binary_texts.py  texts within binary values
    scram.py            what is stored of a password

Subjects that other packages share with this one:

    types of users      `Enum`, `Domain` and `Composite` in schema.py; usertypes.py makes their codecs and
                        type_descriptions.py tells them to other processes; types/user.py finds a type by its OID;
                        engine/sql/analyze/domains.py and engine/sql/analyze/declared.py know which domain or row type
                        an expression has; engine/ddl/user_types.py and engine/ddl/composites.py change them
    functions of users  `Routine` in schema.py; routines.py shows them to resolution; engine/ddl/routines.py creates
                        them; engine/sql/analyze/routines.py puts a body in place of a call; engine/statements/call.py
                        runs a call that is a whole statement
    extensions          extensions.py says which there are; data/extensions holds what each declares;
                        functions/added.py finds their names; engine/ddl/extensions.py creates and drops them
    collations          collations.py says which there are; icu.py calls the library; types/collated.py is text under a
                        collation; engine/sql/analyze/collations.py finds which collation decides;
                        engine/ddl/collations.py creates them
"""
