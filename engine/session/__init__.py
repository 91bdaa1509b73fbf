"""One connection: its settings, its transaction, its prepared statements and portals, and the cached path.

How statements are planned and run is in engine/statements, which lies above: what a session needs of it is handed in
when it is opened (interface.py, engine/connect.py).

    session.py                      `Session`: what the cached path reads, and the parts:
    row_runner.py                   running row plans at once
    transactions.py, waits.py, leadership.py    the transaction; what is waited for, and for how long; what a node of a
                                    cluster tells the session, and takes over from another one
    asynchronous_commit.py          other values of `synchronous_commit`, as other objects for these
    identity.py, variables.py, sequences.py    who the session is and may do; SET and SHOW; nextval() and its kin
    portals.py, client.py, functions.py    portals by name; how the client is told; what functions ask
    advisory.py, notifications.py, large_objects.py    advisory locks, LISTEN and NOTIFY, large objects

    prepared.py, plan.py, parameters.py, portal.py    a planned statement, what is known of its plan, its parameters;
                                    a statement that was bound
    settings.py, server_settings.py    the settings themselves. The server's: engine/configuration.py, shoal/reload.py,
                                    shoal/auto_conf.py
    two_phase.py                    PREPARE TRANSACTION;  serializable_statements.py, safe_snapshots.py  SERIALIZABLE
                                    statements of the columnar path; DEFERRABLE
    positioned.py, shown_rows.py    WHERE CURRENT OF, and which cursors scroll; errors that show a row
    answer.py, other_waits.py           where answers go; waits for other things than locks
    activity.py, open_sessions.py, signals.py    what others see of a session; all of a node; who may cancel whom
    statement_log.py                what goes into the log;  statement_texts.py  which texts are long
    errors.py                       what ends statements and sessions from outside
"""
