"""One connection: its settings, its transaction, its prepared statements and portals, and the cached path.

engine/statements, which lies above, plans and runs statements. engine/connect.py passes its services to a session when
it opens the session (interface.py).

    session.py                      `Session`: the data of the cached path, and the parts:
    row_runner.py                   runs row path plans
    transactions.py, waits.py, leadership.py    the transaction; waits and timeouts; changes of leader, and transactions
                                    that ran on another node
    asynchronous_commit.py          transactions and waits for other values of `synchronous_commit`
    identity.py, variables.py, sequences.py    current user and privileges; SET and SHOW; nextval() and similar
    portals.py, client.py, functions.py    portals by name; messages to the client; services for functions
    function_calls.py               counts calls of functions, and reads their statistics
    advisory.py, notifications.py, large_objects.py    advisory locks, LISTEN and NOTIFY, large objects

    prepared.py, plan.py, parameters.py, portal.py    a planned statement, its plan, its parameters; a bound statement
    settings.py, server_settings.py    the settings; those of the server: engine/configuration.py, shoal/reload.py,
                                    shoal/auto_conf.py
    two_phase.py                    PREPARE TRANSACTION;  serializable_statements.py, safe_snapshots.py  SERIALIZABLE
                                    statements of the columnar path; DEFERRABLE
    positioned.py, shown_rows.py    WHERE CURRENT OF and scrollable cursors; errors that show a row
    answer.py, other_waits.py           destination of answers; waits that are not for locks
    activity.py, open_sessions.py, signals.py    pg_stat_activity; all sessions of a node; the right to cancel
    statement_log.py                lines of the log;  statement_texts.py  properties of long texts
    errors.py                       errors that end statements and sessions from outside
"""
