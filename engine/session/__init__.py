"""One connection: its state, and what happens to its statements between the wire and the executors.

The road of a statement: session.py (the cached path), leadership.py, transactions.py, state.py (the layers of a
`Session`), planning.py and prepared.py (text -> plan), running.py (what may wait), utility.py (statements that are not
queries), ddl.py, dml.py, copy.py.

    settings.py, system_settings.py    SET, SHOW, ALTER SYSTEM. The server's: engine/configuration.py, shoal/reload.py,
                                    shoal/auto_conf.py
    compound.py, merge.py, matviews.py    statements of several parts, MERGE, materialized views
    positioned.py                   WHERE CURRENT OF, and which cursors scroll;  collect.py  results that are kept
    routing.py, reach.py            what a follower may run; which tablespaces a statement concerns
    deferring.py                    `synchronous_commit`;  two_phase.py  PREPARE TRANSACTION
    serializing.py, safe_snapshots.py    SERIALIZABLE statements of the columnar path; DEFERRABLE
    settled.py                      columnar statements with parameters as constants
    past.py                         AS OF
    interface.py                    what a session asks of packages above it
    branches.py                     CREATE DATABASE ... FROM
    advisory.py, notifications.py, large_objects.py, function_call.py    advisory locks, LISTEN and NOTIFY, large
                                    objects, calls by OID
    vacuum.py, reindex.py, locking.py, temporary.py    VACUUM, REINDEX, LOCK TABLE, temporary tables
    explain.py                      EXPLAIN;  answer.py  where answers go
    waiting.py, open_sessions.py    waits for other things than locks; all sessions of a node
    statement_log.py                what goes into the log;  signals.py, errors.py  who may cancel whom, and with what
    routines.py                     calls of users' functions that are whole statements
"""
