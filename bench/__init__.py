"""Shoal beside PostgreSQL on this machine: `python -m bench`.

    bench/measures.py   what is measured: pgbench runs, COPY, scans, an analytic query, memory
    bench/routines.py   functions in PL/pgSQL and triggers
    bench/report.py     the table and the JSON file
    bench/__main__.py   the two servers, the rounds, the command line
    bench/cluster.py    a cluster beside a single node (`python -m bench.cluster`), with bench/floor.py

Both servers run at the same time with their defaults, so both acknowledge a commit only when it is on the disk; they
are measured in turn, and the order is swapped from round to round. Figures are medians of the rounds.
"""
