"""The system as a session sees it: the content of pg_catalog and information_schema, which catalog/system describes,
and the results of functions about the node.

    views.py           `SessionViews`: everything for one session
    surroundings.py    names, definitions and privileges for the session, and services for functions
    content.py         Arrow batches, for the columnar path;  rows.py  single rows, for the row path
    live.py            the running node: sessions, locks, sizes, statements;  settings.py  pg_settings, related views
    cluster.py         shoal_nodes and the other views of a cluster;  columns.py  shoal_columns and its progress
    history.py, change_streams.py, key_ranges.py    functions of backups, of change streams, and shoal_key_ranges()
"""
