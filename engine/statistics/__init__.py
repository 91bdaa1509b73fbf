"""What a node counts of what it does, since its start: /metrics and the statistics views show it.

    statements.py   one `Tally` a statement: how often, how long, how many rows (pg_stat_statements), and histograms of
                    how long, by command and path
    activity.py     everything else that sessions do: transactions, errors, waits (pg_stat_database)

The cached path pays for this with every statement, so what it touches is plain attributes of objects that it has
anyway, and lists of integers: two looks at the clock, and a dozen additions and stores. Everything that can be made of
these is made when somebody looks.
"""
