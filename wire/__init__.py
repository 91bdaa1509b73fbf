"""PostgreSQL protocol 3: a core that does no I/O, and the asyncio server around it.

    core.py, messages.py, copy_frames.py    the protocol: bytes in, events out; backend messages as bytes
    connection.py         one client's connection;  channel.py  its bytes;  answers.py  what a session tells its client
    ready.py              messages that are made once for a plan
    batches.py            pipelines that repeat one statement, as a JDBC batch
    copy_feed.py          COPY data on its way to the statement
    encoded.py            connections in another encoding than UTF8 (catalog/encodings.py)
    server.py             the TCP server;  tls.py  TLS
    host_rules.py, scram.py, guessing.py    who may connect, and how he proves who he is (the configuration of this:
                          shoal/access.py)

In a cluster:

    carrying.py           a connection on a node: what the node runs itself, and what it carries to the leader
    reaching.py           which tablespaces its statements concern
    relay.py, relay_cycle.py, client.py, client_core.py    the session at the leader
    carriers.py           which nodes carry sessions here: these sessions end with their node
    peering.py            how nodes recognise each other

The front door (`shoal router`): router.py, roster.py. SQL over HTTP: http.py, json_values.py.
"""
