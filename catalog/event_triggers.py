"""Event triggers as objects of the schema (pg_event_trigger), and the command tags that they may name.

catalog/schema.py includes them among its objects.
"""

from __future__ import annotations

from dataclasses import dataclass

EVENTS = ("ddl_command_start", "ddl_command_end", "sql_drop", "table_rewrite")

_ALL_THREE = (
    "ACCESS METHOD", "AGGREGATE", "CAST", "COLLATION", "CONVERSION", "DOMAIN", "EXTENSION", "FOREIGN DATA WRAPPER",
    "FOREIGN TABLE", "FUNCTION", "INDEX", "LANGUAGE", "MATERIALIZED VIEW", "OPERATOR", "OPERATOR CLASS",
    "OPERATOR FAMILY", "POLICY", "PROCEDURE", "PUBLICATION", "ROUTINE", "RULE", "SCHEMA", "SEQUENCE", "SERVER",
    "STATISTICS", "SUBSCRIPTION", "TABLE", "TEXT SEARCH CONFIGURATION", "TEXT SEARCH DICTIONARY", "TEXT SEARCH PARSER",
    "TEXT SEARCH TEMPLATE", "TRANSFORM", "TRIGGER", "TYPE", "USER MAPPING", "VIEW",
)  # fmt: skip
_NEVER_CREATED = ("ROUTINE",)
SUPPORTED_TAGS = frozenset(
    [f"{verb} {kind}" for kind in _ALL_THREE for verb in ("ALTER", "DROP")]
    + [f"CREATE {kind}" for kind in _ALL_THREE if kind not in _NEVER_CREATED]
    + ["ALTER CONSTRAINT", "CREATE CONSTRAINT", "DROP CONSTRAINT", "ALTER DEFAULT PRIVILEGES", "ALTER LARGE OBJECT"]
    + ["COMMENT", "CREATE TABLE AS", "DROP OWNED", "GRANT", "IMPORT FOREIGN SCHEMA", "REFRESH MATERIALIZED VIEW"]
    + ["REVOKE", "SECURITY LABEL", "SELECT INTO"]
)
"""The commands for which triggers of all events but table_rewrite may be made (cmdtaglist.h)."""
REWRITE_TAGS = frozenset(("ALTER MATERIALIZED VIEW", "ALTER TABLE", "ALTER TYPE"))
_OBJECTS_OF_CLUSTER = ("DATABASE", "EVENT TRIGGER", "ROLE", "TABLESPACE")
OTHER_TAGS = frozenset(
    [f"{verb} {kind}" for kind in _OBJECTS_OF_CLUSTER for verb in ("CREATE", "ALTER", "DROP")]
    + ["ALTER SYSTEM", "ANALYZE", "BEGIN", "CALL", "CHECKPOINT", "CLOSE", "CLOSE CURSOR", "CLOSE CURSOR ALL", "CLUSTER"]
    + ["COMMIT", "COMMIT PREPARED", "COPY", "COPY FROM", "DEALLOCATE", "DEALLOCATE ALL", "DECLARE CURSOR", "DELETE"]
    + ["DISCARD", "DISCARD ALL", "DISCARD PLANS", "DISCARD SEQUENCES", "DISCARD TEMP", "DO", "DROP REPLICATION SLOT"]
    + ["EXECUTE", "EXPLAIN", "FETCH", "GRANT ROLE", "INSERT", "LISTEN", "LOAD", "LOCK TABLE", "MERGE", "MOVE", "NOTIFY"]
    + ["PREPARE", "PREPARE TRANSACTION", "REASSIGN OWNED", "REINDEX", "RELEASE", "RESET", "REVOKE ROLE", "ROLLBACK"]
    + ["ROLLBACK PREPARED", "SAVEPOINT", "SELECT", "SELECT FOR KEY SHARE", "SELECT FOR NO KEY UPDATE"]
    + ["SELECT FOR SHARE", "SELECT FOR UPDATE", "SET", "SET CONSTRAINTS", "SHOW", "START TRANSACTION", "TRUNCATE TABLE"]
    + ["UNLISTEN", "UPDATE", "VACUUM"]
)
"""The other command tags, for which no event trigger fires."""


@dataclass(frozen=True, slots=True)
class EventTrigger:
    """An event trigger of a database. `tags`: of its filter, in capitals; () without one. `enabled` is as in
    evtenabled."""

    oid: int
    database: int
    name: str
    event: str
    function: int
    owner: int
    enabled: str = "O"
    tags: tuple[str, ...] = ()
    comment: str | None = None
