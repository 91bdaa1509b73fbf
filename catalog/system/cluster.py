"""The views of the cluster: their names and columns. docs/cluster.md describes the columns.

They are in pg_catalog, so that their names need no schema. They show the knowledge of the node that runs the query; a
single node knows only itself.
"""

from __future__ import annotations

from catalog.schema import PG_CATALOG_OID, Column, VirtualTable
from catalog.types import oids
from catalog.types.base import TypeRef

_TYPES = {
    "text": oids.TEXT,
    "int4": oids.INT4,
    "int8": oids.INT8,
    "float8": oids.FLOAT8,
    "bool": oids.BOOL,
    "timestamptz": oids.TIMESTAMPTZ,
    "interval": oids.INTERVAL,
    "oid": oids.OID,
    "name": oids.NAME,
}


def _view(oid: int, name: str, comment: str, columns: str) -> VirtualTable:
    made = []
    for number, item in enumerate(columns.split(), 1):
        title, kind = item.split(":")
        made.append(Column(number, title, TypeRef(_TYPES[kind])))
    return VirtualTable(oid, PG_CATALOG_OID, name, tuple(made), "v", comment)


CLUSTER_VIEWS = (
    _view(
        15101,
        "shoal_nodes",
        "Nodes of the cluster, and missing nodes that tablespaces name.",
        "node:text alive:bool this_node:bool host:text port:int4 admin:text started:timestamptz load:float8 "
        "connections:int4 version:text",
    ),
    _view(
        15102,
        "shoal_tablespaces",
        "Tablespaces: leader, head of the changelog, live replicas.",
        "tablespace:text id:text leader:text epoch:int8 head_lsn:int8 head_time:timestamptz live_replicas:int4 "
        "expected_replicas:int4 under_replicated:bool preferred_leader:text max_leader_inactivity:interval store:text "
        "needed_together:timestamptz",
    ),
    _view(
        15103,
        "shoal_replicas",
        "Replicas of tablespaces, and missing replicas.",
        "tablespace:text node:text role:text this_node:bool applied_lsn:int8 flushed_lsn:int8 lag:int8 "
        "seen:timestamptz",
    ),
    _view(
        15104,
        "shoal_ledgers",
        "Ledgers: the parts of changelogs, oldest first.",
        "tablespace:text ledger:int8 state:text epoch:int8 first_lsn:int8 last_lsn:int8 bytes:int8 "
        "closed:timestamptz store:text",
    ),
    _view(
        15105,
        "shoal_checkpoints",
        "Checkpoints that a replica can start from.",
        "tablespace:text lsn:int8 lag:int8 created:timestamptz bytes:int8 hash:text folder:text",
    ),
    _view(
        15120,
        "shoal_change_streams",
        "Change streams: their changes and positions.",
        "name:text owner:text tables:text all_tables:bool tablespace:text state:text start_lsn:int8 "
        "position:int8 oldest_lsn:int8 newest_lsn:int8 newest_time:timestamptz lag_bytes:int8 lag_since:timestamptz "
        "retain_bytes:int8",
    ),
    _view(
        15106,
        "shoal_log_status",
        "The changelogs on this node.",
        "tablespace:text node:text role:text epoch:int8 head_lsn:int8 sequenced_lsn:int8 durable_lsn:int8 "
        "flushed_lsn:int8 pending_bytes:int8 staleness:interval cluster_stale:bool",
    ),
    _view(
        15107,
        "shoal_columns",
        "Tables of this database that have columns in the analytic worker of this node, or should have them.",
        "schema_name:text table_name:text setting:text state:text lsn:int8 lag:int8 saved_lsn:int8 rows:int8 "
        "bytes:int8 loaded:timestamptz loaded_from:text",
    ),
    _view(
        15108,
        "shoal_stat_progress_columns",
        "Present tasks of the analytic worker of this node with columns of tables, and their progress.",
        "pid:int4 datid:oid datname:name relid:oid phase:text tuples_total:int8 tuples_done:int8 bytes_processed:int8",
    ),
)
