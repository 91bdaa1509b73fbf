"""The rows of foreign tables, which are on other servers (contrib/postgres_fdw of PostgreSQL 15).

    interface.py      connections to other servers, as wire/remote_client.py makes them
    connections.py    the connections of a session, their transactions and savepoints
    scans.py          the scans of a statement, and the statement over their results
    changes.py        INSERT, UPDATE and DELETE of a foreign table
    remote_sql.py     the SQL that is sent

engine/statements/foreign_path.py runs statements over foreign tables, engine/statements/import_schema.py runs IMPORT
FOREIGN SCHEMA, and engine/ddl/foreign.py, foreign_options.py and foreign_tables.py define the objects.

The remote server's rows are those of its transaction, which begins at REPEATABLE READ. They are outside of what this
server promises: a commit of both is not atomic, replicas and time travel read the other server as it is now.
"""
