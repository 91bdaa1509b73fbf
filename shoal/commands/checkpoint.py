"""`shoal checkpoint`: asks the leader for a checkpoint now, by the SQL function shoal_checkpoint()."""

from __future__ import annotations

import argparse

import orjson

from shoal.commands.looking import ask, looking_at, parse_dsn

PATIENCE = 24 * 3600.0  # seconds: a checkpoint of a large tablespace takes its time


async def run(options: argparse.Namespace) -> int:
    user = options.user
    if options.dsn is not None:
        host, port, named = parse_dsn(options.dsn)
        user = named or user
    else:
        async with looking_at(options.cluster) as cluster:
            host, port = cluster.leader(cluster.tablespace("pg_default"))
    rows = await ask(host, port, user, "SELECT shoal_checkpoint()", timeout=PATIENCE)
    lsn = rows[0][0]
    if options.json:
        print(orjson.dumps({"lsn": None if lsn is None else int(lsn)}).decode())
    else:
        print(f"checkpoint at LSN {lsn}")
    return 0
