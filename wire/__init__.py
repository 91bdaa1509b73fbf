"""PostgreSQL protocol 3: a core that does no I/O (core.py), and the asyncio server around it (server.py)."""
