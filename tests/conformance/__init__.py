"""Suites that others wrote, on Shoal and on PostgreSQL: `make conformance`, or python -m tests.conformance SUITE...

A suite runs on one server and gives a record for each of its tests (`suite.py`). PostgreSQL's records come first and
are kept in the cache folder, for they do not change; a test that PostgreSQL itself fails counts for nothing. Then
Shoal's are compared with them. `report.py` writes the table, docs/conformance.md, and a JSON file with all causes.

    suite.py          what a suite is, and the servers
    beside.py         suites at the same time, each in a process of its own, ended when they take too long
    regress.py        PostgreSQL's regression scripts by statement; `script.py` cuts them as psql does
    isolation.py      PostgreSQL's isolation specs by permutation; `spec.py` reads them
    logic.py          SQLite's sqllogictest scripts by record
    drivers.py        the suites of drivers and of SQLAlchemy; `packages.py` fetches them
    exchange.py       a statement sent through libpq, and everything that came back

The corpora are looked for in $SHOAL_CORPORA, else beside the project; a suite whose corpus is not there is left out.
"""
