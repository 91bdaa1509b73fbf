"""One connection: its settings, its transaction, its prepared statements and portals, and the cached path.

How statements are planned and run is in engine/statements, which lies above: what a session needs of it is handed in
when it is opened (interface.py, engine/connect.py).

    session.py                      `Session`, and how a plan on the row path runs;  state.py, transactions.py,
                                    leadership.py    its layers
    prepared.py, plan.py, parameters.py, portal.py    a planned statement, what is known of its plan, its parameters;
                                    a statement that was bound
    settings.py, server_settings.py    SET, SHOW. The server's: engine/configuration.py, shoal/reload.py,
                                    shoal/auto_conf.py
    asynchronous_commit.py          `synchronous_commit`;  two_phase.py  PREPARE TRANSACTION
    serializing.py, safe_snapshots.py    SERIALIZABLE statements of the columnar path; DEFERRABLE
    positioned.py                   WHERE CURRENT OF, and which cursors scroll
    advisory.py, notifications.py, large_objects.py    advisory locks, LISTEN and NOTIFY, large objects
    answer.py                       where answers go;  waiting.py  waits for other things than locks
    open_sessions.py                all sessions of a node;  signals.py, errors.py  who may cancel whom, and with what
    statement_log.py                what goes into the log;  statement_texts.py  which texts are long
"""
