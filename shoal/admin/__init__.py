"""The administration port: an HTTP server on the node's own loop, for monitoring and for the console.

        server.py   the server, and its access rules
        groups.py   the groups of its routes: one function each, which gets the `Admin` and returns its routes
        health.py   /healthz and /readyz;  metrics.py  /metrics

A handler runs on the engine's thread, between statements: it answers from memory, and runs long work in a thread.
"""
