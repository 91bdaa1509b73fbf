"""What a session sees of the system: the content of pg_catalog and information_schema, which catalog/system describes,
and what functions tell of the node.

    views.py           `SessionViews`: all of it for one session
    surroundings.py    names, definitions and privileges as the session sees them, and what functions ask
    content.py         Arrow batches, for the columnar path;  rows.py  single rows, for the row path
    live.py            the running node: sessions, locks, sizes, statements;  settings.py  pg_settings and its kin
    cluster.py         shoal_nodes and the other views of a cluster;  columns.py  shoal_columns, and its progress
    history.py, change_streams.py, key_ranges.py    what functions of backups, of change streams, and shoal_key_ranges()
                       tell
"""
