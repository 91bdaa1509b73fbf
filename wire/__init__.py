"""PostgreSQL protocol 3: a core that does no I/O, and the asyncio server around it.

        core.py, messages.py, copy_frames.py    the protocol: bytes in, events out; backend messages as bytes
        connection.py         one client's connection;  channel.py  its bytes;  answers.py  the session's answers
        client_link.py        start-up, TLS, time-outs and the end of a connection
        ready.py              messages that are made once for a plan
        statement_tasks.py    statements that may wait;  task_steps.py  the first step of a task at once
        batches.py            pipelines that repeat one statement, as a JDBC batch
        copy_feed.py          COPY data between the connection and the statement
        encoded.py            connections in another encoding than UTF8 (catalog/encodings.py)
        server.py             the TCP server;  tls.py  TLS
        host_rules.py         host rules;  scram.py  passwords;  password_throttle.py  delays guesses (the
                              configuration: shoal/access.py)

**The cached path.** Bind, Describe, Execute and Sync of a plan that is ready are processed in one step. A single Query,
or an execution of a known kind, needs no buffer and no events (`_take_whole` in connection.py), nor does one that has
waited for a lock (`WaitingExecution` in core.py). Answers are sent when everything that has arrived is answered. Of the
67 us of processor time of a TPC-B transaction, without system calls, BEGIN takes 6, a SELECT 6.5, an UPDATE 9 to 13, an
INSERT 11, COMMIT 13 (one 2-core machine, shared with other work).

In a cluster:

    leader_forwarding.py  a connection on a node: runs statements here, or forwards them to the leader;
    forwarding_services.py  what these connections share
    leader_selection.py   finds the tablespaces of its statements
    session_proxy.py, proxy_host.py, proxy_cycle.py, client.py, client_core.py    forwards the session to the leader
    frozen_leader.py      a leader that no longer accepts data
    forwarded_sessions.py the sessions that other nodes forward here; they end with their node
    peer_authentication.py  authentication between nodes

Connections of foreign tables to other servers (engine/foreign): remote_client.py.

The router (`shoal router`): router.py, roster.py. SQL over HTTP: http.py, json_values.py.
"""
