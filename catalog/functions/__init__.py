"""Functions, operators, casts and aggregates, with a module for each family.

PostgreSQL's declarations are data: catalog/data/pg_*.tsv, which tools/dump_builtin_catalog.py writes. So every built-in
function resolves by PostgreSQL's rules and has PostgreSQL's OID, even if it has no implementation. Implementations are
found by `prosrc`, PostgreSQL's internal name. One has up to two sides:

    Python    for the row path; on the columnar path it runs as a UDF
    DuckDB    a template of SQL, only if DuckDB's result equals PostgreSQL's for every argument, including errors

A call of a function with neither is refused by name (0A000).

    base.py, registry.py    declarations and implementations, and their look-up; `implement` and `@implements`
    added.py                functions and operators of extensions: the look-up of names
    duckdb_sql.py, duckdb_errors.py    shared pieces of DuckDB SQL; errors with PostgreSQL's SQLSTATE
    aggregates.py, statistics.py, windows.py    aggregates, ordered sets, window functions;  transition_states.py  calls
                            of the functions of aggregates
    comparison.py, casts.py, collated.py    comparisons and casts of types without a module of their own; ICU's order
    integers.py, floats.py, numeric.py, numeric_math.py, money.py, bits.py, booleans.py    numbers
    text.py, patterns.py, quotes.py, letter_case.py, bytes.py    text and bytes
    regex.py, regex_syntax.py, regex_engine.py, character_classes.py    regular expressions: functions, tree, matching
    datetime_*.py, format_templates.py, number_output.py    dates and times; to_char and similar functions
    json_*.py, jsonb_*.py, jsonpath.py    JSON
    arrays.py, array_shapes.py, array_slices.py, variadic_arrays.py, sets.py    arrays, series and unnest
    enums.py, composites.py, hash_functions.py, log_positions.py, send_functions.py    user-defined types; PostgreSQL's
                            hashes; pg_lsn; binary forms
    ranges.py, multiranges.py, geometry.py, shapes.py, network.py, macaddr.py, uuid.py    other types
    text_search.py    full text search (catalog/text_search);  xml.py, xml_names.py    XML (catalog/types/xml_text.py)
    btree_gist.py, citext.py, fuzzystrmatch.py, hstore.py, intarray.py, ltree.py, pg_trgm.py, unaccent.py, uuid_ossp.py,
    pgcrypto.py, pgcrypto_ciphers.py, pgcrypto_pgp.py, postgres_fdw.py    extensions
    system.py, system_lookups.py, system_parts.py, system_rows.py, relation_properties.py, sizes.py, history.py,
    statement_statistics.py, function_statistics.py    information about the node and its objects
    sequences.py, large_objects.py, advisory_locks.py, notify_functions.py, snapshots.py, change_streams.py,
    bulk_access.py    functions that need the session
    system_columns.py    ctid, xmin and similar columns;  transaction_numbers.py  pg_current_xact_id and others
    various.py    small functions of no other family

All modules of this package are imported, and register their functions, when an implementation is first needed.
"""
