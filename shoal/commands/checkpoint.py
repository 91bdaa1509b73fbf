"""`shoal checkpoint`: makes the leader write a checkpoint now, by the SQL function shoal_checkpoint()."""

from __future__ import annotations

import argparse

import orjson

from shoal.commands.cluster_access import conninfo, open_cluster, query_node

PATIENCE = 24 * 3600.0  # seconds: a checkpoint of a large tablespace takes long


async def run(options: argparse.Namespace) -> int:
    if options.dsn is not None:
        where = conninfo(options.user, options.dsn)
    else:
        async with open_cluster(options.cluster) as cluster:
            host, port = cluster.leader(cluster.tablespace("pg_default"))
        where = conninfo(options.user, host=host, port=port)
    ((lsn,),) = await query_node(where, "SELECT shoal_checkpoint()", timeout=PATIENCE)
    if options.json:
        print(orjson.dumps({"lsn": lsn}).decode())
    else:
        print(f"checkpoint at LSN {lsn}")
    return 0
