"""Statistics of a node since its start, for /metrics and the statistics views.

    statements.py   one `Tally` for each statement: executions, time, rows (pg_stat_statements), and histograms of the
                    time, by command and path
    activity.py     all other activity of sessions: transactions, errors, waits (pg_stat_database)

The cached path updates these statistics with every statement. So it uses plain attributes of objects that it has
anyway, and lists of integers: two clock reads, and about a dozen additions and stores. Everything else is computed when
a reader asks.
"""
