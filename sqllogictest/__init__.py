"""A runner of sqllogictest scripts against any server that speaks the PostgreSQL protocol.

    python -m sqllogictest --dsn "host=127.0.0.1 user=postgres" PATH...

Our own scripts lie in sqllogictest/scripts/. The format is SQLite's: https://sqlite.org/sqllogictest (about.wiki).
"""
